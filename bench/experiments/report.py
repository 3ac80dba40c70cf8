# SPDX-License-Identifier: GPL-2.0-only
"""Results as a table, and as a picture in the style of the paper's figures 5 and 6."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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


_WIRE_HEAD = (
    "on the wire", "writes", "skipped", "packets out", "back", "MB out", "back", "SCSI writes",
    "commands", "packets out/write", "bytes out/write",
)  # fmt: skip


def wire_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Packets and bytes towards the mirror site and back, and the commands sent to its LUN."""
    rows: list[tuple[str, ...]] = [_WIRE_HEAD]
    for name, result in results.items():
        wire = result.get("wire", {})
        if "to_mirror_packets" not in wire:
            continue
        count = result["writes"]["response"]["count"]
        rows.append((
            name, str(count), str(result["writes"]["skipped"]),
            str(wire["to_mirror_packets"]), str(wire["to_primary_packets"]),
            f"{wire['to_mirror_bytes'] / 1e6:.3f}", f"{wire['to_primary_bytes'] / 1e6:.3f}",
            str(wire["remote_writes"]), str(wire["scsi_commands"]),
            f"{wire['to_mirror_packets'] / max(count, 1):.2f}",
            f"{wire['to_mirror_bytes'] / max(count, 1):.0f}",
        ))  # fmt: skip
    return _aligned(rows) if len(rows) > 1 else ""


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


@dataclass(frozen=True)
class Lateness:
    """Seconds by which requests were issued behind the trace's time."""

    mean: float
    p99: float
    longest: float


def lateness(log: Path) -> Lateness:
    """Of the requests in the file of `replay --log`."""
    with log.open(encoding="ascii", newline="") as file:
        late = sorted(int(row["issued_ns"]) - int(row["due_ns"]) for row in csv.DictReader(file))
    if not late:
        return Lateness(0.0, 0.0, 0.0)
    p99 = late[max(-(-99 * len(late) // 100) - 1, 0)]
    return Lateness(sum(late) / len(late) / 1e9, p99 / 1e9, late[-1] / 1e9)


@dataclass(frozen=True)
class Span:
    """Seconds of a replay in which something was otherwise, shaded in its panel."""

    start: float
    end: float
    colour: str
    what: str


def draw(
    places: Mapping[str, Path], what: str, picture: Path,
    spans: Mapping[str, Sequence[Span]] | None = None,
) -> bool:  # fmt: skip
    """Response time of each write over time, a panel a configuration; False if there is none."""
    if not places:
        return False
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(len(places), 3)
    lines = -(-len(places) // columns)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(5 * columns, 2.8 * lines), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(places) :]:
        axis.set_visible(False)
    for axis, (name, place) in zip(axes.flat, places.items(), strict=False):
        with (place / "requests.csv").open(encoding="ascii", newline="") as file:
            writes = [row for row in csv.DictReader(file) if row["op"] == "w"]
        seconds = [int(row["issued_ns"]) / 1e9 for row in writes]
        times = [(int(row["done_ns"]) - int(row["issued_ns"])) / 1e6 for row in writes]
        axis.plot(seconds, times, ".", markersize=2, color="#1f4e79")
        for span in (spans or {}).get(name, ()):
            axis.axvspan(span.start, span.end, color=span.colour, alpha=0.3, label=span.what)
        if (spans or {}).get(name):
            axis.legend(fontsize=7, loc="upper right")
        axis.set_title(name, fontsize=10)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("time (s)", fontsize=8)
        axis.set_ylabel("write response (ms)", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
    figure.suptitle(f"Response times of mirrored writes: {what}", fontsize=11)
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)
    return True
