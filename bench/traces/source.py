# SPDX-License-Identifier: GPL-2.0-only
"""Where a trace comes from: a file of the user's, the real slice, or the generator; by one word.

    financial-1, financial-2, tpcc20   generated, with Table 1's characteristics (models.py)
    financial-1-slice                  the real first 10,000 records, if they are beside the tree
    anything else                      an SPC file, plain or packed by xz, bzip2 or gzip

prepare() makes the replay file, one request at a time, and tells what is in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from traces import generate, spc
from traces.models import MODELS

SLICE = "financial-1-slice"
_SLICE_FILE = Path("shared/traces/Financial1_first10000.spc.xz")  # beside the tree
_SLICE_RECORDS = 10_000


@dataclass(frozen=True)
class Source:
    what: str  # for people
    path: Path | None  # else generated
    model: str | None  # the model's name, if its published figures are to stand beside
    records: int | None
    seed: int = 1

    def requests(self) -> Iterator[spc.Request]:
        """From the start; may be called again."""
        if self.path is not None:
            return spc.stream(self.path, self.records)
        assert self.model is not None
        count = self.records or MODELS[self.model].published.requests
        return generate.requests(self.model, count, self.seed)

    def lines(self, got: spc.Statistics) -> list[str]:
        """The statistics for people; of a generated trace with the published ones beside."""
        if self.path is None and self.model is not None:
            return generate.beside(self.model, got)
        return got.lines()


def source(trace: str, records: int | None = None, seed: int = 1) -> Source:
    """Raises spc.BadTrace if there is no such trace."""
    if records is not None and records < 2:
        raise spc.BadTrace(f"{trace}: {records} records: at least 2")
    if trace in MODELS:
        count = records or MODELS[trace].published.requests
        return Source(f"{trace}, {count} generated records, seed {seed}", None, trace, count, seed)
    limit = f", its first {records} records" if records else ""
    if trace == SLICE:
        path = Path(__file__).resolve().parents[3] / _SLICE_FILE
        count = records or _SLICE_RECORDS
        if path.exists():
            return Source(f"the first {count} records of Financial-1", path, None, count)
        told = f"financial-1, {count} generated records, seed {seed} (the real ones aren't here)"
        return Source(told, None, "financial-1", count, seed)
    path = Path(trace)
    if not path.exists():
        known = ", ".join([*MODELS, SLICE])
        raise spc.BadTrace(f"{trace}: no such file, and no trace of that name; there are: {known}")
    return Source(path.name + limit, path, None, records)


def prepare(one: Source, sectors: int, replay_file: Path) -> spc.Statistics:
    """Writes the replay file for a device of so many sectors. A bad trace leaves none.

    A file is read twice: only all of it tells which ASUs there are.
    """
    tally = spc.Tally()
    if one.path is None and one.model is not None:
        asus = set(range(len(MODELS[one.model].asus)))
        passing = tally.all(one.requests())
    else:
        for request in one.requests():
            tally.add(request)
        asus, passing = tally.asus(), one.requests()
    layout = spc.Layout(asus, sectors)
    part = replay_file.with_name(f"{replay_file.name}.{os.getpid()}")
    try:
        with part.open("wb") as file:
            spc.save(file, (layout.place(n, request) for n, request in enumerate(passing, 1)))
        part.rename(replay_file)
    finally:
        part.unlink(missing_ok=True)
    return tally.result()
