# SPDX-License-Identifier: GPL-2.0-only
"""The log disk dies for good: README's steps, to another log disk or without one.

Of what was acknowledged the data disk gets all that NVRAM has, never anything over what is newer
there; that something may be lost is said. No later start brings the dead log back.
"""

import errno
import json
import random
import subprocess

from dcdlab import SEGMENT, TOOL, Box, Disk, Model, filled, some_write
from locklab import base, blk, dm, lio

BLOCK = 4096
LOSSES = 3
HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99,read_cache_bytes=0"


def tool(command: str, *words: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run([TOOL, command, *words, "--json"], capture_output=True, text=True,
                          check=False)  # fmt: skip
    print(done.stderr, end="")
    return done.returncode, json.loads(done.stdout) if done.stdout else {}


def rescue(box: Box, command: str) -> tuple[int, dict[str, object]]:
    return tool(command, "--data", box.data.node, "--log", "none", "--nvram", box.view, "--salvage")


def box_of(settings: str = "") -> Box:
    return Box(nvram="lab", settings=settings, nvram_bytes=BLOCK + 6 * SEGMENT)


def stopped(box: Box) -> None:
    """The DCD has been closed, as well as can be; the log disk can't be read any more."""
    box.log.fail()
    with base.refused("with the dead log", kernel="can't read the superblock"):
        lio.Backstore("dcd", "bad", box.control())


def replaced() -> None:
    base.step("another log disk, all that counts is in NVRAM and on the data disk")
    box = box_of()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 3000, "before", 16)
        box.destaged()
        box.log.fail()
        filled(disk, model, 1000, 1600, "past the log", 16)
        box.says("log FAILING", "the log to be found dead")
    stopped(box)
    old = box.log
    code, told = rescue(box, "retire")
    base.equal((code, told["state"], told["log_lost"]), (LOSSES, "retired", True), f"{told}")
    base.equal(rescue(box, "retire")[0], LOSSES, "once more")
    with blk.Disk(box.data.node) as disk:
        model.check(disk, "the data disk alone")
    box.log = Disk("log2", 3)
    base.run(TOOL, "format", "--data", box.data.node, "--log", box.log.node, "--nvram", box.view)
    with box.disk() as disk:
        filled(disk, model, 0, 3000, "by the new log", 16)
        model.check(disk, "the new log")
    base.step("the dead one comes back")
    old.heal()
    new, box.log = box.log, old
    with base.refused("the old log", errno.EMEDIUMTYPE, kernel="doesn't belong to the log"):
        lio.Backstore("dcd", "bad", box.control())
    box.log = new
    with box.disk() as disk:
        model.check(disk, "and with the right one")
    old.remove()
    box.away()


def left() -> None:
    base.step("none any more")
    box = box_of()
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 300, "only in NVRAM", 16)
    stopped(box)
    code, told = rescue(box, "recover")
    base.equal((code, told["state"], told["log_lost"]), (LOSSES, "salvaged", True), f"{told}")
    base.equal(rescue(box, "retire")[0], LOSSES, "retire")
    with blk.Disk(box.data.node) as disk:
        model.check(disk, "the data disk alone")
        filled(disk, model, 0, 600, "without a DCD", 16)
    box.log.heal()
    with base.refused("the old log", errno.EMEDIUMTYPE, kernel="was retired"):
        lio.Backstore("dcd", "bad", box.control())
    code, told = tool(
        "recover", "--data", box.data.node, "--log", box.log.node, "--nvram", box.view
    )
    base.equal((code, told["state"]), (1, "refused"), f"{told}")
    with blk.Disk(box.data.node) as disk:
        model.check(disk, "nothing came back")
    box.away()


def no_guess() -> None:
    base.step("the newest entries can't be read")
    box = box_of()
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 96, "only in NVRAM", 16)
    for slot in range(6):
        table = (BLOCK + slot * SEGMENT + BLOCK) // blk.SECTOR
        dm.message(f"nv{box.tag}", f"poison {table} 1")
    before = box.data.bytes(0, 2000)
    code, told = rescue(box, "recover")
    base.equal((code, told["reason"]), (1, "newest_entries_missing"), f"{told}")
    base.expect(box.data.bytes(0, 2000) == before, "the data disk was written to")
    box.away()


def chance() -> None:
    """At any moment, by a cut: each block is the newest, or one that only the log had."""
    behind = refusals = 0
    for life in range(16):
        rng = random.Random(f"dead log {base.SEED} {life}")
        box = box_of(rng.choice((HELD, "", "destage_idle_ms=1")))
        model, whole = Model(box.data.sectors), rng.random() < 0.5
        with box.disk_until_cut() as disk:
            for n in range(rng.randrange(50, 400)):
                some_write(disk, model, rng, f"{life} {n}", within=3000)
            if whole:
                box.set("destage_idle_ms=1")
                box.destaged()
                for n in range(20):
                    some_write(disk, model, rng, f"{life} newest {n}", within=3000)
            held = Model(box.data.sectors)
            held.bytes[:] = box.data.bytes(0, box.data.sectors)
        with blk.Disk(box.view, write=False) as nvram:
            good = nvram.read(0, nvram.sectors)
        spoiled = life % 2 == 1
        if spoiled:  # in half of the lives a part of NVRAM is unreadable, too
            sector = rng.randrange(BLOCK // blk.SECTOR, len(good) // blk.SECTOR - 8)
            dm.message(f"nv{box.tag}", f"poison {sector} {rng.choice((1, 8))}")
        code, told = rescue(box, "recover")
        if spoiled and code == 1:
            base.equal(told["reason"], "newest_entries_missing", f"{told}")
            refusals += 1
        else:
            base.equal((code, told["state"]), (LOSSES, "salvaged"), f"{told}")
        now = box.data.bytes(0, box.data.sectors)
        for at in range(0, len(now), blk.SECTOR):
            part = slice(at, at + blk.SECTOR)
            if now[part] == model.bytes[part]:
                continue
            base.expect(not whole or spoiled, f"sector {at // blk.SECTOR} isn't what it was")
            base.expect(now[part] == held.bytes[part], f"sector {at // blk.SECTOR} went back")
            behind += 1
        with blk.Disk(box.view) as nvram:
            nvram.write(0, good)
        # And with the log after all: nothing was spoiled.
        with box.disk() as disk:
            model.check(disk, "with the log")
        box.away()
    base.expect(behind > 0, "the log never had anything alone")
    print(f"  {behind} sectors were only in the log, {refusals} refusals")


replaced()
left()
no_guess()
chance()
