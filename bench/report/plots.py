# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of results, as files. An experiment names those it wants in `plot`.

    responses   each write's time over the run, or each batch's, a panel a cell (requests.csv);
                where a cell has a series only (series.csv) mean and longest of each stretch, and
                its skips
    bars        mean and p99 of each cell
    flames      flame graphs of the cells' call chains (stacks.folded), as SVG
    lines       mean over the values of the experiment's numeric axis, a line a configuration
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib
from cell import samples

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from report import flames, responses
from runner import results, tables
from runner.results import Row

OURS, THEIRS = "#1f4e79", "#c0504d"


def side_by_side(
    names: Sequence[str], paper: Sequence[float | None], ours: Sequence[float | None], unit: str,
    picture: Path,
) -> None:  # fmt: skip
    """Their bars and ours, each in a panel of its own scale: machines differ, shapes compare. No
    panel of theirs where they print no number."""
    panels = [(ours, OURS, "ours")]
    if any(value is not None for value in paper):
        panels.insert(0, (paper, THEIRS, "paper"))
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(5 * len(panels), 2.9), squeeze=False, layout="constrained"
    )
    for axis, (values, colour, title) in zip(axes.flat, panels, strict=True):
        axis.bar(names, [value or 0 for value in values], color=colour)
        for place, value in enumerate(values):
            axis.text(place, value or 0, "-" if value is None else f"{value:.4g}", ha="center",
                      va="bottom", fontsize=8)  # fmt: skip
        axis.set_title(title, fontsize=10)
        axis.set_ylabel(unit, fontsize=8)
        axis.tick_params(labelsize=8)
        axis.margins(y=0.15)
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)


def bars(rows: Sequence[Row], picture: Path) -> bool:
    found = [(row["cell"], side) for row in rows for kind, side in tables.kinds(row).items()
             if kind == ("write" if "write" in tables.kinds(row) else kind)]  # fmt: skip
    if not found:
        return False
    figure, axis = pyplot.subplots(figsize=(10, 0.4 + 0.32 * len(found)), layout="constrained")
    places = range(len(found))
    for offset, key, colour in ((-0.2, "mean_ns", OURS), (0.2, "p99_ns", "#9db7d5")):
        axis.barh([n + offset for n in places], [side[key] / 1e6 for _, side in found], 0.4,
                  color=colour, label=key.removesuffix("_ns"))  # fmt: skip
    axis.set_yticks(list(places), [name for name, _ in found], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("response (ms)", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=8)
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)
    return True


ABSCISSA = {"bs": "block size (bytes)", "loss_percent": "packets lost (%)",
            "remote": "one-way delay (ms)"}  # fmt: skip


def lines(rows: Sequence[Row], picture: Path) -> bool:
    """Cells are called CONFIGURATION AXIS=VALUE; the last numeric axis is the abscissa."""
    series: dict[str, list[tuple[float, float]]] = {}
    axis_name = ""
    for row in rows:
        rest, _, last = row["cell"].rpartition(" ")
        key, _, value = last.partition("=")
        number = re.fullmatch(r"(?:.*-)?([\d.]+)([kK]?)", value)  # outsourcing-4, 0.01, 512, 64k
        if not number:
            continue
        x = float(number[1]) * (1024 if number[2] else 1)
        axis_name = key
        for kind, side in tables.kinds(row).items():
            series.setdefault(f"{rest}, {kind}", []).append((x, side["mean_ns"] / 1e6))
    if not series:
        return False
    figure, axis = pyplot.subplots(figsize=(9, 4), layout="constrained")
    for name, points in series.items():
        axis.plot(*zip(*sorted(points), strict=True), ".-", label=name)
    axis.set_xlabel(ABSCISSA.get(axis_name, axis_name), fontsize=8)
    axis.set_ylabel("mean response (ms)", fontsize=8)
    if axis_name == "bs":
        axis.set_xscale("log", base=2)
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=7)
    axis.grid(alpha=0.3)
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)
    return True


def scatter(rows: Sequence[Row], picture: Path) -> bool:
    places: dict[str, Path] = {row["cell"]: row["at"] for row in rows if "result" in row}
    if places and all((at / "requests.csv").exists() for at in places.values()):
        size = {row["cell"]: int(row["order"]["params"].get("batch", 1)) for row in rows}
        return responses.draw(places, rows[0]["experiment"], picture, size=size)
    return series({name: at / results.SERIES for name, at in places.items()}, picture)


def series(files: Mapping[str, Path], picture: Path) -> bool:
    found = {name: file for name, file in files.items() if file.exists()}
    if not found:
        return False
    columns = 1 if len(found) <= 3 else 2
    lines = -(-len(found) // columns)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(12, 2.7 * lines), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(found) :]:
        axis.set_visible(False)
    for axis, (name, file) in zip(axes.flat, found.items(), strict=False):
        _stretches(axis, name, file)
    figure.savefig(picture, dpi=100)
    pyplot.close(figure)
    return True


def _stretches(axis: Axes, name: str, file: Path) -> None:
    with file.open(encoding="ascii", newline="") as text:
        stretches = list(csv.DictReader(text))
    seconds = [float(line["start_s"]) for line in stretches]
    unit, name_of = (3600, "h") if seconds and seconds[-1] > 7200 else (1, "s")
    times = [one / unit for one in seconds]
    for key, label, colour in (("max_ns", "longest", "#9db7d5"), ("mean_ns", "mean", OURS)):
        values = [float(line[key]) / 1e6 or math.nan for line in stretches]
        axis.plot(times, values, ".", markersize=3, color=colour, label=label)
    skipped = axis.twinx()
    skipped.plot(times, [int(line["skipped"]) for line in stretches], "-", linewidth=0.6,
                 color=THEIRS, alpha=0.6)  # fmt: skip
    skipped.set_ylabel("skipped", fontsize=8, color=THEIRS)
    skipped.tick_params(labelsize=8)
    axis.set_yscale("log")
    axis.set_title(name, fontsize=10)
    axis.set_xlabel(f"time ({name_of})", fontsize=8)
    word = "batch" if stretches and "batches" in stretches[0] else "write"
    axis.set_ylabel(f"{word} response (ms)", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=7, loc="upper right")
    axis.grid(alpha=0.3)


def flame_graphs(rows: Sequence[Row], picture: Path) -> bool:
    """Of several runs of a cell the first."""
    graphs: dict[str, samples.Stacks] = {}
    for row in rows:
        graphs.setdefault(row["cell"], results.stacks(row["at"]))
    return flames.draw(graphs, picture)


SUFFIX = {"flames": ".svg"}  # else .png
PLOTS: dict[str, Callable[[Sequence[Row], Path], bool]] = {
    "responses": scatter, "bars": bars, "lines": lines,
    "flames": flame_graphs,
}  # fmt: skip
