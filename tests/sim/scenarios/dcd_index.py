# SPDX-License-Identifier: GPL-2.0-only
"""The memory of the DCD's index: what it takes, and its bound. args [MIB].

MIB: of live log, 4 KiB writes at random; it tells the memory that the kernel's maple trees then
have. The default is little, and shows only that the engine counts what is there.
"""

import errno
import random
import re
import sys
import threading
import time
from pathlib import Path

from dcdlab import SEGMENT, Box, Model, filled
from locklab import base, blk

BOUND = 65536  # bytes; the least that can be set
MIB = int(sys.argv[1]) if len(sys.argv) > 1 else 8


def nodes() -> int:
    """Bytes of maple tree nodes in the whole kernel. Programs have some too."""
    for line in Path("/proc/slabinfo").read_text().splitlines():
        found = re.match(r"maple_node +(\d+) +\d+ +(\d+)", line)
        if found:
            return int(found[1]) * int(found[2])
    raise base.Wrong("no maple_node in /proc/slabinfo")


def used(box: Box) -> int:
    found = re.search(r"index (\d+) of (\d+) bytes", box.info())
    base.expect(found, box.info())
    assert found
    return int(found[1])


def limit(box: Box, number: int) -> None:
    assert box.store
    base.put(box.store.path / "control", f"index_bytes={number}")


def recovered(box: Box, entries: int) -> None:
    """What recovery tells is what it found."""
    names = ("recovered_entries", "recovered_segments", "recovery_bytes")
    found, live, read = (box.count(name) for name in names)
    base.equal(found, entries, "entries recovered")
    base.expect(live > 1, f"{live} segments recovered")
    base.expect(read >= live * SEGMENT, f"{read} bytes read for {live} segments")


def measured(size: int, count: int) -> None:
    """So many writes of so many sectors, no two of them adjacent."""
    rng = random.Random(f"index {base.SEED}")
    box = Box(data_mib=max(64, 16 * MIB), log_mib=MIB * 3 // 2 + 4,
              nvram_bytes=4096 + 16 * SEGMENT)  # fmt: skip
    places = rng.sample(range(box.data.sectors // (2 * size)), count)
    data = blk.pattern("any", size)
    with box.disk() as disk:
        box.data.fail_writes()
        limit(box, 1 << 30)
        time.sleep(5)
        before, none = nodes(), used(box)
        base.equal(none, 0, "the index is empty")
        for place in places:
            disk.write(place * 2 * size, data)
        time.sleep(5)  # RCU lets go of what it has replaced
        took, says = nodes() - before, used(box)
        print(f"  {count} writes of {size * 512} bytes ({count * size / 2048:g} MiB): "
              f"{took / count:.1f} bytes a write, {took / (count * size / 2048) / 1024:.0f} KiB "
              f"for each MiB; the engine counts {says / count:.1f}", flush=True)  # fmt: skip
        base.equal(says, count * 64, "what the engine counts")
        if not base.CHECKED:  # KASAN keeps what is freed, and more around each node
            base.expect(took < 1.3 * says, "it is more than the engine says")
            base.expect(took > 0.5 * says, "it is far less than the engine says")
    time.sleep(5)  # and lets go of the tree of a closed one
    with box.disk():
        base.equal(used(box), says, "what the engine counts after recovery")
        recovered(box, count)
        box.data.heal()
        box.says("data ok", "the data disk to work")
        box.destaged()
        base.equal(used(box), 0, "all is home")
    box.away()


def bounded() -> None:
    base.step("small writes all over the disk: they are slowed, none fails, the bound is kept")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    rng = random.Random(f"bound {base.SEED}")
    most = 0
    with box.disk() as disk:
        limit(box, BOUND)
        box.data.slow(20)
        for n in range(4 * BOUND // 64):
            at = rng.randrange(box.data.sectors)
            data = blk.pattern(f"{n}", 1)
            disk.write(at, data)
            model.put(at, data)
            if n % 16 == 0:
                most = max(most, used(box))
        base.expect(box.count("throttled") > 0, f"writes are slowed: {box.info()}")
        base.expect(most > BOUND // 2, f"no more than {most} of {BOUND} was used")
        base.expect(most <= BOUND + SEGMENT // 512 * 2 * 64, f"{most} is above {BOUND}")
        print(f"  at most {most} of {BOUND} bytes", flush=True)
        box.data.heal()
        model.check(disk, "all")
        box.destaged()
        base.equal(used(box), 0, "all is home")
        model.check(disk, "from the data disk")
    box.away()


def full() -> None:
    base.step("the index is full and the data disk fails: refused, not hung, until it works again")
    box = Box(log_mib=9)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        limit(box, BOUND)
        box.data.fail_writes()
        for n in range(2 * BOUND // 64):
            data = blk.pattern(f"{n}", 1)
            try:
                disk.write(2 * n, data)
            except OSError as err:
                base.equal(err.errno, errno.EIO, "the error")
                break
            model.put(2 * n, data)
        else:
            raise base.Wrong(f"all were taken: {box.info()}")
        base.expect(n >= BOUND // 64, f"only {n} were taken")
        base.expect(box.count("live") < (9 << 20) // SEGMENT // 2, "the log has room")
        limit(box, 16 * BOUND)
        filled(disk, model, 8000, 8064, "with more memory", 1)
        box.data.heal()
        box.says("data ok", "the data disk to work")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


def waits() -> None:
    base.step("a write that waits for the index goes on when it may have more")
    box = Box(data_model="spindle", data_options={"write_cache": "off"}, log_mib=9)
    with box.disk() as disk:
        limit(box, BOUND)
        box.data.slow(3000)
        waits_ = box.count("waits_for_room")
        done = threading.Event()

        def write() -> None:
            with blk.Disk(disk.node) as mine:
                for n in range(2 * BOUND // 64):
                    mine.write(2 * n, bytes(512))
            done.set()

        thread = threading.Thread(target=write)
        thread.start()
        base.until(lambda: box.count("waits_for_room") > waits_, "it to wait", 120)
        limit(box, 64 * BOUND)
        thread.join()
        base.expect(done.is_set(), "all were written")
        box.data.heal()
    box.away()


base.step("what it takes")
measured(8, MIB * 256)
bounded()
full()
waits()
base.step("done")
