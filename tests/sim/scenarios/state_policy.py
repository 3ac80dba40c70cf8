# SPDX-License-Identifier: GPL-2.0-only
"""What is done with writes that can't be on both legs: policies degrade, block and error, with the
link hanging, slow, lossy and cut, changed at run time in every standing; and what an administrator
can do in each.
"""

import errno
import sys
import time
from functools import partial

from locklab import base, blk, dm
from statelab import LOCAL, REMOTE, SYNC, Beside, Writers
from statelegs import Pair

TIMEOUT = 2.0
PARTED = {"degrade": "alone", "block": "blocked", "error": "refusing"}


def pair_of(policy: str, *options: object) -> Pair:
    pair = Pair("remote_timeout", int(TIMEOUT * 1000), "rejoin", 1, "policy", policy, *options)
    pair.put(0)
    return pair


def block_for_a_minute() -> None:
    base.step("policy block: the link is cut for 60 s under load")
    pair = pair_of("block")
    writers = Writers(pair.node, pair.history, pair.versions, seed=1, writers=4)
    time.sleep(0.2)
    base.expect(writers.acked > 20, f"only {writers.acked} writes before")
    pair.remote.hang()
    time.sleep(0.05)  # what was answered before is taken
    before = writers.acked
    pair.wait("AD", "blocked")
    time.sleep(58)
    base.equal((writers.acked, writers.failed), (before, 0), "writes done and failed meanwhile")
    base.equal(pair.remote.super.cur, pair.local.super.cur, "generations: nobody went on alone")
    pair.remote.wake()
    pair.wait("AA", "together")
    base.until(lambda: writers.acked >= before + 4, "what was held completes")
    time.sleep(0.2)
    writers.stop()
    base.equal(writers.failed, 0, "failed writes")
    pair.good_end("block for a minute")
    pair.close()


def degrade_in_time() -> None:
    base.step("policy degrade: the first write after the cut waits for the timeout, no longer")
    pair = pair_of("degrade")
    pair.remote.hang()
    took = blk.timed(lambda: pair.put(0))
    base.expect(TIMEOUT <= took <= TIMEOUT * 9 / 8 + 0.1, f"first write: {took:.3f} s")
    print(f"  first write: {took:.3f} s", flush=True)
    took = blk.timed(lambda: pair.put(640))
    base.expect(took < 0.05, f"second write: {took:.3f} s")
    base.equal(pair.local.super.base, pair.remote.super.cur, "the new generation's base")
    pair.remote.wake()
    pair.good_end("degrade in time")
    pair.close()


def error_at_once() -> None:
    base.step("policy error: writes fail, and both legs say that they are in sync")
    pair = pair_of("error")
    pair.remote.gone()
    with base.refused("a write", errno.EIO):
        pair.put(0)
    pair.wait("AD", "refusing")
    with base.refused("the next", errno.EIO):
        pair.put(640)
    base.expect(pair.count("refused") > 0, "they are counted")
    base.equal([leg.super.state for leg in pair.legs.values()], [SYNC, SYNC], "states")
    pair.check("reads go on")
    pair.remote.well()
    pair.good_end("error at once")
    pair.close()


def ways_out_of_blocked() -> None:
    base.step("blocked: fail_held, unblock, policy, fail_held again, the leg itself")
    pair = pair_of("block")
    with base.refused("unblock with nothing blocked", errno.EINVAL, kernel="nothing is blocked"):
        pair.message("unblock")
    pair.remote.gone()
    held = Beside(lambda: pair.put(0))
    pair.wait("AD", "blocked")
    base.expect(not held.done, "it is held")
    pair.message("fail_held")
    with base.refused("what was held", errno.EIO):
        held.result(5)
    held = Beside(lambda: pair.put(64))
    base.until(lambda: pair.count("held") >= 2, "the next is held")
    pair.message("unblock")
    held.result(5)
    pair.wait("AD", "alone")
    pair.put(128)
    pair.remote.well()
    pair.in_sync()
    base.step("back together the policy counts again")
    pair.remote.gone()
    held = Beside(lambda: pair.put(0))
    pair.wait("AD", "blocked")
    pair.message("policy error")
    with base.refused("what was held", errno.EIO):
        held.result(5)
    pair.message("policy block")
    held = Beside(lambda: pair.put(0))
    pair.wait("AD", "blocked")
    pair.message("policy degrade")
    held.result(5)
    pair.message("policy block")
    held = Beside(lambda: pair.put(640))
    pair.wait("AD", "blocked")
    pair.remote.well()
    held.result(10)
    pair.good_end("ways out of blocked")
    pair.close()


def policies_at_run_time() -> None:
    base.step("each policy changed into each, in its standing, with either leg dead")
    for leg in (REMOTE, LOCAL):
        pair = pair_of("degrade")
        for old in PARTED:
            for new in PARTED:
                pair.message(f"policy {old}")
                pair.message(f"fail {leg}")
                health = "AD" if leg == REMOTE else "DA"
                pair.wait(health, PARTED[old])
                pair.check(f"reads, {leg} leg dead, {old}")
                pair.message(f"policy {new}")
                pair.wait(health, PARTED[new])
                if new == "degrade":
                    pair.put(0)
                elif new == "error":
                    with base.refused("a write", errno.EIO):
                        pair.put(0)
                pair.message("recover")
                pair.in_sync()
                pair.put(0)
        pair.good_end(f"policies, {leg} leg")
        pair.close()


def suspended() -> None:
    base.step("suspended, resumed, reloaded and removed in each standing")
    for policy, standing in PARTED.items():
        pair = pair_of(policy)
        pair.remote.gone()
        held = Beside(partial(pair.put, 0))
        pair.wait("AD", standing)
        dm.suspend("mirror")
        if policy == "degrade":
            held.result(5)
        else:
            with base.refused(f"the write, {standing}", errno.EIO):
                held.result(5)
        dm.resume("mirror")
        pair.wait("AD", standing)
        pair.check(f"{standing}, resumed")
        dm.reload("mirror", pair.table())
        pair.wait("AD", standing)
        pair.check(f"{standing}, reloaded")
        dm.reload("mirror", pair.table(remote="-"))
        pair.wait("A-", standing)
        base.equal(pair.word("why"), "absent", "why")
        pair.check(f"{standing}, without the remote leg")
        pair.remote.well()
        dm.reload("mirror", pair.table())
        pair.in_sync()
        pair.put(0)
        pair.remote.gone()
        held = Beside(partial(pair.put, 0))
        pair.wait("AD", standing)
        pair.message("fail_held")
        time.sleep(0.1)
        pair.stop()
        pair.remote.well()
        pair.start()
        pair.good_end(f"{standing}, removed")
        pair.close()


def noflush() -> None:
    base.step("suspended without a flush while writes are held: they wait for the resume")
    pair = pair_of("block")
    pair.remote.gone()
    held = Beside(lambda: pair.put(0))
    pair.wait("AD", "blocked")
    dm.suspend("mirror", flush=False)
    time.sleep(1)
    base.expect(not held.done, "it waits")
    pair.remote.well()
    dm.resume("mirror")
    held.result(20)
    pair.good_end("noflush")
    pair.close()


def lossy() -> None:
    base.step("the remote leg is slow, then fails now and then, under load")
    pair = pair_of("degrade")
    writers = Writers(pair.node, pair.history, pair.versions, seed=2, writers=3)
    for turn in range(6):
        pair.remote.all(f"lag:{20 + 30 * turn}")
        time.sleep(0.5)
        pair.remote.all(("nowrite", "error")[turn % 2])
        time.sleep(0.3)
        pair.remote.well()
        time.sleep(1.5)
    writers.stop()
    base.equal(writers.failed, 0, "failed writes")
    pair.good_end("lossy")
    pair.close()


def told() -> None:
    base.step("a leg that the administrator has failed stays failed, over a reload too")
    pair = pair_of("degrade")
    pair.message("fail remote")
    time.sleep(12)
    base.equal((pair.status().health, pair.word("why")), ("AD", "told"), "after 12 s")
    dm.reload("mirror", pair.table())
    time.sleep(12)
    base.equal((pair.status().health, pair.word("why")), ("AD", "told"), "after a reload")
    pair.put(0)
    pair.message("recover remote")
    pair.good_end("told")
    pair.close()


SCENES = {
    "block": block_for_a_minute,
    "degrade": degrade_in_time,
    "error": error_at_once,
    "ways_out": ways_out_of_blocked,
    "run_time": policies_at_run_time,
    "suspended": suspended,
    "noflush": noflush,
    "lossy": lossy,
    "told": told,
}

for name in sys.argv[1:] or SCENES:
    SCENES[name]()
base.step("done")
