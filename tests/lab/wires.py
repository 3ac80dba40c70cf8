#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Reader of wires.json, the wire profiles that both labs share.

A profile has two directions, `to_mirror` and `to_primary`. Each is turned into the arguments of
tc's netem qdisc by netem(); a direction whose speed varies yields its speeds by schedule(). Both
are functions of the profile and the seed alone, so the same seed gives the same wire anywhere.

Standard library only: this file also runs inside the labs' guests.

As a program: `wires.py PROFILE to_mirror|to_primary [--seed N]` prints the netem arguments,
`wires.py --list` the profiles.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "wires.json"

# Packets that netem may hold: far above any window used here, so that the wire queues and never
# drops by itself. Loss is asked for by name.
QUEUE_PACKETS = 100_000


@dataclass(frozen=True)
class Direction:
    """One direction of a wire. None means: not shaped."""

    delay_us: int = 0
    rate_bit: int | None = None
    vary_bit: tuple[int, int] | None = None
    every_s: tuple[float, float] | None = None


@dataclass(frozen=True)
class Profile:
    name: str
    about: str
    to_mirror: Direction
    to_primary: Direction

    @property
    def rtt_us(self) -> int:
        """Round-trip time without serialisation, in microseconds."""
        return self.to_mirror.delay_us + self.to_primary.delay_us


class UnknownWire(ValueError):
    """The profile's name is not in wires.json; the message lists those that are."""


def names() -> list[str]:
    """All names in the file, families with their -N."""
    return [name for name in _read() if not name.startswith("_")]


def load(name: str) -> Profile:
    """The profile of that name; for a family, with its number in the name (outsourcing-4)."""
    table = _read()
    number: float | None = None
    entry = table.get(name) if not name.startswith("_") and not name.endswith("-N") else None
    if entry is None:
        family, dash, tail = name.rpartition("-")
        try:
            number = float(tail)
        except ValueError:
            number = None
        entry = table.get(f"{family}-N") if dash and number is not None and number >= 0 else None
    if entry is None:
        known = ", ".join(names())
        raise UnknownWire(f"no wire profile {name!r} in {DATA.name}; there are: {known}")
    return Profile(
        name=name,
        about=str(entry["about"]),
        to_mirror=_direction(entry["to_mirror"], number),
        to_primary=_direction(entry["to_primary"], number),
    )


def netem(
    way: Direction, seed: int, rate_bit: int | None = None, loss_percent: float = 0.0,
    reorder_percent: float = 0.0,
) -> list[str]:  # fmt: skip
    """Arguments after `tc qdisc ... netem`; `rate_bit` overrides the direction's own (for a varying
    one it is the speed of the moment). Empty when nothing is shaped: take no netem then. What is
    reordered isn't delayed, and so overtakes all that is on its way."""
    rate = rate_bit if rate_bit is not None else way.rate_bit
    if rate is None and way.vary_bit is not None:
        rate = next(schedule(way, seed))[1]
    if not way.delay_us and rate is None and not loss_percent:
        return []
    args = ["limit", str(QUEUE_PACKETS)]
    if way.delay_us:
        args += ["delay", f"{way.delay_us}us"]
        if reorder_percent:
            args += ["reorder", f"{reorder_percent}%"]
    if loss_percent:
        args += ["loss", f"{loss_percent}%"]
    if rate is not None:
        args += ["rate", f"{rate}bit"]
    return [*args, "seed", str(seed)]


def schedule(way: Direction, seed: int) -> Iterator[tuple[float, int]]:
    """Endless (seconds it lasts, bits a second) of a direction whose speed varies."""
    if way.vary_bit is None or way.every_s is None:
        raise ValueError("this direction's speed does not vary")
    draw = random.Random(f"wire {seed}")  # a name, so that other users of the seed differ
    while True:
        rate = draw.randint(*way.vary_bit)
        yield round(draw.uniform(*way.every_s), 3), rate


def _read() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return table


def _direction(entry: dict[str, Any], number: float | None) -> Direction:
    def field(key: str) -> Any:
        value = entry.get(key)
        return number if value == "N" else value

    delay_us = field("delay_us")
    if delay_us is None:
        delay_us = 1000 * (field("delay_ms") or 0)
    speeds, every = field("rate_bytes_per_s"), field("change_every_s")
    return Direction(
        delay_us=round(delay_us),
        rate_bit=field("rate_bit"),
        vary_bit=(8 * speeds[0], 8 * speeds[1]) if speeds else None,
        every_s=(every[0], every[1]) if every else None,
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="netem arguments of a lab wire profile")
    parser.add_argument("profile", nargs="?")
    parser.add_argument("direction", nargs="?", choices=("to_mirror", "to_primary"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name the profiles and stop")
    args = parser.parse_args(argv)
    if args.list:
        for name, entry in _read().items():
            if not name.startswith("_"):
                print(f"{name:16} {entry['about']}")
        return 0
    if args.profile is None or args.direction is None:
        parser.error("a profile and a direction are needed (or --list)")
    try:
        profile = load(args.profile)
    except UnknownWire as err:
        parser.error(str(err))
    print(" ".join(netem(getattr(profile, args.direction), args.seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
