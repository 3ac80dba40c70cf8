# SPDX-License-Identifier: GPL-2.0-only
"""Large discards and zeroings hold up no write: 18 GB of a disk that has to write its zeroes
itself, a log of 32 MiB, and 16 writers at random. And disks that discard, or fail to.

Arguments: parts (all of them if there are none).
"""

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from dcdlab import SEGMENT, SERIAL, Box, Model, counters, filled, format_log, some_write
from locklab import base, blk, dm, fio, fs, lio, media
from locklab.iscsi import Session
from locklab.wire import Wire

LONGEST_S = 1.0
MIB = 18 << 10
RUN_S = 60
TRIM_S = 0.2
QUICK_S = 10
QUICK_SEGMENTS = 8
TRIM = 32 << 11  # sectors
BLOCK = 128  # sectors of a block of the pool
AWAY_S = 0.3
UNDISCARDED = 16  # failures in a row, where the disk can be written


def box_of_a_spindle() -> Box:
    return Box(
        data_mib=MIB, data_model="spindle", data_options={"write_cache": "off", "spread": "on"},
        log_mib=33, nvram_bytes=4096 + 32 * (256 << 10),
    )  # fmt: skip


def load(
    box: Box, node: str, seconds: int = RUN_S, most: float = LONGEST_S, **more: object
) -> None:
    """16 writes of 4 KiB at a time; none may wait long."""
    job: dict[str, object] = {
        "rw": "randwrite", "iodepth": 16, "time_based": 1, "runtime": seconds,
    }  # fmt: skip
    got = fio.run(node, job | more)[0]
    longest = got["write"]["clat_ns"]["max"] / 1e9
    rate = got["write"]["iops"]
    info = box.info()
    print(f"  {fio.line(got)}\n  {info.splitlines()[-1]}", flush=True)
    base.expect(longest <= most, f"a write took {longest:.2f} s")
    base.expect(rate > 50, f"{rate:.0f} writes a second")


def zeroing() -> None:
    base.step("the whole disk is zeroed, and used at once")
    box = box_of_a_spindle()
    with box.disk() as disk:
        took = blk.timed(lambda: disk.zero(0, disk.sectors))
        print(f"  zeroed in {took:.3f} s", flush=True)
        base.expect(took < LONGEST_S, "the zeroing itself takes long")
        load(box, disk.node)
    box.away()


def trim() -> None:
    base.step("parts of the disk are discarded under load, as fstrim does it")
    box = box_of_a_spindle()
    stop = threading.Event()
    times = []

    def trims(disk: blk.Disk) -> None:
        at = 0
        while not stop.wait(TRIM_S):
            times.append(blk.timed(partial(disk.discard, at, TRIM)))
            at = (at + 5 * TRIM) % (disk.sectors - TRIM)

    with box.disk() as disk:
        thread = threading.Thread(target=trims, args=(disk,))
        thread.start()
        try:
            load(box, disk.node)
        finally:
            stop.set()
            thread.join(3600)
        print(f"  {len(times)} discards, the longest took {max(times):.3f} s", flush=True)
    box.away()


def plain() -> None:
    base.step("no zeroes at all")
    box = box_of_a_spindle()
    with box.disk() as disk:
        load(box, disk.node)
    box.away()


class Program(threading.Thread):
    """Something that goes on beside a load."""

    def __init__(self, line: str) -> None:
        super().__init__()
        self._line = line
        self.error: base.Wrong | None = None

    def run(self) -> None:
        time.sleep(1)
        try:
            took = blk.timed(lambda: base.run(*self._line.split()))
        except base.Wrong as err:
            self.error = err
            return
        print(f"  {self._line}: {took:.2f} s", flush=True)

    def beside(
        self, box: Box, node: str, seconds: int, most: float = LONGEST_S, **more: object
    ) -> None:
        self.start()
        load(box, node, seconds, most, **more)
        self.join(120)
        base.expect(not self.is_alive() and not self.error, f"{self._line}: {self.error or ''}")


def remote() -> None:
    base.step("by iSCSI: the whole disk discarded, and file systems trimmed, under load")
    box = box_of_a_spindle()
    store = box.open()
    wire, target, session = Wire("lan"), lio.Target(store), Session()
    node = session.login()
    # The load has a disk of its own at the target: a mount holds up who writes to the same.
    with lio.look(store) as other:
        Program(f"blkdiscard {node}").beside(box, other, 15)
        behind: dict[str, object] = {"offset": "17g", "size": "900m"}  # what follows is before it
        for kind, mkfs in (
            ("ext4", f"mkfs.ext4 -q -F -E discard {node} 16g"),
            ("xfs", f"mkfs.xfs -q -f -d size=16g {node}"),
        ):
            base.run(*mkfs.split())
            with fs.mounted(kind, node, "/tmp/trimmed") as there:
                (there / "file").write_bytes(bytes(64 << 20))
                os.sync()
                (there / "file").unlink()
                Program(f"fstrim {there}").beside(box, other, 15, LONGEST_S, **behind)
                fs.settle(there)
            fs.clean(kind, node, "trimmed")
    session.close()
    target.remove()
    wire.close()
    box.close()
    box.away()


def mkfs() -> None:
    base.step("by iSCSI: file systems are made under load")
    box = box_of_a_spindle()
    store = box.open()
    wire, target, session = Wire("lan"), lio.Target(store), Session()
    node = session.login()
    with lio.look(store) as other:
        behind: dict[str, object] = {"offset": "17g", "size": "900m"}
        # Its 6 MiB of data come in two writes, and the spindle makes room for 2 MiB a second:
        # once they have waited for half of their patience, they go before the short ones.
        for line in (
            f"mkfs.ext4 -q -F -E discard {node} 16g",
            f"mkfs.xfs -q -f -d size=16g {node}",
        ):
            Program(line).beside(box, other, 15, 1.5, **behind)
    session.close()
    target.remove()
    wire.close()
    box.close()
    box.away()


def cut() -> None:
    base.step("zeroes are logged again between writes, and the power is cut: nothing comes back")
    rng = random.Random(f"discard {base.SEED}")
    box = Box(
        data_mib=64, data_model="spindle", data_options={"write_cache": "off", "spread": "on"},
        log_mib=3, nvram="lab", nvram_bytes=4096 + 8 * SEGMENT,
    )  # fmt: skip
    model = Model(box.data.sectors)
    again = 0
    for session in range(3):
        with box.disk_until_cut() as disk:
            filled(disk, model, 0, 2048, f"old {session}")
            disk.zero(0, disk.sectors)
            model.put(0, bytes(disk.sectors * blk.SECTOR))
            for _ in range(400):
                some_write(disk, model, rng, f"{session} {rng.random()}")
            again += box.count("logged_again")
        with box.disk() as disk:
            model.check(disk, f"after cut {session}")
    print(f"  {again} ranges were logged again", flush=True)
    base.expect(again > 300, "ranges that were logged again")
    with box.disk() as disk:
        box.destaged()
        model.check(disk, "destaged")
    box.away()


def drained(store: lio.Backstore) -> None:
    base.until(
        lambda: counters(store)["live"] == 0 and " 0 in use" in store.info(), "all to be destaged"
    )


class Pool:
    """A thin volume of so many MiB, and a linear device over it that can be told to fail."""

    def __init__(self, mib: int) -> None:
        self._sectors = mib << 11
        meta, pool = media.disk("thin-meta", 8, "ssd"), media.disk("thin-data", mib, "ssd")
        dm.create("pool", f"0 {self._sectors} thin-pool {meta} {pool} {BLOCK} 0")
        dm.message("pool", "create_thin 0")
        self._volume = dm.create("volume", f"0 {self._sectors} thin /dev/mapper/pool 0")
        self.node = dm.create("way", self._way("linear", ""))
        self.log = media.disk("thin-log", 9, "ssd")
        format_log(self.node, self.log)

    def used(self) -> int:
        """Blocks of it."""
        return int(dm.status("pool").split()[2].split("/")[0])

    def fail(self) -> None:
        dm.reload("way", self._way("flakey", "0 1 2 error_reads error_writes"))

    def heal(self) -> None:
        dm.reload("way", self._way("linear", ""))

    def away(self) -> None:
        for name in ("way", "volume", "pool", "thin-meta", "thin-data", "thin-log"):
            dm.remove(name)
        for name in ("thin-meta", "thin-data", "thin-log"):
            media.forget(name)

    def _way(self, kind: str, more: str) -> str:
        return f"0 {self._sectors} {kind} {self._volume} 0 {more}"


def thin() -> None:
    base.step("a thin volume below: discards reach it, and parts of its blocks are zeroed")
    pool = Pool(64)
    for session in range(2):
        settings = f"data={pool.node},log={pool.log},nvram=dram:battery"
        store = lio.Backstore("dcd", "d", settings, SERIAL)
        for name, value in (
            ("emulate_tpu", 1), ("emulate_tpws", 1), ("unmap_zeroes_data", 0),
            ("unmap_granularity", BLOCK),
        ):  # fmt: skip
            base.equal(store.attribute(name), str(value), name)
        with lio.look(store) as node, blk.Disk(node) as disk:
            if session:
                base.expect(not any(disk.read(5, 2 * 2048)), "zeroes, after reopening")
        if session:
            store.remove()
            continue
        with lio.look(store) as node, blk.Disk(node) as disk:
            for at in range(0, 16 << 11, 1024):
                disk.write(at, blk.pattern(f"thin {at}", 1024))
            drained(store)
            before = pool.used()
            base.run("sg_unmap", "--force", "--lba=5", f"--num={8 << 11}", node)
            drained(store)
            print(f"  {before} blocks of the pool were in use, {pool.used()} are", flush=True)
            back = before - pool.used()
            base.equal(back, (8 << 11) // BLOCK - 1, "blocks that the pool got back")
            base.expect(not any(disk.read(5, 8 << 11)), "zeroes")
            base.equal(disk.read(0, 5), blk.pattern("thin 0", 1024)[: 5 * 512], "before it")
            discards = counters(store)["discards"]
            disk.discard(12 << 11, 2048)
            base.expect(counters(store)["discards"] > discards, "Linux's discards are UNMAPs")
            at = 8 << 11
            rest = blk.pattern(f"thin {at}", 1024)[5 * 512 :]
            base.equal(disk.read(at + 5, 1019), rest, "behind it")
        store.remove()
    pool.away()

def away() -> None:
    base.step(f"a thin volume is away for {AWAY_S} s amid a discard: later ones reach it, too")
    pool = Pool(128)
    store = lio.Backstore(
        "dcd", "d", f"data={pool.node},log={pool.log},nvram=dram:battery,destage_idle_ms=20", SERIAL
    )
    with lio.look(store) as node, blk.Disk(node) as disk:
        for at in range(0, 16 << 11, 1024):
            disk.write(at, blk.pattern(f"away {at}", 1024))
        drained(store)
        before = pool.used()
        pool.fail()
        disk.discard(4 << 11, 2 << 11)
        time.sleep(AWAY_S)
        pool.heal()
        drained(store)
        disk.discard(8 << 11, 4 << 11)
        disk.discard(64 << 11, 32 << 11)
        drained(store)
        print(f"  {before} blocks of the pool were in use, {pool.used()} are", flush=True)
        base.expect(pool.used() <= before - (4 << 11) // BLOCK, "the discards don't reach the pool")
        base.expect(not any(disk.read(4 << 11, 2 << 11)), "zeroes")
    store.remove()
    pool.away()


def quick() -> None:
    base.step("a disk that zeroes in no time is wiped at once, though the log is to be empty soon")
    box = Box(
        data_mib=16, data_model="null", nvram_bytes=4096 + 2 * SEGMENT, log_mib=9,
        settings="destage_idle_ms=100,destage_low=0,destage_high=1",
    )  # fmt: skip
    with box.disk() as disk:
        filled(disk, Model(disk.sectors), 0, disk.sectors, "old")
        box.destaged()
        before = box.count("segments")
        disk.zero(0, disk.sectors)
        took = blk.timed(box.destaged)
        segments = box.count("segments") - before
        print(f"  {took:.1f} s, {segments} segments", flush=True)
        base.expect(took < QUICK_S, f"it is wiped in {took:.1f} s")
        base.expect(segments < QUICK_SEGMENTS, f"{segments} segments were written meanwhile")
    base.expect(not any(box.data.bytes(0, box.data.sectors)), "zeroes everywhere")
    box.away()


def written_instead(how: str, zeroes: str) -> None:
    base.step(f"a disk that says that it discards, and each is an error ({how}): it is written")
    box = Box(data_mib=32, data_options={"zeroes": zeroes},
              settings="destage_idle_ms=1,scrub_kib=0")  # fmt: skip
    model = Model(box.data.sectors)
    kernel = base.KernelLog()

    def found() -> bool:
        return any("can't discard" in line for line in kernel.new())

    with box.disk() as disk:
        box.data.discards(how)
        for n in range(UNDISCARDED):
            at = 2048 * n
            filled(disk, model, at, at + 64, f"{n}", 64)
            box.destaged()
            disk.discard(at, 1024)
            model.put(at, bytes(1024 * blk.SECTOR))
            box.destaged()
            if not n:
                base.equal(found(), how == "refuse", "whether one error says that it can't")
        base.expect(how == "refuse" or found(), "that it can't discard isn't found")
        box.data.discards("good")
        disk.discard(0, 1024)
        box.destaged()
        base.equal(box.count("discarded_sectors"), 0, "sectors that were discarded")
        model.check(disk, "written instead")
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk alone")
    with box.disk() as disk:
        disk.discard(0, 1024)
        box.destaged()
        base.equal(box.count("discarded_sectors"), 1024, "sectors, as it is opened again")
    box.away()


PARTS: dict[str, Callable[[], None]] = {
    "cut": cut, "thin": thin, "zeroing": zeroing, "trim": trim, "plain": plain, "remote": remote,
    "mkfs": mkfs, "away": away, "refused": partial(written_instead, "refuse", "on"),
    "never": partial(written_instead, "fail", "off"), "quick": quick,
}  # fmt: skip
for part in sys.argv[1:] or PARTS:
    base.expect(part in PARTS, f"there is no part {part!r}")
    PARTS[part]()
base.step(f"done at {time.monotonic():.0f} s")
