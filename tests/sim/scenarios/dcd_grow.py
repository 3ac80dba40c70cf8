# SPDX-License-Identifier: GPL-2.0-only
"""The data disk gets larger while the LUN is in use: its size follows, every initiator is told
once, and no crash on the way, and no superblock that is lost later, takes what was written behind
the old end. It never gets smaller.
"""

import errno
import subprocess
import threading
import time
from pathlib import Path

from dcdlab import RING_START, SEGMENT, SITE, Box, Model, filled
from locklab import base, blk, dm, lio, media
from locklab.iscsi import Session
from locklab.wire import Wire

SMALL, LARGE = 8 << 11, 12 << 11
CHANGED = "capacity data has changed"
TEST = "TEST UNIT READY"
UNIT_ATTENTION = 6  # exit code of sg3-utils


def new_box() -> Box:
    return Box(data_mib=SMALL >> 11, data_spare_mib=8, nvram="lab")


def larger(model: Model, sectors: int) -> None:
    model.bytes.extend(bytes(sectors * blk.SECTOR - len(model.bytes)))


def grow(store: lio.Backstore) -> None:
    base.put(store.path / "control", "grow=1")


def lun_sectors(node: str) -> int:
    """By READ CAPACITY, not what the block layer knows."""
    done = subprocess.run(["sg_readcap", "--16", "--brief", node], capture_output=True, text=True)
    base.equal(done.returncode, 0, f"sg_readcap: {done.stderr}")
    return int(done.stdout.split()[0], 16)


def sg(what: str, node: str) -> tuple[int, str]:
    words = ["sg_raw", node, *["00"] * 6] if what == TEST else [what, node]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).lower()


def rescan(node: str, sectors: int) -> None:
    base.put(Path("/sys/block") / Path(node).name / "device/rescan", 1)
    base.equal(dm.sectors(node), sectors, f"the size of {node} after a rescan")


def told_once(node: str, how: str) -> None:
    """By the first command that may tell; INQUIRY isn't one."""
    base.equal(sg("sg_inq", node)[0], 0, "INQUIRY")
    code, said = sg(how, node)
    base.expect(CHANGED in said, f"{how} of {node}: {code}, {said}")
    base.expect(code == (UNIT_ATTENTION if how == TEST else 0), f"{how}: {code}, {said}")
    for again in ("sg_requests", TEST):
        code, said = sg(again, node)
        base.expect(code == 0 and CHANGED not in said, f"{again} told {node} again: {said}")


def online() -> None:
    base.step("two initiators: each is told once; data behind the old end survive a cut")
    box = new_box()
    model = Model(SMALL)
    store = box.open()
    wire, target, session = Wire("lan"), lio.Target(store), Session()
    far = session.login()
    with lio.look(store) as near, blk.Disk(far) as disk:
        filled(disk, model, 0, SMALL, "before", 512)
        going = threading.Event()
        load = threading.Thread(target=lambda: keep_writing(far, going))
        load.start()
        box.data.resize(LARGE)
        base.equal(lun_sectors(near), SMALL, "blocks of the LUN before it is told to grow")
        grow(store)
        base.equal(int(store.info().split("data_sectors ")[1].split()[0]), LARGE, "in info")
        going.set()
        load.join()  # its writes were not disturbed: one of them was told, and done again
        told_once(near, TEST)
        base.equal(sg(TEST, far)[0], 0, "TEST UNIT READY of who was told by a write")
        base.step("grown again, then told nothing new: no initiator hears of it")
        box.data.resize(LARGE + 8)
        grow(store)
        told_once(far, "sg_requests")
        told_once(near, TEST)
        grow(store)
        for node in (far, near):
            base.equal(sg(TEST, node)[0], 0, f"TEST UNIT READY of {node}")
        base.equal(lun_sectors(far), LARGE + 8, "blocks of the LUN")
        with base.refused("a write behind the end that the primary knows", errno.ENOSPC):
            disk.write(SMALL, blk.pattern("early", 8))
        rescan(far, LARGE + 8)
        rescan(near, LARGE + 8)
    larger(model, LARGE + 8)
    with blk.Disk(far) as disk:
        filled(disk, model, SMALL - 32, LARGE + 8, "behind the old end")
        disk.flush()
        shrink(box, store)
        model.check(disk, "before the cut")
        media.cut(SITE, base.SEED)
    session.close()
    target.remove()
    wire.close()
    box.close()
    box.power_on()
    with box.disk() as disk:
        base.equal(disk.sectors, LARGE + 8, "the size after the cut")
        model.check(disk, "after the cut")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


def keep_writing(node: str, until: threading.Event) -> None:
    """The first sectors, with what they have."""
    with blk.Disk(node) as disk:
        while not until.is_set():
            disk.write(0, blk.pattern("before 0", 512))
        disk.write(0, blk.pattern("before 0", 512))


def shrink(box: Box, store: lio.Backstore) -> None:
    box.data.resize(SMALL)
    with base.refused("to shrink", errno.EINVAL, kernel="can't be made smaller"):
        grow(store)
    box.data.resize(LARGE + 8)
    grow(store)


def while_closed() -> None:
    base.step("it grew while the DCD was closed, or before it was told: refused, or as it is said")
    box = new_box()
    model = Model(SMALL)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, SMALL, "before", 512)
        box.data.resize(LARGE)
    with base.refused("a larger disk", errno.EMEDIUMTYPE, kernel="say grow=1"):
        box.open()
    larger(model, LARGE)
    with box.disk("grow=1") as disk:
        base.equal(disk.sectors, LARGE, "the size")
        filled(disk, model, SMALL - 8, LARGE, "behind")
    with box.disk() as disk:
        model.check(disk, "as usual, then")
    box.data.resize(SMALL)
    with base.refused("a smaller disk", errno.EMEDIUMTYPE, kernel="wrong data disk"):
        box.open("grow=1")
    box.data.resize(LARGE)
    box.away()


def refused_at_opening() -> None:
    base.step("it grew while closed, and the log can't be told: refused, nothing is left behind")
    box = new_box()
    model = Model(SMALL)
    with box.disk() as disk:
        filled(disk, model, 0, 512, "before")
        box.destaged()
    box.data.resize(LARGE)
    box.log.fail_writes()
    for _ in range(2):
        with base.refused("a log that can't be told", errno.EIO, kernel="can't be written"):
            box.open("grow=1")
    time.sleep(12)  # simulated: whatever would try again has had its time
    box.log.heal()
    larger(model, LARGE)
    with box.disk("grow=1") as disk:
        base.equal(disk.sectors, LARGE, "the size")
        model.check(disk, "with the log back")
    box.away()


def one_superblock_lost() -> None:
    base.step("either copy of the superblock is damaged after it has grown")
    box = new_box()
    model = Model(SMALL)
    with box.disk() as disk:
        filled(disk, model, 0, 1024, "before")
        box.destaged()
        box.data.fail_writes()  # so that no later superblock is written
        box.data.resize(LARGE)
        box.data.fail_writes()
        before = box.log.bytes(0, 8), box.log.bytes(8, 8)
        assert box.store
        grow(box.store)
        rescan(disk.node, LARGE)
        larger(model, LARGE)
        with blk.Disk(disk.node) as again:
            filled(again, model, LARGE - 1024, LARGE, "behind")
    with blk.Disk(box.log.node) as log:  # as a crash between the two leaves it
        newer = max((0, 1), key=lambda copy: int.from_bytes(log.read(8 * copy, 1)[56:64], "little"))
        log.write(8 * (1 - newer), before[1 - newer])
    box.open()
    box.close()
    for copy in (0, 1):
        with blk.Disk(box.log.node) as log:
            whole = log.read(8 * copy, 8)
            log.write(8 * copy, whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        with box.disk() as disk:
            model.check(disk, f"without copy {copy}")
        with blk.Disk(box.log.node) as log:
            log.write(8 * copy, whole)
    box.data.heal()
    box.away()


def cut_at(us: int) -> str:
    """The log takes 10 ms for a request, and the power is cut so long after the command."""
    box = new_box()
    model = Model(SMALL)
    store = box.open()
    with lio.look(store) as node, blk.Disk(node) as disk:
        filled(disk, model, 0, 2048, "before")
        box.data.resize(LARGE)
        box.log.slow(10)
        errors: list[OSError] = []
        done = threading.Event()

        def command() -> None:
            try:
                grow(store)
                done.set()
            except OSError as err:
                errors.append(err)

        admin = threading.Thread(target=command)
        admin.start()
        time.sleep(us / 1e6)
        grown = done.is_set()
        if grown:
            rescan(node, LARGE)
            larger(model, LARGE)
            with blk.Disk(node) as again:
                filled(again, model, LARGE - 64, LARGE, "behind")
        media.cut(SITE, base.SEED)
        admin.join()
    box.close()
    box.power_on()
    larger(model, LARGE)
    try:
        box.open()
        box.close()
        known = True
    except OSError:
        base.expect(not grown, "what was done is forgotten")
        known = False
    with box.disk("grow=1") as disk:
        base.equal(disk.sectors, LARGE, "the size in the end")
        model.check(disk, f"cut after {us} us")
    box.away()
    return f"{'done' if grown else 'under way'}, {'known' if known else 'not known'} afterwards"


def cuts() -> None:
    base.step("the power is cut on the way")
    seen = {cut_at(us) for us in range(1000, 90000, 40000 if base.CHECKED else 11000)}
    print(f"  {sorted(seen)}", flush=True)
    base.expect(base.CHECKED or len(seen) >= 3, f"cuts met only {seen}")


def log_fails() -> None:
    base.step("the log fails: it stays as it was, and grows when the log is back")
    box = new_box()
    model = Model(SMALL)
    with box.disk() as disk:
        filled(disk, model, 0, 1024, "before")
        box.data.resize(LARGE)
        box.log.fail_writes()
        assert box.store
        for _ in range(2):
            with base.refused("to grow", errno.EIO, kernel="log"):
                grow(box.store)
        base.equal(lun_sectors(disk.node), SMALL, "blocks of the LUN")
        box.log.heal()
        box.says("log ok", "the log to work again")
        grow(box.store)
        rescan(disk.node, LARGE)
        larger(model, LARGE)
        with blk.Disk(disk.node) as again:
            filled(again, model, LARGE - 64, LARGE, "behind")
            model.check(again, "in the end")
    box.away()


def log_hangs() -> None:
    base.step("the log takes a minute for each request: it is refused, and nobody waits for that")
    box = new_box()
    model = Model(SMALL)
    with box.disk() as disk:
        filled(disk, model, 0, 1024, "before")
        box.destaged()
        box.data.resize(LARGE)
        box.log.slow(60_000)
        assert box.store
        began = time.monotonic()
        with base.refused("to grow", errno.EIO, kernel="can't grow while the log"):
            grow(box.store)
        took = time.monotonic() - began
        print(f"  refused after {took:.1f} s", flush=True)
        base.expect(took < 6, f"it took {took:.1f} s")
        box.log.heal()
    box.away()


def hangs() -> None:
    base.step(
        "the data disk hangs: it grows when that answers, and its counters are told meanwhile"
    )
    box = new_box()
    model = Model(SMALL)
    with box.disk() as disk:
        assert box.store
        filled(disk, model, 0, 1024, "before")
        box.data.resize(LARGE)
        dm.suspend(box.data.name)
        base.until(lambda: box.count("rounds") > 0, "the destager to begin")
        time.sleep(0.1)  # and to be at the disk
        admin = threading.Thread(target=grow, args=(box.store,))
        admin.start()
        said: list[int] = []
        told_by, names = box.store, ("stat_writes", "stat_log_live")
        reader = threading.Thread(
            target=lambda: said.extend(int(told_by.attribute(name)) for name in names)
        )
        reader.start()
        reader.join(5)
        waits, told = admin.is_alive(), not reader.is_alive()
        dm.resume(box.data.name)
        admin.join(60)
        reader.join(60)
        base.expect(waits, "the disk didn't hang")
        base.expect(told and min(said) > 0, f"counters wait for the disk: {said}")
        rescan(disk.node, LARGE)
        larger(model, LARGE)
        with blk.Disk(disk.node) as again:
            model.check(again, "in the end")
    box.away()


def beside_a_move() -> None:
    base.step("it grows while the log's first bad block is moved, which the superblock says")
    box = Box(data_mib=SMALL >> 11, data_spare_mib=8, nvram="lab", log_mib=3,
              settings="destage_idle_ms=3600000,destage_low=98,destage_high=99")  # fmt: skip
    model = Model(SMALL)
    store = box.open()
    with lio.look(store) as node, blk.Disk(node) as disk:
        opened = box.count("superblocks")
        filled(disk, model, 0, 256, "before")
        base.until(lambda: " 0 in use" in box.info(), "all in the log")
        bad = RING_START // blk.SECTOR + (box.count("segments") + 1) * SEGMENT // blk.SECTOR + 24
        box.log.refuse_and_dawdle((bad, bad + 7), (0, 15), 1000)
        box.data.resize(LARGE)
        filled(disk, model, 1024, 1088, "over the bad block", 64)
        time.sleep(1.5)
        base.equal(box.count("superblocks"), opened, "superblocks: the next takes a second")
        grow(store)
        base.until(lambda: box.count("superblocks") >= opened + 4, "two by each")
        base.equal(box.count("blocks_moved"), 1, "blocks moved")
        rescan(node, LARGE)
        larger(model, LARGE)
        with blk.Disk(node) as again:
            filled(again, model, LARGE - 64, LARGE, "behind")
        media.cut(SITE, base.SEED)
    box.close()
    box.power_on()
    with box.disk() as disk:
        base.equal(disk.sectors, LARGE, "the size after the cut")
        model.check(disk, "after the cut")
    box.away()


refused_at_opening()
beside_a_move()
online()
hangs()
cuts()
if not base.CHECKED:
    log_fails()
    log_hangs()
    while_closed()
    one_superblock_lost()
base.step("done")
