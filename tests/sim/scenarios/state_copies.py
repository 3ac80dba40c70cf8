# SPDX-License-Identifier: GPL-2.0-only
"""A leg comes back as it was once: an image of it (a snapshot of its LUN, a backup) is put in its
place. What was written since is in no map any more, so it must not be taken for in sync.

Args: the part.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from functools import partial

from locklab import base, blk, dm
from statelab import LOCAL, REMOTE, meta
from statelegs import Pair


def written(pair: Pair) -> None:
    """To regions where there was nothing, and both legs have it."""
    for at in (0, 256):
        pair.put(at)
    pair.clean()


def refused(pair: Pair, older: str, says: str = "is an older copy") -> None:
    """What the other leg has is kept, once the command is told so."""
    with base.refused("a start", errno.EINVAL, kernel=says):
        pair.start()
    meta("resolve", "--keep", LOCAL if older == REMOTE else REMOTE, pair.local.node,
         pair.remote.node)  # fmt: skip
    pair.start()
    pair.good_end("resolved")


def stopped(leg: str, running: bool) -> None:
    base.step(f"the {leg} leg is put back as it was, and the mirror is started; {running=}")
    pair = Pair("rejoin", 0)
    if not running:
        pair.stop()
    old = pair.legs[leg].image()
    if not running:
        pair.start()
    written(pair)
    pair.stop()
    pair.legs[leg].put(old)
    refused(pair, leg)
    pair.close()


def both() -> None:
    base.step("both legs are put back as they were: nothing is wrong with that")
    pair = Pair("rejoin", 0)
    pair.stop()
    old = {name: leg.image() for name, leg in pair.legs.items()}
    pair.start()
    written(pair)
    pair.stop()
    for name, leg in pair.legs.items():
        leg.put(old[name])
    pair.start()
    pair.in_sync()
    pair.stop()
    pair.same()
    pair.close()


def crashed(leg: str) -> None:
    base.step(f"the primary crashes, and the {leg} leg is put back as it was")
    pair = Pair("rejoin", 0)
    old = pair.legs[leg].image()
    written(pair)
    images = {name: one.image() for name, one in pair.legs.items()}
    images[leg] = old
    pair.stop()
    for name, one in pair.legs.items():
        one.put(images[name])
    refused(pair, leg)
    pair.close()


def alone(leg: str) -> None:
    base.step(f"the {leg} leg is put back as it was, goes on alone, and the other comes back")
    pair = Pair("rejoin", 0)
    old = pair.legs[leg].image()
    written(pair)
    pair.stop()
    pair.legs[leg].put(old)
    for _ in range(3):
        pair.start(**{REMOTE if leg == LOCAL else LOCAL: "-"})
        with blk.Disk(pair.node) as disk:
            disk.write(512, bytes(8 << 9))
        pair.stop()
    refused(pair, leg, "contradict each other")
    pair.close()


def neither() -> None:
    base.step("no leg takes its superblock: there is no better one, and writes go on")
    pair = Pair("rejoin", 0)
    for leg in pair.legs.values():
        leg.set(slots="nowrite")
    pair.put(0)
    time.sleep(70)
    pair.put(256)
    base.equal(pair.status().health, "AA", "health")
    for leg in pair.legs.values():
        leg.well()
    pair.clean()
    pair.good_end("well again")
    pair.close()


def rejoins(policy: str) -> None:
    base.step(f"the remote leg fails, and comes back as it was; {policy=}")
    pair = Pair("rejoin", 0, "policy", policy)
    old = pair.remote.image()
    written(pair)
    pair.remote.gone()
    if policy == "degrade":
        pair.put(512)
    else:
        pair.message("fail remote")
    pair.remote.put(old)
    pair.remote.well()
    with base.refused("recover", errno.EINVAL):
        pair.message("recover")
    base.expect("outdated" in dm.status(pair.name), f"status: {dm.status(pair.name)}")
    pair.stop()
    refused(pair, REMOTE)
    pair.close()


def exchanged() -> None:
    base.step("the remote leg is exchanged for an older copy while the table is")
    pair = Pair("rejoin", 0)
    old = pair.remote.image()
    written(pair)
    dm.load(pair.name, pair.table())
    dm.suspend(pair.name)
    pair.remote.put(old)
    dm.resume(pair.name)
    pair.wait("AD", "alone")
    base.expect("outdated" in dm.status(pair.name), f"status: {dm.status(pair.name)}")
    pair.check("the local leg goes on")
    pair.stop()
    refused(pair, REMOTE)
    pair.close()


PARTS: dict[str, Callable[[], None]] = {
    "stopped_local": partial(stopped, LOCAL, False),
    "stopped_remote": partial(stopped, REMOTE, False),
    "running_local": partial(stopped, LOCAL, True),
    "running_remote": partial(stopped, REMOTE, True),
    "crashed_local": partial(crashed, LOCAL),
    "crashed_remote": partial(crashed, REMOTE),
    "alone_local": partial(alone, LOCAL),
    "alone_remote": partial(alone, REMOTE),
    "both": both,
    "neither": neither,
    "rejoins": partial(rejoins, "degrade"),
    "rejoins_block": partial(rejoins, "block"),
    "exchanged": exchanged,
}
(part,) = base.words(1, PARTS)
PARTS[part]()
base.step("done")
