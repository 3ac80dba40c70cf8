# SPDX-License-Identifier: GPL-2.0-only
"""A write that was given up arrives late: never over a newer one, by whatever device, table or
mirror the leg comes back meanwhile. (registry.h)

    mirror_late.py [PART [KNOB]]
"""

import errno
import random
import sys
import time

from latelab import PARAMETERS, Late, draining, knob
from locklab import base, blk, dm, mirror, ram
from mirrorlab import FIELDS, Beside
from statelab import meta, refusal


def overtaken(late: Late, what: str) -> None:
    """It is used without the leg, written newer, and the old write arrives."""
    late.drains(what)
    base.expect(draining(), "the module's word")
    late.write(0, "newer")
    time.sleep(5)
    late.drains(f"{what}, later")
    late.legs[1].wake(0)
    late.in_sync()
    late.holds(0, "newer")
    base.equal(draining(), [], "what drains in the end")


def exchanged(*, core: bool) -> None:
    base.step(f"the leg comes back by another device, and by the first again; core: {core}")
    late = Late(core=core)
    late.write(0, "first")
    late.given_up("old")
    seconds = blk.timed(lambda: late.exchange(1, 1))
    base.expect(seconds < 1, f"the new table took {seconds:.3f} s")
    late.drains("by another device")
    late.exchange(1, 0)
    late.drains("by the first")
    late.exchange(1, 1)
    overtaken(late, "by another device")
    late.close()


def made_again(*, core: bool) -> None:
    base.step(f"removed and made again, by the same device and by another; core: {core}")
    late = Late(core=core)
    late.write(0, "first")
    late.given_up("old")
    late.used[1] = 1
    seconds = blk.timed(late.again)
    base.expect(seconds < 1, f"remove and create took {seconds:.3f} s")
    overtaken(late, "by another device")
    late.legs[1].wake(0)
    late.write(64, "first")
    late.used[1] = 0
    late.again()
    late.in_sync()
    late.given_up("old", 64)
    late.again()
    overtaken(late, "by the same device")
    late.close()


def unloaded() -> None:
    base.step("removed: the module stays, and the device, until the write has returned")
    late = Late()
    late.write(0, "first")
    late.given_up("old")
    log = base.KernelLog()
    seconds = blk.timed(lambda: dm.remove(late.name))
    base.expect(seconds < 1, f"remove took {seconds:.3f} s")
    base.expect(any("has not answered all" in line for line in log.new()), "no line in the log")
    said = draining()
    base.equal([(one.requests, one.leg, one.name) for one in said], [(1, "remote", "mirror")], "it")
    base.expect(len(said[0].uuid) == 36, f"the leg's uuid: {said}")
    base.run("rmmod", "dm_lockstep", check=False)
    base.equal(draining(), said, "the module's word after rmmod")
    with base.refused("the disk below a mirror that lingers", errno.EBUSY):
        dm.remove(late.legs[1].names[0])
    late.node = dm.create(late.name, late.table())
    overtaken(late, "made again")
    dm.remove(late.name)
    base.until(lambda: dm.opens(late.legs[1].names[0]) == 0, "the device is in nobody's use")
    late.node = dm.create(late.name, late.table())
    late.in_sync()
    late.close()


def another_disk() -> None:
    base.step("another disk in its place doesn't wait for it")
    late = Late()
    late.write(0, "first")
    late.given_up("old")
    spare = ram.Ram("spare", 4)
    late.exchange(1, 1)
    late.drains("the old disk")
    dm.reload(late.name, late.table().replace(late.legs[1].nodes[1], "-"))
    meta("join", "--source", late.legs[0].nodes[0], "--leg", "remote", spare.node)
    dm.reload(late.name, late.table().replace(late.legs[1].nodes[1], spare.node))
    late.in_sync()
    base.expect(draining(), "the old disk still hangs")
    late.write(0, "newer")
    blk.same(late.legs[0].disk.node, spare.node, late.sectors)
    dm.remove(late.name)
    late.legs[1].wake(0)
    base.until(lambda: not draining(), "all has returned")
    with base.refused("the disk that was replaced", errno.EINVAL):
        dm.create(late.name, late.table())
    for leg in late.legs:
        leg.close()
    spare.remove()


def both_exchanged() -> None:
    base.step("both legs by other devices at once")
    late = Late()
    late.write(0, "first")
    late.given_up("old")
    late.used = [1, 1]
    dm.reload(late.name, late.table())
    overtaken(late, "both by others")
    late.close()


def local_drains() -> None:
    base.step("the local leg is the one that drains")
    late = Late()
    late.write(0, "first")
    late.legs[0].hang(0)
    write = Beside(lambda: late.write(0, "old"))
    time.sleep(1)
    dm.message(late.name, "fail local")
    write.result()
    late.used[0] = 1
    late.again()
    base.until(lambda: (late.health, late.why) == ("DA", "draining"), f"{late.line}")
    late.write(0, "newer")
    dm.suspend(late.name)
    dm.resume(late.name)
    base.equal(late.why, "draining", "why, after suspend and resume")
    late.legs[0].wake(0)
    late.in_sync()
    late.holds(0, "newer")
    late.close()


def sole_leg() -> None:
    base.step("the leg that drains is the only one given: refused until it has returned")
    late = Late()
    late.given_up("old")
    dm.remove(late.name)
    late.used[1] = 1
    table = late.table().replace(late.legs[0].nodes[0], "-")
    with base.refused("the leg that drains alone", errno.EBUSY, kernel="can't stand in"):
        dm.create(late.name, table)
    late.legs[1].wake(0)
    base.until(lambda: not draining(), "all has returned")
    late.node = dm.create(late.name, late.table())
    late.in_sync()
    late.holds(0, "old")
    late.close()


def unjudged() -> None:
    base.step("a table that isn't in use yet says nothing of its legs")
    late = Late()
    late.given_up("old")
    late.used[1] = 1
    dm.load(late.name, late.table())
    said = dm.status(late.name, inactive=True).split()
    base.equal(said[0], "??", f"health before the start: {said}")
    base.expect(said[1].startswith("0/"), f"nothing is known to be in sync: {said}")
    base.equal(mirror.parse(" ".join(said)).rest[FIELDS.index("standing")], "starting", "standing")
    dm.suspend(late.name)
    dm.resume(late.name)
    late.drains("after the start")
    late.legs[1].wake(0)
    late.in_sync()
    late.close()


PLACES = (0, 64, 128, 1024)


def leaves() -> None:
    base.step("a table is made, and exchanged, while another one that has its legs is at its end")
    late = Late()
    late.write(0, "first")
    late.given_up("old")
    base.put(PARAMETERS / "test_remove_waits", 1)  # so that the end takes time
    remove = Beside(lambda: dm.remove(late.name))
    time.sleep(0.5)
    base.expect(not remove.done, "it has ended")
    late.name = "another"
    late.node = dm.create(late.name, late.table())
    dm.reload(late.name, late.table())
    late.legs[1].wake(0)
    remove.result()
    base.put(PARAMETERS / "test_remove_waits", 0)
    late.in_sync()
    late.write(0, "newer")
    late.holds(0, "newer")
    late.close()


def lingers() -> None:
    base.step("what a leg hasn't answered for an hour after its mirror has gone is no hung task")
    late = Late()
    late.write(0, "first")
    late.given_up("old")
    dm.remove(late.name)
    time.sleep(3600)  # the kernel looks every two minutes, and the lab fails by its report
    base.expect(draining(), "nothing drains")
    late.legs[1].wake(0)
    late.node = dm.create(late.name, late.table())
    late.in_sync()
    late.holds(0, "old")
    late.close()


def renamed() -> None:
    base.step("core mode: renamed, removed, and made again by another device")
    late = Late(core=True)
    late.write(0, "first")
    late.name, late.node = "other", dm.rename(late.name, "other")
    late.given_up("old")
    late.used[1] = 1
    late.again()
    overtaken(late, "by another device")
    late.close()


def made_anew() -> None:
    base.step("while a write is out, lockstep-meta doesn't take the leg its name, by any device")
    late = Late()
    late.write(0, "first")
    late.given_up("old")
    dm.remove(late.name)
    local, (first, other) = late.legs[0].nodes[0], late.legs[1].nodes
    pair = ("create", "--force", "--local", local, "--remote", other, "--name", "n")
    join = ("join", "--force", "--source", local, "--leg", "remote", other)
    for words in (pair, join, ("wipe", "--force", other)):
        said = refusal(*words)
        base.expect("given up may still reach" in said, f"{' '.join(words)}: {said}")
    late.used[1] = 1
    late.node = dm.create(late.name, late.table())
    overtaken(late, "by another device")
    dm.remove(late.name)
    meta(*pair)
    meta("wipe", other)
    print(f"  as soon as {first} has answered, it does", flush=True)
    for leg in late.legs:
        leg.close()


class Schedule:
    """Whatever comes, in any order. What was acknowledged last is there in the end, on both."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.late = Late(core=seed % 4 == 3)
        self.last: dict[int, str] = {}
        self.runs = True
        self.told: list[str] = []

    def write(self) -> None:
        if not self.runs:
            return
        place = self.rng.choice(PLACES)
        tag = f"write {len(self.told)}"
        self.late.write(place, tag)
        self.last[place] = tag

    def hang(self) -> None:
        self.late.legs[1].hang(self.rng.randrange(2))
        self.write()

    def wake(self) -> None:
        self.late.legs[1].wake(self.rng.randrange(2))

    def way(self) -> int:
        """One that answers, if there is one: a device that hangs can't be looked at."""
        ways = [way for way in range(2) if not self.late.legs[1].hangs(way)]
        return self.rng.choice(ways or [0, 1])

    def exchange(self) -> None:
        if self.runs:
            self.late.exchange(1, self.way())

    def suspend(self) -> None:
        if self.runs:
            dm.suspend(self.late.name)
            dm.resume(self.late.name)

    def again(self) -> None:
        if self.runs:
            dm.remove(self.late.name)
        self.runs = False
        self.late.used[1] = self.way()
        if self.late.legs[1].hangs(self.late.used[1]):
            return
        self.late.node = dm.create(self.late.name, self.late.table())
        self.runs = True

    def recover(self) -> None:
        if self.runs:
            try:
                dm.message(self.late.name, "recover remote")
            except OSError as err:
                allowed = (errno.EBUSY, errno.ETIMEDOUT, errno.EIO, errno.EAGAIN)
                base.expect(err.errno in allowed, f"recover: {err}")

    def wait(self) -> None:
        time.sleep(self.rng.choice((0.1, 1, 4)))

    def run(self, turns: int) -> None:
        what = [self.write] * 4 + [self.hang, self.wake, self.exchange, self.again] * 2
        what += [self.suspend, self.recover, self.wait]
        try:
            for place in PLACES:
                self.late.write(place, "first")
                self.last[place] = "first"
            for _ in range(turns):
                step = self.rng.choice(what)
                self.told.append(step.__name__)
                step()
            for way in range(2):
                self.late.legs[1].wake(way)
            if not self.runs:
                self.again()
            self.late.in_sync()
            # And what arrives after that.
            time.sleep(5)
            for place, tag in self.last.items():
                self.late.holds(place, tag)
            blk.same(self.late.legs[0].disk.node, self.late.legs[1].disk.node, self.late.sectors)
        except (base.Wrong, OSError):
            print(f"  the schedule: {' '.join(self.told)}", flush=True)
            raise
        self.late.close()


def schedules(seeds: int = 5 if base.CHECKED else 60) -> None:
    for seed in range(base.SEED, base.SEED + seeds):
        base.step(f"schedule {seed}")
        Schedule(seed).run(14)


def core_mode() -> None:
    exchanged(core=True)
    made_again(core=True)


PARTS = {
    "exchanged": lambda: exchanged(core=False),
    "core": core_mode,
    "again": lambda: made_again(core=False),
    "unloaded": unloaded,
    "lingers": lingers,
    "renamed": renamed,
    "anew": made_anew,
    "leaves": leaves,
    "another": another_disk,
    "both": both_exchanged,
    "local": local_drains,
    "sole": sole_leg,
    "unjudged": unjudged,
    "schedules": schedules,
}
part, off = (*sys.argv[1:], *("all", "")[len(sys.argv) - 1 :])
if off:
    knob(off)
if part != "all" and part not in PARTS:
    raise base.Wrong(f"no part {part}: {' '.join(PARTS)}")
for name, do in PARTS.items():
    if part in (name, "all"):
        do()
base.step("done")
