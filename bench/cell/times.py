# SPDX-License-Identifier: GPL-2.0-only
"""Times in the shape of all workloads: count, bytes, seconds, mean, minimum, percentiles, maximum.

Percentiles are by nearest rank, as bench/replay's: each is a time that was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_SHARES = {"min_ns": 0, "p50_ns": 500, "p99_ns": 990, "p999_ns": 999, "max_ns": 1000}


def told(times_ns: Sequence[int], total_bytes: int, seconds: float) -> dict[str, Any]:
    """No times give a count of 0 and nothing else."""
    if not times_ns:
        return {"count": 0, "bytes": total_bytes, "seconds": seconds}
    ranked = sorted(times_ns)
    found = {
        name: ranked[max(-(-permille * len(ranked) // 1000) - 1, 0)]
        for name, permille in _SHARES.items()
    }
    mean = sum(ranked) / len(ranked)
    return {
        "count": len(ranked), "bytes": total_bytes, "seconds": seconds, "mean_ns": mean, **found,
    }  # fmt: skip
