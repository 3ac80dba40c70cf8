# SPDX-License-Identifier: GPL-2.0-only
"""Media errors of the NVRAM: nobody loads what is a machine check, and nothing is lost untold.

A slot that has one is retired, what was only there is a medium error until it is written over,
and what can't be known is refused; by the module and by `dcd check` and `dcd recover` alike.
"""

import errno
import json
import random
import subprocess
import sys
import time

from dcdlab import SITE, TOOL, Box, Model, filled, some_write
from locklab import base, blk, dm, lio, media
from poisonlab import BLOCK, HELD, PAYLOAD, PER_SLOT, TABLE, box_of, poison, sector_of, slot_of

SLOTS = 6
WRITES, SIZE = 20, 3


def raw(box: Box) -> bytes:
    with blk.Disk(box.view, write=False) as disk:
        return disk.read(0, box.nvram_bytes // blk.SECTOR)


def put_back(box: Box, content: bytes) -> None:
    """By the driver's way, so it ends media errors too."""
    with blk.Disk(box.view) as disk:
        disk.write(0, content)


def words(box: Box) -> tuple[str, ...]:
    return ("--data", box.data.node, "--log", box.log.node, "--nvram", box.view)


def tool(box: Box, command: str, *more: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run([TOOL, command, *words(box), "--json", *more], capture_output=True,
                          text=True, check=False)  # fmt: skip
    return done.returncode, json.loads(done.stdout) if done.stdout else {"message": done.stderr}


def retired(box: Box, number: int) -> None:
    base.until(lambda: box.count("slots_retired") == number, f"{number} slots to be retired")
    base.expect("slots_retired" in box.info(), box.info())
    assert box.store
    base.equal(box.store.attribute("stat_slots_retired"), str(number), "the attribute")


def bad(disk: blk.Disk, first: int, count: int) -> None:
    with base.refused(f"a read of {first} + {count}", errno.ENODATA):
        disk.read(first, count)


def until_cut(box: Box, model: Model, tag: str) -> None:
    """Writes that are nowhere but in NVRAM."""
    with box.disk_until_cut() as disk:
        for n in range(WRITES):
            model.put(n * 16, data := blk.pattern(f"{tag} {n}", SIZE))
            disk.write(n * 16, data)


def free() -> None:
    base.step("in slots that have nothing which counts")
    box = box_of()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 2000, "before", 16)
    poison(box, BLOCK // blk.SECTOR + PER_SLOT + TABLE)
    poison(box, BLOCK // blk.SECTOR + 2 * PER_SLOT + PAYLOAD + 5, 9)
    code, said = tool(box, "check")
    base.equal((code, said["state"]), (4, "media_errors"), f"check: {said}")
    with box.disk() as disk:
        retired(box, 2)
        base.equal(box.count("slots"), SLOTS - 2, "slots that are left")
        model.check(disk, "opened")
        for turn in range(3):
            filled(disk, model, 0, 3000, f"after {turn}", 16)
        model.check(disk, "goes on")
        base.equal(box.count("nvram_lost"), 0, "lost")
    until_cut(box, model, "newest")
    with box.disk() as disk:
        model.check(disk, "recovered")
    box.away()


def headers() -> None:
    for what, sector in (("header 0", 0), ("end 0", 2), ("header 1", 4), ("end 1", 6), ("none", 1)):
        base.step(f"in the headers' page: {what}")
        box = box_of()
        model = Model(box.data.sectors)
        until_cut(box, model, what)
        poison(box, sector)
        dm.message(f"nv{box.tag}", "unclearable 1")
        with base.refused(what, errno.EIO, kernel="can't be cleared"):
            lio.Backstore("dcd", "bad", box.control())
        base.equal(tool(box, "check")[0], 4, "check")
        dm.message(f"nv{box.tag}", "unclearable 0")
        with box.disk() as disk:
            model.check(disk, "recovered")
        raw(box)  # it can be read again
        until_cut(box, model, "again")
        with box.disk() as disk:
            model.check(disk, "and once more")
        box.away()
    base.step("both headers")
    box = box_of()
    poison(box, 0)
    poison(box, 4)
    with base.refused("both headers", errno.EMEDIUMTYPE, kernel="no valid DCD header"):
        lio.Backstore("dcd", "bad", box.control())
    base.equal(tool(box, "check")[0], 4, "check")
    box.away()


def payload() -> None:
    base.step("where an acknowledged write is, and nowhere else")
    box = box_of(HELD)
    model = Model(box.data.sectors)
    until_cut(box, model, "only there")
    at = sector_of(box, bytes(model.bytes[5 * 16 * blk.SECTOR :]))
    poison(box, at + 1)
    code, said = tool(box, "check")
    base.equal((code, said["state"]), (4, "lost"), f"check: {said}")
    base.equal(said["lost"], [{"first_entry": 6, "last_entry": 6, "sector": 80, "sectors": SIZE}],
               "what check says is lost")  # fmt: skip
    code, said = tool(box, "recover")
    base.equal((code, said["state"]), (1, "refused"), f"recover: {said}")
    with box.disk() as disk:
        base.equal(box.count("nvram_lost"), SIZE, "lost sectors")
        retired(box, 1)
        bad(disk, 80, SIZE)
        bad(disk, 0, 320)
        filled(disk, model, 1000, 3000, "so that no slot has it", 16)
    with box.disk() as disk:
        bad(disk, 80, SIZE)
        bad(disk, 0, 320)
        model.put(80, data := blk.pattern("written over", SIZE))
        disk.write(80, data)
        model.check(disk, "written over")
        box.set("destage_idle_ms=1")
        box.destaged()
        model.check(disk, "destaged")
        base.expect("log ok" in box.info(), box.info())
    base.step("the same, written over by a later one before the cut")
    box.settings = ""
    with box.disk_until_cut() as disk:
        for turn in range(2):
            model.put(800, data := blk.pattern(f"turn {turn}", SIZE))
            disk.write(800, data)
            if not turn:
                at = sector_of(box, data)
    poison(box, at)
    with box.disk() as disk:
        model.check(disk, "recovered")
    box.away()


def salvaged() -> None:
    base.step("the same by the command")
    box = box_of()
    model = Model(box.data.sectors)
    until_cut(box, model, "only there")
    at = sector_of(box, bytes(model.bytes[5 * 16 * blk.SECTOR :]))
    poison(box, at + 2)
    code, said = tool(box, "recover", "--salvage")
    base.equal((code, said["state"]), (3, "salvaged"), f"salvage: {said}")
    base.equal(said["lost"], [{"first_entry": 6, "last_entry": 6, "sector": 80, "sectors": SIZE}],
               "what it says is lost")  # fmt: skip
    model.put(80, bytes(SIZE * blk.SECTOR))
    with blk.Disk(box.data.node) as disk:
        model.check(disk, "salvaged")
    base.step("and with the log formatted anew the media errors are gone")
    base.run(TOOL, "format", *words(box), "--force")
    with box.disk() as disk:
        base.equal(box.count("slots_retired"), 0, "retired")
        model.check(disk, "formatted")
    raw(box)
    box.away()


def table() -> None:
    box = box_of()
    model = Model(box.data.sectors)
    until_cut(box, model, "only there")
    good = raw(box)
    first = slot_of(sector_of(box, bytes(model.bytes[: blk.SECTOR])))
    lost = "acknowledged writes may be lost"
    for what, sectors, text in (
        ("in the middle of the table", (first + TABLE + 1,), lost),
        ("at its end", (first + TABLE + 2,), lost),
        ("all of it", range(first + TABLE, first + PAYLOAD), lost),
        ("its end and an end record", (first + TABLE + 2, 2, 6), "may be"),
        ("behind its end, and an end record", (first + TABLE + 3, 6), "may have been"),
        ("another slot's, and an end record", (first + PER_SLOT + TABLE, 2), "may have been"),
    ):
        base.step(f"where entries are: {what}")
        for sector in sectors:
            poison(box, sector)
        with base.refused(what, errno.EUCLEAN, kernel=text):
            lio.Backstore("dcd", "bad", box.control())
        for command, code in (("check", 4), ("recover", 1)):
            done, said = tool(box, command)
            base.equal((done, said["state"]), (code, "refused"), f"{command}: {said}")
            base.expect(text in str(said["message"]), f"{command}: {said}")
        put_back(box, good)
    base.step("behind its end alone")
    poison(box, first + TABLE + 3)
    with box.disk() as disk:
        retired(box, 1)
        model.check(disk, "recovered")
    box.away()


def reads() -> None:
    base.step("while it is open: what the log has too")
    box = box_of(HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 320, "in the log and a slot", 16)
        time.sleep(1)
        poison(box, sector_of(box, bytes(model.bytes[64 * blk.SECTOR :])))
        model.check(disk, "by the log")
        retired(box, 1)
        base.expect(box.count("nvram_errors") > 0 and box.count("nvram_lost") == 0, box.info())
        filled(disk, model, 0, 3000, "goes on", 16)
        model.check(disk, "goes on")
        box.set("destage_idle_ms=1")
        box.destaged()
        model.check(disk, "destaged")
    with box.disk() as disk:
        retired(box, 1)
        model.check(disk, "opened again")
    box.away()


def commit() -> None:
    base.step("while it is open: what the log hasn't yet")
    box = box_of(HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 96, "only in NVRAM", 16)
        at = sector_of(box, bytes(model.bytes[64 * blk.SECTOR :]))
        poison(box, at)
        poison(box, slot_of(at) + TABLE)  # of which memory has a copy
        bad(disk, 64, 16)
        retired(box, 1)
        time.sleep(1)
        bad(disk, 64, 16)
        base.equal(disk.read(0, 64), bytes(model.bytes[: 64 * blk.SECTOR]), "before it")
        base.equal(disk.read(80, 16), bytes(model.bytes[80 * blk.SECTOR : 96 * blk.SECTOR]),
                   "behind it")  # fmt: skip
        filled(disk, model, 1000, 3000, "goes on", 16)
        box.set("destage_idle_ms=1")
        base.until(
            lambda: box.data.bytes(80, 16) == model.bytes[80 * blk.SECTOR : 96 * blk.SECTOR],
            "what can be read to be destaged",
        )
        base.expect(not any(box.data.bytes(64, 16)), "the data disk got what nobody can read")
        filled(disk, model, 64, 80, "written over", 16)
        box.destaged()
        model.check(disk, "written over")
        base.expect("log ok" in box.info(), box.info())
    box.away()


def places() -> None:
    for clears in (1, 0):
        base.step(
            f"where the next write goes, {'cleared by' if clears else 'not even by'} the driver"
        )
        box = box_of()
        model = Model(box.data.sectors)
        with box.disk_until_cut() as disk:
            dm.message(f"nv{box.tag}", f"unclearable {1 - clears}")
            filled(disk, model, 0, 8 * 8, "only in NVRAM", 8)
            at = sector_of(box, bytes(model.bytes[56 * blk.SECTOR :]))
            poison(box, at + 8 + 3)
            if clears:
                poison(box, slot_of(at) + TABLE + 1)
            filled(disk, model, 64, 128, "there", 8)
            retired(box, 1)
            model.check(disk, "nothing is lost")
            base.equal(
                box.count("nvram_mended" if clears else "nvram_unmended"), 1 + clears, "mends"
            )
            if not clears:
                box.destaged()
        with box.disk() as disk:
            model.check(disk, "recovered")
            base.equal(box.count("nvram_lost"), 0, "lost")
        box.away()


def dead_log() -> None:
    base.step("with the log dead")
    box = box_of()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 320, "before", 16)
        box.destaged()
        box.log.fail_writes()
        filled(disk, model, 0, 1000, "past the log", 16)
        box.says("log FAILING", "the log to be found dead")
        base.until(lambda: box.data.bytes(0, 1000) == model.bytes[:512000], "the data disk's turn")
        poison(box, sector_of(box, bytes(model.bytes[984 * blk.SECTOR :])))
        dm.message(f"nv{box.tag}", "unclearable 1")
        filled(disk, model, 0, 3000, "on", 16)
        retired(box, 1)
        model.check(disk, "past the log")
        box.log.heal()
        box.says("log ok", "the log to work again")
        filled(disk, model, 0, 3000, "by the log", 16)
        model.check(disk, "by the log again")
    box.away()


def no_write() -> None:
    base.step("NVRAM has what is damaged in the log, and the log takes no write")
    box = box_of(HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 320, "in the log and a slot", 16)
    with blk.Disk("/dev/mapper/log-medium") as medium:
        at = medium.read(0, medium.sectors).find(model.bytes[64 * blk.SECTOR : 65 * blk.SECTOR])
        damaged = bytearray(medium.read(at // blk.SECTOR, 1))
        damaged[7] ^= 4
        medium.write(at // blk.SECTOR, bytes(damaged))
    box.log.fail_writes()
    base.equal(tool(box, "recover")[0], 1, "recover, which can't mark the log")
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk lacks some")
    with box.disk() as disk:
        model.check(disk, "opened")
        filled(disk, model, 160, 480, "past the log", 16)
        model.check(disk, "past the log")
        box.log.heal()
        box.says("log ok", "the log to work again")
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def worn() -> None:
    base.step("everywhere")
    box = box_of()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 640, "before", 16)
        box.destaged()
        dm.message(f"nv{box.tag}", "unclearable 1")
        filled(disk, model, 1000, 1016, "to the last good one", 16)
        good = slot_of(sector_of(box, bytes(model.bytes[1000 * blk.SECTOR :])))
        for slot in range(SLOTS):
            first = BLOCK // blk.SECTOR + slot * PER_SLOT
            if first != good:
                poison(box, first + PAYLOAD, PER_SLOT - PAYLOAD)
        with base.refused("the next write", errno.EIO, kernel="too few: writes are refused"):
            for n in range(40):  # as many as fill the good one each time that one is retired
                filled(disk, model, 1016 + n * 16, 1032 + n * 16, "next", 16)
        retired(box, SLOTS - 1)
        base.equal(disk.read(0, 640), bytes(model.bytes[: 640 * blk.SECTOR]), "reads go on")
        box.destaged()
    with base.refused("one good slot", errno.EIO, kernel="two good ones are needed"):
        lio.Backstore("dcd", "bad", box.control())
    base.equal(tool(box, "recover")[0], 0, "recover")
    with blk.Disk(box.data.node) as disk:
        base.equal(disk.read(0, 640), bytes(model.bytes[: 640 * blk.SECTOR]), "recovered")
    box.away()


def forgets() -> None:
    base.step("an NVRAM that isn't one")
    box = box_of()
    dm.message(f"nv{box.tag}", "forgets 1")
    with base.refused("not persistent", errno.EOPNOTSUPP, kernel="isn't persistent"):
        lio.Backstore("dcd", "bad", box.control())
    dm.message(f"nv{box.tag}", "forgets 0")
    with box.disk():
        pass
    box.away()


def holds(disk: blk.Disk, model: Model, may_fail: bool) -> int:
    """Each sector is right or a medium error; how many are."""
    errors = 0
    for at in range(0, disk.sectors, 8):
        try:
            got = disk.read(at, 8)
        except OSError as err:
            base.expect(err.errno == errno.ENODATA and may_fail, f"a read of {at}: {err}")
            errors += 8
            continue
        want = bytes(model.bytes[at * blk.SECTOR : (at + 8) * blk.SECTOR])
        base.expect(got == want, f"sectors {at} to {at + 7} are others")
    return errors


def chance() -> None:
    """Anywhere, at any time, with power cuts: right, or an error, or refused; never other bytes."""
    errors = refusals = gone = 0
    for life in range(12):
        rng = random.Random(f"poison {base.SEED} {life}")
        box = box_of(slots=8)
        model = Model(box.data.sectors)
        hit = False
        for lap in range(3):
            try:
                opened = box.open()
            except OSError as err:
                base.expect(hit and err.errno == errno.EUCLEAN, str(err))
                refusals += 1
                break
            with lio.look(opened) as node, blk.Disk(node) as disk:
                for n in range(rng.randrange(20, 120)):
                    some_write(disk, model, rng, f"{life} {lap} {n}", within=2048)
                    if rng.random() < 0.02:
                        hit = True
                        poison(box, 8 + rng.randrange(8 * PER_SLOT - 8), rng.choice((1, 1, 8)))
                    if rng.random() < 0.1:
                        time.sleep(0.05)
                errors += holds(disk, model, hit)
                gone += box.count("slots_retired")
                media.cut(SITE, rng.randrange(1 << 30))
            box.close()
            box.power_on()
            if rng.random() < 0.5:
                hit = True
                poison(box, 8 + rng.randrange(8 * PER_SLOT - 64), rng.choice((1, 8, 64)))
        box.away()
    print(f"  {errors} sectors were errors, {refusals} openings refused, {gone} slots retired")
    base.expect(gone > 10, "nothing of it happened")


PARTS = {
    "free": free, "headers": headers, "payload": payload, "salvaged": salvaged, "table": table,
    "reads": reads, "commit": commit, "places": places, "dead_log": dead_log,
    "no_write": no_write, "worn": worn, "forgets": forgets, "chance": chance,
}  # fmt: skip
for name in sys.argv[1:] or PARTS:
    PARTS[name]()
