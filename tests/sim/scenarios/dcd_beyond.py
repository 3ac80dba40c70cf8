# SPDX-License-Identifier: GPL-2.0-only
"""A log disk that fails, and works when the DCD is opened again: what NVRAM had acknowledged went
past it to the data disk, and what the log has of before never gets over that. The DCD's NVRAM is
ordinary memory, with a battery or without.

Control: with dcd.test_log_believed=1 the log is believed, and old data comes over newer.
"""

import contextlib
import errno
import json
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import statelab
from crashlab import assembled, data_of
from dcdlab import TOOL, Box, Disk, Model, digest, filled, format_log
from locklab import base, blk, dm, lio, ram
from statelab import META, Beside, create, super_of

HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99"
PART = 400  # sectors that are looked at: at its end a leg has something of its own
FORGETS = Path("/sys/module/dcd/parameters/test_kernel_forgets")
USERS = Path("/sys/module/dcd/refcnt")


def users() -> int:
    return int(USERS.read_text())


def check(disk: blk.Disk, model: Model, what: str) -> None:
    got = disk.read(0, PART)
    for n in range(PART):
        at = slice(n * blk.SECTOR, (n + 1) * blk.SECTOR)
        base.expect(got[at] == model.bytes[at], f"{what}: sector {n} has other bytes")
    print(f"  {what}: every sector is as the model has it", flush=True)


def fails(box: Box, model: Model, disk: blk.Disk) -> None:
    """Newer writes are acknowledged over what the log has; then they can't get there."""
    filled(disk, model, 0, 200, "in the log")
    base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
    box.log.fail_writes()
    filled(disk, model, 100, 150, "acknowledged", 10)


def closed(nvram: str) -> None:
    base.step(f"{nvram}: closed while the log fails, opened while it fails, and when it works")
    box = Box(nvram=nvram, settings=HELD)
    model = Model(box.data.sectors)
    before = users()
    with box.disk() as disk:
        fails(box, model, disk)
    base.equal(users(), before + 1, "users of the module, which is the only one that knows")
    with box.disk() as disk:
        check(disk, model, "the log fails")
    base.equal(users(), before + 1, "users of the module, as nobody could be told")
    box.log.heal()
    base.equal(tool(box, "check"), "clean", "dcd check, which asks the module")
    with box.disk() as disk:
        check(disk, model, "the log works")
        filled(disk, model, 120, 140, "goes on", 10)
    base.equal(users(), before, "users of the module once the log was told")
    with box.disk() as disk:
        check(disk, model, "once more")
    box.away()


def leg(nvram: str, spare_mib: int = 0) -> Box:
    """Its data disk is a leg."""
    box = Box(nvram=nvram, settings=HELD, data_spare_mib=spare_mib)
    local = ram.Ram("local", box.data_mib)
    base.run(META, "create", "--local", local.node, "--remote", box.data.node, "--assume-clean")
    local.remove()
    format_log(box.data.node, box.log.node, "none", "--force")
    return box


def marked(box: Box, times: int = 1) -> None:
    base.until(lambda: box.count("leg_marks") == times, "the leg to say it")


def slots(of: blk.Disk | Disk, end: int) -> bytes:
    with blk.Disk(of.node, write=False) as disk:
        return disk.read(end, 16)


def on_leg(nvram: str, cut: bool) -> None:
    base.step(f"{nvram}: over a mirror's leg, {'a power cut' if cut else 'closed'}")
    box = leg(nvram)
    model = Model(box.data.sectors)
    before, end = users(), box.data.sectors - 16
    with box.disk_until_cut() if cut else box.disk() as disk:
        disk.read(end, 16)
        fails(box, model, disk)
        marked(box)
        base.until(lambda: slots(disk, end) == slots(box.data, end), "the LUN to have it", 3)
        check(disk, model, "the log fails")
    base.equal(users(), before, "users of the module: the leg has it")
    box.log.heal()
    base.equal(tool(box, "check"), "clean", "dcd check")
    with box.disk() as disk:
        check(disk, model, "the log works")
        filled(disk, model, 120, 140, "goes on", 10)
    with box.disk() as disk:
        check(disk, model, "once more")
    base.equal(tool(box, "check"), "live", "dcd check")
    box.away()


def larger(box: Box) -> None:
    box.data.resize(box.data.sectors + (2 << 11))
    box.set("grow=1")


def grown() -> None:
    base.step("over a mirror's leg, twice before the mirror has grown, and once after")
    base.put(FORGETS, 1)
    box = leg("dram:battery", 8)
    model = Model(box.data.sectors + (8 << 11))
    for times, mirror_grows in ((1, False), (1, True), (0, False)):
        with box.disk_until_cut() as disk:
            for _ in range(times):
                larger(box)
            if mirror_grows:
                base.run(META, "grow", "-", disk.node)
            fails(box, model, disk)
            marked(box)
        box.log.heal()
        base.equal(tool(box, "check"), "clean", "dcd check")
        with box.disk() as disk:
            check(disk, model, "the log works")
    with box.disk() as disk:
        larger(box)
        end = model.bytes[: PART * blk.SECTOR]
    base.equal(tool(box, "retire", "leg"), "True", "dcd retire, of a leg that was told")
    base.expect(box.data.bytes(0, PART) == end, "the data disk's")
    box.away()
    base.put(FORGETS, 0)


def judged(box: Box, model: Model) -> None:
    box.log.heal()
    with box.disk() as disk:
        check(disk, model, "the log works")
    base.put(FORGETS, 0)
    box.away()


def grown_often() -> None:
    base.step("over a mirror's leg, whose disk grows more often than the log's superblock has room")
    base.put(FORGETS, 1)
    box = leg("dram:battery", 16)
    model = Model(box.data.sectors + (16 << 11))
    with box.disk_until_cut() as disk:
        for _ in range(6):
            larger(box)
        fails(box, model, disk)
        marked(box)
    judged(box, model)


def grown_unread() -> None:
    base.step("likewise, and just when it would be forgotten where the leg is that can't be read")
    base.put(FORGETS, 1)
    box = leg("dram:battery", 16)
    model = Model(box.data.sectors + (16 << 11))
    end = box.data.sectors
    with box.disk_until_cut() as disk:
        for _ in range(4):
            larger(box)
        box.data.resize(box.data.sectors + 2048)
        box.data.unreadable((end - 16, end - 1))
        with base.refused("to grow", errno.EIO, kernel="ended before can't be read"):
            box.set("grow=1")
        box.data.heal()
        box.set("grow=1")
        fails(box, model, disk)
        marked(box)
    judged(box, model)


def grown_over() -> None:
    base.step("where the disk has grown to there is the superblock of another mirror")
    base.put(FORGETS, 1)
    box = leg("dram:battery", 8)
    model = Model(box.data.sectors + (8 << 11))
    with box.disk_until_cut() as disk:
        larger(box)
        other = ram.Ram("other", box.data.sectors >> 11)
        peer = ram.Ram("peer", box.data.sectors >> 11)
        words = ("--local", peer.node, "--remote", other.node, "--assume-clean")
        base.run(META, "create", *words)
        end = box.data.sectors - 16
        with blk.Disk(other.node, write=False) as there, blk.Disk(box.data.node) as data:
            data.write(end, there.read(end, 16), fua=True)
        fails(box, model, disk)
        marked(box)
    judged(box, model)
    for one in (other, peer):
        one.remove()


def grown_another() -> None:
    base.step("it doesn't grow to an end with which it couldn't be opened again")
    box = leg("dram:battery", 8)
    model = Model(box.data.sectors + (8 << 11))
    before = box.data.sectors
    with box.disk() as disk:
        box.data.resize(before + (8 << 11))
        end = box.data.sectors - 16
        other, log = ram.Ram("other", box.data.sectors >> 11), Disk("log2", 3)
        peer = ram.Ram("peer", box.data.sectors >> 11)
        words = ("--local", peer.node, "--remote", other.node, "--assume-clean")
        base.run(META, "create", *words)
        format_log(other.node, log.node, "none", "--force")
        with blk.Disk(other.node, write=False) as there, blk.Disk(box.data.node) as data:
            data.write(end, there.read(end, 16), fua=True)
        with base.refused("another DCD's leg", kernel="another DCD's log is in front of"):
            box.set("grow=1")
        base.run("dd", "if=/dev/zero", f"of={box.data.node}", "bs=512", f"seek={end}", "count=16",
                 "oflag=direct")  # fmt: skip
        box.data.unreadable((end, end + 15))
        with base.refused("it can't be read", kernel="has got can't be read"):
            box.set("grow=1")
        base.equal(disk.sectors, before, "sectors")
        filled(disk, model, 0, PART, "goes on")
        box.data.heal()
        box.set("grow=1")
    with box.disk() as disk:
        base.equal(disk.sectors, before + (8 << 11), "sectors")
        check(disk, model, "opened again")
    for one in (other, peer, log):
        one.remove()
    box.away()


def given_up(slot: int, grows: bool) -> None:
    where = "where the disk's end was" if grows else "the disk's end"
    base.step(f"the mirror is given up, and a file has slot {slot} of {where}")
    base.put(FORGETS, 1)
    box = leg("dram:battery", 8)
    model = Model(box.data.sectors + (8 << 11))
    at = box.data.sectors - 16 + 8 * slot
    with box.disk() as disk:
        if grows:
            larger(box)
        filled(disk, model, at, at + 8, "a file")
        fails(box, model, disk)
        time.sleep(60)  # it is given up, and all is on the data disk
        base.expect(disk.read(at, 8) == model.bytes[at * 512 : (at + 8) * 512], "the file")
        base.equal(box.count("leg_marks"), int(not grows), "legs that were told")
    base.put(FORGETS, 0)
    box.log.heal()
    with box.disk():
        pass
    box.away()


def left_grown() -> None:
    base.step("the disk was used without the log, and has grown since; grow=1, as it says")
    box = leg("dram:battery", 8)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, PART, "in the log")
    base.run(META, "leave-log", box.data.node)
    with blk.Disk(box.data.node) as data:
        filled(data, model, 0, PART, "newer")
    box.data.resize(box.data.sectors + (2 << 11))
    base.run(META, "grow", "-", box.data.node)
    with base.refused("the old log", errno.EMEDIUMTYPE):
        box.open("grow=1")
    base.expect(box.data.bytes(0, PART) == model.bytes[: PART * blk.SECTOR], "the data disk's")
    box.away()


def left_away(which: str) -> None:
    base.step(f"{which}: a disk that mustn't get what the log has can't be read at first")
    box = leg("none")
    with box.disk() as disk:
        filled(disk, Model(box.data.sectors), 0, PART, "old")
        box.set("destage_idle_ms=1,destage_low=0")
        box.destaged()
        box.set(HELD)
        filled(disk, Model(box.data.sectors), 0, PART // 2, "old, too")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
    size = box.data.sectors
    bad, says = {
        "left": ((0, size - 1), "the end of the data disk"),
        "half": ((size // 2, size - 1), "the end of the data disk"),
        "other": ((0, size - 17), "nothing of the data disk"),
    }[which]
    if which == "other":
        with blk.Disk(box.data.node) as data:
            data.write(size - 16, bytes(16 * blk.SECTOR))
    else:
        base.run(META, "leave-log", box.data.node)
    model = Model(box.data.sectors)
    with blk.Disk(box.data.node) as data:
        filled(data, model, 0, PART, "newer")
    box.settings = "destage_idle_ms=1"
    box.data.unreadable(bad)
    healing = threading.Timer(14, box.data.heal)
    healing.start()
    with base.refused("a disk that gives nothing", errno.EIO, kernel=says):
        box.open()
    healing.join()
    with base.refused("it gives all again", errno.EMEDIUMTYPE):
        box.open()
    with blk.Disk(box.data.node) as data:
        check(data, model, "the data disk")
    box.away()


def another_log(grows: bool) -> None:
    what = "where the disk has ended" if grows else "at its end"
    base.step(f"over a mirror's leg that was given another log, {what}, the old one is there again")
    box = leg("none", 8)
    with box.disk() as disk:
        if grows:
            larger(box)
        filled(disk, Model(box.data.sectors), 0, PART, "old")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
    with blk.Disk(box.log.node, write=False) as log:
        old = [log.read(at, 512) for at in range(0, log.sectors, 512)]
    format_log(box.data.node, box.log.node, "none", "--force")
    with blk.Disk(box.log.node) as log:
        for n, part in enumerate(old):
            log.write(512 * n, part)
    with base.refused("the old log", errno.EMEDIUMTYPE, kernel="has another log by now"):
        box.open()
    base.equal(refusal(box, "recover"), "data_has_another", "dcd recover")
    box.away()


def made_anew(what: str) -> None:
    """The remote leg, on a LUN that has grown: its superblock of before stays behind the data."""
    base.step(f"{what}: an earlier superblock of this log, where the data disk ended before")
    box = Box(nvram="dram:battery", settings=HELD, data_spare_mib=8)
    local = ram.Ram("local", box.data_mib)
    base.run(META, "create", "--local", local.node, "--remote", box.data.node, "--assume-clean")
    format_log(box.data.node, box.log.node, "none", "--force")
    with lio.look(box.open()) as node:
        box.data.resize(box.data.sectors + (8 << 11))
        box.set("grow=1")
        base.put(Path("/sys/block", Path(node).name, "device/rescan"), 1)
        base.run(META, "join", "--source", local.node, "--leg", "remote", "--force", node)
        box.set("destage_idle_ms=1,destage_low=0")
        box.destaged()
        box.set(HELD)
        with blk.Disk(node) as disk:
            filled(disk, Model(box.data.sectors), 0, PART, "old")
    box.close()
    base.run(META, "leave-log", box.data.node)
    if what == "another":
        new = Disk("another", 3)
        format_log(box.data.node, new.node, "none")
    model = Model(box.data.sectors)
    with blk.Disk(box.data.node) as data:
        filled(data, model, 0, PART, "newer")
    box.settings = "destage_idle_ms=1"
    if what == "unread":
        box.data.unreadable((box.data.sectors - 16, box.data.sectors - 1))
        with base.refused("its end can't be read", errno.EIO, kernel="the end of the data disk"):
            box.open()
        base.equal(refusal(box, "recover"), "data_unread", "dcd recover")
        box.data.heal()
    says = "has another log by now" if what == "another" else "taken into use without"
    with base.refused("the old log", errno.EMEDIUMTYPE, kernel=says):
        box.open()
    base.equal(refusal(box, "recover"), f"data_{'has_another' if what == 'another' else 'left'}",
               "dcd recover")  # fmt: skip
    with blk.Disk(box.data.node) as data:
        check(data, model, "the data disk")
    if what == "another":
        new.remove()
    local.remove()
    box.away()


def one_slot(which: int, left: bool) -> None:
    base.step(f"the leg is told while its slot {which} can't be read, and opened while the other")
    box = leg("dram:battery")
    model = Model(box.data.sectors)
    first = box.data.sectors - 16
    with box.disk_until_cut() as disk:
        if left:
            filled(disk, model, 0, PART, "in the log")
        else:
            box.data.unreadable((first + 8 * which, first + 8 * which + 7))
            fails(box, model, disk)
            marked(box)
    box.log.heal()
    if left:
        box.data.unreadable((first + 8 * which, first + 8 * which + 7))
        base.run(META, "leave-log", box.data.node)
        model = Model(box.data.sectors)
        with blk.Disk(box.data.node) as data:
            filled(data, model, 0, PART, "newer")
    box.data.unreadable((first + 8 * (1 - which), first + 8 * (1 - which) + 7))
    if left:
        with base.refused("the old log", errno.EMEDIUMTYPE):
            box.open()
        with blk.Disk(box.data.node) as data:
            check(data, model, "the data disk")
    else:
        with box.disk() as disk:
            check(disk, model, "the log works")
    box.away()


def healed(box: Box, seconds: float = 0.5) -> None:
    time.sleep(seconds)
    box.data.heal()


def marked_idle() -> None:
    """A witness would be what the mirror has written there, and the log can't be told."""
    base.step("the log of an idle leg fails: what that says then is no other disk")
    box = leg("dram:battery")
    model = Model(box.data.sectors)
    with box.disk("destage_idle_ms=50") as disk:
        end = box.data.sectors - 16
        raw = disk.read(end, 16)
        filled(disk, model, 100, 300, "before", 10)
        disk.write(end, raw)
        box.destaged()
        box.log.fail("2 error_reads error_writes")
        box.set("leave_log=1")
        marked(box)
    box.log.heal()
    base.equal(tool(box, "check"), "clean", "dcd check")
    with box.disk() as disk:
        check(disk, model, "the log works")
    box.away()


def end_away() -> None:
    base.step("over a mirror's leg, whose end can't be read for half a second while it is opened")
    box = leg("dram:battery")
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        fails(box, model, disk)
        marked(box)
    box.log.heal()
    box.data.unreadable((box.data.sectors - 16, box.data.sectors - 1))
    beside = Beside(partial(healed, box))
    with box.disk() as disk:
        beside.result()
        check(disk, model, "the log works")
    box.away()


def file_away(how: str) -> None:
    base.step(f"{how}: the leg is no more, and a file's block there can't be read for a moment")
    box = leg("dram:battery")
    model = Model(box.data.sectors)
    at = box.data.sectors - 8
    with box.disk() as disk:
        filled(disk, model, at, at + 8, "a file")
        box.set("destage_idle_ms=1,destage_low=0")
        box.destaged()
        box.set(HELD)
        if how == "the log fails":
            box.data.unreadable((at, at + 7))
            # The leg is told 2.3 s after the log has failed.
            beside = Beside(partial(healed, box, 3))
            fails(box, model, disk)
            time.sleep(60)  # the file is to be there after all that comes of it
            beside.result()
    if how != "the log fails":
        box.data.unreadable((at, at + 7))
        beside = Beside(partial(healed, box))
        if how == "dcd retire":
            tool(box, "retire")
        else:
            base.run(META, "leave-log", box.data.node)
        beside.result()
    want = bytes(model.bytes[at * blk.SECTOR : (at + 8) * blk.SECTOR])
    base.expect(box.data.bytes(at, 8) == want, f"{how}: the file's block")
    base.put(FORGETS, 1)
    box.log.heal()
    with box.disk() if how == "the log fails" else contextlib.nullcontext():
        pass
    base.put(FORGETS, 0)
    box.away()


def works_again() -> None:
    base.step("over a mirror's leg, which has said it, and the log works again while it is open")
    box = leg("dram:battery")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        for turn in (1, 2):
            fails(box, model, disk)
            marked(box, turn)
            box.log.heal()
            box.says("log ok", "the log to work")
            filled(disk, model, 120, 140, "goes on", 10)
    with box.disk() as disk:
        check(disk, model, "after reopening")
    base.equal(tool(box, "recover"), "recovered", "dcd recover")
    base.expect(box.data.bytes(0, PART) == model.bytes[: PART * blk.SECTOR], "the data disk's")
    box.away()


def mirrored(idle: bool) -> None:
    how = "is idle" if idle else "writes, goes on alone, and gets the leg back"
    base.step(f"a mirror whose leg says it {how}")
    box = Box(settings=HELD)
    model = Model(box.data.sectors)
    local = ram.Ram("local", box.data_mib)
    with lio.look(box.open()) as remote:
        create(local.node, remote, "--assume-clean")
        mirror = assembled(local.node, remote)
        with blk.Disk(mirror.node) as disk:
            fails(box, model, disk)
            marked(box)
            seq = super_of(remote).seq
            if not idle:
                filled(disk, model, 140, 160, "alone", 10)
                mirror.wait("AD")
            box.log.heal()
            box.says("log ok", "the log to work")
            mirror.in_sync()
            filled(disk, model, 150, 180, "goes on", 10)
            check(disk, model, "the mirror")
        mirror.remove()
        print(f"  the leg's superblock: seq {seq}, then {super_of(remote).seq}", flush=True)
    box.close()
    with lio.look(box.open()) as remote:
        assembled(local.node, remote).in_sync()
        base.run("dmsetup", "remove", "mirror")
        with data_of(local.node) as one, data_of(remote) as other:
            base.equal(digest(one), digest(other), "the legs' data")
    box.close()
    local.remove()
    box.away()


def tools() -> None:
    base.step("over a mirror's leg, and dcd instead of the module")
    for command, state in (("recover", "recovered"), ("retire", "retired")):
        box = leg("dram:battery")
        model = Model(box.data.sectors)
        with box.disk() as disk:
            fails(box, model, disk)
        box.log.heal()
        base.equal(tool(box, command), state, f"dcd {command}")
        base.expect(box.data.bytes(0, PART) == model.bytes[: PART * blk.SECTOR], "the data disk's")
        box.away()


def tool(box: Box, command: str, what: str = "state") -> str:
    words = ("--data", box.data.node, "--log", box.log.node, "--json")
    done = subprocess.run([TOOL, command, *words], capture_output=True, text=True, check=False)
    base.equal(done.returncode, 0, f"exit code of dcd {command}: {done.stderr}")
    return str(json.loads(done.stdout)[what])


def refusal(box: Box, command: str) -> str:
    words = ("--data", box.data.node, "--log", box.log.node, "--json")
    done = subprocess.run([TOOL, command, *words], capture_output=True, text=True, check=False)
    base.expect(done.returncode, f"dcd {command} was accepted")
    return str(json.loads(done.stdout)["reason"])


def part_of_lun() -> None:
    base.step("a part of the LUN can't be a leg: nobody would find its superblock")
    box = Box(nvram="dram:battery", settings=HELD)
    local = ram.Ram("local", box.data_mib)
    made = ("create", "--local", local.node, "--assume-clean", "--force", "--remote")
    joined = ("join", "--source", local.node, "--leg", "remote", "--force")
    with lio.look(box.open()) as node:
        first, sectors = 2048, box.data.sectors - 4096
        blk.partition(node, blk.ADDED, first, sectors)
        base.until(Path(f"{node}1").exists, f"{node}1")
        for words in (made, joined):
            if words is joined:
                base.run(META, *made, node)
            said = statelab.refusal(*words, f"{node}1")
            base.expect("is a part of the LUN" in said, f"{words[0]} on a partition: {said}")
            volume = dm.create("volume", f"0 {sectors} linear {node} {first}")
            said = statelab.refusal(*words, volume)
            base.expect("is a part of the LUN" in said, f"{words[0]} on a volume: {said}")
            dm.remove("volume")
            half = box.data.sectors >> 1
            dm.create("halves", f"0 {half} linear {node} {half}\n{half} {half} linear {node} 0")
            volume = dm.create("volume", f"0 {2 * half} linear /dev/mapper/halves 0")
            said = statelab.refusal(*words, volume)
            base.expect("or made of it" in said, f"{words[0]} on what is made of it: {said}")
            dm.remove("volume")
            dm.remove("halves")
    box.close()
    local.remove()
    box.away()


PARTS = {
    "closed": lambda: closed("dram:battery"),
    "closed_volatile": lambda: closed("dram"),
    "leg": lambda: on_leg("dram:battery", False),
    "leg_cut": lambda: on_leg("dram:battery", True),
    "grown": grown,
    "grown_often": grown_often,
    "grown_over": grown_over,
    "grown_another": grown_another,
    "grown_unread": grown_unread,
    "left_grown": left_grown,
    "another_log": lambda: another_log(False),
    "another_log_grown": lambda: another_log(True),
    "left_away": lambda: left_away("left"),
    "half_away": lambda: left_away("half"),
    "other_away": lambda: left_away("other"),
    "given_up_0": lambda: given_up(0, True),
    "given_up_1": lambda: given_up(1, True),
    "given_up_end": lambda: given_up(0, False),
    "stale_unread": lambda: made_anew("unread"),
    "stale_another": lambda: made_anew("another"),
    "one_slot_0": lambda: one_slot(0, False),
    "one_slot_1": lambda: one_slot(1, False),
    "one_slot_left": lambda: one_slot(1, True),
    "marked_idle": marked_idle,
    "end_away": end_away,
    "part_of_lun": part_of_lun,
    "file_away_log": lambda: file_away("the log fails"),
    "file_away_retire": lambda: file_away("dcd retire"),
    "file_away_leave": lambda: file_away("lockstep-meta leave-log"),
    "works_again": works_again,
    "mirror_idle": lambda: mirrored(True),
    "mirror_alone": lambda: mirrored(False),
    "tools": tools,
}

for part in sys.argv[1:] or PARTS:
    PARTS[part]()
