# SPDX-License-Identifier: GPL-2.0-only
"""Results: one JSON line a cell, with all that is needed to repeat it.

    experiment, cell, seed, quick, lab     which one
    order                                  what was carried out, to the last parameter
    trace                                  what it was, and the digest of the replay file
    tree, versions                         the commit, whether it was changed, kernel, modules
    limits                                 runner/limits.py
    watched                                its counters were kept meanwhile (cell/watch.py)
    result | error | absent                what came of it
    simulated_s                            how long it was in the lab's own time
    wall                                   everything that depends on the machine and the day

Two runs in the sim lab are equal but for `wall`. Those of the VM lab are in real time: no two are
equal, and what can be told of the spread is what several seeds show.

A run of everything takes hours, so the results of one are in the tree (KEPT), in the same form; the
report has them where the user has none of his own. Those of the VM lab are in a folder VM, there as
in the user's results, and never mixed with what was simulated.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cell import samples
from runner.experiment import TOP

Row = dict[str, Any]
FILE = "results.jsonl"
# Beside a row, in the folder that it calls `place`:
SERIES = "series.csv"  # a replay's
STACKS = samples.FILE  # a profile's; in the tree with .xz, as they are megabytes
KEPT = TOP / "bench/results"
VM = "vm"  # the lab, and its folder
KEYS = {"experiment", "cell", "seed"}


class BadResults(ValueError):
    """A results file that can't be read: which, which line, why."""


def read(path: Path) -> list[Row]:
    """A results file, a baseline, or all results files in a folder and in those right below it."""
    if path.is_dir():
        found = [row for file in (path / FILE, *sorted(path.glob(f"*/{FILE}"))) if ours(file)
                 for row in read(file)]  # fmt: skip
        if not found:
            raise BadResults(f"{path}: no {FILE} of bench/run in it")
        return found
    rows: list[Row] = []
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as err:
        raise BadResults(f"{path}: {err.strerror}") from None
    if path.suffix == ".json":  # a baseline
        rows += json.loads(text)["rows"]
        return rows
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError as err:
            raise BadResults(f"{path}: line {number}: {err}") from None
        if not isinstance(row, dict) or not row.keys() >= KEYS:
            raise BadResults(f"{path}: line {number}: no experiment, cell and seed in it")
        rows.append(row)
    return rows


def ours(path: Path) -> bool:
    """Made by bench/run; other programs of the bench have results of another shape beside."""
    with contextlib.suppress(OSError, ValueError), path.open(encoding="utf-8") as file:
        first = json.loads(file.readline())
        return isinstance(first, dict) and first.keys() >= KEYS
    return False


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """The new rows in the places of the old ones of the same lab, cell and seed, or behind them."""
    mine = {_which(row): row for row in new}
    before = {_which(row): row for row in old}
    return [mine.get(key, row) for key, row in (before | mine).items()]


def _which(row: Row) -> tuple[str, str, str, int]:
    return row["lab"], row["experiment"], row["cell"], row["seed"]


def gathered(folder: Path, kept: Path | None) -> list[Row]:
    """For the report: the rows of a folder and, of cells that it has none of, those in the tree;
    of the VM lab, too. Each with `committed`, and `at`, its cell's folder."""
    found: list[Row] = []
    tops = [(kept, True), (kept / VM, True)] if kept else []
    for top, committed in (*tops, (folder, False), (folder / VM, False)):
        if not any(top.glob(f"*/{FILE}")):
            continue
        rows = [
            row | {"committed": committed, "at": top / row["experiment"] / row.get("place", "")}
            for row in read(top)
        ]  # fmt: skip
        found = merged(found, rows)
    if not found:
        raise BadResults(f"{folder}: no {FILE} of bench/run in it")
    return found


def keep(folder: Path, kept: Path = KEPT) -> None:
    """Puts an experiment's results, with what their pictures need, in the place of those in the
    tree. Raises BadResults if they aren't fit for it."""
    rows = read(folder)
    for row in rows:
        if row["quick"] or row["lab"] not in ("sim", VM) or row["tree"]["changed"]:
            raise BadResults(f"{folder}: {row['cell']}: of a quick run, of somebody's devices, or "
                             "of a changed tree: nothing to show to others")  # fmt: skip
    place = (kept / VM if rows[0]["lab"] == VM else kept) / folder.name
    shutil.rmtree(place, ignore_errors=True)
    write(place / FILE, rows)
    for row in rows:
        mine, its = folder / row["place"], place / row["place"]
        if (mine / SERIES).exists():
            its.mkdir(exist_ok=True)
            shutil.copyfile(mine / SERIES, its / SERIES)
        if (mine / STACKS).exists():
            its.mkdir(exist_ok=True)
            packed = lzma.compress((mine / STACKS).read_bytes(), preset=9)
            (its / f"{STACKS}.xz").write_bytes(packed)


def stacks(folder: Path) -> samples.Stacks:
    """A profile's call chains, the user's or the tree's; none if it isn't one's folder."""
    file, packed = folder / STACKS, folder / f"{STACKS}.xz"
    if not (file.exists() or packed.exists()):
        return {}
    with lzma.open(packed, "rt") if packed.exists() else file.open(encoding="utf-8") as text:
        return samples.read(text)


def write(path: Path, rows: Iterable[Row]) -> None:
    """Complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows), "utf-8")
    new.replace(path)


def repeatable(row: Mapping[str, Any]) -> Row:
    """What has to be the same in each run."""
    return {key: value for key, value in row.items() if key != "wall"}


def tree(top: Path = TOP) -> dict[str, Any]:
    """What is measured: not bench/results, which a run before may have been kept in."""
    changed = _git(top, "status", "--porcelain", "--", ".", ":(exclude)bench/results")
    return {"commit": _git(top, "rev-parse", "HEAD"), "changed": bool(changed)}


def modules(kernel: str) -> dict[str, str]:
    """Digests of the modules that the lab loads."""
    there = sorted((TOP / "build/modules" / kernel).glob("*.ko"))
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest()[:16] for one in there}


def _git(top: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(top), *words], capture_output=True, text=True,
                          check=False)  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else "unknown"
