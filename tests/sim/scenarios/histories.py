# SPDX-License-Identifier: GPL-2.0-only
"""Every order of a few events around two overlapping writes: what search_mirror.py and
search_dcd.py share.

    SCRIPT EVENTS [SHARD SHARDS] [only=NAME,NAME] [but=NAME,NAME] [with=NAME,NAME] [every=N]
        [shorter=1] [WORD=VALUE of the script's own]
    SCRIPT lives=FIRST,COUNT [length=N] [only=...] [but=...] [WORD=VALUE ...]

A history is the writes W1 and W2, which overlap, and up to EVENTS events before, between and behind
them. After each event the world goes on at once, or after as long as it takes everything that is
timed to pass (`~` behind its name).

SHARD of SHARDS: each history belongs to one of them. only: histories of these events alone; but:
of none of these; with: of at least one of these, and maybe others. every: about one of N, told by a
checksum of the name, as each Nth has the same events in the same places when N and the number of
events go into each other. shorter: an event that changes nothing where it stands, and a wait in
which nothing can happen, make a history that is no other than a shorter one: it is void, too. The
last line says how many there were, and how much simulated time they took. A history that fails is
told as `W1 hang~ W2 other_way`, which is also an argument: the script then runs that one.

lives: instead of every order of few events, random orders of up to `length` (default 12) events and
several writes: those of so many seeds, from the first one on. What can't happen in one is left out.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from locklab import base

WRITES = {"W1": (100, 8), "W2": (104, 8)}


# Set once, by main().
SHORTER = {"shorter": False}


class Refused(Exception):
    """The event can't happen in this state: the history is no other than the one without it."""


def needless(nothing: bool) -> None:
    """The event changes nothing: of shorter histories the one without it is enough."""
    if nothing and SHORTER["shorter"]:
        raise Refused


class World(Protocol):
    def write(self, first: int, count: int) -> None: ...
    def still(self) -> bool: ...  # nothing happens by itself, so a wait changes nothing
    def judge(self) -> None: ...
    def let_go(self) -> None: ...
    def close(self) -> None: ...


Some = TypeVar("Some", bound=World)


def orders(most: int, names: list[str]) -> Iterator[tuple[str, ...]]:
    """Fewer events first. The waits are part of a history, and of its name."""
    timed = [name + wait for name in names for wait in ("", "~")]
    for count in range(most + 1):
        for events in itertools.product(timed, repeat=count):
            for one, two in itertools.combinations_with_replacement(range(count + 1), 2):
                yield (*events[:one], "W1", *events[one:two], "W2", *events[two:])


def lives(first: int, count: int, length: int, names: list[str]) -> Iterator[tuple[str, ...]]:
    """One history for each seed."""
    for seed in range(first, first + count):
        rng = random.Random(seed)
        events = rng.choices(names, k=rng.randint(2, length))
        events += rng.choices(list(WRITES), k=rng.randint(2, 2 + length // 3))
        rng.shuffle(events)
        yield tuple(name + rng.choice(("", "", "~")) for name in events)


def live(
    make: Callable[[], Some], known: dict[str, Callable[[Some], None]], history: tuple[str, ...],
    long_s: float, *, whole: bool = True, waits: bool = True,
) -> tuple[str, ...]:  # fmt: skip
    """Returns the beginning of it that is void: up to an event that couldn't happen where it
    stands; that is left out if the history needn't be `whole`. Or up to a wait in which nothing can
    happen, unless such ones are waited for (`waits`). () if it has passed."""
    world = make()
    void = False
    done: list[str] = []
    try:
        for word in history:
            name = word.rstrip("~")
            done.append(word)
            try:
                if name in WRITES:
                    world.write(*WRITES[name])
                else:
                    known[name](world)
            except Refused:
                if not whole:
                    done.pop()
                    continue
                void = True
                break
            time.sleep(0.001)
            if word.endswith("~"):
                void = not waits and world.still()
                if void:
                    break
                time.sleep(long_s)
        world.judge()
        world.close()
    except (base.Wrong, OSError) as err:
        world.let_go()
        raise base.Wrong(f"history {' '.join(done)}: {err}") from err
    return tuple(done) if void else ()


def main(
    make: Callable[[], Some], events: Sequence[Callable[[Some], None]], long_s: float,
    own: dict[str, str],
) -> int:  # fmt: skip
    """long_s: what `~` waits, in s. own: the script's words, which get what the arguments say."""
    known = {one.__name__: one for one in events}
    told = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    plain = [word for word in sys.argv[1:] if "=" not in word]
    words = ("only", "but", "with", "every", "lives", "length", "shorter", *own)
    base.expect(set(told) <= set(words), f"{sys.argv[1:]}; known: {', '.join(words)}")
    own.update((word, value) for word, value in told.items() if word in own)
    if any(word.rstrip("~") in WRITES for word in plain):
        names = {*WRITES, *known}
        base.expect(all(word.rstrip("~") in names for word in plain), f"known: {sorted(names)}")
        print("void" if live(make, known, tuple(plain), long_s) else "passed", flush=True)
        return 0
    most, shard, shards = (int(word) for word in (*plain, *("0", "0", "1")[len(plain) :]))
    wanted = told["only"].split(",") if "only" in told else list(known)
    but, among = (told[word].split(",") if word in told else [] for word in ("but", "with"))
    base.expect({*wanted, *but, *among} <= set(known), f"known: {sorted(known)}")
    chosen = [name for name in wanted if name not in but]
    every = int(told.get("every", "1"))
    shorter = SHORTER["shorter"] = told.get("shorter") == "1"

    def belongs(history: tuple[str, ...]) -> bool:
        number = zlib.crc32(" ".join(history).encode())
        if number % every or number // every % shards != shard:
            return False
        return not among or any(word.rstrip("~") in among for word in history)

    seeded = "lives" in told
    if seeded:
        first, count = map(int, told["lives"].split(","))
        found = lives(first, count, int(told.get("length", "12")), chosen)
    else:
        found = filter(belongs, orders(most, chosen))
    began = time.monotonic()
    tally = {"passed": 0, "void": 0}
    voids: set[tuple[str, ...]] = set()
    for history in found:
        void = any(history[:n] in voids for n in range(1, len(history)))
        if not void:
            begun = live(make, known, history, long_s, whole=not seeded, waits=not shorter)
            void = bool(begun)
            voids.add(begun)
        tally["void" if void else "passed"] += 1
    print(f"{tally['passed']} histories passed, {tally['void']} void, "
          f"{time.monotonic() - began:.0f} s simulated")  # fmt: skip
    return 0
