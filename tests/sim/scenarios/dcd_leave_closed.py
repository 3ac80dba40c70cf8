# SPDX-License-Identifier: GPL-2.0-only
"""The LUN is closed while its log, which is dead, is being left, and its NVRAM is ordinary memory:
all that was acknowledged is on the data disk, and the log never gets over it.

    dcd_leave_closed.py [PART...]

begun: the data disk failed, and works again just before the close. marks: the log doesn't take
its superblock any more when all is on the data disk. cut: the same over a mirror's leg, which says
it, and the host's power is cut instead. slow: it isn't left, but only dead.
"""

from dcdlab import Box, Model, filled, format_log
from locklab import base, blk, ram
from statelab import META

RING = 2048  # from this sector on the log is its ring
PARTS = ("begun", "marks", "cut")
PART = 400  # sectors that are looked at: at its end a leg has something of its own
HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99"


def leg() -> Box:
    """Its data disk is a mirror's leg, which knows of the log."""
    box = Box(nvram="dram:battery", settings=HELD)
    local = ram.Ram("local", box.data_mib)
    base.run(META, "create", "--local", local.node, "--remote", box.data.node, "--assume-clean")
    local.remove()
    format_log(box.data.node, box.log.node, "none", "--force")
    return box


def closed(part: str) -> None:
    base.step(f"{part}: closed while a log is being left that doesn't take writes")
    box = leg() if part == "cut" else Box(settings=HELD)
    model = Model(box.data.sectors)
    log = base.KernelLog()
    with box.disk_until_cut() if part == "cut" else box.disk() as disk:
        filled(disk, model, 0, 200, "in the log")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        box.data.fail_writes()
        box.log.fail_here(((RING, box.log.sectors - 1), "error_writes"))
        filled(disk, model, 100, 150, "acknowledged", 10)
        box.says("log FAILING", "the log to be dead")
        box.set("leave_log=1")
        box.says("log LEAVING", "the log to be left")
        rounds = box.count("rounds")
        base.until(lambda: box.count("rounds") > rounds, "a round that fails")
        if part != "begun":
            box.log.fail_writes()
        box.data.heal()
        if part == "cut":
            base.until(lambda: box.count("leg_marks"), "the leg to say it")
    box.log.heal()
    if part == "begun":
        want = bytes(model.bytes[: 200 * blk.SECTOR])
        base.expect(box.data.bytes(0, 200) == want, "the data disk lacks what was acknowledged")
        base.expect(not [line for line in log.new() if "lost" in line], "it says that it has lost")
    else:
        with box.disk() as disk:
            got, want = disk.read(0, PART), bytes(model.bytes[: PART * blk.SECTOR])
            base.expect(got == want, "what was acknowledged is there when it is opened again")
    box.away()


def slow() -> None:
    base.step("slow: the log is dead, and the data disk is slow: the destager is at it yet")
    box = Box(settings=HELD, log_mib=8)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 600, "in the log", 8)
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        box.data.slow(50)
        box.log.fail_writes()
        filled(disk, model, 100, 150, "acknowledged", 10)
        box.says("log FAILING", "the log to be dead")
        base.until(lambda: box.count("rounds"), "a round to begin")
    want = bytes(model.bytes[: 600 * blk.SECTOR])
    base.expect(box.data.bytes(0, 600) == want, "the data disk lacks what was acknowledged")
    box.away()


for part in base.words(1, (*PARTS, "slow")) or (*PARTS, "slow"):
    slow() if part == "slow" else closed(part)
base.step("done")
