# SPDX-License-Identifier: GPL-2.0-only
"""Results as tables of text, an experiment after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from cell.order import Stack
from runner import limits
from runner.results import Row

TIMES = ("mean_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns")
HEAD = (
    "", "kind", "count", "a second", "elapsed s", "mean ms", "p50", "p99", "p99.9", "max",
    "max/mean", "limit", "x limit", "legs",
)  # fmt: skip
WIRE_HEAD = (
    "on the wire", "packets out", "back", "MB out", "back", "SCSI commands", "packets out/write",
    "bytes out/write",
)  # fmt: skip
SIZES = {"64": "to 64", "127": "to 127", "255": "to 255", "511": "to 511", "1023": "to 1023",
         "more": "more"}  # fmt: skip
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def kinds(row: Row) -> dict[str, Mapping[str, Any]]:
    """The kinds of requests that a result has times of."""
    return {name: side for name, side in counted(row).items() if "mean_ns" in side}


def counted(row: Row) -> dict[str, Mapping[str, Any]]:
    """All kinds of requests that a result has any of."""
    result = row.get("result", {})
    return {
        name: side for name, side in result.items()
        if isinstance(side, Mapping) and side.get("count")
    }  # fmt: skip


def limit_ns(row: Row, kind: str) -> float | None:
    """The one that binds a request of that kind; of a trace's writes what the slowest part takes
    for one of their mean size, or the pipe's mean."""
    told = row.get("limits")
    if not told:  # somebody's devices
        return None
    order = row["order"]
    if "trace" not in row:
        one = limits.kind(order["workload"], order["params"], kind)
        return limits.alone_ns(Stack(**order["stack"]), one) if one else None
    if kind == "read":
        return None
    parts = [told[key] for key in ("spindle_write_ns", "wire_write_ns") if key in told]
    parts += [told["pipe"]["mean_ns"]] if "pipe" in told else []
    return float(max(parts)) if parts else None


def lines(rows: Sequence[Row]) -> list[str]:
    found: list[str] = []
    for name in dict.fromkeys(row["experiment"] for row in rows):
        own = [row for row in rows if row["experiment"] == name]
        found += ["", name]
        for about in dict.fromkeys(row["trace"]["what"] for row in own if "trace" in row):
            found.append(f"  trace: {about}")
        for head, table in (times(own), wire(own), classes(own), cpu(own)):
            found += ["", *aligned([head, *table])] if table else []
        found += [f"  {row['cell']}: {why}" for row in own if (why := gap(row))]
    return found


def gap(row: Row) -> str | None:
    """Why there is no result."""
    if "error" in row:
        return f"failed: {row['error']}"
    return f"not there: {row['absent']}" if "absent" in row else None


def times(rows: Sequence[Row]) -> Table:
    return HEAD, [line for row in rows for line in _times(row)]


def wire(rows: Sequence[Row]) -> Table:
    return WIRE_HEAD, [line for row in rows for line in _wire(row)]


def classes(rows: Sequence[Row]) -> Table:
    """Packets of both directions by their size (with Ethernet's header), and commands at the target
    by type: STICS' tables 3, 4 and 6. Columns in which nobody has any are left out."""
    found = {row["cell"]: _classes(row) for row in rows}
    names = [name for name in dict.fromkeys(name for one in found.values() for name in one)
             if any(one.get(name) for one in found.values())]  # fmt: skip
    lines = [(cell, *(f"{one.get(name, 0):.0f}" for name in names))
             for cell, one in found.items() if one]  # fmt: skip
    return ("packets by bytes, commands by type", *names), lines


def _classes(row: Row) -> dict[str, float]:
    cost = row.get("result", {}).get("cost", {})
    if "to_mirror_packets_more" not in cost:
        return {}
    found = {
        label: float(cost[f"to_mirror_packets_{key}"] + cost[f"to_primary_packets_{key}"])
        for key, label in SIZES.items()
    }
    sent = cost["to_mirror_bytes"] + cost["to_primary_bytes"]
    found["bytes a packet"] = sent / max(sum(found.values()), 1)
    known = {key.removeprefix("scsi_"): value for key, value in cost.items()
             if key.startswith("scsi_") and key not in ("scsi_all", "scsi_commands")}  # fmt: skip
    first = [name for name in ("read", "write", "write_scattered") if name in known]
    for name in dict.fromkeys([*first, *known]):
        found[name.replace("_", " ").upper() if name != "other" else name] = known[name]
    return found


def cpu(rows: Sequence[Row]) -> Table:
    """Where the CPU's time went, a column a cell: percent of the time in which it wasn't idle; of
    several runs the median, the least and the most."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if "profile" in row.get("result", {}):
            found.setdefault(row["cell"], []).append(row["result"]["profile"])
    kinds = dict.fromkeys(kind for runs in found.values() for one in runs
                          for kind in one["percent_of_busy"])  # fmt: skip

    def line(name: str, value: Callable[[Mapping[str, Any]], float]) -> tuple[str, ...]:
        return name, *(_spread([value(one) for one in runs]) for runs in found.values())

    lines = [line(kind, lambda one, kind=kind: one["percent_of_busy"].get(kind, 0.0))  # type: ignore[misc]
             for kind in kinds]  # fmt: skip
    if found:
        lines += [
            line("in interrupts and softirqs, of any class",
                 lambda one: float(one["in_interrupts_percent_of_busy"])),
            line("idle, of all the time", lambda one: one["percent"].get("idle", 0.0)),
            ("samples", *(f"{sum(one['samples'] for one in runs)}" for runs in found.values())),
        ]  # fmt: skip
    return ("% of the CPU's busy time", *found), lines


def _spread(values: Sequence[float]) -> str:
    middle = f"{median(values):.1f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.1f}-{max(values):.1f})"


def _times(row: Row) -> list[tuple[str, ...]]:
    name = row["cell"] + (f" ({row['seed']})" if row["seed"] != 1 else "")
    result = row.get("result", {})
    elapsed = f"{result['elapsed_s']:.1f}" if "elapsed_s" in result else "-"
    legs = result.get("legs_differ_at", "-")
    told = "equal" if legs is None else "-" if legs == "-" else f"differ at {legs}"
    found = []
    for kind, side in counted(row).items():
        limit = limit_ns(row, kind) if "mean_ns" in side else None
        skipped = result.get(f"{kind}s_skipped", 0)
        found.append((
            name, kind, f"{side['count']}" + (f" (-{skipped})" if skipped else ""),
            f"{side['count'] / side['seconds']:.0f}" if side.get("seconds") else "-", elapsed,
            *(f"{side[key] / 1e6:.2f}" if key in side else "-" for key in TIMES),
            f"{side['max_ns'] / side['mean_ns']:.1f}" if "max_ns" in side else "-",
            "-" if limit is None else f"{limit / 1e6:.2f}",
            "-" if limit is None else f"{side['mean_ns'] / limit:.2f}", told,
        ))  # fmt: skip
    return found or [(name, *["-"] * (len(HEAD) - 1))]


def _wire(row: Row) -> list[tuple[str, ...]]:
    cost = row.get("result", {}).get("cost", {})
    if "to_mirror_packets" not in cost:
        return []
    count = sum(side["count"] for kind, side in counted(row).items() if kind == "write")
    return [(
        row["cell"], f"{cost['to_mirror_packets']}", f"{cost['to_primary_packets']}",
        f"{cost['to_mirror_bytes'] / 1e6:.3f}", f"{cost['to_primary_bytes'] / 1e6:.3f}",
        f"{cost.get('scsi_commands', 0)}",
        f"{cost['to_mirror_packets'] / count:.2f}" if count else "-",
        f"{cost['to_mirror_bytes'] / count:.0f}" if count else "-",
    )]  # fmt: skip


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    width = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(width[0]), *(row[n].rjust(width[n]) for n in range(1, len(row)))])
        for row in rows
    ]
