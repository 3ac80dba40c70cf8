# SPDX-License-Identifier: GPL-2.0-only
"""Two hosts with ways to the same two legs, of which one has the mirror, and what befalls the ways.

One leg at most has trouble since both were in sync; but who stands by may not reach either.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from locklab import base, dm, mirror
from statelab import LOCAL, MAP_PAGE, PAGE, REMOTE
from statesites import Sites, Wires

LEGS = (LOCAL, REMOTE)
VERBOSE = bool(base.words(3, ["verbose"]))


@dataclass
class Host:
    """One that can have the mirror, as a device of this name."""

    name: str
    wires: Wires


class TwoHosts:
    """`sectors` of the mirror; the host that has it is `host`, and `idle` the other one, which may
    have a read-only table (`stands_by`)."""

    def __init__(self, rng: random.Random, cached: dict[str, bool], sectors: int,
                 spare: int) -> None:  # fmt: skip
        self.rng = rng
        self.log: list[str] = []
        self.sites = Sites(cached, sectors, spare)
        self.sites.make(None, "--assume-clean")
        self.sectors = self.sites.super(LOCAL).data_sectors
        other = Wires(self.sites.media, {leg: f"b{leg}" for leg in LEGS}, self.sites.sectors)
        self.host, self.idle = Host("mirror", self.sites), Host("other", other)
        self.stands_by = False
        self.trouble: set[str] = set()  # since both legs were in sync
        self.local_hangs = False  # there is a timeout for it
        self.unreached = ""  # a leg that who stands by doesn't reach, until it has taken over
        self.bad: tuple[str, list[int], str] | None = None  # places that fail, of a leg

    def say(self, what: str) -> None:
        self.log.append(what)
        if VERBOSE:
            there = dm.exists(self.host.name)
            base.step(f"{what} | {dm.status(self.host.name) if there else '-'}")

    @property
    def node(self) -> str:
        return f"/dev/mapper/{self.host.name}"

    @property
    def wires(self) -> Wires:
        """The ways of the host that has the mirror."""
        return self.host.wires

    def status(self) -> mirror.Status:
        return mirror.parse(dm.status(self.host.name))

    def well(self) -> bool:
        now = self.status()
        return (now.health, now.action) == ("AA", "idle")

    # Faults. One leg at a time.

    def leg_for_fault(self) -> str:
        """Any if both are in sync, else the one that has trouble by now."""
        if not self.trouble:
            now = self.status()
            if (now.health, now.action) != ("AA", "idle"):
                self.trouble |= {leg for leg, has in zip(LEGS, now.health, strict=True)
                                 if has != "A"} or set(LEGS)  # fmt: skip
            else:
                self.trouble.add(self.rng.choice((LOCAL, REMOTE, REMOTE)))
        return next(iter(self.trouble)) if len(self.trouble) == 1 else ""

    def fault(self) -> None:
        rng, leg = self.rng, self.leg_for_fault()
        if not leg:
            return
        how = rng.choice(("error", "nowrite", "hang", "hang", "read", "write", "both", "slow"))
        if how == "hang":
            if leg == LOCAL and not self.local_hangs:
                return
            self.say(f"{leg} hangs")
            self.wires.hang(leg)
        elif how in ("error", "nowrite"):
            self.say(f"{leg} {how}")
            self.wires.fail(leg, how)
        elif how == "slow":
            self.say(f"{leg} is slow")
            self.wires.slow(leg, rng.randint(1, 30))
        else:
            start = self.sites.super(leg).map_start
            pages = -(-self.sectors // MAP_PAGE)
            many = rng.choice((1, 1, 3, 12))
            places = sorted({start + PAGE * rng.randrange(pages + 4) for _ in range(many)})
            self.say(f"{leg}: no {how} of pages {[(at - start) // PAGE for at in places]}")
            self.bad = leg, places, {"both": ""}.get(how, f"error_{how}s")
            self.wires.fail_places(*self.bad)

    def mend(self) -> None:
        self.bad = None
        for leg in LEGS:
            self.wires.mend(leg)

    def mend_idle(self, moved: str = "") -> None:
        """But for what isn't reached for longer. moved: it is another device now."""
        if self.unreached == moved:
            self.unreached = ""
        for leg in LEGS:
            if leg != self.unreached:
                self.idle.wires.mend(leg)

    def drag(self) -> None:
        """Both legs take their time, so that something comes amid what they are told."""
        ms = self.rng.choice((1, 1, 3))
        for leg in LEGS:
            self.wires.slow(leg, ms)

    def power(self, leg: str) -> None:
        """Goes, and comes back. What is under way is sent again, or fails."""
        every = (self.host.wires, self.idle.wires)
        for wires in every:
            wires.hang(leg)
        self.sites.cut(leg, self.rng.randrange(1 << 30))
        self.sites.power_on(leg)
        if self.rng.random() < 0.5:
            self.wires.fail(leg)
        self.wires.mend(leg)
        self.mend_idle(leg)
        self.sites.drop(leg)
