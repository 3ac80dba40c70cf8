# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of results, as PNG files. An experiment names those it wants in `plot`.

    responses   each request's time over the run, a panel a cell (requests.csv); of a replay that
                kept a series only (series.csv) mean and longest of each stretch, and its skips
    bars        mean and p99 of each cell
    lines       mean over the values of the experiment's numeric axis, a line a configuration
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from report import responses
from runner import tables
from runner.results import Row

OURS, THEIRS = "#1f4e79", "#c0504d"


def side_by_side(
    names: Sequence[str], paper: Sequence[float | None], ours: Sequence[float | None], unit: str,
    picture: Path,
) -> None:  # fmt: skip
    """Their bars and ours, each in a panel of its own scale: machines differ, shapes compare."""
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 2.9), layout="constrained")
    for axis, values, colour, title in (
        (axes[0], paper, THEIRS, "paper"), (axes[1], ours, OURS, "ours"),
    ):  # fmt: skip
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


def bars(rows: Sequence[Row], _folder: Path, picture: Path) -> bool:
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
    axis.set_xlabel("ms", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=8)
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)
    return True


def lines(rows: Sequence[Row], _folder: Path, picture: Path) -> bool:
    """Cells are called CONFIGURATION AXIS=VALUE; the last numeric axis is the abscissa."""
    series: dict[str, list[tuple[float, float]]] = {}
    axis_name = ""
    for row in rows:
        rest, _, last = row["cell"].rpartition(" ")
        key, _, value = last.partition("=")
        try:
            x = float(value.rpartition("-")[2].rstrip("kKmM"))  # outsourcing-4, 64k
        except ValueError:
            continue
        axis_name = key
        for kind, side in tables.kinds(row).items():
            series.setdefault(f"{rest}, {kind}", []).append((x, side["mean_ns"] / 1e6))
    if not series:
        return False
    figure, axis = pyplot.subplots(figsize=(9, 4), layout="constrained")
    for name, points in series.items():
        axis.plot(*zip(*sorted(points), strict=True), ".-", label=name)
    axis.set_xlabel(axis_name, fontsize=8)
    axis.set_ylabel("mean ms", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=7)
    axis.grid(alpha=0.3)
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)
    return True


def scatter(rows: Sequence[Row], folder: Path, picture: Path) -> bool:
    places = {row["cell"]: folder / row.get("place", "") for row in rows if "result" in row}
    logged = {name: at for name, at in places.items() if (at / "requests.csv").exists()}
    if logged:
        return responses.draw(logged, rows[0]["experiment"], picture)
    return series({name: at / "series.csv" for name, at in places.items()}, picture)


def series(files: Mapping[str, Path], picture: Path) -> bool:
    found = {name: file for name, file in files.items() if file.exists()}
    if not found:
        return False
    figure, axes = pyplot.subplots(
        len(found), 1, figsize=(11, 3 * len(found)), squeeze=False, layout="constrained"
    )
    for axis, (name, file) in zip(axes.flat, found.items(), strict=True):
        with file.open(encoding="ascii", newline="") as text:
            stretches = list(csv.DictReader(text))
        hours = [float(line["start_s"]) / 3600 for line in stretches]
        for key, label, colour in (("max_ns", "longest", "#9db7d5"), ("mean_ns", "mean", OURS)):
            axis.plot(hours, [float(line[key]) / 1e6 for line in stretches], ".", markersize=2,
                      color=colour, label=label)  # fmt: skip
        skipped = axis.twinx()
        skipped.plot(hours, [int(line["skipped"]) for line in stretches], "-", linewidth=0.6,
                     color=THEIRS, alpha=0.6)  # fmt: skip
        skipped.set_ylabel("skipped", fontsize=8, color=THEIRS)
        skipped.tick_params(labelsize=8)
        axis.set_yscale("log")
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("time (h)", fontsize=8)
        axis.set_ylabel("write response (ms)", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.legend(fontsize=7, loc="upper right")
        axis.grid(alpha=0.3)
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)
    return True


PLOTS: dict[str, Callable[[Sequence[Row], Path, Path], bool]] = {
    "responses": scatter, "bars": bars, "lines": lines,
}  # fmt: skip
