# SPDX-License-Identifier: GPL-2.0-only
"""What is known of the remote-mirroring paper's traces: its Table 1, and what we fit or assume.

Table 1 gives a trace's length, rate, mean sizes and range of sizes. How requests cluster, where
they go, and what other sizes there are has to come from elsewhere; each model says from where.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A column of Table 1. Sizes in bytes, rates a second."""

    requests: int
    writes: int
    smallest: int
    largest: int
    mean: float
    mean_write: float
    rate: float
    write_rate: float

    @property
    def mean_read(self) -> float:
        reads = self.requests - self.writes
        return (self.mean * self.requests - self.mean_write * self.writes) / reads


@dataclass(frozen=True)
class Model:
    published: Published
    origin: str  # of what Table 1 doesn't say
    # Sizes: weights before the means are adjusted to the published ones (generate.py).
    write_sizes: Mapping[int, float]
    read_sizes: Mapping[int, float]
    # Requests at one instant: how often. Gaps between instants in seconds, at these quantiles.
    groups: Mapping[int, float]
    gaps: tuple[tuple[float, float], ...]
    # The load drifts: memory and spread of its logarithm from instant to instant.
    burst_memory: float
    burst_spread: float
    stays: float  # a request has the operation of the one before by this, else it is drawn anew
    rewritten: float  # a write goes where one of the ASU's last 64 went
    sequential: float  # a request starts where the ASU's last one ended
    asus: tuple[float, ...]  # weight of each ASU
    asu_sectors: int
    # Sizes far above all others: how often among all requests, from how many bytes up to the
    # published largest (their logarithms are spread evenly), the largest once in a whole trace.
    giants: float = 0.0
    giants_from: int = 64 << 10


# Measured on the first 10,000 records of Financial-1: 5,456 instants.
_GROUPS = {
    1: 2766, 2: 1773, 3: 564, 4: 179, 5: 54, 6: 26, 7: 25, 8: 16, 9: 16, 10: 14, 11: 13, 12: 7,
    13: 2, 14: 1,
}  # fmt: skip
_GAPS = (
    (0.0, 0.0065), (0.1, 0.0066), (0.3, 0.0131), (0.4, 0.0197), (0.5, 0.0262), (0.6, 0.0393),
    (0.7, 0.0524), (0.8, 0.0655), (0.9, 0.0786), (0.95, 0.0983), (0.98, 0.2621), (0.99, 0.4522),
    (0.999, 1.35), (1.0, 4.0174),
)  # fmt: skip
# Of an exponential distribution with mean 1, for arrivals that know nothing of one another.
_POISSON = (
    (0.0, 0.0), (0.1, 0.105), (0.2, 0.223), (0.3, 0.357), (0.4, 0.511), (0.5, 0.693), (0.6, 0.916),
    (0.7, 1.204), (0.8, 1.609), (0.9, 2.303), (0.95, 2.996), (0.99, 4.605), (0.999, 6.908),
    (1.0, 9.21),
)  # fmt: skip

FINANCIAL_1 = Model(
    published=Published(2_452_167, 1_502_641, 1024, 17_116_160, 3855, 4838, 57, 35),
    origin="sizes, arrivals, ASUs and locality as in the real first 10,000 records (whose smallest "
    "requests have 512 B); how often giant requests come is assumed: one in 100,000",
    write_sizes={
        512: 220, 1024: 160, 2560: 48, 3072: 337, 3584: 128, 4096: 24, 8192: 33, 12288: 14,
        28160: 7, 49152: 37,
    },
    read_sizes={512: 130, 1024: 50, 2048: 20, 3072: 20, 4096: 10, 8192: 770},
    groups=_GROUPS,
    gaps=_GAPS,
    burst_memory=0.95,
    burst_spread=0.6,
    stays=0.58,
    rewritten=0.46,
    sequential=0.42,
    asus=(
        1013, 828, 684, 638, 355, 126, 130, 168, 272, 307, 680, 73, 168, 410, 326, 61, 658, 8, 220,
        1435, 1435, 5,
    ),
    asu_sectors=480 << 11,
    giants=1e-5,
)  # fmt: skip

FINANCIAL_2 = dataclasses.replace(
    FINANCIAL_1,
    published=Published(2_733_121, 480_529, 1024, 262_656, 2508, 3107, 67, 12),
    origin="nothing but Table 1 is at hand: arrivals and locality are assumed to be Financial-1's, "
    "a trace of the same kind by the same people; sizes are assumed to be small powers of two, and "
    "one request in 10,000 far larger",
    write_sizes={1024: 250, 2048: 350, 3072: 120, 4096: 180, 8192: 80, 16384: 20},
    read_sizes={1024: 300, 2048: 400, 3072: 100, 4096: 120, 8192: 80},
    asus=(1.0,) * 19,
    giants=1e-4,
    giants_from=16 << 10,
)

TPCC20 = Model(
    published=Published(10_000_000, 2_965_750, 4096, 126_976, 47_063, 4710, 192, 57),
    origin="arrivals (nearly Poisson), operations and little sequence as in a TPC-C disk trace of "
    "6,999 records; one disk of 20 warehouses, 2 GiB; sizes are assumed to be whole 4 KiB pages "
    "and reads ahead; rewriting is assumed to be Financial-1's",
    write_sizes={4096: 940, 8192: 40, 12288: 10, 16384: 6, 32768: 3, 126976: 1},
    read_sizes={4096: 200, 8192: 180, 16384: 60, 32768: 60, 65536: 80, 126976: 420},
    groups={1: 988, 2: 12},
    gaps=_POISSON,
    burst_memory=0.0,
    burst_spread=0.0,
    stays=0.01,
    rewritten=0.46,
    sequential=0.012,
    asus=(1.0,),
    asu_sectors=2 << 21,
)

MODELS: Mapping[str, Model] = {
    "financial-1": FINANCIAL_1, "financial-2": FINANCIAL_2, "tpcc20": TPCC20,
}  # fmt: skip
