# SPDX-License-Identifier: GPL-2.0-only
"""A leg fails or hangs at a bad moment: the mirror gets on, and keeps what it promises. Each part
was found by a review.

Args: the part.
"""

import errno
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import statelegs
from locklab import base, blk, dm, mirror
from mirrorlab import LOAD, Beside, Leg, Pair
from statelab import create, super_of

MIB = 8
NEW = blk.pattern("new", 8)


class World:
    def __init__(self, *options: object) -> None:
        self.local, self.remote = Leg("llocal", mib=MIB), Leg("lremote", mib=MIB)
        create(self.local.node, self.remote.node, "--assume-clean")
        self.table = mirror.table(
            self.local.node, self.remote.node, "remote_timeout", 2000,
            *(() if "rejoin" in options else ("rejoin", 1)), *options,
            sectors=super_of(self.local.node).data_sectors,
        )  # fmt: skip
        self.node = dm.create("mirror", self.table)

    def put(self, at: int) -> None:
        with blk.Disk(self.node) as disk:
            disk.write(at, NEW)

    def health(self) -> str:
        return mirror.parse(dm.status("mirror")).health

    def ends(self, what: str, work: Beside, seconds: float) -> None:
        base.until(lambda: work.done, f"{what}; status {dm.status('mirror')}", seconds)
        work.result()

    def close(self) -> None:
        if dm.exists("mirror"):
            dm.remove("mirror")
        for leg in (self.local, self.remote):
            leg.close()


def reloaded(fails: str) -> None:
    for clean in (False, True):
        reloaded_when(fails, clean)


def reloaded_when(fails: str, clean: bool) -> None:
    base.step(f"the {fails} leg fails, nobody has noticed, and the table is exchanged; {clean=}")
    w = World()
    w.put(0)
    if clean:
        time.sleep(65)
    (w.local if fails == "local" else w.remote).gone()
    dm.reload("mirror", w.table)
    w.ends("the write", Beside(lambda: w.put(8)), 10)
    base.equal(w.health(), "DA" if fails == "local" else "AD", "health")
    w.close()


def blocked(target: bool) -> None:
    base.step(f"policy block: a write that the remote leg has failed, which is back; {target=}")
    w = World("policy", "block", "resync_rate", 1)
    at = 2048
    if target:
        dm.message("mirror", "resync")
        base.until(lambda: w.health() == "Aa", "a target", 10)
        time.sleep(1)
    disk = w.local.disk
    w.local.table("\n".join((
        f"0 {at} linear {disk.node} 0",
        f"{at} 64 delay {disk.node} {at} 0 {disk.node} {at} 3000",
        f"{at + 64} {disk.sectors - at - 64} linear {disk.node} {at + 64}",
    )))  # fmt: skip
    w.remote.gone()
    write = Beside(lambda: w.put(at))
    time.sleep(0.2)
    dm.message("mirror", "fail remote")
    w.remote.well()
    dm.message("mirror", "recover")
    w.ends("the write", write, 60)
    with blk.Disk(w.remote.disk.node, write=False) as there:
        base.expect(there.read(at, 8) == NEW, "acknowledged, and the remote leg hasn't got it")
    w.close()


def held_again() -> None:
    """Found by the four-thousandth seeded life."""
    base.step("policy block: held with one leg's answer, sent again, held again, failed as told")
    w = World("policy", "block", "rejoin", 0)
    w.put(0)
    w.remote.fail_writes()
    writes = [Beside(partial(w.put, at)) for at in (0, 640, 1280)]
    base.until(lambda: "blocked" in dm.status("mirror"), "blocked", 10)
    dm.message("mirror", "recover")  # it answers, and fails the first that is sent again
    base.until(lambda: "blocked" in dm.status("mirror"), "blocked again", 10)
    base.expect(not any(write.done for write in writes), "a write has ended")
    dm.message("mirror", "fail_held")
    for write in writes:
        with base.refused("a held write", errno.EIO):
            write.result()
    w.remote.well()
    dm.message("mirror", "recover")
    base.until(lambda: w.health() == "AA", "in sync", 60)
    dm.remove("mirror")
    blk.same(w.local.node, w.remote.node, super_of(w.local.node).data_sectors)
    w.close()


def silent(what: str) -> None:
    base.step(f"the only good leg hangs, and all that is out is a read of a {what}: remove ends")
    w = World("resync_pace", "full", "resync_rate", 64)
    hangs = w.local
    if what == "resync":
        hangs = w.remote
        dm.message("mirror", "fail local")
        with blk.Disk(w.node) as disk:
            disk.write(0, blk.pattern("new", 256))
        dm.message("mirror", "resync_rate 1")
        dm.message("mirror", "recover")
        base.until(lambda: w.health() == "aA", "a target", 10)
    else:
        dm.message("mirror", "verify check")
    time.sleep(0.5)
    hangs.hang()
    time.sleep(15)
    if what == "verify":
        w.ends("verify stop", Beside(lambda: dm.message("mirror", "verify stop")), 4)
    remove = Beside(lambda: dm.remove("mirror"))
    base.until(lambda: remove.done, "remove waits for a read that nobody needs", 10)
    remove.result()
    hangs.wake()
    dm.create("mirror", w.table)
    base.until(lambda: w.health() == "AA", "in sync", 60)
    w.close()


def parting() -> None:
    base.step("the local leg can't say that it is alone: the remote one is as good as before")
    w = World()
    w.put(0)
    disk = w.local.disk
    end = disk.sectors - 16
    w.local.table(f"0 {end} linear {disk.node} 0\n"
                  f"{end} 16 flakey {disk.node} {end} 0 3600 1 error_writes")  # fmt: skip
    w.remote.gone()
    log = base.KernelLog()
    for n in range(200):
        with base.refused("a write", errno.EIO):
            w.put(8 * n)
    lines = [line for line in log.new() if "can't write the metadata" in line]
    base.expect(0 < len(lines) < 30, f"{len(lines)} lines in the log")
    w.remote.well()
    w.ends("recover", Beside(lambda: dm.message("mirror", "recover")), 10)
    w.put(0)
    w.local.well()
    base.until(lambda: w.health() == "AA", "in sync", 60)
    dm.remove("mirror")
    blk.same(w.local.node, w.remote.node, super_of(w.local.node).data_sectors)
    w.close()


def stalled_world() -> World:
    """The source of a resync, the remote leg, can't be read in its first sectors."""
    w = World()
    dm.message("mirror", "fail local")
    with blk.Disk(w.node) as disk:
        disk.write(0, blk.pattern("new", 256))
    disk_ = w.remote.disk
    w.remote.table(f"0 256 error\n256 {disk_.sectors - 256} linear {disk_.node} 256")
    dm.message("mirror", "recover")
    base.until(lambda: mirror.parse(dm.status("mirror")).action == "stalled", "stalled", 30)
    return w


def stalled() -> None:
    """Found by a seeded churn: with the local leg as the target "resync" isn't taken."""
    base.step("the source of a resync was unreadable for a while: the resync gets on by itself")
    w = stalled_world()
    w.remote.well()
    base.until(lambda: w.health() == "AA", "in sync again", 90)
    w.close()


def stalled_suspended() -> None:
    base.step("what is tried again every minute isn't while the table is suspended")
    w = stalled_world()
    dm.suspend("mirror")
    w.remote.well()
    files = [Path("/sys/block", Path(leg.disk.node).name, "stat") for leg in (w.local, w.remote)]
    before = [file.read_text() for file in files]
    time.sleep(150)
    base.equal([file.read_text() for file in files], before, "what the disks have done")
    dm.resume("mirror")
    base.until(lambda: w.health() == "AA", "in sync again", 10)
    w.close()


def reads() -> None:
    """1,536 reads of 4 KiB, and a budget of 1 MiB."""
    base.step("reads in flight when the local leg fails don't take what memory there is")
    pair = Pair("nosync", "memory_kib", 1024, "resync_pace", "full")
    pair.remote.slow(3000)
    pair.local.hang()
    loads = [subprocess.Popen([LOAD, "fetch", pair.mirror.node, str(8 << 11), "256", "512", str(n)])
             for n in range(6)]  # fmt: skip
    time.sleep(1)
    before = least = free_kib()
    dm.load("llocal", f"0 {pair.local.disk.sectors} error")
    dm.resume("llocal")
    for _ in range(20):
        time.sleep(0.1)
        least = min(least, free_kib())
    for load in loads:
        base.equal(load.wait(3600), 0, "exit code of the reader")
    pair.local.well()
    base.expect(before - least < 16 << 10, f"{before - least} KiB were taken")


def free_kib() -> int:
    with open("/proc/meminfo") as file:
        words = dict(line.split(":", 1) for line in file)
    return int(words["MemFree"].split()[0])


def returns() -> None:
    base.step("policy error: a leg that misses nothing comes back while the other one hangs")
    w = World("policy", "error", "local_timeout", 2000)
    dm.message("mirror", "fail remote")
    w.local.hang()
    with blk.Disk(w.node, write=False) as disk:
        read = Beside(lambda: disk.read(512, 8))
        recover = Beside(lambda: dm.message("mirror", "recover"))
        w.ends("the read", read, 30)
        w.ends("recover", recover, 3)
    base.equal(w.health(), "DA", "health")
    w.local.wake()
    base.until(lambda: w.health() == "AA", "in sync again", 60)
    w.close()


def told_in_vain(w: World) -> None:
    """Nor does the second word wait without end for the first."""
    for _ in range(2):
        recover = Beside(lambda: dm.message("mirror", "recover"))
        time.sleep(5)
        with base.refused("recover", errno.EBUSY, errno.ETIMEDOUT):
            w.ends("recover", recover, 20)
    time.sleep(250)
    base.equal(w.health(), "AD", "health")


def waits() -> None:
    base.step("a leg that would be resynced doesn't come back while the other one hangs")
    w = World("local_timeout", 2000)
    w.remote.gone()
    w.put(0)
    base.until(lambda: w.health() == "AD", "the remote leg to be given up", 10)
    w.remote.well()
    w.local.hang()
    time.sleep(100)  # a tick of the cleaner
    told_in_vain(w)
    w.local.wake()
    base.until(lambda: w.health() == "AA", "in sync again", 60)
    w.close()


def looks() -> None:
    base.step("likewise, told to, with nothing to clean")
    w = World("local_timeout", 2000)
    dm.message("mirror", "fail remote")
    time.sleep(65)
    w.local.hang()
    told_in_vain(w)
    w.local.wake()
    dm.message("mirror", "recover")
    base.until(lambda: w.health() == "AA", "in sync again", 60)
    w.close()


def failed_on_both(then: str) -> None:
    base.step(f"a write fails on both legs; the remote one is well again, the local one {then}")
    pair = statelegs.Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    pair.put(64)
    pair.remote.set(data="nowrite")
    if then == "takes no data":
        pair.local.set(data="nowrite")
    else:
        pair.local.gone()
    with base.refused("the write", errno.EIO):
        pair.put(64)
    pair.remote.well()
    if then == "is back":
        pair.local.well()
        pair.in_sync()
    else:
        time.sleep(5)
        for n in range(4):
            pair.put(128 + 8 * n)
        pair.wait("DA", "alone")
        pair.check("the remote leg")
        base.step("a table without the local leg, and one with it")
        dm.reload("mirror", pair.table(local="-"))
        pair.check("without the local leg")
        pair.local.well()
        dm.reload("mirror", pair.table())
    pair.good_end("both are back")
    pair.close()


def failed_place() -> None:
    base.step("a write fails on both legs; then only its place on the local leg is bad")
    pair = statelegs.Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(64, 64)  # a region
    pair.local.disk.bad(96, 103)
    pair.remote.set(data="nowrite")
    with base.refused("the write", errno.EIO):
        pair.put(96)
    pair.remote.well()
    time.sleep(5)
    pair.check("what the remote leg has at that place")

    base.step("all of the local leg goes")
    pair.local.gone()
    pair.put(80)
    pair.wait("DA", "alone")
    pair.check("the remote leg")
    pair.local.disk.good(96, 103)
    pair.local.well()
    pair.good_end("both are well")
    pair.close()


def loaded() -> None:
    base.step("the local leg hangs, and is told to be dead: a table with it can be loaded")
    pair = statelegs.Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    pair.local.hang()
    pair.message("fail local")
    pair.wait("DA", "alone")
    pair.put(64)
    load = Beside(lambda: dm.load("mirror", pair.table()))
    base.until(lambda: load.done, "the load", 10)
    load.result()
    dm.suspend("mirror")
    dm.resume("mirror")
    pair.put(128)
    pair.local.wake()
    pair.message("recover")
    pair.good_end("it answers again")
    pair.close()


def resyncs() -> None:
    base.step("the only good leg is silent, and is told to resync all of the other one")
    pair = statelegs.Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    pair.remote.gone()
    pair.put(64)
    pair.wait("AD", "alone")
    pair.local.hang()
    pair.remote.well()
    write = Beside(lambda: pair.put(512))
    time.sleep(15)
    began = time.monotonic()
    with base.refused("resync", errno.EBUSY, kernel="dead, silent, or not in sync"):
        pair.message("resync")
    base.expect(time.monotonic() < began + 1, "resync waited for that leg")
    pair.local.wake()
    write.result()
    pair.good_end("it answers again")
    pair.close()


PARTS: dict[str, Callable[[], None]] = {
    "reloaded_local": lambda: reloaded("local"),
    "reloaded_remote": lambda: reloaded("remote"),
    "blocked": lambda: blocked(target=False),
    "blocked_target": lambda: blocked(target=True),
    "held_again": held_again,
    "silent_resync": lambda: silent("resync"),
    "silent_verify": lambda: silent("verify"),
    "parting": parting,
    "stalled": stalled,
    "stalled_suspended": stalled_suspended,
    "reads": reads,
    "returns": returns,
    "waits": waits,
    "looks": looks,
    **{f"both_{word}": partial(failed_on_both, then) for word, then in (
        ("gone", "doesn't come back"), ("back", "is back"), ("nowrite", "takes no data"),
    )},
    "both_place": failed_place,
    "loaded": loaded,
    "resyncs": resyncs,
}  # fmt: skip
(part,) = base.words(1, PARTS)
PARTS[part]()
base.step("done")
