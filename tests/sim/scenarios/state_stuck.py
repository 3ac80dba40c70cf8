# SPDX-License-Identifier: GPL-2.0-only
"""No state without a way out: legs that fail in the middle of a step of the mirror's own, and
messages that come at that moment."""

import errno
import sys
import time

from locklab import base, dm
from statelab import TARGET, Beside
from statelegs import Pair


def both_gone() -> None:
    base.step("both legs fail: writes fail, nothing hangs; then both are back")
    pair = Pair()
    pair.put(0)
    pair.local.gone()
    pair.remote.gone()
    for at in (0, 640):  # a region that is dirty, and one that isn't
        with base.refused(f"a write to sector {at}", errno.EIO):
            pair.put(at)
    time.sleep(10)  # rejoin is tried meanwhile
    for at in (0, 1280):
        with base.refused(f"a write to sector {at}", errno.EIO):
            pair.put(at)
    pair.local.well()
    pair.remote.well()
    pair.in_sync()
    for at in (0, 640, 1280):
        pair.put(at)
    pair.good_end("both gone")
    pair.close()


def recover_while_parting() -> None:
    base.step("recover while the survivor's metadata can't be written")
    pair = Pair("remote_timeout", 2000, "rejoin", 0)
    pair.put(0)
    pair.local.set(slots="nowrite")
    pair.remote.gone()
    with base.refused("a write", errno.EIO, kernel="can't write the metadata of the local leg"):
        pair.put(0)
    base.equal(pair.word("standing"), "parting", "standing")
    recover = Beside(lambda: pair.message("recover"))
    with base.refused("recover", errno.EIO):
        recover.result(20)
    pair.remote.well()
    # Nothing was acknowledged without it, so it needn't wait for the local leg.
    Beside(lambda: pair.message("recover")).result(20)
    pair.put(0)
    pair.local.well()
    pair.in_sync()
    pair.good_end("recover while parting")
    pair.close()


def end_of_resync(leg: str, part: str) -> None:
    base.step(f"the end of a resync: {part} of the {leg} leg can't be written")
    pair = Pair()
    pair.put(0)
    pair.message("fail remote")
    pair.put(0)
    pair.remote.set(data="slow:500")
    pair.message("recover")
    base.until(lambda: pair.remote.super.state == TARGET, "the target says so")
    bad = pair.legs[leg]
    bad.set(**{part: "nowrite"})
    time.sleep(5)
    pair.put(0)
    pair.put(1024)
    pair.check("meanwhile")
    base.expect(pair.status().health in ("Aa", "AD", "DA"), f"status {dm.status('mirror')}")
    bad.well()
    pair.put(8)
    pair.good_end("end of resync")
    pair.close()


def end_of_resync_of_the_local_leg(part: str) -> None:
    base.step(f"the end of a resync to the local leg: {part} of the remote leg can't be written")
    pair = Pair()
    pair.put(0)
    pair.message("fail local")
    pair.put(0)
    pair.local.set(data="slow:500")
    pair.message("recover")
    base.until(lambda: pair.local.super.state == TARGET, "the target says so")
    pair.remote.set(**{part: "nowrite"})
    time.sleep(5)
    pair.put(0)
    pair.check("meanwhile")
    pair.remote.well()
    pair.put(8)
    pair.good_end("end of resync")
    pair.close()


def resync_without_the_local_leg() -> None:
    base.step("resync of everything while the local leg is dead")
    pair = Pair()
    pair.put(0)
    pair.message("fail local")
    with base.refused("resync", errno.EBUSY):
        pair.message("resync")
    pair.check("reads meanwhile")
    pair.put(0)
    pair.message("recover")
    pair.good_end("resync without the local leg")
    pair.close()


def resumed_without(leg: str) -> None:
    base.step(f"the {leg} leg goes while the mirror is suspended")
    pair = Pair()
    pair.put(0)
    dm.suspend("mirror")
    pair.legs[leg].gone()
    dm.resume("mirror")
    pair.put(0)
    pair.check("meanwhile")
    base.equal(pair.word("standing"), "alone", "standing")
    pair.legs[leg].well()
    pair.good_end("resumed")
    pair.close()


def failed_while_it_comes_back() -> None:
    base.step("the administrator fails a leg that is just coming back")
    pair = Pair()
    pair.remote.gone()
    pair.put(0)
    pair.wait("AD", "alone")
    pair.remote.all("lag:200")
    time.sleep(1.5)
    pair.message("fail remote")
    pair.wait("AD", "alone")
    time.sleep(10)
    base.equal((pair.status().health, pair.word("why")), ("AD", "told"), "after a while")
    pair.remote.well()
    time.sleep(10)
    base.equal(pair.status().health, "AD", "told stays told")
    pair.message("recover")
    pair.good_end("failed while it comes back")
    pair.close()


def unblocked_in_a_join() -> None:
    base.step("unblock while the leg is just being made a target")
    pair = Pair("remote_timeout", 2000, "rejoin", 1, "policy", "block")
    pair.put(0)
    pair.remote.gone()
    write = Beside(lambda: pair.put(0))
    pair.wait("AD", "blocked")
    base.until(lambda: pair.count("held"), "a write is held")
    pair.message("fail_held")
    with base.refused("what was held", errno.EIO):
        write.result(5)
    pair.remote.all("lag:300")
    # The join reads, flushes and reads again, then writes two slots of the target.
    log = base.KernelLog()
    base.until(lambda: pair.remote.super.state == TARGET, "the target is being marked", 20)
    pair.message("unblock")
    pair.put(0)
    pair.remote.well()
    pair.in_sync()
    base.expect(not any("can't come back" in line for line in log.new()), "it came back")
    pair.good_end("unblocked in a join")
    pair.close()


SCENES = {
    "both_gone": both_gone,
    "recover_while_parting": recover_while_parting,
    "end_source_slots": lambda: end_of_resync("local", "slots"),
    "end_source_map": lambda: end_of_resync("local", "map"),
    "end_target_slots": lambda: end_of_resync("remote", "slots"),
    "end_local_slots": lambda: end_of_resync_of_the_local_leg("slots"),
    "end_local_map": lambda: end_of_resync_of_the_local_leg("map"),
    "resync_without_the_local_leg": resync_without_the_local_leg,
    "resumed_without_remote": lambda: resumed_without("remote"),
    "resumed_without_local": lambda: resumed_without("local"),
    "failed_while_it_comes_back": failed_while_it_comes_back,
    "unblocked_in_a_join": unblocked_in_a_join,
}

for scene in sys.argv[1:] or SCENES:
    SCENES[scene]()
base.step("done")
