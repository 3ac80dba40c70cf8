# SPDX-License-Identifier: GPL-2.0-only
"""The traces that experiments name, and the replay files made of them.

    financial-1, financial-2, tpcc20   generated, of any length, with the characteristics that the
                                       remote-mirroring paper publishes (models.py)
    financial-1-slice                  the real first 10,000 records, if they lie beside this tree,
                                       else as many generated ones
    anything else                      an SPC file, plain or packed by xz, bzip2 or gzip

TRACE (or bench/run --trace) puts the user's own file in the place of any of them (`PATH`), or of
one of them (`financial-1=PATH,financial-2=PATH`). What it was in the end is told, and is in the
results, with the replay file's digest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from traces import generate, models, spc

TOP = Path(__file__).resolve().parents[2]
REAL = TOP.parent / "shared/traces/Financial1_first10000.spc.xz"
RECORDS = 10_000
SLICE = "financial-1-slice"
NAMES = (*models.MODELS, SLICE)


@dataclass(frozen=True)
class Source:
    """Where a trace's requests come from: a file, or a model."""

    what: str  # for people
    path: Path | None
    model: str | None = None
    records: int | None = None
    seed: int = 1

    def requests(self) -> Iterator[spc.Request]:
        """From the start, one after another; may be called again."""
        if self.path is not None:
            return spc.stream(self.path, self.records)
        assert self.model is not None
        count = self.records or models.MODELS[self.model].published.requests
        return generate.requests(self.model, count, self.seed)

    def lines(self, got: spc.Statistics) -> list[str]:
        """What it turned out to be; of a generated trace with the published figures beside."""
        return generate.beside(self.model, got) if self.model else got.lines()

    def key(self) -> str:
        """Differs when the requests may differ."""
        state = self.path.stat() if self.path else None
        code = [Path(one.__file__ or "").read_bytes() for one in (generate, models, spc)]
        told = (
            str(self.path), state and (state.st_size, state.st_mtime_ns), self.model, self.records,
            self.seed, hashlib.sha256(b"".join(code)).hexdigest(),
        )  # fmt: skip
        return hashlib.sha256(repr(told).encode()).hexdigest()[:12]


def given(name: str) -> str | None:
    """The user's own file for that trace."""
    words = os.environ.get("TRACE", "")
    if "=" not in words:
        return words or None
    return dict(word.split("=", 1) for word in words.split(",") if "=" in word).get(name)


def source(name: str, records: int | None = None, seed: int = 1) -> Source:
    """Raises spc.BadTrace if there is no such trace."""
    if records is not None and records < 2:
        raise spc.BadTrace(f"{name}: {records} records: at least 2")
    own = given(name)
    if own or name not in NAMES:
        path = Path(own or name)
        if not path.exists():
            raise spc.BadTrace(f"{path}: no such file; traces have the names {', '.join(NAMES)}")
        limit = f", its first {records} records" if records else ""
        return Source(f"{path}{limit}", path, records=records)
    if name == SLICE:
        records = records or RECORDS
        if REAL.exists():
            what = f"the first {records} records of Financial-1 ({REAL.name})"
            return Source(what, REAL, records=records)
        name = "financial-1"
    count = records or models.MODELS[name].published.requests
    what = f"{count} generated records with {name}'s published characteristics"
    return Source(what, None, name, count, seed)


def trace_of(path: str | None, records: int | None = None) -> tuple[str, list[spc.Request]]:
    """All of a short trace, and what to call it: the one given, else the real slice, else a
    generated one."""
    one = source(path or SLICE, records)
    return one.what, list(one.requests())


@dataclass(frozen=True)
class Trace:
    """A trace laid out over a device of some size, as a replay file."""

    source: Source
    statistics: spc.Statistics
    file: Path
    sha256: str


def laid_out(name: str, records: int | None, mib: int, place: Path) -> Trace:
    """Makes the replay file in `place`, or takes the one that was made of the same. Raises
    spc.BadTrace, which names file and line."""
    one = source(name, records)
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"{one.model or SLICE}-{one.key()}-{mib}.bin"
    about = file.with_suffix(".json")
    if file.exists() and about.exists():
        told = json.loads(about.read_text("ascii"))
        return Trace(one, spc.Statistics(**told["statistics"]), file, told["sha256"])
    got = prepare(one, mib << 11, file)
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    about.write_text(json.dumps({"statistics": dataclasses.asdict(got), "sha256": digest}), "ascii")
    return Trace(one, got, file, digest)


def prepare(one: Source, sectors: int, replay_file: Path) -> spc.Statistics:
    """Writes the replay file for a device of so many sectors. A bad trace leaves none.

    A file is read twice: only all of it tells which ASUs there are.
    """
    tally = spc.Tally()
    if one.model:
        asus = set(range(len(models.MODELS[one.model].asus)))
        passing = tally.all(one.requests())
    else:
        for request in one.requests():
            tally.add(request)
        asus, passing = tally.asus(), one.requests()
    layout = spc.Layout(asus, sectors)
    part = replay_file.with_name(f"{replay_file.name}.{os.getpid()}")
    try:
        with part.open("wb") as out:
            spc.save(out, (layout.place(n, request) for n, request in enumerate(passing, 1)))
        part.replace(replay_file)
    finally:
        part.unlink(missing_ok=True)
    return tally.result()
