# SPDX-License-Identifier: GPL-2.0-only
"""The outsourcing paper's micro-benchmark: one block at a time, each kind after the other.

`patterns` (random, sequential, identical: the same block again and again), `ops` (read, write),
`sizes` (as fio writes them: 1k to 64k), `count` of each, `span_mib` (the working set: the paper's
is four times the storage's cache). Each kind in the result is PATTERN_OP_SIZE. One fio does all, as
its start is what takes longest.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from cell.workloads import fio as one_job
from locklab import fio

_RW = {
    ("random", "read"): "randread", ("random", "write"): "randwrite",
    ("sequential", "read"): "read", ("sequential", "write"): "write",
    ("identical", "read"): "read", ("identical", "write"): "write",
}  # fmt: skip


def run(node: str, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    kinds = list(product(params["patterns"], params["ops"], params["sizes"]))
    span = f"{params.get('span_mib', 256)}m"
    jobs: list[dict[str, object]] = [
        {
            "rw": _RW[pattern, op], "bs": size, "iodepth": 1, **one_job.TIMES,
            "size": size if pattern == "identical" else span,
            "io_size": one_job.number(size) * int(params["count"]),  # over the span again and again
        }
        for pattern, op, size in kinds
    ]  # fmt: skip
    found: dict[str, Any] = {}
    for (pattern, op, size), job in zip(kinds, fio.run(node, *jobs, seed=seed), strict=True):
        found[f"{pattern}_{op}_{size}"] = one_job.told(job)[op]
    return found
