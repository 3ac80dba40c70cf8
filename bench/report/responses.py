# SPDX-License-Identifier: GPL-2.0-only
"""The times of single requests (requests.csv of the replayer): lateness, and pictures in the style
of the remote-mirroring paper's figures 5 and 6."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


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


def batches(writes: Sequence[Mapping[str, str]], size: int) -> list[tuple[int, int]]:
    """Of the log's writes: when each batch was issued, and its response, which is its last write's.
    The replayer has one batch open at a time, so a batch is what was taken one after another."""
    order = sorted(writes, key=lambda row: int(row["record"]))
    found = []
    for at in range(0, len(order), size):
        taken = order[at : at + size]
        issued = int(taken[0]["issued_ns"])
        found.append((issued, max(int(row["done_ns"]) for row in taken) - issued))
    return found


def draw(
    places: Mapping[str, Path], what: str, picture: Path,
    spans: Mapping[str, Sequence[Span]] | None = None, size: Mapping[str, int] | None = None,
) -> bool:  # fmt: skip
    """Response time of each write over time, or of each batch (`size`: of how many, where they
    are), a panel a configuration; False if there is none."""
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
        many = (size or {}).get(name, 1)
        taken = batches(writes, many)
        axis.plot([issued / 1e9 for issued, _ in taken], [ns / 1e6 for _, ns in taken], ".",
                  markersize=2, color="#1f4e79")  # fmt: skip
        for span in (spans or {}).get(name, ()):
            axis.axvspan(span.start, span.end, color=span.colour, alpha=0.3, label=span.what)
        if (spans or {}).get(name):
            axis.legend(fontsize=7, loc="upper right")
        axis.set_title(name, fontsize=10)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("time (s)", fontsize=8)
        axis.set_ylabel(f"{'batch' if many > 1 else 'write'} response (ms)", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
    figure.suptitle(f"Response times of mirrored writes: {what}", fontsize=11)
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)
    return True
