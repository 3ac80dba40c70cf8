# SPDX-License-Identifier: GPL-2.0-only
"""What a lost path and what the loss of all of them is to the mirror (pathlab.py), with paths that
fail at once and with queue_if_no_path; a LUN that is another device after a new login.
"""

import contextlib
import os
import time
from collections.abc import Iterator

from locklab import base, dm
from pathlab import FAILOVER_S, MPATH, PATHS, PORTALS, Pair, table
from statelab import SYNC, super_of

# A leg that waits for a path to fail isn't one that hangs.
TIMEOUT_S = 20


def one_path(pair: Pair) -> None:
    base.step("one of three paths is cut under load: nothing is lost, nothing degraded")
    site = pair.site
    generation = super_of(site.local.node).cur
    events, remote_errors = dm.event("mirror"), pair.status().remote_errors
    pair.write()
    for one in range(PATHS):
        before = site.requests()
        pair.more()
        used = [b - a for a, b in zip(before, site.requests(), strict=True)]
        base.expect(min(used) > 5, f"writes by each path: {used}")
        site.cut(one)
        base.until(lambda: not site.alive()[one], "the path fails", FAILOVER_S)  # noqa: B023
        pair.more()
        alive = site.alive()
        base.equal([n for n in range(PATHS) if not alive[n]], [one], "failed paths")
        site.mend(one)
        base.equal(site.alive(), [True] * PATHS, "paths")
    pair.stop_writing()
    base.equal((pair.status().health, pair.word("standing")), ("AA", "together"), "the mirror")
    base.equal(pair.word("abandoned"), "0", "abandoned")
    base.equal(pair.status().remote_errors, remote_errors, "errors of the remote leg")
    base.equal(dm.event("mirror"), events, "events of the mirror")
    for node in (site.local.node, site.disk.node):
        found = super_of(node)
        base.equal((found.cur, found.state), (generation, SYNC), f"{node}'s generation")
    pair.whole("one path")


def all_paths(pair: Pair, *, queue: bool) -> None:
    how = "requests wait for a path (queue_if_no_path)" if queue else "requests fail"
    base.step(f"all paths are cut under load, {how}: the policy acts, in time")
    site = pair.site
    dm.message(MPATH, "queue_if_no_path" if queue else "fail_if_no_path")
    pair.write()
    pair.more()
    site.cut(*range(PATHS))
    began = time.monotonic()
    pair.wait("AD", "alone")
    took = time.monotonic() - began
    print(f"  given up after {took:.3f} s: {pair.word('why')}", flush=True)
    base.equal(pair.word("why"), "timeout" if queue else "failed", "why")
    if queue:
        base.expect(took <= TIMEOUT_S * 9 / 8 + 0.1, "bounded by remote_timeout")
    else:
        # A request may meet one path after the other as each fails.
        base.expect(took <= FAILOVER_S, "bounded by the paths' patience")
    pair.more()
    stale = int(pair.word("stale_remote"))
    base.expect(stale, "stale regions are counted")
    time.sleep(10)  # rejoin is tried meanwhile
    base.expect(pair.is_("AD", "alone"), f"alone until a path is back: {dm.status('mirror')}")
    site.mend(*range(PATHS))
    pair.more()
    pair.stop_writing()
    pair.whole("all paths")


def held(pair: Pair) -> None:
    base.step("policy block, all paths cut: writes are held, and done when one path is back")
    site = pair.site
    dm.message("mirror", "policy block")
    dm.message(MPATH, "fail_if_no_path")
    writers = pair.write()
    pair.more()
    site.cut(*range(PATHS))
    pair.wait("AD", "blocked")
    acked = writers.acked
    time.sleep(30)
    base.equal((writers.acked, writers.failed), (acked, 0), "done and failed meanwhile")
    site.mend(1)
    pair.wait("AA", "together")
    pair.more()
    site.mend(0, 2)
    pair.stop_writing()
    dm.message("mirror", "policy degrade")
    pair.whole("held")


@contextlib.contextmanager
def another(node: str) -> Iterator[None]:
    """What is logged in to within the block can't become the same device: that one is open."""
    fd = os.open(node, os.O_RDONLY | os.O_CLOEXEC)
    yield
    os.close(fd)


def other_devices(pair: Pair) -> None:
    base.step("the sessions are made anew one by one: other disks below, the mirror goes on")
    site = pair.site
    events = dm.event("mirror")
    pair.write()
    for one in range(PATHS):
        old = site.paths[one]
        dm.reload(MPATH, table([node for node in site.paths if node != old]))
        with another(old):
            site.login_anew(one)
        base.expect(site.paths[one] != old, f"{old} is {site.paths[one]} now")
        dm.reload(MPATH, table(site.paths))
        before = site.requests()[one]
        pair.more()
        base.expect(site.requests()[one] > before, f"writes by {site.paths[one]}")
    pair.stop_writing()
    base.equal(dm.event("mirror"), events, "events of the mirror")
    pair.whole("other devices")


def other_leg(pair: Pair) -> None:
    base.step("without dm-multipath: the LUN of a new session is another device; reloaded with it")
    site = pair.site
    dm.reload("mirror", pair.table(site.paths[0]))
    dm.remove(MPATH)
    pair.write()
    pair.more()
    old = site.paths[0]
    with another(old):
        site.session.logout_by(PORTALS[0])
        pair.wait("AD", "alone")
        pair.more()
        site.paths[0] = site.session.login_by(PORTALS[0])
        base.expect(site.paths[0] != old, f"{old} is {site.paths[0]} now")
        time.sleep(10)
        base.expect(pair.is_("AD", "alone"), "a device that is gone doesn't come back by itself")
        dm.reload("mirror", pair.table(site.paths[0]))
    pair.wait("AA", "together")
    pair.more()
    pair.stop_writing()
    base.equal(pair.word("stale_remote"), "0", "stale regions")
    base.expect(int(pair.word("resynced")), "what it missed was copied")
    pair.whole("other leg")


pair = Pair(TIMEOUT_S)
one_path(pair)
all_paths(pair, queue=False)
all_paths(pair, queue=True)
held(pair)
other_devices(pair)
other_leg(pair)
dm.remove("mirror")
pair.site.session.close()
base.step("done")
