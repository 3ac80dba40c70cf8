# SPDX-License-Identifier: GPL-2.0-only
"""A slot of the NVRAM turns bad while others wait for a disk: nobody waits for that slot.

What only the bad slot had is a medium error until it is written over. No write is refused, none
waits until NVRAM is empty, and a cut changes nothing of it.

Args: the parts, of which without any all are run.
"""

from __future__ import annotations

import errno
import random
import time

from dcdlab import SITE, Box, Model, filled, some_write
from locklab import base, blk, media
from poisonlab import BLOCK, HELD, PER_SLOT, box_of, clears, poison, sector_of

AWAKE = "read_cache_bytes=0,destage_idle_ms=1"
LOST, SIZE = 1024, 16  # the write that is hit
MOST_S = 1.0  # of a write, while the log takes 0.6 s for a segment


def one_lost(disk: blk.Disk, model: Model, what: str) -> None:
    """Everything is right but that write, which is a medium error."""
    with base.refused(f"{what}: the write that is lost", errno.ENODATA):
        disk.read(LOST, SIZE)
    for at in range(0, disk.sectors, SIZE):
        if at == LOST:
            continue
        want = bytes(model.bytes[at * blk.SECTOR : (at + SIZE) * blk.SECTOR])
        base.expect(disk.read(at, SIZE) == want, f"{what}: sectors {at} on are others")


def hit(box: Box, model: Model) -> None:
    """The bytes of that write can't be read in NVRAM any more, and never again."""
    clears(box, False)
    poison(box, sector_of(box, bytes(model.bytes[LOST * blk.SECTOR :])))


def lap(disk: blk.Disk, model: Model, tag: str) -> None:
    """More than all slots have, elsewhere."""
    filled(disk, model, 4096, 4096 + 20 * 112, tag, 112)


def goes_on(box: Box, model: Model, disk: blk.Disk) -> None:
    """The data disk works again."""
    box.data.heal()
    box.says("data ok", "the data disk to work")
    for n in range(4):
        lap(disk, model, f"past it {n}")
    base.until(lambda: box.count("slots_retired") == 1, "the bad slot to be retired")
    one_lost(disk, model, "past the log")
    base.equal(box.count("write_errors"), 0, box.info())


def dead_log() -> None:
    for whole in (False, True):
        base.step(f"the log is dead{' all of it' * whole}, a write that is only in NVRAM is hit")
        box = box_of(AWAKE)
        model = Model(box.data.sectors)
        with box.disk_until_cut() as disk:
            filled(disk, model, 0, 640, "before", 16)
            box.destaged()
            (box.log.fail if whole else box.log.fail_writes)()
            box.data.fail()
            if whole:  # what it was given perhaps, and doesn't give, is for whoever mends it
                filled(disk, model, 0, 16, "what it fails at", 16)
                box.says("log FAILING", "the log to be found dead")
            filled(disk, model, LOST - 2 * SIZE, LOST + 3 * SIZE, "only in NVRAM", SIZE)
            box.says("log FAILING", "the log to be found dead")
            hit(box, model)
            goes_on(box, model, disk)
        if not whole:  # else it can't be opened
            box.log.fail_writes()
            with box.disk() as disk:
                one_lost(disk, model, "opened")
                lap(disk, model, "opened")
        box.log.heal()
        with box.disk() as disk:
            lap(disk, model, "by the log")
            one_lost(disk, model, "by the log")
            filled(disk, model, LOST, LOST + SIZE, "over it", SIZE)
            box.destaged()
            model.check(disk, "written over")
        box.away()


def full() -> None:
    base.step("the same, and all slots are full")
    box = box_of(AWAKE)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 640, "before", 16)
        box.destaged()
        box.log.fail_writes()
        box.data.fail()
        filled(disk, model, LOST - 2 * SIZE, LOST + 3 * SIZE, "only in NVRAM", SIZE)
        box.says("log FAILING", "the log to be found dead")
        refused = 0
        for at in range(8192, 8192 + 10 * 112, 112):
            data = blk.pattern(f"until it is full {at}", 112)
            try:
                disk.write(at, data)
            except OSError:
                refused += 1
                break
            model.put(at, data)
        base.equal(refused, 1, "writes that are refused with both disks dead")
        hit(box, model)
        before = box.count("write_errors")
        box.data.heal()
        box.says("data ok", "the data disk to work")
        for n in range(4):
            lap(disk, model, f"past it {n}")
        base.equal(box.count("write_errors"), before, box.info())
        model.put(at, disk.read(at, 112))  # of a write that failed there may be anything
        one_lost(disk, model, "past the log")
        box.log.heal()
        base.until(lambda: "log FAILING" not in box.info(), "the log to work")
        lap(disk, model, "by the log")
        one_lost(disk, model, "by the log")
    box.away()


def behind() -> None:
    base.step("the log is slow, and has ten segments to get yet")
    box = box_of(HELD, slots=32)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, LOST, LOST + SIZE, "in the log, too", SIZE)
        base.until(lambda: " 0 in use" in box.info(), "it to be in the log")
        box.log.slow(300)
        filled(disk, model, 4096, 4096 + 10 * 112, "a burst", 112)
        hit(box, model)
        longest = 0.0
        base.expect(disk.read(LOST, SIZE) == blk.pattern(f"in the log, too {LOST}", SIZE), "it")
        for n in range(30):
            began = time.monotonic()
            filled(disk, model, 8192 + 16 * n, 8208 + 16 * n, "beside it", 16)
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.05)
        print(f"  the longest write took {longest:.3f} s", flush=True)
        base.expect(longest < MOST_S, f"a write took {longest:.3f} s")
        base.until(lambda: box.count("slots_retired") == 1, "the bad slot to be retired")
        model.check(disk, "all of it")
        box.log.heal()
    with box.disk() as disk:
        model.check(disk, "opened")
    box.away()


def look(disk: blk.Disk, model: Model, may_fail: bool, what: str) -> int:
    """Each block is right, or a medium error; how many are those."""
    errors = 0
    for at in range(0, 4096, 8):
        try:
            got = disk.read(at, 8)
        except OSError as err:
            base.expect(err.errno == errno.ENODATA and may_fail, f"{what}: sectors {at} on: {err}")
            errors += 1
            continue
        want = bytes(model.bytes[at * blk.SECTOR : (at + 8) * blk.SECTOR])
        base.expect(got == want, f"{what}: sectors {at} on are others")
    return errors


def chance() -> None:
    """Slots turn bad at any time, the disks fail and work again, the power is cut."""
    errors = gone = 0
    for life in range(10):
        rng = random.Random(f"slots {base.SEED} {life}")
        box = box_of(rng.choice((AWAKE, HELD)), slots=12)
        model, worn = Model(box.data.sectors), 0
        clears(box, False)
        for turn in range(3):
            with box.disk() as disk:
                dead = False
                for n in range(rng.randrange(60, 160)):
                    some_write(disk, model, rng, f"{life} {turn} {n}", within=4096, block=8)
                    if rng.random() < 0.04:
                        (box.log.heal if dead else box.log.fail_writes)()
                        dead = not dead
                    if rng.random() < 0.02 and worn < 6:
                        worn += 1
                        slot = rng.randrange(12)
                        poison(box, BLOCK // blk.SECTOR + slot * PER_SLOT + rng.randrange(16, 120))
                    if rng.random() < 0.1:
                        time.sleep(0.3)
                base.equal(box.count("write_errors"), 0, box.info())
                errors += look(disk, model, worn > 0, f"life {life}")
                gone += box.count("slots_retired")
                box.log.heal()
                cut = rng.random() < 0.7
                if cut:
                    media.cut(SITE, rng.randrange(1 << 30))
            if cut:
                box.power_on()
        with box.disk() as disk:
            errors += look(disk, model, worn > 0, f"life {life}, at the end")
        box.away()
    print(f"  {errors} blocks were errors, {gone} slots retired", flush=True)
    base.expect(gone > 5, "nothing of it happened")


PARTS = {"dead_log": dead_log, "full": full, "behind": behind, "chance": chance}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
