# SPDX-License-Identifier: GPL-2.0-only
"""The papers' figures and tables beside ours.

published/*.toml have what the papers published, number by number, each with where it stands, and
which of our cells shows the same. `derived`: computed from what the text says, not printed there as
a number. `metric`: a path in a result, or a name of metrics.py. `base`: ratios are to this row. A
row's cell is its name with the figure's `suffix`, or `cell`. Bars without a printed number can't be
read off reliably: those rows have ours alone.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import BaseModel, ConfigDict
from report import metrics
from runner import results, tables
from runner.results import Row

FOLDER = Path(__file__).with_name("published")
NOUNS = {"read": "reads", "batch": "batches of writes", "transaction": "transactions"}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Published(_Strict):
    name: str  # the paper's
    cell: str = ""  # of ours, if it isn't the name with the figure's suffix
    paper: float | None = None
    source: str = ""
    derived: bool = False


class Figure(_Strict):
    id: str
    unit: str
    experiment: str
    metric: str
    suffix: str = ""
    base: str | None = None  # a row's name
    better: Literal["lower", "higher"] = "lower"
    why: str = ""  # for people: where ours is worse, or the paper has no number
    rows: list[Published]


class Paper(_Strict):
    title: str
    differs: str
    figure: list[Figure]


@dataclass(frozen=True)
class Beside:
    """A row of a figure: theirs, ours, and both against the base row."""

    row: Published
    ours: float | None
    gap: str  # why there is none of ours
    done: str = ""  # how much work ours was, and whose run
    ratio_paper: float | None = None
    ratio_ours: float | None = None


def load() -> dict[str, Paper]:
    """By the files' names."""
    return {
        file.stem: Paper.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
        for file in sorted(FOLDER.glob("*.toml"))
    }


def beside(figure: Figure, rows: Sequence[Row]) -> list[Beside]:
    """What was simulated is taken, its first seed; the median of the VM lab's runs where nothing
    was."""
    found = [_one(figure, published, rows) for published in figure.rows]
    base = next((one for one in found if one.row.name == figure.base), None)
    if base is None:
        return found
    return [
        dataclasses.replace(one, ratio_paper=ratio(one.row.paper, base.row.paper),
                            ratio_ours=ratio(one.ours, base.ours))
        for one in found
    ]  # fmt: skip


def _one(figure: Figure, published: Published, rows: Sequence[Row]) -> Beside:
    own = [row for row in rows if row["experiment"] == figure.experiment]
    name = published.cell or published.name + figure.suffix
    mine = [row for row in own if row["cell"] == name]
    if not mine:
        return Beside(published, None, "not run" if own else f"{figure.experiment} was not run")
    good = [row for row in mine if not tables.gap(row)]
    if not good:
        return Beside(published, None, tables.gap(mine[0]) or "")
    simulated = [row for row in good if row["lab"] != results.VM]
    found = [(value, row) for row in simulated[:1] or good
             if (value := metrics.value(row["result"], figure.metric)) is not None]  # fmt: skip
    if not found:
        return Beside(published, None, f"no {figure.metric} in its result")
    done = _done(found[0][1], figure.metric)
    values = [value for value, _ in found]
    if not simulated:
        done += f"; two virtual hosts, median of {len(values)} runs"
        done += f" ({min(values):.4g} to {max(values):.4g})"
    return Beside(published, median(values), "", done)


def _done(row: Row, metric: str) -> str:
    """As in "5,923 writes, 260 s; committed"."""
    sides = tables.counted(row)
    kind = metric.partition(".")[0]
    if kind not in sides:
        kind = "write" if "write" in sides else next(iter(sides), "")
    side = sides.get(kind, {})
    seconds = row["result"].get("elapsed_s", side.get("seconds"))
    if metric == "flushed_s":
        seconds = metrics.value(row["result"], metric)
    noun = next((said for word, said in NOUNS.items() if word in kind), "writes")
    words = [f"{side['count']:,} {noun}"] if side else []
    words += [f"{seconds:,.0f} s"] if seconds is not None else []
    return ", ".join(words) + ("; committed" if row.get("committed") else "; run here")


def ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None
