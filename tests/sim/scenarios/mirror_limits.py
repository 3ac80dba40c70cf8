# SPDX-License-Identifier: GPL-2.0-only
"""Legs whose queues differ: the mirror shows what is right of both, and carries I/O at the limits.

For each combination: what the mirror's queue says is compared with what a second set of rules,
written here, makes of what the legs' queues say; then I/O of the smallest and the largest size, at
both ends and across segments, discards and zeroes of any length. No leg is given up over it, and
both are bit-identical in the end.
"""

from __future__ import annotations

import contextlib
import errno
import math
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from locklab import base, blk, dm, lio, mirror
from mirrorlab import FIELDS, META

MIB = 8
SECTORS = MIB << 11
PAGE = 4096
ZERO_AT_ONCE = 8 << 20
_NULLB = Path("/sys/kernel/config/nullb")
_RWF_HIPRI = 0x1

Maker = Callable[[str], AbstractContextManager[str]]


# --- legs: each maker yields a node ---


def null(**settings: int) -> Maker:
    """null_blk; no zeroing by itself, max. 127 KiB in one request."""

    @contextlib.contextmanager
    def make(name: str) -> Iterator[str]:
        folder = base.made(_NULLB / name)
        values = {"memory_backed": 1, "size": MIB, "discard": 1, "power": 1}
        for key in [*settings, *values]:
            if key in settings and key in values:
                values[key] = settings[key]
        for key, value in {**settings, **values}.items():
            base.put(folder / key, value)
        base.until(Path(f"/dev/{name}").exists, name)
        yield f"/dev/{name}"
        base.put(folder / "power", 0)
        folder.rmdir()

    return make


def loop(
    block: int, *, read_only: bool = False, cached: bool = False, mib: int = MIB
) -> Maker:
    """It can discard, and write zeroes."""

    @contextlib.contextmanager
    def make(name: str) -> Iterator[str]:
        file = Path(f"/tmp/{name}.img")
        file.touch()
        os.truncate(file, mib << 20)
        node = base.run("losetup", "--find", "--show", "--direct-io=off", "--sector-size",
                        str(block), *["--read-only"] * read_only, str(file)).strip()  # fmt: skip
        blk.say_cached(node, cached)
        yield node
        base.run("losetup", "--detach", node)
        file.unlink()

    return make


def scsi(block: int, *, mib: int = MIB) -> Maker:
    """A SCSI disk, which unmaps and zeroes up to 65535 blocks at once."""

    @contextlib.contextmanager
    def make(name: str) -> Iterator[str]:
        file = Path(f"/tmp/{name}.img")
        file.touch()
        os.truncate(file, mib << 20)
        store = lio.Backstore("fileio", name, f"fd_dev_name={file},fd_dev_size={mib << 20}")
        for key, value in (("block_size", block), ("emulate_tpu", 1), ("emulate_tpws", 1)):
            store.attribute(key, value)
        with lio.look(store, sum(name.encode()) % 1000) as node:
            yield node
        store.remove()
        file.unlink()

    return make


def shifted(below: Maker, start: int) -> Maker:
    """A partition that begins at an odd sector, and is shorter."""

    @contextlib.contextmanager
    def make(name: str) -> Iterator[str]:
        with below(f"{name}below") as node:
            yield dm.create(name, f"0 {dm.sectors(node) - 64} linear {node} {start}")
            dm.remove(name)

    return make


def joined(first: Maker, second: Maker) -> Maker:
    """One behind the other: the larger blocks of both, and the smaller requests."""

    @contextlib.contextmanager
    def make(name: str) -> Iterator[str]:
        with first(f"{name}1") as one, second(f"{name}2") as two:
            size, more = dm.sectors(one), dm.sectors(two)
            node = dm.create(name, f"0 {size} linear {one} 0\n{size} {more} linear {two} 0")
            blk.say_cached(node, False)
            yield node
            dm.remove(name)

    return make


# Logical blocks of 512 bytes on physical ones of 4096.
@contextlib.contextmanager
def advanced(_: str) -> Iterator[str]:
    yield "/dev/ram0"


# --- what is right ---


@dataclass(frozen=True)
class Limits:
    lbs: int
    pbs: int
    io_min: int
    io_opt: int
    max_hw_kb: int
    boundary: int
    discard: int
    granularity: int
    zeroes: int
    cache: str
    fua: int
    dax: int
    zoned: str
    atomic: int
    integrity: str
    poll: int


def limits(node: str) -> Limits:
    number = os.stat(node).st_rdev
    queue = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/queue")

    def number_of(name: str) -> int:
        return int((queue / name).read_text())

    return Limits(
        lbs=number_of("logical_block_size"), pbs=number_of("physical_block_size"),
        io_min=number_of("minimum_io_size"), io_opt=number_of("optimal_io_size"),
        max_hw_kb=number_of("max_hw_sectors_kb"), boundary=number_of("virt_boundary_mask"),
        discard=number_of("discard_max_bytes"), granularity=number_of("discard_granularity"),
        zeroes=number_of("write_zeroes_max_bytes"),
        cache=(queue / "write_cache").read_text().strip(), fua=number_of("fua"),
        dax=number_of("dax"), zoned=(queue / "zoned").read_text().strip(),
        atomic=number_of("atomic_write_max_bytes"),
        integrity=(queue / "../integrity/format").read_text().strip(),
        poll=number_of("io_poll"),
    )  # fmt: skip


def right(a: Limits, b: Limits) -> Limits:
    """Of a mirror of two such legs: the local one and the remote one."""
    lbs = max(a.lbs, b.lbs)
    pbs = max(a.pbs, b.pbs, lbs)
    # The remote one would have to keep zeroes as soon as they are acknowledged, and can't say so.
    zeroes = 0 if b.cache == "write back" else min(a.zeroes, b.zeroes, ZERO_AT_ONCE) // lbs * lbs
    optima = [opt for opt in (a.io_opt, b.io_opt) if opt]
    return Limits(
        lbs=lbs,
        pbs=pbs,
        io_min=max(a.io_min, b.io_min, pbs),
        io_opt=math.lcm(*optima) if optima else 0,
        max_hw_kb=min(a.max_hw_kb, b.max_hw_kb),
        boundary=min(a.boundary or b.boundary, b.boundary or a.boundary),
        # A discard is zeroes on both: only if both can. Pieces that no leg can free aren't wanted.
        discard=max(ZERO_AT_ONCE, a.granularity, b.granularity) if zeroes else 0,
        granularity=max(a.granularity, b.granularity, pbs) if zeroes else 0,
        zeroes=zeroes,
        # A flush is always wanted: a leg's cache may be switched on at any time.
        cache="write back", fua=1,
        # What the mirror can't give, whatever the legs can.
        dax=0, zoned="none", atomic=0, integrity="none",
        poll=min(a.poll, b.poll),
    )  # fmt: skip


# --- I/O ---


def in_pieces(node: str, at: int, data: bytes, step: int) -> None:
    """One write whose segments begin and end `step` bytes into pages: not on any boundary."""
    fd = os.open(node, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    pieces = [data[n : n + step] for n in range(0, len(data), step)]
    with mmap.mmap(-1, len(pieces) * 2 * PAGE) as memory, memoryview(memory) as whole:
        views = []
        for n, piece in enumerate(pieces):
            start = n * 2 * PAGE + step
            memory[start : start + len(piece)] = piece
            views.append(whole[start : start + len(piece)])
        try:
            base.equal(os.pwritev(fd, views, at * 512), len(data), "bytes written in pieces")
        finally:
            for view in views:
                view.release()
            os.close(fd)


def polled(node: str, at: int, data: bytes) -> bytes:
    """Written and read by somebody who polls for the end."""
    fd = os.open(node, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    with mmap.mmap(-1, len(data)) as memory:
        memory[:] = data
        os.pwritev(fd, [memory], at * 512, _RWF_HIPRI)
        memory[:] = bytes(len(data))
        os.preadv(fd, [memory], at * 512, _RWF_HIPRI)
        os.close(fd)
        return bytes(memory)


def at_the_limits(node: str, sectors: int, shown: Limits) -> None:
    image = bytearray(sectors * 512)
    block = shown.lbs >> 9
    largest = shown.max_hw_kb << 1
    with blk.Disk(node) as disk:

        def put(at: int, count: int) -> None:
            data = blk.pattern(f"{at} {count}", count)
            disk.write(at, data, fua=at % 3 == 0)
            image[at * 512 : (at + count) * 512] = data

        disk.write(0, bytes(sectors * 512))
        disk.zero(0, sectors)
        put(0, block)
        put(sectors - block, block)
        for count in {largest, largest + block, 2048 + 2 * block, 4096}:
            count = min(count // block * block, sectors - 2 * block)
            put(block, count)
            put(sectors - block - count, count)
        if block > 1:
            for at, count in ((1, block), (block, 1)):
                with base.refused(f"{count} sectors at {at}", errno.EINVAL):
                    disk.write(at, bytes(count * 512))
        step = max(512, shown.lbs // 2)
        data = blk.pattern("pieces", 64 * step // 512)
        # A queue that demands whole pages may refuse it; no other.
        with contextlib.suppress(OSError) if shown.boundary else contextlib.nullcontext():
            in_pieces(node, 512, data, step)
            image[512 * 512 : 512 * 512 + len(data)] = data
        data = blk.pattern("polled", 64)
        base.equal(polled(node, 1024, data), data, "what was polled for")
        image[1024 * 512 : 1024 * 512 + len(data)] = data
        for at, count in ((8, 8), (block * 9, block), (2048, 4096 + block), (sectors - 8, 8)):
            disk.zero(at, count)
            image[at * 512 : (at + count) * 512] = bytes(count * 512)
        put(5000 // block * block, 64)
        if shown.discard:
            for at, count in ((16, 8), (block * 11, block), (4096 + block, 2048 + block)):
                disk.discard(at, count)
                image[at * 512 : (at + count) * 512] = bytes(count * 512)
        else:
            with base.refused("discard", errno.EOPNOTSUPP):
                disk.discard(0, 8)
        disk.flush()
        base.expect(disk.read(0, sectors) == image, "what was written is there")


def no_leg_lost(device: mirror.Mirror) -> None:
    now = device.status()
    base.equal(now.health, "AA", "health")
    for field in ("read_errors_local", "read_errors_remote"):
        base.equal(int(now.rest[FIELDS.index(field)]), 0, field)
    base.equal((now.local_errors, now.remote_errors), (0, 0), "write errors")


@dataclass(frozen=True)
class Row:
    what: str
    local: Maker
    remote: Maker
    aligned: bool = True


ROWS = [
    Row("alike", null(), null()),
    Row("logical blocks of 512 and 4096", null(), null(blocksize=4096)),
    Row("logical blocks of 4096 and 1024", null(blocksize=4096), null(blocksize=1024)),
    Row("physical blocks of 4096, logical ones of 512", advanced, null()),
    Row("4 KiB in one request at most", null(), null(max_sectors=8)),
    Row("the same, and blocks of 4096", null(max_sectors=8), null(blocksize=4096)),
    Row("segments of whole pages", null(virt_boundary=1), null()),
    Row("a volatile cache with FUA on one leg", null(cache_size=1, fua=1), null(fua=0)),
    Row("a volatile cache without FUA on one leg", null(), null(cache_size=1, fua=0)),
    Row("both can be polled", null(poll_queues=1), null(poll_queues=1)),
    Row("one can be polled", null(poll_queues=1), null(queue_mode=0)),
    Row("discard, zeroes", loop(512), loop(512)),
    Row("discard, zeroes; blocks of 512 and 4096", loop(512), loop(4096)),
    Row("discard, zeroes; the local one has a cache", loop(512, cached=True), loop(512)),
    Row("discard, zeroes; the remote one has a cache", loop(512), loop(512, cached=True)),
    Row("zeroes on one leg only", loop(512), null()),
    Row("no discard on one leg", null(discard=0), loop(512)),
    Row("zeroes up to what SCSI has", scsi(512), loop(512)),
    Row("the same, with blocks of 4096", loop(512), scsi(4096)),
    Row("a misaligned partition of a disk with physical blocks", shifted(advanced, 1), null()),
    Row("both misaligned, differently", shifted(advanced, 1), shifted(loop(512), 3), aligned=False),
    Row("a misaligned partition on both sides of 512", shifted(loop(512), 63), loop(512)),
]  # fmt: skip


def check_queue(what: str, nodes: list[str], device: mirror.Mirror, aligned: bool) -> Limits:
    legs = [limits(node) for node in nodes]
    shown = limits(device.node)
    want = right(*legs)
    if not aligned:
        # Nothing lines up, so there is no optimum.
        want = Limits(**{**vars(want), "io_opt": shown.io_opt})
    base.equal(shown, want, f"{what}: the queue over {legs}")
    return shown


def cache_without_fua(nodes: list[str]) -> None:
    """It is taken alone, with a warning; and beside the other if its cache is trusted."""
    meta = (META, "create", "--force", "--local", nodes[0], "--remote", nodes[1], "--name", "m",
            "--region-size", "64", "--assume-clean")  # fmt: skip
    base.run(*meta)
    sectors = int(base.run(META, "verdict", *nodes).split('"data_len": ')[1].split(",")[0])
    log = base.KernelLog()
    alone = mirror.Mirror("-", nodes[1], "rejoin", 0, sectors=sectors)
    base.expect(any("remote leg" in line and "no FUA" in line for line in log.new()), "no warning")
    with base.refused("the other leg beside it", errno.EINVAL, kernel="no FUA"):
        dm.load("mirror", mirror.table(*nodes, sectors=sectors))
    at_the_limits(alone.node, sectors, limits(alone.node))
    dm.reload("mirror", mirror.table(*nodes, "remote_cache", "trust", sectors=sectors))
    alone.in_sync()
    at_the_limits(alone.node, sectors, limits(alone.node))
    no_leg_lost(alone)
    alone.remove()
    blk.same(nodes[0], nodes[1], sectors)


def combination(row: Row) -> None:
    base.step(row.what)
    with ExitStack() as stack:
        nodes = [stack.enter_context(make(name))
                 for make, name in ((row.local, "llocal"), (row.remote, "lremote"))]  # fmt: skip
        sectors = min(dm.sectors(node) for node in nodes)
        remote = limits(nodes[1])
        table = ("nosync", "region_size", 64)
        # FUA is a write and a flush then, between which its power may be cut.
        if remote.cache == "write back" and not remote.fua:
            with base.refused("no FUA", errno.EINVAL, kernel="has a volatile cache and no FUA"):
                mirror.Mirror(*nodes, *table, sectors=sectors)
            cache_without_fua(nodes)
            return
        device = mirror.Mirror(*nodes, *table, sectors=sectors)
        shown = check_queue(row.what, nodes, device, row.aligned)
        at_the_limits(device.node, sectors, shown)
        no_leg_lost(device)
        device.remove()
        blk.same(nodes[0], nodes[1], sectors)

        base.run(META, "create", "--force", "--local", nodes[0], "--remote", nodes[1], "--name",
                 "m", "--region-size", "64", "--assume-clean")  # fmt: skip
        sectors = int(base.run(META, "verdict", *nodes).split('"data_len": ')[1].split(",")[0])
        device = mirror.Mirror(*nodes, "rejoin", 0, sectors=sectors)
        # A SCSI disk that has refused to zero says from then on that it can't.
        shown = check_queue(row.what, nodes, device, row.aligned)
        at_the_limits(device.node, sectors, shown)
        dm.reload("mirror", device.table)
        device.message("fail remote")
        with blk.Disk(device.node) as disk:
            disk.write(sectors - 64, blk.pattern("alone", 64))
        device.message("recover")
        device.in_sync()
        device.message("verify start")
        base.until(lambda: device.status().rest[FIELDS.index("verify")].split("/")[0]
                   == str(device.status().regions), "verified")  # fmt: skip
        no_leg_lost(device)
        device.remove()
        blk.same(nodes[0], nodes[1], sectors)


def refusals() -> None:
    base.step("what doesn't fit is refused when the table is loaded")
    with ExitStack() as stack:
        small, large, odd = (stack.enter_context(make(name)) for make, name in (
            (null(), "lsmall"), (null(blocksize=4096), "llarge"), (null(), "lodd")))  # fmt: skip
        with base.refused("half a block at the end", errno.EINVAL,
                          kernel="4096-byte logical block"):  # fmt: skip
            mirror.Mirror(small, large, "nosync", sectors=SECTORS - 1)

        base.step("a device in use doesn't get larger blocks by a reload")
        device = mirror.Mirror(small, odd, "nosync")
        with blk.Disk(device.node) as disk:
            with base.refused("larger blocks", errno.EINVAL,
                              kernel="larger than those of the running device"):  # fmt: skip
                dm.load("mirror", mirror.table(small, large, "sync"))
            disk.write(1, blk.pattern("odd", 1))
            dm.reload("mirror", mirror.table(small, odd, "nosync"))
            disk.write(3, blk.pattern("odd", 1))
            base.equal(limits(device.node).lbs, 512, "logical blocks")
            no_leg_lost(device)
        device.remove()
        base.step("smaller ones it gets")
        device = mirror.Mirror(small, large, "nosync")
        dm.reload("mirror", mirror.table(small, odd, "sync"))
        base.equal(limits(device.node).lbs, 512, "logical blocks")
        device.in_sync()
        device.remove()


def reloads() -> None:
    base.step("a leg that can't zero comes, and goes again")
    with ExitStack() as stack:
        first, second, other = (stack.enter_context(make(name)) for make, name in (
            (loop(512), "lfirst"), (loop(512), "lsecond"), (null(), "lother")))  # fmt: skip
        device = mirror.Mirror(first, second, "nosync")
        for remote in (second, other, second):
            dm.reload("mirror", mirror.table(first, remote, "sync"))
            device.in_sync()
            shown = check_queue("reload", [first, remote], device, True)
            at_the_limits(device.node, SECTORS, shown)
            no_leg_lost(device)
            blk.same(first, remote)
        device.remove()


def read_only() -> None:
    base.step("read-only legs are for a read-only table")
    with ExitStack() as stack:
        one, two = (stack.enter_context(loop(512, read_only=True)(name)) for name in ("la", "lb"))
        with base.refused("a table to write", errno.EROFS, errno.EACCES, kernel="leg"):
            mirror.Mirror(one, two, "nosync")
        node = dm.create("mirror", mirror.table(one, two, "nosync"), readonly=True)
        with blk.Disk(node, write=False) as disk:
            base.expect(not any(disk.read(0, SECTORS)), "it is read")
        dm.remove("mirror")


def whole_blocks(what: str, local: Maker, remote: Maker) -> None:
    """Zeroes and discards as long as the device: each leg's limit is 65535 sectors, or more."""
    base.step(what)
    with ExitStack() as stack:
        nodes = [stack.enter_context(make(name))
                 for make, name in ((local, "llocal"), (remote, "lremote"))]  # fmt: skip
        legs = [limits(node) for node in nodes]
        base.equal(min(leg.zeroes for leg in legs), 65535 * 512, f"the smaller limit of {legs}")
        base.equal(max(leg.lbs for leg in legs), 4096, f"the larger block of {legs}")
        sectors = min(dm.sectors(node) for node in nodes)
        device = mirror.Mirror(*nodes, "nosync", "region_size", 64, sectors=sectors)
        shown = limits(device.node)
        # The discards first: a loop device over this file system can't zero and keep the space.
        for how in ("discards", "zeroes"):
            with blk.Disk(device.node) as disk:
                for at in range(0, sectors, 4096):
                    disk.write(at, blk.pattern(f"{how} {at}", 1) * 4096)
                (disk.zero if how == "zeroes" else disk.discard)(0, sectors)
                disk.flush()
            no_leg_lost(device)
            for node in nodes:
                with blk.Disk(node, write=False) as leg:
                    for at in range(0, sectors, 4096):
                        zeroes = leg.read(at, 4096).count(0)
                        base.equal(zeroes, 4096 * 512, f"{how}: {node} at {at}: zeroes")
        base.equal(shown, right(*legs), f"{what}: the queue over {legs}")
        device.remove()


# Each is larger than the smaller limit, by which it is zeroed in two requests.
LARGE = {
    "zeroes up to what SCSI has, beside blocks of 4096":
        (scsi(512, mib=40), loop(4096, mib=40)),
    "blocks of 4096, beside zeroes up to what SCSI has":
        (loop(4096, mib=40), scsi(512, mib=40)),
    "zeroes up to what SCSI has, and blocks of 4096, on one leg":
        (loop(512, mib=40), joined(scsi(512, mib=34), loop(4096, mib=6))),
    "the same on the local one":
        (joined(loop(4096, mib=6), scsi(512, mib=34)), loop(512, mib=40)),
}  # fmt: skip

wanted = base.words(1, [*(row.what for row in ROWS), *LARGE])
for row in ROWS:
    if not wanted or row.what in wanted:
        combination(row)
for title, makers in LARGE.items():
    if not wanted or title in wanted:
        whole_blocks(title, *makers)
if not wanted:
    refusals()
    reloads()
    read_only()
