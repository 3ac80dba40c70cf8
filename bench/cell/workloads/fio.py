# SPDX-License-Identifier: GPL-2.0-only
"""One fio job. The parameters are fio's own options; `idle_s` seconds pass before it.

As in {rw = "randwrite", bs = "4k", iodepth = 16, number_ios = 12000, idle_s = 30}. `before`: jobs
that aren't measured, for a cache to learn from; each is the job itself with other options, at other
places: [{}], or [{}, {rw = "read", bs = "64k"}].
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from locklab import fio

OURS = ("idle_s", "before")
PERCENTILES = {50.0: "p50_ns", 99.0: "p99_ns", 99.9: "p999_ns"}
# A request's time is the whole of it, as the replayer's: from the call that submits it, which may
# wait, to its answer. fio's own choice would be from the end of that call.
TIMES = {
    "percentile_list": ":".join(f"{one:g}" for one in PERCENTILES),
    "lat_percentiles": 1, "clat_percentiles": 0,
}  # fmt: skip


@contextlib.contextmanager
def ready(node: str, params: Mapping[str, Any], seed: int) -> Iterator[str]:
    job = {key: value for key, value in params.items() if key not in OURS}
    if jobs := [job | one for one in params.get("before", ())]:
        fio.run(node, *jobs, seed=seed + 1)
    yield node


def run(node: str, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    options = {key: value for key, value in params.items() if key not in OURS}
    time.sleep(params.get("idle_s", 0))
    return told(fio.run(node, {**options, **TIMES}, seed=seed)[0])


def number(size: str) -> int:
    """Bytes of fio's 512, 4k, 1m."""
    unit = {"k": 1 << 10, "m": 1 << 20}.get(size[-1].lower())
    return int(size[:-1]) * unit if unit else int(size)


def told(job: Mapping[str, Any]) -> dict[str, Any]:
    """fio's answer in the shape of all workloads."""
    found: dict[str, Any] = {}
    for kind in ("read", "write"):
        side = job[kind]
        if not side["total_ios"]:
            continue
        times = side["lat_ns"]
        parts = {float(key): value for key, value in times["percentile"].items()}
        found[kind] = {
            "count": side["total_ios"], "bytes": side["io_bytes"],
            "seconds": side["runtime"] / 1e3, "mean_ns": times["mean"], "min_ns": times["min"],
            **{name: parts[share] for share, name in PERCENTILES.items()}, "max_ns": times["max"],
        }  # fmt: skip
    return found
