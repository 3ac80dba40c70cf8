# SPDX-License-Identifier: GPL-2.0-only
"""The traces that experiments name, and the replay files made of them.

`financial1` is the user's own (TRACE or --trace), else the first records of Financial-1 if they lie
beside this tree, else a generated trace with its published characteristics. What it was is told,
and is in the results, with the replay file's digest.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from traces import generate, spc

TOP = Path(__file__).resolve().parents[2]
REAL = TOP.parent / "shared/traces/Financial1_first10000.spc.xz"
RECORDS = 10_000


def trace_of(path: str | None, records: int | None = None) -> tuple[str, list[spc.Request]]:
    """The trace, and what to call it: the one given, the real slice, or a generated one."""
    if path:
        limit = f", its first {records} records" if records else ""
        return path + limit, spc.read(Path(path), records)
    if REAL.exists():
        requests = spc.read(REAL, records or RECORDS)
        return f"the first {len(requests)} records of Financial-1 ({REAL.name})", requests
    count = records or RECORDS
    text = f"{count} generated records with Financial-1's published characteristics"
    return text, generate.financial1(count, seed=1)


@dataclass(frozen=True)
class Trace:
    """A trace laid out over a device of some size, as a replay file."""

    what: str
    requests: list[spc.Request]
    file: Path
    sha256: str


def laid_out(name: str, records: int | None, mib: int, place: Path) -> Trace:
    """Makes the replay file in `place`. Raises spc.BadTrace, which names file and line."""
    if name != "financial1":
        raise spc.BadTrace(f"no trace is called {name!r}; there is: financial1")
    what, requests = trace_of(os.environ.get("TRACE"), records)
    packed = spc.pack(spc.place(requests, mib << 11))
    digest = hashlib.sha256(packed).hexdigest()
    file = place / f"{name}-{digest[:12]}.bin"
    place.mkdir(parents=True, exist_ok=True)
    file.write_bytes(packed)
    return Trace(what, requests, file, digest)
