# SPDX-License-Identifier: GPL-2.0-only
"""Seeded lives of a mirror with metadata: writes under failing links and legs, power cuts of either
site, takeovers, split brains, messages; judged by what was acknowledged.

Arguments: how many lives (default 20), and the first seed. Each life is some acts; each act is a
running mirror with writers, things that happen to it, and an end: a clean stop, a crash of the
primary (its power is cut, what was on the wire is lost), or quiet. After a crash or a stop the
mirror site may go on alone, or the primary with one leg; then both legs are put together again.

What is promised:
  - What the two superblocks mean is known here, too (statelab.source_of); the kernel decides alike:
    it goes on from the source, or refuses, and a split brain is resolved by lockstep-meta.
  - Every acknowledged write is there afterwards; of what a power cut took from a local disk with a
    volatile cache, what was flushed or written with FUA.
  - A write fails only if the policy says so, or if both legs have had trouble since they were in
    sync: one leg is enough. Once everything is well again, no write fails.
  - A leg that is not complete never goes on alone.
  - Once everything is well again, both legs are in sync, and alike, sector by sector.
"""

from __future__ import annotations

import contextlib
import errno
import random
import sys
import time
from collections.abc import Callable

from locklab import base, dm, mirror
from mirrorlab import FIELDS
from statelab import (
    ALONE,
    LOCAL,
    REMOTE,
    SYNC,
    Beside,
    History,
    Versions,
    Writers,
    content,
    gets_in_sync,
    meta,
    source_of,
    version_in,
)
from statesites import Sites

LEGS = (LOCAL, REMOTE)
TAKEOVER = "takeover"
VERBOSE = bool(base.words(3, ["verbose"]))
made: dict[tuple[str, ...], list[bytes]] = {}


class Life:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"state {seed}")
        self.seed = seed
        rng = self.rng
        self.sites = Sites({leg: rng.random() < 0.6 for leg in LEGS})
        options = ("--assume-clean",) if rng.random() < 0.5 else ()
        made[options] = self.sites.make(made.get(options), *options)
        sectors = self.sites.super(LOCAL).data_sectors
        self.truth = History(sectors)
        self.versions = Versions()
        self.volatile = False  # the truth's leg has lost its power
        self.log: list[str] = []
        self.node = ""
        self.writers: Writers | None = None
        self.policy = "degrade"
        self.acked = 0
        # Since both legs were in sync: which had trouble, and was the policy another?
        self.trouble: set[str] = set()
        self.strict = False

    def say(self, what: str) -> None:
        self.log.append(what)
        if VERBOSE:
            with contextlib.suppress(OSError, base.Wrong):
                supers = [self.sites.super(leg) for leg in LEGS]
                told = [f"{'?SATN'[s.state]} {s.cur[1]}:{s.cur[0] & 0xFFFF:x} base"
                        f" {s.base[0] & 0xFFFF:x} seq {s.seq}" for s in supers]  # fmt: skip
                status = dm.status("mirror") if dm.exists("mirror") else "-"
                base.step(f"{what} | {' / '.join(told)} | {status}")

    def table(self, local: str | None = None, remote: str | None = None) -> str:
        legs = self.sites.legs
        return mirror.table(
            local or legs[LOCAL], remote or legs[REMOTE],
            "policy", self.policy, "remote_timeout", 1000 if base.REALTIME else 100, "rejoin", 1,
            "resync_jobs", self.rng.randint(1, 4), sectors=self.truth.sectors,
        )  # fmt: skip

    def status(self) -> mirror.Status:
        return mirror.parse(dm.status("mirror"))

    def standing(self) -> str:
        return self.status().rest[FIELDS.index("standing")]

    def message(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self.patient(lambda: dm.message("mirror", text))

    def patient(self, work: Callable[[], object]) -> None:
        """What a leg that hangs may hold up: it is mended then."""
        beside = Beside(work)
        end = time.monotonic() + 0.5
        while not beside.done and time.monotonic() < end:
            time.sleep(0.002)
        while not beside.done:
            self.sites.mend_hung()
            time.sleep(0.01)
            # Not asked before: it may be its removal that is waited for.
            if time.monotonic() > end + 30:
                raise base.Wrong(f"ends at last: {dm.status('mirror')}")
        beside.result()

    # What happens to a running mirror.

    def happen(self) -> None:
        rng, sites = self.rng, self.sites
        leg = rng.choice((LOCAL, REMOTE, REMOTE))
        dice = rng.randrange(22)
        if dice < 3:
            self.say("hang")
            self.trouble.add(REMOTE)
            sites.hang(REMOTE)
            time.sleep(rng.choice((0.02, 0.05, 0.3)))
            if rng.random() < 0.7:
                sites.mend(REMOTE)
        elif dice < 6:
            how = rng.choice(("error", "nowrite"))
            self.say(f"{leg} {how}")
            self.trouble.add(leg)
            sites.fail(leg, how)
        elif dice < 9:
            self.say(f"mend {leg}")
            sites.mend(leg)
        elif dice < 10:
            self.say(f"slow {leg}")
            self.trouble.add(leg)
            sites.slow(leg, rng.randint(1, 20))
        elif dice < 12:
            self.say("power of the mirror site")
            self.trouble.add(REMOTE)
            self.power(REMOTE)
        elif dice < 18:
            self.policy_or_message(leg)
        elif dice < 19:
            self.say("bounce")
            flush = rng.random() < 0.5
            self.patient(lambda: dm.suspend("mirror", flush=flush))
            base.until(self.resumed, "the mirror to be resumed")
        elif dice < 20:
            self.reload()
        elif dice < 21:
            self.say("a while")
            self.rest(70)
        else:
            self.say("seconds")
            time.sleep(0.2)
            self.rest(2.5)

    def resumed(self) -> bool:
        """Not while a leg hasn't answered all that the suspend has written: so it is mended."""
        try:
            self.patient(lambda: dm.resume("mirror"))
        except OSError as err:
            base.equal(err.errno, errno.EBUSY, "a resume")
            self.sites.mend_hung()
            return False
        return True

    def policy_or_message(self, leg: str) -> None:
        rng = self.rng
        if rng.random() < 0.3:
            self.policy = rng.choice(("degrade", "degrade", "block", "error"))
            self.strict = self.strict or self.policy != "degrade"
            text = f"policy {self.policy}"
        else:
            text = rng.choice((
                f"fail {leg}", "recover", "recover", f"recover {leg}", "resync", "unblock",
                "fail_held", f"resync_rate {rng.choice((0, 0, 300))}", "verify start",
                "verify stop", f"remote_timeout {rng.choice((50, 100, 1000))}",
            ))  # fmt: skip
        self.say(text)
        if text == "resync":
            self.trouble.add(REMOTE)
        elif text == f"fail {leg}":
            self.trouble.add(leg)
        self.message(text)

    def reload(self) -> None:
        """As lockstep does it: a leg that can't be read would be refused, and is left out."""
        self.say("reload")
        for leg in LEGS:
            self.sites.mend(leg)
        dm.load("mirror", self.table())
        self.patient(lambda: dm.suspend("mirror"))
        try:
            self.patient(lambda: dm.resume("mirror"))
        except OSError as err:
            raise base.Wrong(f"reload: {err}") from err

    def power(self, leg: str) -> None:
        """The mirror site's power comes back at once; what is on the wire is retried, or fails."""
        self.sites.hang(leg)
        self.sites.cut(leg, self.rng.randrange(1 << 30))
        self.sites.power_on(leg)
        if self.rng.random() < 0.5:
            self.sites.fail(leg)
        self.sites.mend(leg)
        self.sites.drop(leg)

    def rest(self, seconds: float) -> None:
        """Without writes."""
        assert self.writers
        self.end_writers()
        time.sleep(seconds)
        self.write()

    # Writers.

    def write(self) -> None:
        rng = self.rng
        self.writers = Writers(
            self.node, self.truth, self.versions, seed=f"{self.seed} {self.versions.last}",
            writers=rng.randint(1, 3), pause=rng.choice(((0.001, 0.004), (0.004, 0.02))),
        )  # fmt: skip

    def end_writers(self) -> None:
        """Under policy block that takes an end to what holds them."""
        assert self.writers
        self.writers.told_to_stop()
        end = time.monotonic() + 30
        while any(thread.is_alive() for thread in self.writers.threads):
            if self.standing() == "blocked":
                self.message("fail_held")
            self.sites.mend_hung()
            base.expect(time.monotonic() < end, f"writers end: {dm.status('mirror')}")
            time.sleep(0.02)
        self.writers.stop()
        self.acked += self.writers.acked
        wrong = self.writers.errors - {errno.EIO}
        base.expect(not wrong, f"errors of writes {wrong}")
        if not self.strict and len(self.trouble) < 2 and not self.truth.frozen:
            base.equal(self.writers.failed, 0, f"failed writes, trouble with {self.trouble}")
        self.writers = None

    # Acts.

    def begin(self, source: str, history: History, *, volatile: bool) -> None:
        """Both legs are there; `source` has the truth."""
        self.say(f"begin from {source}")
        self.truth = history
        supers = [self.sites.super(leg) for leg in LEGS]
        stopped = all(s.state == SYNC and not s.active for s in supers)
        # Else the other leg may have something to catch up.
        self.trouble = set() if stopped else {leg for leg in LEGS if leg != source}
        self.strict = self.policy != "degrade"
        log = base.KernelLog()
        try:
            self.node = dm.create("mirror", self.table())
        except OSError as err:
            raise base.Wrong(f"both legs, source {source}: refused: {err}: {log.new()}") from err
        self.truth.check(content(self.node, self.truth.sectors), f"from {source}",
                         volatile=volatile)  # fmt: skip

    def quiet(self) -> None:
        """Everything is well; after a while both legs are in sync and alike."""
        for leg in LEGS:
            self.sites.mend(leg)
        self.end_writers()
        self.policy = "degrade"
        for text in ("verify stop", "resync_rate 0", "policy degrade", "recover"):
            self.message(text)
        gets_in_sync(self.status, self.message, 60)
        self.trouble, self.strict = set(), False
        self.write()
        base.until(lambda: self.writers and self.writers.acked + self.writers.failed > 3, "writes")
        self.end_writers()
        self.truth.check(content(self.node, self.truth.sectors), "quiet")
        self.alike("quiet")

    def alike(self, when: str) -> None:
        local, remote = (content(self.sites.media[leg], self.truth.sectors) for leg in LEGS)
        if local != remote:
            at = next(n for n in range(self.truth.sectors)
                      if local[n * 512 : n * 512 + 512] != remote[n * 512 : n * 512 + 512])
            has = [f"write {version_in(disk, at)}" for disk in (local, remote)]
            status = dm.status("mirror") if dm.exists("mirror") else "-"
            raise base.Wrong(
                f"{when}: the legs differ, first in sector {at}: the local one has {has[0]}, the"
                f" remote one {has[1]}, {self.truth.acked[at]} was acknowledged; status {status}"
            )

    def act(self) -> None:
        self.write()
        for _ in range(self.rng.randint(1, 7)):
            time.sleep(self.rng.choice((0.003, 0.02, 0.1)))
            self.happen()

    def crash(self) -> None:
        """The primary's power is cut; what it had on the wire may arrive or not."""
        self.say("crash")
        assert self.writers
        # In real time what is written from now on has to be held up: the local disk takes it, and
        # marks, though it has no power any more, and the remote one would be ahead of the marks.
        if self.rng.random() < 0.7 or base.REALTIME:
            self.sites.hang(REMOTE)  # lost
        self.truth.frozen = True
        self.sites.cut(LOCAL, self.rng.randrange(1 << 30))
        # What follows happens to a host that isn't there any more.
        self.sites.fail(REMOTE)
        self.message("policy error")
        self.end_writers()
        self.patient(lambda: dm.remove("mirror"))
        self.sites.power_on(LOCAL)
        for leg in LEGS:
            self.sites.mend(leg)
        self.sites.drop(LOCAL)
        self.truth.frozen = False

    def stop(self) -> None:
        self.say("stop")
        self.end_writers()
        self.patient(lambda: dm.remove("mirror"))
        for leg in LEGS:
            self.sites.mend(leg)

    def alone(self, leg: str, history: History, *, volatile: bool) -> History | None:
        """One leg without the other: some writes. None: it can't, and mustn't."""
        node = self.sites.media[leg]
        whole = self.sites.super(leg).whole
        legs = {other: "-" for other in LEGS if other != leg} | {leg: node}
        self.say(f"{leg} alone: {'goes on' if whole else 'must not'}")
        table = mirror.table(legs[LOCAL], legs[REMOTE], sectors=history.sectors)
        if not whole:
            with base.refused(f"{leg} leg alone, incomplete", errno.EINVAL,
                              kernel="No leg here has all the data"):  # fmt: skip
                dm.create(TAKEOVER, table)
            return None
        device = dm.create(TAKEOVER, table)
        history = history.fork()
        history.check(content(device, history.sectors), f"{leg} leg alone", volatile=volatile)
        writers = Writers(device, history, self.versions, seed=f"alone {self.seed}", writers=1)
        time.sleep(self.rng.choice((0.01, 0.1, 0.4)))
        if self.rng.random() < 0.5:
            history.frozen = True
            self.sites.cut(leg, self.rng.randrange(1 << 30))
            writers.stop()
            dm.remove(TAKEOVER)
            self.sites.power_on(leg)
            self.sites.mend(leg)
            self.sites.drop(leg)
            history.frozen = False
        else:
            writers.stop()
            base.equal(writers.failed, 0, f"failed writes of the {leg} leg alone")
            dm.remove(TAKEOVER)
        base.equal(self.sites.super(leg).state, ALONE, f"state of the {leg} leg")
        return history

    def between(self, crashed: bool) -> None:
        """The mirror is down. One leg or the other may have a life of its own now."""
        rng = self.rng
        local, remote = (self.sites.super(leg) for leg in LEGS)
        source = source_of(local, remote)
        base.expect(source, f"one of the legs has the data: {local} {remote}")
        lost = crashed and self.sites.cached[LOCAL]
        branches = {LOCAL: self.truth, REMOTE: self.truth}
        promise = {LOCAL: lost, REMOTE: False}
        # What the other leg has, if it is whole all the same, can be any of what was.
        for leg in LEGS:
            behind = leg != source and (local.cur != remote.cur)
            if behind:
                branches[leg] = self.truth.fork()
                branches[leg].forget()
        for leg in rng.sample(LEGS, rng.choice((0, 0, 1, 1, 2))):
            # Both in sync, the primary's disk without what its cache held: still a branch.
            mine = self.alone(leg, branches[leg], volatile=promise[leg])
            if mine:
                branches[leg] = mine
                promise[leg] = self.sites.cached[leg] and leg == LOCAL
        source = source_of(self.sites.super(LOCAL), self.sites.super(REMOTE))
        if source is None:
            self.say("split brain")
            with base.refused("a split brain", errno.EINVAL, kernel="history of the remote leg"):
                dm.create("mirror", self.table())
            source = rng.choice(LEGS)
            meta("resolve", "--keep", source, *self.sites.legs.values())
        self.begin(source, branches[source], volatile=promise[source])

    def live(self) -> str:
        rng = self.rng
        self.begin(LOCAL, self.truth, volatile=False)
        for _ in range(rng.randint(1, 4)):
            self.act()
            dice = rng.random()
            if dice < 0.55:
                self.crash()
                self.between(True)
            elif dice < 0.75:
                self.stop()
                self.between(False)
            else:
                self.quiet()
        if self.writers is None:
            self.write()
        self.quiet()
        self.patient(lambda: dm.remove("mirror"))
        self.alike("stopped")
        self.truth.check(content(self.sites.media[REMOTE], self.truth.sectors), "the remote leg")
        states = [self.sites.super(leg).state for leg in LEGS]
        base.equal(states, [1, 1], "states at the end")
        return f"{self.acked} writes: {', '.join(self.log)}"

    def close(self) -> None:
        self.sites.close()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    first = int(sys.argv[2]) if len(sys.argv) > 2 else base.SEED
    for seed in range(first, first + count):
        life = Life(seed)
        try:
            told = life.live()
        except (base.Wrong, OSError) as err:
            raise base.Wrong(f"seed {seed}: {err}\nsteps: {', '.join(life.log)}") from err
        print(f"seed {seed}: {told}", flush=True)
        life.close()
    print(f"{count} lives passed", flush=True)


main()
