#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Traces of any length with the published characteristics of those that aren't at hand.

A generated trace has the model's rate, share of writes and mean sizes (models.py), and arrivals,
places and sizes that are drawn after the model. Its requests come one after another, never all of
them in memory; only their times are (8 bytes each), as the rate needs the last one.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from traces import spc
from traces.models import MODELS, Model

RECENT = 64  # addresses of an ASU that may be written again


def _quantile(points: Sequence[tuple[float, float]], at: float) -> float:
    for (q0, g0), (q1, g1) in pairwise(points):
        if at <= q1:
            return g0 + (g1 - g0) * (at - q0) / (q1 - q0)
    return points[-1][1]


@dataclass(frozen=True)
class _Sizes:
    sizes: list[int]
    cumulated: list[float]

    def draw(self, rng: random.Random) -> int:
        return rng.choices(self.sizes, cum_weights=self.cumulated)[0]


def _tilted(sizes: Mapping[int, float], mean: float) -> _Sizes:
    """The sizes' weights, multiplied by exp(k x size) so that their mean is right."""
    low, high = -1e-3, 1e-3
    for _ in range(80):
        k = (low + high) / 2
        weights = [weight * math.exp(k * size) for size, weight in sizes.items()]
        got = sum(w * s for w, s in zip(weights, sizes, strict=True)) / sum(weights)
        low, high = (k, high) if got < mean else (low, k)
    return _Sizes(list(sizes), list(accumulate(weights)))


def _without_giants(model: Model, mean: float, published_count: int) -> float:
    """The mean that all other requests need."""
    low, high = model.giants_from, model.published.largest
    if not model.giants:
        return mean
    of_giants = (high - low) / math.log(high / low)
    theirs = model.giants * of_giants + high / published_count
    return (mean - theirs) / (1 - model.giants)


def _times(model: Model, count: int, rng: random.Random) -> array[float]:
    """Arrival times in the model's own unit: groups, gaps, and a slowly changing load."""
    groups, weights = list(model.groups), list(accumulate(model.groups.values()))
    noise = math.sqrt(1 - model.burst_memory**2) * model.burst_spread
    now = load = 0.0
    times = array("d")
    while len(times) < count:
        for _ in range(rng.choices(groups, cum_weights=weights)[0]):
            times.append(now)
        load = model.burst_memory * load + rng.gauss(0, noise)
        now += _quantile(model.gaps, rng.random()) * math.exp(load)
    del times[count:]
    return times


def requests(name: str, count: int, seed: int) -> Iterator[spc.Request]:
    """So many requests (at least 2); the same name, count and seed give the same trace."""
    model = MODELS[name]
    told = model.published
    rng = random.Random(f"{name} {seed}")
    times = _times(model, count, rng)
    scale = count / told.rate / times[-1] if times[-1] else 1.0
    # The mean of all includes giants of either kind; the largest of all is a write.
    sizes = {
        True: _tilted(model.write_sizes, _without_giants(model, told.mean_write, told.writes)),
        False: _tilted(model.read_sizes, told.mean_read),
    }
    share = told.writes / told.requests
    largest_at = rng.randrange(told.requests) if model.giants else -1
    asus, asu_weights = range(len(model.asus)), list(accumulate(model.asus))
    recent: list[deque[int]] = [deque(maxlen=RECENT) for _ in asus]
    end = [-1] * len(asus)
    write = True
    for number in range(count):
        if rng.random() > model.stays:
            write = rng.random() < share
        asu = rng.choices(asus, cum_weights=asu_weights)[0]
        if number % told.requests == largest_at:
            write, size = True, told.largest
        elif write and rng.random() < model.giants:
            size = _giant(model, rng)
        else:
            size = sizes[write].draw(rng)
        sectors = -(-size // spc.SECTOR)
        luck = rng.random()
        if write and recent[asu] and luck < model.rewritten:
            lba = rng.choice(recent[asu])
        elif end[asu] >= 0 and luck > 1 - model.sequential:
            lba = end[asu]
        else:
            lba = rng.randrange(model.asu_sectors - sectors)
        lba = min(lba, model.asu_sectors - sectors)
        end[asu] = lba + sectors
        if write:
            recent[asu].append(lba)
        yield spc.Request(asu, lba, size, write, round(times[number] * scale * 1e6) * 1000)


def _giant(model: Model, rng: random.Random) -> int:
    low, high = model.giants_from, model.published.largest
    return int(low * (high / low) ** rng.random()) // spc.SECTOR * spc.SECTOR


def beside(name: str, got: spc.Statistics) -> list[str]:
    """A generated trace's statistics with the published ones, as lines of a table."""
    model = MODELS[name]
    told = model.published
    whole = got.requests / told.requests
    seconds = got.seconds or 1.0
    rows = [
        ("requests", f"{got.requests}", f"{told.requests}"),
        ("writes", f"{got.writes}", f"{told.writes} ({told.writes * whole:.0f} of so many)"),
        ("smallest, B", f"{got.smallest_bytes}", f"{told.smallest}"),
        ("largest, B", f"{got.largest_bytes}", f"{told.largest}"),
        ("mean request, B", f"{got.mean_bytes:.0f}", f"{told.mean:.0f}"),
        ("mean write, B", f"{got.mean_write_bytes:.0f}", f"{told.mean_write:.0f}"),
        ("requests a second", f"{got.requests / seconds:.1f}", f"{told.rate:.0f}"),
        ("writes a second", f"{got.writes / seconds:.1f}", f"{told.write_rate:.0f}"),
    ]
    return [
        f"{name:18} {'generated':>12}   published (Table 1)",
        *(f"{what:18} {ours:>12}   {theirs}" for what, ours, theirs in rows),
        f"same instant {got.same_instant:.1%}, variation of gaps {got.cv_gap:.2f}, sequential "
        f"{got.sequential:.1%}, rewritten {got.rewritten:.1%}",
        f"not from Table 1: {model.origin}",
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("file", type=Path, help="SPC text to write")
    parser.add_argument("--records", type=int, help="default: as many as the published trace has")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    count = args.records or MODELS[args.name].published.requests
    if count < 2:
        parser.error("--records: at least 2")
    tally = spc.Tally()
    spc.write(args.file, tally.all(requests(args.name, count, args.seed)))
    print(*beside(args.name, tally.result()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
