# SPDX-License-Identifier: GPL-2.0-only
"""The mirror runs without one leg, and that leg comes back having been used elsewhere: it is not
taken, whatever the policy; that is told, the mirror stands as it stood; `resolve` is the way on.

Arguments: how many variants (default 24, 6 on the checked kernel), and the first seed. By seed:
which leg, the policy, how much the mirror wrote without it, who used it (a take-over that wrote or
only read, one that was never ended, another mirror's leg, nothing but zeroes), how it comes back,
and which side is kept.
"""

import errno
import random
import sys
import time
from functools import partial

from locklab import base, blk, dm, mirror
from statelab import (
    ALONE,
    LOCAL,
    REMOTE,
    SLOTS,
    Beside,
    History,
    content,
    create,
    meta,
    refusal,
    source_of,
    tail,
    write,
)
from statelegs import MAP_SECTORS, Leg, Pair

STANDING = {"degrade": "alone", "block": "blocked", "error": "refusing"}
OTHERS = ("writes", "writes", "reads", "isn't ended", "another mirror", "blank")
TAKEOVER, NEW_SESSION = "takeover", "newsession"


class Split:
    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(f"split {seed}")
        self.leg = rng.choice((REMOTE, REMOTE, LOCAL))
        self.other = LOCAL if self.leg == REMOTE else REMOTE
        self.policy = rng.choice(("degrade", "degrade", "block", "error"))
        self.how = rng.choice(OTHERS)
        self.hangs = self.leg == REMOTE and rng.random() < 0.5
        self.back = rng.choice(("by itself", "recover", "reload", "another device"))
        self.pair = Pair("remote_timeout", 2000, "rejoin", 1, "policy", self.policy)
        self.nodes = {name: leg.node for name, leg in self.pair.legs.items()}
        self.health = "AD" if self.leg == REMOTE else "DA"

    def run(self) -> None:
        pair, leg = self.pair, self.pair.legs[self.leg]
        for at in range(0, 1024, 128):
            pair.put(at + self.rng.randrange(64))
        theirs = pair.history.fork()
        self.cut(leg)
        if self.hangs:  # what is on its way arrives when the leg wakes
            theirs.issue(0, 8, pair.versions.last)
        self.goes_on()
        said = f"{self.health} {STANDING[self.policy]}: {self.leg}, {self.how}, {self.back}"
        print(f"  {said}", flush=True)
        self.used_elsewhere(leg, theirs)
        self.comes_back(leg)
        self.goes_on()
        self.resolved(theirs)
        pair.good_end("in the end")
        pair.close()

    def cut(self, leg: Leg) -> None:
        """Whatever the mirror has seen of it, it is without the leg from now on."""
        if self.hangs:
            leg.hang()
        else:
            leg.gone()
        self.put(0)
        self.pair.wait(self.health, STANDING[self.policy])

    def put(self, at: int) -> None:
        """A write, and what the policy says of it; if it is held, it fails in the end."""
        seen = self.pair.count("held")
        held = Beside(partial(self.pair.put, at))
        if self.policy == "degrade":
            held.result(5)
            return
        if self.policy == "block":
            base.until(lambda: self.pair.count("held") > seen, "it is held")
            self.pair.wait(self.health, "blocked")
            base.expect(not held.done, "it is held")
            self.pair.message("fail_held")
        with base.refused(f"a write, policy {self.policy}", errno.EIO):
            held.result(5)

    def goes_on(self) -> None:
        """Reads, and writes as the policy has it."""
        self.pair.check("without the leg")
        for _ in range(self.rng.randint(0, 3)):
            self.put(self.rng.randrange(1400))
            base.equal(self.pair.word("standing"), STANDING[self.policy], "standing")
        self.pair.check("without the leg, after writes")

    def used_elsewhere(self, leg: Leg, theirs: History) -> None:
        """The disk itself, which the mirror's path to it doesn't show now."""
        if self.how == "blank":
            with blk.Disk(leg.disk.node) as disk:
                disk.write(disk.sectors - SLOTS - MAP_SECTORS, bytes((SLOTS + MAP_SECTORS) * 512))
            return
        if self.how == "another mirror":
            others = [Leg(f"other{name}") for name in (LOCAL, REMOTE)]
            create(*(other.node for other in others))
            leg.put(others[self.leg == REMOTE].image())
            for other in others:
                other.close()
            return
        legs = {self.leg: leg.disk.node, self.other: "-"}
        node = dm.create(TAKEOVER, mirror.table(legs[LOCAL], legs[REMOTE], sectors=theirs.sectors))
        theirs.check(content(node, theirs.sectors), "the take-over", settle=False)
        if self.how != "reads":
            with blk.Disk(node) as disk:
                for _ in range(6):
                    write(disk, theirs, self.pair.versions, 8, self.rng, 8, theirs.sectors - 8)
        image = leg.image()
        dm.remove(TAKEOVER)
        if self.how == "isn't ended":
            leg.put(image)
        base.equal(leg.super.state, ALONE, "the state of the leg that was used")

    def comes_back(self, leg: Leg) -> None:
        log, before = base.KernelLog(), self.pair.legs[self.other].super.cur
        theirs = tail(leg.disk.node)
        if self.hangs:
            leg.wake()
        leg.well()
        if self.back == "recover":
            with base.refused("recover", errno.EINVAL):
                self.pair.message("recover")
        elif self.back == "reload":
            dm.reload("mirror", self.pair.table())
        elif self.back == "another device":
            # As the LUN of a new session: nothing is known of it but what it says itself.
            self.nodes[self.leg] = dm.create(NEW_SESSION, f"0 {leg.disk.sectors} linear"
                                                          f" {leg.disk.node} 0")  # fmt: skip
            dm.reload("mirror", self.table())
        time.sleep(10)  # rejoin is tried all the while
        self.pair.wait(self.health, STANDING[self.policy])
        base.equal(self.pair.word("why"), "diverged" if self.ours else "foreign", "why")
        told = [line for line in log.new() if "can't come back" in line or "can't be taken" in line]
        base.expect(1 <= len(told) <= 2, f"told, and not again and again: {told}")
        base.equal(tail(leg.disk.node), theirs, "what the leg says of itself")
        if self.back in ("by itself", "recover"):
            base.equal(self.pair.legs[self.other].super.cur, before, "the survivor's generation")

    @property
    def ours(self) -> bool:
        """Is it this mirror's leg, whoever used it?"""
        return self.how not in ("blank", "another mirror")

    def table(self) -> str:
        return self.pair.table(local=self.nodes[LOCAL], remote=self.nodes[REMOTE])

    def resolved(self, theirs: History) -> None:
        """By the administrator's word only, once the mirror has been stopped."""
        pair, nodes = self.pair, list(self.nodes.values())
        refusal("resolve", "--keep", LOCAL, *nodes)
        pair.stop()
        kept = self.other
        if not self.ours:
            with base.refused("a leg that isn't this mirror's", errno.EINVAL):
                dm.create("mirror", self.table())
            meta("join", "--source", self.nodes[self.other], "--leg", self.leg, "--force",
                 self.nodes[self.leg])  # fmt: skip
        else:
            supers = [leg.super for leg in pair.legs.values()]
            source = source_of(*supers)
            if source is None:
                with base.refused("a split brain", errno.EINVAL, kernel="history of the remote"):
                    dm.create("mirror", self.table())
                kept = self.rng.choice((LOCAL, REMOTE))
                meta("resolve", "--keep", kept, *nodes)
            else:
                # Policy block or error: this side has acknowledged nothing alone.
                base.equal(source, self.leg, "the source")
                kept = source
        print(f"  kept: {kept}", flush=True)
        if kept == self.leg:
            pair.history = theirs
        dm.create("mirror", self.table())
        pair.check(f"from the {kept} leg")
        pair.in_sync()
        pair.put(64)
        if self.back == "another device":
            pair.stop()
            dm.remove(NEW_SESSION)
            pair.start()


variants = int(sys.argv[1]) if len(sys.argv) > 1 else 6 if base.CHECKED else 24
first = int(sys.argv[2]) if len(sys.argv) > 2 else base.SEED
for seed in range(first, first + variants):
    base.step(f"variant {seed}")
    Split(seed).run()
base.step("done")
