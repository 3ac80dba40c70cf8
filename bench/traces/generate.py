# SPDX-License-Identifier: GPL-2.0-only
"""Traces with Financial-1's published characteristics, for those who don't have it.

From the paper's Table 1 (the whole trace): 2,452,167 requests, 1,502,641 of them writes; mean
request 3,855 B, mean write 4,838 B; 57 requests a second. Measured on its first 10,000 records
(bench/traces/spc.py, statistics): how many requests come at one instant, the gaps between
instants, how bursts cluster, sizes, the shares of rewritten and sequential addresses.
The giant requests of the whole trace (up to 17 MB) are left out.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from traces import spc

WRITE_SHARE = 1_502_641 / 2_452_167
RATE = 57.0
MEAN_WRITE, MEAN_READ = 4838.0, (3855 * 2_452_167 - 4838 * 1_502_641) / (2_452_167 - 1_502_641)

# Requests at one instant: how often, of 5,456 instants.
GROUPS = {
    1: 2766, 2: 1773, 3: 564, 4: 179, 5: 54, 6: 26, 7: 25, 8: 16, 9: 16, 10: 14, 11: 13, 12: 7,
    13: 2, 14: 1,
}  # fmt: skip
# Gaps between instants in seconds, at these quantiles.
GAPS = (
    (0.0, 0.0065), (0.1, 0.0066), (0.3, 0.0131), (0.4, 0.0197), (0.5, 0.0262), (0.6, 0.0393),
    (0.7, 0.0524), (0.8, 0.0655), (0.9, 0.0786), (0.95, 0.0983), (0.98, 0.2621), (0.99, 0.4522),
    (0.999, 1.35), (1.0, 4.0174),
)  # fmt: skip
# Sizes of writes and reads in bytes: weight in per mille before the means are adjusted.
WRITE_SIZES = {
    512: 220, 1024: 160, 2560: 48, 3072: 337, 3584: 128, 4096: 24, 8192: 33, 12288: 14, 28160: 7,
    49152: 37,
}  # fmt: skip
READ_SIZES = {512: 130, 1024: 50, 2048: 20, 3072: 20, 4096: 10, 8192: 770}
SAME_OP = 0.79  # a request has the operation of the one before
REWRITTEN, SEQUENTIAL = 0.46, 0.42
# Requests for each ASU in the first 10,000 records; spans in sectors are all alike here.
ASUS = (
    1013, 828, 684, 638, 355, 126, 130, 168, 272, 307, 680, 73, 168, 410, 326, 61, 658, 8, 220,
    1435, 1435, 5,
)  # fmt: skip
ASU_SECTORS = 480 << 11
BURST_MEMORY, BURST_SPREAD = 0.95, 0.6  # of the logarithm of the load from instant to instant
RECENT = 64  # addresses of an ASU that may be written again


def _gap(rng: random.Random) -> float:
    at = rng.random()
    for (q0, g0), (q1, g1) in pairwise(GAPS):
        if at <= q1:
            return g0 + (g1 - g0) * (at - q0) / (q1 - q0)
    return GAPS[-1][1]


def _tilted(sizes: dict[int, int], mean: float) -> tuple[list[int], list[float]]:
    """The sizes' cumulated weights, multiplied by exp(k x size) so that their mean is right."""
    low, high = -1e-3, 1e-3
    for _ in range(80):
        k = (low + high) / 2
        weights = [weight * math.exp(k * size) for size, weight in sizes.items()]
        got = sum(w * s for w, s in zip(weights, sizes, strict=True)) / sum(weights)
        low, high = (k, high) if got < mean else (low, k)
    return list(sizes), list(accumulate(weights))


def _times(count: int, rng: random.Random) -> list[float]:
    """Arrival times with the rate wanted: groups, gaps, and a slowly changing load."""
    groups, weights = list(GROUPS), list(accumulate(GROUPS.values()))
    noise = math.sqrt(1 - BURST_MEMORY**2) * BURST_SPREAD
    now = load = 0.0
    times: list[float] = []
    while len(times) < count:
        times += [now] * rng.choices(groups, cum_weights=weights)[0]
        load = BURST_MEMORY * load + rng.gauss(0, noise)
        now += _gap(rng) * math.exp(load)
    del times[count:]
    scale = count / RATE / times[-1] if times[-1] else 1.0
    return [round(time * scale, 6) for time in times]


def financial1(count: int, seed: int) -> list[spc.Request]:
    """So many requests; the same seed gives the same trace."""
    rng = random.Random(f"financial1 {seed}")
    sizes = {True: _tilted(WRITE_SIZES, MEAN_WRITE), False: _tilted(READ_SIZES, MEAN_READ)}
    asus = list(accumulate(ASUS))
    recent: dict[int, list[int]] = {}
    end: dict[int, int] = {}
    write = True
    requests = []
    for time in _times(count, rng):
        if rng.random() > (SAME_OP - 0.5) / 0.5:  # else the operation stays
            write = rng.random() < WRITE_SHARE
        asu = rng.choices(range(len(ASUS)), cum_weights=asus)[0]
        size = rng.choices(sizes[write][0], cum_weights=sizes[write][1])[0]
        old = recent.setdefault(asu, [])
        luck = rng.random()
        if write and old and luck < REWRITTEN:
            lba = rng.choice(old)
        elif asu in end and luck > 1 - SEQUENTIAL:
            lba = end[asu]
        else:
            lba = rng.randrange(ASU_SECTORS - (size >> 9))
        end[asu] = lba + (size >> 9)
        if write:
            old.append(lba)
            del old[:-RECENT]
        requests.append(spc.Request(asu, lba, size, write, round(time * 1e9)))
    return requests


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="SPC text to write")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    if args.records < 2:
        parser.error("--records: at least 2")
    requests = financial1(args.records, args.seed)
    spc.write(args.file, requests)
    print(*spc.statistics(requests).lines(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
