# SPDX-License-Identifier: GPL-2.0-only
"""Moments at which the mirror's own steps meet: each was a fault that a review found."""

import errno
import threading
import time
from pathlib import Path

from locklab import base, blk, dm
from statelab import ALONE, REGION, REMOTE, SLOTS, SYNC, TARGET, Beside
from statelegs import Copies, Pair


def alike_after_a_crash(pair: Pair) -> None:
    """The primary crashes here; what it would find is assembled, and gets in sync."""
    copies = Copies(pair.sectors)
    copies.put([pair.local.image(), pair.remote.image()])
    copies.start()
    copies.in_sync()
    copies.stop()
    one, two = copies.data()
    copies.close()
    base.expect(one == two, "the legs are alike after the crash")



def not_flushed_is_dirty() -> None:
    base.step("the flush before regions are written out as clean fails: they stay dirty")
    pair = Pair("rejoin", 0, "resync_pace", "full", cache_mib=1)
    old = pair.local.image()
    pair.put(0)
    pair.local.set(data="nowrite")
    pair.wait("DA", "alone", 200)
    with blk.Disk(pair.local.disk.node) as disk:
        disk.write(0, old[: 8 * 512])  # what the local leg's cache had is lost
    with blk.Disk(pair.node) as disk:
        want = disk.read(0, 8)
    pair.local.set(data="slow:8000")
    back = threading.Thread(target=lambda: pair.message("recover"))
    back.start()
    base.until(lambda: pair.local.super.state == TARGET, "the local leg to be a target", 60)
    copies = Copies(pair.sectors)
    copies.put([pair.local.image(), pair.remote.image()])  # the primary crashes here
    node = copies.start()
    copies.in_sync()
    with blk.Disk(node) as disk:
        base.equal(disk.read(0, 8), want, "what was acknowledged, after the crash")
    copies.stop()
    copies.close()
    back.join()
    pair.local.well()
    pair.in_sync()
    pair.close()


def flush_fails_on_both(dead: bool) -> None:
    """Who stays may have forgotten what it had in its cache: the other one still has it."""
    which = "on the only leg left" if dead else "on both legs at once"
    base.step(f"a flush fails {which}: what isn't flushed gets alike again")
    pair = Pair("rejoin", 0, "resync_pace", "full", cache_mib=1)
    old = pair.local.image()
    with blk.Disk(pair.node) as disk:
        disk.write(0, b"new " * 1024)
        if dead:
            pair.message("fail remote")
            pair.wait("AD", "alone")
        for leg in pair.legs.values():
            leg.set(data="nowrite")
        with blk.Disk(pair.local.disk.node) as below:
            below.write(0, old[: 8 * 512])  # what the local leg's cache had is lost
        with base.refused("the flush", errno.EIO):
            disk.flush()
    for leg in pair.legs.values():
        leg.well()
    pair.message("recover remote")
    pair.in_sync()
    pair.stop()
    pair.same()
    pair.close()


def message_before_the_start() -> None:
    base.step("a message to a table whose start was refused")
    pair = Pair()
    pair.put(0)
    pair.stop()
    image = pair.legs[REMOTE].image()
    dm.create("mirror", f"0 {pair.sectors} zero")
    dm.suspend("mirror")
    dm.load("mirror", pair.table())
    pair.legs[REMOTE].put(bytes(len(image)))
    with base.refused("the start with a leg that has become blank", errno.EINVAL):
        dm.resume("mirror")
    for text in ("resync", "fail local", "recover", "policy block", "unblock", "verify start"):
        with base.refused(f"message {text}", errno.EBUSY, kernel="hasn't been started"):
            dm.message("mirror", text)
    dm.remove("mirror")
    pair.legs[REMOTE].put(image)
    pair.start()
    pair.in_sync()
    pair.close()


def flush_fails_at_the_end() -> None:
    base.step("removed while the local leg's last flush fails: the parting ends first")
    pair = Pair(cache_mib=1)
    pair.put(0)
    time.sleep(5)
    pair.local.set(data="nowrite")
    pair.remote.set(slots="slow:300")
    pair.stop()
    time.sleep(5)
    pair.local.well()
    pair.remote.well()
    pair.start()
    pair.in_sync()
    pair.same()
    pair.close()


def map_of_a_leg_that_hangs() -> None:
    base.step("a leg comes back and hangs when its map is read: nobody else waits")
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    pair.remote.gone()
    pair.put(64)
    pair.wait("AD", "alone")
    pair.remote.set(slots="nowrite")
    time.sleep(4)
    pair.remote.set(map="lag:60000")
    time.sleep(3)
    seconds = blk.timed(lambda: pair.put(640))
    base.expect(seconds < 1, f"a write to the healthy leg took {seconds:.3f} s")
    pair.remote.well()
    pair.in_sync()
    pair.same()
    pair.close()


def home_after_a_blip() -> None:
    base.step("policy block, the local leg is back having missed nothing: it keeps the map again")
    pair = Pair("policy", "block", "remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    pair.local.gone()
    held = threading.Thread(target=lambda: pair.put(0))
    held.start()
    pair.wait("DA", "blocked")
    pair.local.well()
    pair.wait("AA", "together")
    held.join()
    pair.message("policy degrade")
    pair.remote.hang()
    seconds = blk.timed(lambda: pair.put(640))
    base.expect(seconds < 3, f"a write with the remote leg hung took {seconds:.3f} s")
    pair.remote.wake()
    pair.in_sync()
    pair.same()
    pair.close()


def home_of_a_leg_that_lies() -> None:
    base.step("the local leg keeps the map, lies, and becomes the target: the map isn't forgotten")
    pair = Pair("remote_timeout", 20000, "rejoin", 0, "resync_rate", 1)
    for at in (512, 640):
        pair.put(at)
    size, disk = pair.local.disk.sectors, pair.local.disk.node
    dm.create("bad", f"0 {size} dust {disk} 0 512")
    dm.message("bad", "addbadblock 512")
    dm.message("bad", "enable")
    dm.reload("llocal", f"0 512 linear /dev/mapper/bad 0\n"
                        f"512 8 flakey /dev/mapper/bad 512 0 3600 5 corrupt_bio_byte 32 r 7 0\n"
                        f"520 {size - 520} linear /dev/mapper/bad 520")  # fmt: skip
    pair.check("read from the remote leg")
    base.until(lambda: pair.local.super.state == TARGET, "the local leg to be a target", 60)
    pair.remote.set(data="slow:8000")
    write = Beside(lambda: pair.put(640))
    time.sleep(1)
    base.expect(not write.done, "one leg has the write, the other one hasn't")
    alike_after_a_crash(pair)
    write.result()
    pair.remote.well()
    pair.local.well()
    dm.remove("bad")
    pair.message("resync_rate 0")
    pair.good_end("the leg that lies")
    pair.close()


def map_of_a_leg_that_was_left_out() -> None:
    base.step("only the map of a leg that was left out knows of a write at the crash: it is copied")
    pair = Pair("remote_timeout", 20000, "rejoin", 1)
    pair.put(64)
    pair.remote.set(data="slow:2000")
    write = Beside(lambda: pair.put(640))
    time.sleep(1)
    history = pair.history.fork()
    images = [leg.image() for leg in pair.legs.values()]
    write.result()
    pair.stop()
    pair.remote.well()
    for leg, image in zip(pair.legs.values(), images, strict=True):  # the primary crashed there
        leg.put(image)
    pair.history = history
    pair.start(local="-")
    pair.put(1280)
    pair.local.gone()
    dm.reload("mirror", pair.table())
    pair.wait("DA", "alone")
    pair.local.well()
    pair.good_end("left out")
    pair.close()


def alone_before_it_is_acknowledged() -> None:
    base.step("a write that one leg has is acknowledged when that leg says so, no sooner")
    pair = Pair("remote_timeout", 2000, "rejoin", 0)
    pair.put(0)
    pair.local.set(slots="slow:1000")
    pair.remote.gone()
    write = Beside(lambda: pair.put(0))
    pair.wait("AD", "parting")
    done = False
    while not done:
        done = write.done  # first this
        said = pair.local.super.state
        base.expect(not done or said == ALONE, "acknowledged before the local leg said so")
        time.sleep(0.01)
    write.result()
    pair.local.well()
    pair.remote.well()
    pair.message("recover")
    pair.good_end("alone first")
    pair.close()


def in_flight_is_dirty() -> None:
    base.step("a write is on its way for minutes: its region isn't written out as clean meanwhile")
    pair = Pair("remote_timeout", 0, "rejoin", 1)
    pair.put(640)
    pair.remote.set(data="slow:200000")
    write = Beside(lambda: pair.put(640))
    time.sleep(150)
    base.expect(not write.done, "it is on its way")
    alike_after_a_crash(pair)
    write.result()
    pair.remote.well()
    pair.good_end("in flight")
    pair.close()


def home_that_dies() -> None:
    base.step("the local leg has the map again, and is given up before it counts as its home")
    knob = Path("/sys/module/dm_lockstep/parameters/test_slow_home")
    for policy, then in (("block", "blocked"), ("degrade", "alone")):
        pair = Pair("policy", policy, "rejoin", 0)
        pair.put(0)
        pair.message("fail local")
        pair.wait("DA", then)
        if policy == "degrade":
            pair.put(64)
        base.put(knob, 1000)
        before = pair.local.super.seq
        recover = Beside(lambda: pair.message("recover"))  # noqa: B023
        if policy == "block":
            pair.wait("AA", "together")
            base.until(lambda: pair.local.super.seq > before, "the map is at home")  # noqa: B023
        else:
            base.until(lambda: pair.local.super.state == SYNC, "the map is at home")  # noqa: B023
        time.sleep(0.1)
        pair.message("fail local")
        pair.wait("DA", then)
        time.sleep(2)
        base.put(knob, 0)
        recover.result()
        if policy == "block":
            pair.message("unblock")
            pair.wait("DA", "alone")
        Beside(lambda: pair.put(640)).result(60)  # noqa: B023
        pair.message("recover")
        pair.good_end(f"policy {policy}")
        pair.close()


def wanted_again_is_dirty() -> None:
    base.step("a region is about to leave the map, and the mark that wants it again fails")
    pair = Pair("rejoin", 0, "remote_timeout", 0, cache_mib=1)
    pair.message("fail remote")
    pair.put(10 * REGION)
    pair.message("recover")
    pair.in_sync()
    pair.message("policy error")
    end, disk = pair.local.disk.sectors, pair.local.disk.node
    dm.reload("llocal", f"0 {end} delay {disk} 0 0 {disk} 0 0 {disk} 0 25000")  # flushes alone
    time.sleep(70)  # the second look at what is idle: its flush is on the way
    end -= SLOTS
    pair.local.disk.bad(end - 32, end - 1)
    with (
        blk.Disk(pair.node) as device,
        base.refused("a write to that region and the next one", errno.EIO),
    ):
        device.write(11 * REGION - 4, bytes(8 * 512))
    pair.wait("DA", "refusing")
    # It has not been flushed: what the local leg's cache had of it may be lost.
    base.equal(pair.count("stale_local"), 1, "regions stale on the local leg")
    pair.local.disk.good(end - 32, end - 1)
    pair.local.well()
    pair.message("policy degrade")
    pair.message("recover")
    pair.in_sync()
    pair.stop()
    pair.same()
    pair.close()


not_flushed_is_dirty()
flush_fails_on_both(dead=False)
flush_fails_on_both(dead=True)
message_before_the_start()
flush_fails_at_the_end()
map_of_a_leg_that_hangs()
home_after_a_blip()
home_of_a_leg_that_lies()
map_of_a_leg_that_was_left_out()
alone_before_it_is_acknowledged()
in_flight_is_dirty()
home_that_dies()
wanted_again_is_dirty()
