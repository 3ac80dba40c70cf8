# SPDX-License-Identifier: GPL-2.0-only
"""The demo's results as a table of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from traces import spc

WAN_BITS = 3e6  # tests/lab/wires.json, profile wan
WAN_RTT = 0.014

_TIMES = ("mean_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns")
_HEAD = (
    "configuration", "mean ms", "p50", "p99", "p99.9", "max", "skipped writes", "sent MB", "legs",
)  # fmt: skip


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Response times of single writes; what couldn't run keeps its row, with the reason."""
    rows: list[tuple[str, ...]] = [_HEAD]
    notes = []
    for name, result in results.items():
        if "error" in result:
            rows.append((name, *["-"] * (len(_HEAD) - 1)))
            notes.append(f"{name}: {result['error']}")
            continue
        writes = result["writes"]
        times = writes["response"]
        total = writes["issued"] + writes["skipped"]
        sent = result["wire"].get("to_mirror_bytes")
        at = result["legs_differ_at"]
        rows.append((
            name,
            *(f"{times[key] / 1e6:.2f}" for key in _TIMES),
            f"{writes['skipped']} ({writes['skipped'] / max(total, 1):.2%})",
            "-" if sent is None else f"{sent / 1e6:.1f}",
            "identical" if at is None else f"differ at {at}",
        ))  # fmt: skip
    return "\n".join([_aligned(rows), *notes])


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    width = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(width[0]), *(row[n].rjust(width[n]) for n in range(1, len(row)))])
        for row in rows
    ]
    return "\n".join(["", *lines])


def pipe_line(requests: Sequence[spc.Request]) -> str:
    """The limit beside the WAN results."""
    pipe = spc.ideal_pipe(requests, WAN_BITS, WAN_RTT)
    return (
        f"ideal pipe (FIFO, 3 Mbit/s, 14 ms RTT, no protocol, nothing skipped): mean "
        f"{pipe.mean * 1e3:.0f} ms, p50 {pipe.p50 * 1e3:.0f}, p99 {pipe.p99 * 1e3:.0f}, "
        f"max {pipe.longest * 1e3:.0f}"
    )
