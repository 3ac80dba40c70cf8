# SPDX-License-Identifier: GPL-2.0-only
"""A leg hangs, and what waits for it is waited for by a message, or by a parting that begins in a
suspend or after it: messages, suspends, removals and reloads end all the same.

Args: the scenes, none: all.
"""

import contextlib
import errno
import sys
import time
from collections.abc import Callable

from locklab import base, blk, dm
from statelab import Beside
from statelegs import Pair

TIMEOUT_MS = 2000
IN_TIME = TIMEOUT_MS / 1000 * 9 / 8 + 0.5  # as watch.h says, and what else is done
NEVER = "6000000"


def ends(what: str, work: Callable[[], object] | Beside, seconds: float) -> None:
    begun = time.monotonic()
    beside = work if isinstance(work, Beside) else Beside(work)
    try:
        base.until(lambda: beside.done, what, seconds)
    except base.Wrong as err:
        now = dm.status('mirror') if dm.exists('mirror') else 'no mirror'
        raise base.Wrong(f"{err}; {now}") from None
    with contextlib.suppress(OSError):
        beside.result()
    print(f"  {what}: ended after {time.monotonic() - begun:.3f} s", flush=True)


def silent(pair: Pair, leg: str) -> None:
    base.until(lambda: pair.word("silent") == leg, f"silent: {leg}", 120)


def resumes() -> bool:
    try:
        dm.resume("mirror")
    except OSError as err:
        base.equal(err.errno, errno.EBUSY, "while a leg hasn't answered")
        return False
    return True


def in_a_join() -> Pair:
    """Both legs are there, and the source doesn't say so."""
    pair = Pair("remote_timeout", TIMEOUT_MS, "local_timeout", TIMEOUT_MS, "rejoin", 1)
    pair.put(0)
    pair.remote.gone()
    pair.put(640)
    pair.wait("AD", "alone")
    pair.local.set(slots=f"stall:{NEVER}")
    pair.remote.well()
    silent(pair, "local")
    return pair


def in_the_cleaner() -> Pair:
    """The local leg has no timeout, as it has by default, and keeps a flush."""
    pair = Pair("remote_timeout", TIMEOUT_MS, "rejoin", 1, cache_mib=1)
    pair.put(0)
    pair.local.set(data=f"slow:{NEVER}")
    silent(pair, "local")
    return pair


def in_a_verify() -> Pair:
    """It marks what differs, and the local leg doesn't take the map."""
    pair = Pair("remote_timeout", TIMEOUT_MS, "rejoin", 1)
    pair.put(0)
    with blk.Disk(pair.remote.disk.node) as disk:
        disk.write(640, blk.pattern("differs", 8))
    pair.local.set(map=f"stall:{NEVER}")
    pair.message("verify start")
    silent(pair, "local")
    return pair


def told(make: Callable[[], Pair], text: str) -> None:
    base.step(f"{text}, {make.__name__} that waits for the local leg; then a suspend")
    pair = make()
    ends(text, lambda: pair.message(text), 4)
    again = Beside(lambda: pair.message(text))
    time.sleep(0.1)
    ends("suspend", lambda: dm.suspend("mirror"), 2 * IN_TIME)
    ends(f"{text} once more", again, 0.5)
    ends("all comes back", pair.local.well, 7000)
    base.until(resumes, "all has come back, and it is resumed", 60)
    pair.put(640)  # what differed, if that couldn't be marked
    pair.good_end(text)
    pair.close()


def parted_in_suspend() -> None:
    base.step("the local leg fails what the suspend writes, and the remote one hangs then")
    pair = Pair("remote_timeout", TIMEOUT_MS, "local_timeout", TIMEOUT_MS, "rejoin", 1)
    pair.put(0)
    pair.clean()
    pair.remote.all(f"slow:{NEVER}")
    pair.local.all("nowrite")
    ends("suspend", lambda: dm.suspend("mirror"), 3 * IN_TIME)
    pair.local.well()
    ends("all comes back", pair.remote.well, 7000)
    base.until(resumes, "all has come back, and it is resumed", 60)
    with contextlib.suppress(OSError):
        pair.message("recover")
    pair.good_end("parted in the suspend")
    pair.close()


def parted_later(fails: str, what: str) -> None:
    base.step(f"fail {fails} while suspended, and the other leg hangs; then {what}")
    # No table is made while a leg without a timeout hangs.
    timeout = 0 if what == "remove" else TIMEOUT_MS
    pair = Pair("remote_timeout", TIMEOUT_MS, "local_timeout", timeout, "rejoin", 1)
    pair.put(0)
    dm.suspend("mirror")
    hung = pair.remote if fails == "local" else pair.local
    hung.hang()
    ends(f"fail {fails}", lambda: pair.message(f"fail {fails}"), 3.5)
    if what == "remove":
        ends(what, pair.stop, 12)
    else:
        with contextlib.suppress(OSError):
            dm.load("mirror", pair.table())
        ends(what, lambda: dm.resume("mirror"), 40)
    hung.wake()
    time.sleep(1)
    if what == "remove":
        pair.start()
    else:
        with contextlib.suppress(OSError):
            dm.load("mirror", pair.table())
        dm.suspend("mirror")
        dm.resume("mirror")
    with contextlib.suppress(OSError):
        pair.message("recover")
    pair.good_end(what)
    pair.close()


def resumed(legs: str, what: str) -> None:
    """Nobody stands in for the leg that hangs: the other one has gone, or there is no timeout."""
    base.step(f"{legs}, the local leg hangs while the table is suspended; a resume, and {what}")
    timeout = TIMEOUT_MS if legs == "alone" else 0
    pair = Pair("remote_timeout", TIMEOUT_MS, "local_timeout", timeout, "rejoin", 1)
    pair.put(0)
    if legs == "alone":
        pair.remote.gone()
        pair.put(64)
        pair.wait("AD", "alone")
    dm.suspend("mirror")
    pair.local.hang()
    with base.refused("a resume", errno.EBUSY, kernel="hasn't answered all"):
        first = Beside(lambda: dm.resume("mirror"))
        ends("resume", first, 12)
        first.result()
    ends("recover", lambda: pair.message("recover"), 12)
    if what == "remove":
        ends(what, pair.stop, 12)
    pair.local.wake()
    pair.remote.well()
    if what == "remove":
        time.sleep(1)
        pair.start()
    else:
        base.until(resumes, "all has come back, and it is resumed", 60)
        pair.put(640)
    pair.good_end(what)
    pair.close()


SCENES: dict[str, Callable[[], None]] = {
    "join_recover": lambda: told(in_a_join, "recover"),
    "join_grow": lambda: told(in_a_join, "grow"),
    "cleaner_resync": lambda: told(in_the_cleaner, "resync"),
    "verify_stop": lambda: told(in_a_verify, "verify stop"),
    "verify_resync": lambda: told(in_a_verify, "resync"),
    "verify_limit": lambda: told(in_a_verify, "dirty_limit 1"),
    "parted": parted_in_suspend,
    "local_removed": lambda: parted_later("local", "remove"),
    "remote_removed": lambda: parted_later("remote", "remove"),
    "local_reloaded": lambda: parted_later("local", "a new table"),
    "resumed_alone": lambda: resumed("alone", "another one"),
    "resumed_together": lambda: resumed("together", "another one"),
    "removed_alone": lambda: resumed("alone", "remove"),
    "removed_together": lambda: resumed("together", "remove"),
    "remote_reloaded": lambda: parted_later("remote", "a new table"),
}

for scene in sys.argv[1:] or SCENES:
    SCENES[scene]()
base.step("done")
