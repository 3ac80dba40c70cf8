# SPDX-License-Identifier: GPL-2.0-only
"""Seeded lives of a mirror whose legs somebody else uses, too: another host takes the local leg,
the remote one or both, as far as it is let to, writes to them, and stops. The mirror meanwhile
runs or is suspended, loses legs, and is told whatever an administrator may tell it.

Arguments: how many lives, the first seed, and optionally the policy of all of them.

What is promised:
  - A leg that the mirror's kernel log has called another's (FOREIGN) isn't changed by the mirror
    until it is started anew: not one bit of it.
  - Started anew, after `resolve` if need be, the mirror gets in sync, and its legs are then alike.
  - A start is refused with EINVAL, and a resume, of a new table, too, with ESTALE; but only if
    somebody else has used a leg.
The other host comes when the mirror's does nothing, and for some seconds after it nobody writes
(METADATA_SECONDS): only fencing helps against two hosts that write at the same moment.
"""

from __future__ import annotations

import errno
import random
import sys
import time
from collections.abc import Callable

from locklab import base, blk, dm
from otherhost import LOOKED, SETTLES, other_host, resolve
from statelab import LOCAL, REMOTE, Beside, Versions, sector
from statelegs import Pair

FOREIGN = "isn't as this mirror has written it"
POLICIES = ("degrade", "error", "block")
WRITE = 8
PLACES = 24
EVENTS = 22


class Life:
    def __init__(self, seed: int, policy: str | None) -> None:
        self.rng = random.Random(f"strangers {seed}")
        policy = policy or self.rng.choice(POLICIES)
        self.pair = Pair("policy", policy, "remote_timeout", 2000, "local_timeout", 2000,
                         "rejoin", 1)  # fmt: skip
        self.log = base.KernelLog()
        self.versions = Versions()
        self.runs, self.suspended, self.used = True, False, False
        self.all_well = True
        self.theirs: dict[str, bytes] = {}  # what is on the legs that the mirror has called so
        self.told: list[str] = [policy]

    def events(self) -> list[Callable[[], None]]:
        if not self.runs:
            return [self.start]
        if self.suspended:
            return [self.use, self.use, self.load, self.resume, self.resume, self.resume]
        return [
            self.put, self.put, self.put, self.put, self.put, self.use, self.use, self.suspend,
            self.gone, self.gone, self.well, self.well, self.well, self.rest, self.rest,
            self.recover, self.recover, self.fail, self.resync, self.policy, self.flush,
        ]  # fmt: skip

    def write(self, node: str) -> None:
        at = self.rng.randrange(PLACES) * 64
        version = self.versions.next()
        with blk.Disk(node) as disk:
            disk.write(at, b"".join(sector(version, at + n) for n in range(WRITE)))

    def put(self) -> None:
        self.done(lambda: self.write(self.pair.node))

    def flush(self) -> None:
        def work() -> None:
            with blk.Disk(self.pair.node) as disk:
                disk.flush()

        self.done(work)

    def done(self, work: Callable[[], None]) -> None:
        """Or failed; if it is blocked, it is told to fail."""
        beside = Beside(work)
        base.until(lambda: beside.done or self.pair.word("standing") == "blocked", "an answer")
        if not beside.done:
            self.message("policy error")
        try:
            beside.result()
        except OSError as err:
            self.told.append(str(err.errno))
            base.equal(err.errno, errno.EIO, "a write or flush")

    def use(self) -> None:
        """By the other host, as far as it is let to."""
        if not self.all_well:
            self.well()
            return
        time.sleep(SETTLES)
        self.look()
        legs = self.rng.choice(((LOCAL,), (REMOTE,), (LOCAL, REMOTE)))
        self.told.append("+".join(legs))
        try:
            with other_host(self.pair, *(self.pair.legs[leg] for leg in legs)) as there:
                self.write(there)
        except OSError as err:
            self.told.append(str(err.errno))
            base.equal(err.errno, errno.EINVAL, "the other host's start")
        else:
            self.used = True
        for leg in legs:
            if leg in self.theirs:
                self.theirs[leg] = self.pair.legs[leg].image()
        time.sleep(LOOKED)

    def suspend(self) -> None:
        dm.suspend("mirror")
        self.suspended = True

    def load(self) -> None:
        self.well()
        dm.load("mirror", self.pair.table())

    def resume(self) -> None:
        try:
            dm.resume("mirror")
        except OSError as err:
            self.told.append(str(err.errno))
            base.equal(err.errno, errno.ESTALE, "a resume")
            base.expect(self.used, "a resume is refused though nobody else has used a leg")
            self.stop()
        self.suspended = False

    def gone(self) -> None:
        leg = self.rng.choice((LOCAL, REMOTE))
        self.told.append(leg)
        self.pair.legs[leg].gone()
        self.all_well = False

    def well(self) -> None:
        for leg in self.pair.legs.values():
            leg.well()
        self.all_well = True

    def rest(self) -> None:
        time.sleep(self.rng.choice((2, LOOKED, 35)))

    def recover(self) -> None:
        self.message("recover")

    def fail(self) -> None:
        self.message(f"fail {self.rng.choice((LOCAL, REMOTE))}")

    def resync(self) -> None:
        self.message("resync")

    def policy(self) -> None:
        self.message(f"policy {self.rng.choice(POLICIES)}")

    def message(self, text: str) -> None:
        self.told.append(f"({text})")
        try:
            self.pair.message(text)
        except OSError as err:
            self.told.append(str(err.errno))

    def stop(self) -> None:
        self.pair.stop()
        self.runs = self.suspended = False

    def start(self) -> None:
        self.look()
        self.well()
        try:
            self.pair.start()
        except OSError as err:
            base.equal(err.errno, errno.EINVAL, "a start")
            base.expect(self.used, "a start is refused though nobody else has used a leg")
            kept = resolve(self.pair, self.rng.choice((LOCAL, REMOTE)))
            self.told.append(f"keeps {kept}")
            self.pair.start()
        self.runs, self.used = True, False
        self.log.new()
        self.theirs.clear()
        self.pair.in_sync()

    def look(self) -> None:
        """Whether a leg is called another's now, and is as it was if it has been before."""
        for leg, was in self.theirs.items():
            now = self.pair.legs[leg].image()
            if now != was:
                ends = range(0, len(was), 512)
                changed = [at // 512 for at in ends if now[at : at + 512] != was[at : at + 512]]
                raise base.Wrong(f"the {leg} leg is another's and has changed: {changed[:8]}")
        for line in self.log.new():
            for leg in (leg for leg in (LOCAL, REMOTE) if f"{leg} leg" in line):
                if FOREIGN in line and leg not in self.theirs:
                    self.told.append(f"THEIRS:{leg}")
                    self.theirs[leg] = self.pair.legs[leg].image()

    def live(self) -> None:
        for _ in range(EVENTS):
            event = self.rng.choice(self.events())
            self.told.append(event.__name__)
            event()
            if self.runs:
                self.told.append(f"[{self.pair.status().health} {self.pair.word('standing')}]")
            self.look()
        if self.runs:
            self.stop()
        self.told.append("the end")
        self.start()
        self.pair.stop()
        self.pair.same()
        self.pair.close()


count, begin = (int(word) for word in sys.argv[1:3])
kind = base.words(3, POLICIES)
called = 0
for seed in range(begin, begin + count):
    life = Life(seed, kind[0] if kind else None)
    try:
        life.live()
    except (base.Wrong, OSError) as err:
        raise base.Wrong(f"life {seed}: {' '.join(life.told)}: {err}") from err
    called += sum(word.startswith("THEIRS") for word in life.told)
base.step(f"done; {called} times a leg was called another's")
