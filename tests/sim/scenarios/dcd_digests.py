# SPDX-License-Identifier: GPL-2.0-only
"""The digest LUN alone: what it shows, and that it and its DCD go in any order."""

import errno
import random
import time

from dcdlab import counters
from digestlab import DIGEST, Dcd, expected, view
from locklab import base, blk, dm, lio
from mirrorlab import Beside

KEY = bytes(range(1, DIGEST + 1))


def all_of(node: str) -> bytes:
    with blk.Disk(node, write=False) as disk:
        return b"".join(disk.read(at, min(256, disk.sectors - at))
                        for at in range(0, disk.sectors, 256))  # fmt: skip


def fails(node: str, sector: int = 8) -> bool:
    with blk.Disk(node, write=False) as disk:
        try:
            disk.read(sector, 8)
        except OSError as err:
            base.equal(err.errno, errno.EIO, "errno")
            return True
    return False


def refused(control: str, says: str) -> None:
    log = base.KernelLog()
    try:
        lio.Backstore("dcd", "bad", control)
    except OSError:
        lines = log.new()
        base.expect(any(says in line for line in lines), f"{says!r} isn't in {lines}")
        print(f"  refused: {control}", flush=True)
    else:
        raise base.Wrong(f"control {control} isn't refused")


def put_key(disk: blk.Disk, key: bytes) -> None:
    disk.write(disk.sectors // 8 * 8 - 1, bytes(512 - DIGEST) + key)


def shows() -> None:
    base.step("it shows what the format says, of what was written just before, wherever that is")
    dcd = Dcd("d", 4)
    shown = view("v", "d")
    rng = random.Random(base.SEED)
    # The loopback fabric has one target: one after the other.
    with lio.look(shown) as node:
        base.equal(all_of(node), bytes(dm.sectors(node) * 512), "without a key")
    for turn in range(4):
        with lio.look(dcd.store) as node, blk.Disk(node) as disk:
            for _ in range(60):
                size = rng.randint(1, 40)
                at = rng.randrange(disk.sectors - 8 - size)
                disk.write(at, blk.pattern(f"{turn} {at}", size))
            disk.zero(rng.randrange(4000), 100)
            put_key(disk, KEY if turn % 2 else KEY[::-1])
            data = all_of(node)
        with lio.look(shown) as node:
            base.expect(all_of(node) == expected(data), f"turn {turn}: another digest LUN")
            with blk.Disk(node, write=False) as disk:
                for sector, sectors in ((0, 1), (8, 1), (9, 3), (7, 9), (disk.sectors - 1, 1)):
                    base.expect(
                        disk.read(sector, sectors)
                        == expected(data)[sector * 512 : (sector + sectors) * 512],
                        f"sectors {sector}+{sectors}",
                    )
    base.expect(counters(dcd.store)["digests"], "digests aren't counted")

    base.step("it can't be written")
    with lio.look(shown) as node:
        try:
            with blk.Disk(node) as disk:
                disk.write(8, bytes(512))
        except OSError as err:
            base.expect(err.errno in (errno.EROFS, errno.EPERM, errno.EACCES, errno.EIO),
                        f"errno {err.errno}")  # fmt: skip
        else:
            raise base.Wrong("it was written")
    shown.remove()
    dcd.close()


def orders() -> None:
    base.step("the DCD goes first: reads fail; it comes back: they don't")
    dcd = Dcd("d", 4, latency_us=300)
    shown = view("v", "d")
    with lio.look(dcd.store) as node, blk.Disk(node) as disk:
        disk.write(0, blk.pattern("order", 64))
        put_key(disk, KEY)
        data = all_of(node)
    with lio.look(shown) as node:
        base.expect(all_of(node) == expected(data), "another digest LUN")
        dcd.store.remove()
        base.expect(fails(node), "digests of nothing")
        dcd.again()
        base.expect(all_of(node) == expected(data), "another digest LUN, when it came back")

        base.step("it is closed and opened again and again while it is read")
        rng = random.Random(base.SEED)
        told = {"read": 0, "failed": 0}

        def reads() -> None:
            for _ in range(300):
                told["failed" if fails(node) else "read"] += 1
                time.sleep(0.0002)

        reader = Beside(reads)
        while not reader.done:
            time.sleep(rng.uniform(0, 0.002))
            dcd.store.remove()
            time.sleep(rng.uniform(0, 0.001))
            dcd.again()
        reader.result()
        base.expect(min(told.values()) > 10, f"nearly always the same: {told}")
        print(f"  {told}", flush=True)
        base.expect(all_of(node) == expected(data), "another digest LUN at the end")

    base.step("another disk by its name isn't taken for it")
    dcd.close()
    dcd = Dcd("d", 8)
    with lio.look(shown) as node:
        base.expect(fails(node), "digests of a disk of another size")

    base.step("the view goes first; both are nothing to each other")
    shown.remove()
    with lio.look(dcd.store) as node, blk.Disk(node) as disk:
        disk.write(0, blk.pattern("after", 8))
    shown = view("v", "d")
    dcd.close()
    shown.remove()


def bad() -> None:
    base.step("bad settings")
    refused("digests_of=nobody", "no dcd device of that name is enabled")
    dcd = Dcd("d", 4)
    refused("digests_of=d,data=/dev/ddata", "can't be with any other key")
    shown = view("v", "d")
    refused("digests_of=v", "no dcd device of that name is enabled")
    try:
        base.put(shown.path / "control", "digests_of=x")
    except OSError as err:
        base.equal(err.errno, errno.EBUSY, "errno")
    else:
        raise base.Wrong("changed while enabled")
    base.expect("digests_of=d" in shown.info(), shown.info())
    shown.remove()
    dcd.close()


bad()
shows()
orders()
