# SPDX-License-Identifier: GPL-2.0-only
"""Runs one cell and tells what came of it; never raises for what a cell does wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import cached
from cell import here
from cell.order import Order
from runner import limits, results
from runner.experiment import TOP, Cell
from runner.programs import Programs
from runner.results import Row
from traces import named, spc

SCRIPT = TOP / "bench/cell/main.py"
KERNEL = "plain"
MEMORY = "3G"
TRACES = TOP / "build/bench/traces"  # the same place for all runs: it is in the order
_ENDED = re.compile(r"^lab: .*: rc \d+, (?:([\d.]+) s inside, )?[\d.]+ s wall, ([\d.]+) s CPU$")


@dataclass(frozen=True)
class Prepared:
    """What the host does for a cell before: the trace, the limits."""

    order: Order
    about: dict[str, Any]


def prepared(cell: Cell, tree: Path = Path("/lockstep")) -> Prepared:
    """`tree`: where the cell sees this one. Raises spc.BadTrace."""
    order, about = cell.order, dict[str, Any]()
    params = dict(order.params)
    requests: Iterable[spc.Request] | None = None
    size = float(limits.size_of(params.get("bs", "4k")))
    if "trace" in params:
        name, records = str(params.pop("trace")), params.pop("records", None)
        trace = _trace(name, records, order.stack.mib, TRACES)
        params["file"] = str(tree / trace.file.relative_to(TOP))
        requests, got = trace.source.requests(), trace.statistics
        size = got.mean_write_bytes or size
        about["trace"] = {
            "what": trace.source.what, "records": got.requests, "sha256": trace.sha256,
            "statistics": trace.source.lines(got),
        }  # fmt: skip
    about["limits"] = limits.of(order.stack, size, requests)
    return Prepared(dataclasses.replace(order, params=params), about)


_trace = cache(named.laid_out)


class Lab(Protocol):
    """What cells are run on."""

    def __call__(self, cell: Cell, out: Path) -> Row: ...

    def versions(self) -> dict[str, str]:
        """What it is made of."""

    def end(self) -> None:
        """From another thread: cells end at once, badly."""


class Sim:
    """The sim lab: a boot for each cell, any number at a time."""

    def __init__(self, watch: bool = False) -> None:
        self._watch = watch
        self._programs = Programs()

    def __call__(self, cell: Cell, out: Path) -> Row:
        ready = prepared(cell)
        place = out / cell.experiment / cell.place
        began = time.time()
        words = [
            str(TOP / "tests/sim/lab"), "run", str(SCRIPT), "--kernel", KERNEL, "--mem", MEMORY,
            "--seed", str(cell.order.seed), "--timeout", str(cell.patience),
            "--sim-timeout", "864000", "--out", str(place),
            "--", ready.order.text(), *(["--watch"] if self._watch else []),
        ]  # fmt: skip
        done = self._programs.run(words)
        said = [line for line in done.stderr.splitlines() if not line.startswith("lab: console")]
        ended = _ENDED.match(said[-1]) if said else None
        wall = {"began": round(began), "seconds": round(time.time() - began, 2)}
        row: Row = {"order": dataclasses.asdict(ready.order), **ready.about, "wall": wall}
        row |= {"watched": True} if self._watch else {}
        if ended:
            wall["cpu_s"] = float(ended[2])
            row["simulated_s"] = float(ended[1]) if ended[1] else None
            del said[-1]
        if done.returncode:
            why = [line for line in said if line.strip()] or [f"rc {done.returncode}"]
            row["error"] = " ".join(why[-2:])
            return row
        return row | answer(done.stdout)

    def versions(self) -> dict[str, str]:
        """The kernel and the root file system are named by what they were built of."""
        found = {"kernel": cached.entry(f"uml-{KERNEL}").name,
                 "rootfs": cached.entry("rootfs").name}  # fmt: skip
        return found | results.modules(f"uml-{KERNEL}")

    def end(self) -> None:
        self._programs.end()


def unfit(cell: Cell, why: str) -> Row:
    """Of a cell that isn't begun."""
    wall = {"began": round(time.time()), "seconds": 0.0}
    return {"order": dataclasses.asdict(cell.order), "wall": wall, "error": why}


def answer(said: str) -> Row:
    """The last line of what a cell prints."""
    last = said.splitlines()[-1:] or ["nothing"]
    try:
        found = json.loads(last[0])
    except ValueError:
        found = None
    if isinstance(found, dict) and found.keys() & {"result", "absent"}:
        return found
    return {"error": f"the cell ended well without an answer; its last words: {last[0]:.80}"}


class Here:
    """The cells on the user's devices, one after another."""

    def __init__(self, devices: Sequence[str]) -> None:
        self._devices = devices
        self._programs = Programs()
        self._done: dict[str, str] = {}  # what was to be done, and by which cell

    def __call__(self, cell: Cell, out: Path) -> Row:
        began = time.time()
        order = dataclasses.replace(
            cell.order, stack=here.stack_of(cell.order.stack, self._devices)
        )
        ready = prepared(dataclasses.replace(cell, order=order), TOP)
        row: Row = {"order": dataclasses.asdict(ready.order), **ready.about}
        row["limits"] = {}  # the models' limits aren't these devices'
        why = here.why_not(cell.order)
        if same := self._done.get(ready.order.text()):
            why = f"here it is the same as {same}"
        if why:
            return row | {"absent": why, "wall": {"began": round(began), "seconds": 0.0}}
        self._done[ready.order.text()] = cell.name
        place = out / cell.experiment / cell.place
        place.mkdir(parents=True, exist_ok=True)
        folders = ("bench", "tests/sim/guest", "tests/lab", "dm-target/lockstep")
        env = os.environ | {"PYTHONPATH": ":".join(str(TOP / one) for one in folders),
                            "LAB_OUT": str(place), "LAB_SEED": str(order.seed)}  # fmt: skip
        done = self._programs.run([sys.executable, str(SCRIPT), ready.order.text()], env)
        row["wall"] = {"began": round(began), "seconds": round(time.time() - began, 2)}
        if done.returncode:
            last = done.stderr.strip() or f"rc {done.returncode}"
            return row | {"error": " ".join(last.splitlines()[-2:])}
        return row | answer(done.stdout)

    def versions(self) -> dict[str, str]:
        one = os.uname()
        return {"kernel": f"{one.sysname} {one.release} {one.machine}", "host": one.nodename}

    def end(self) -> None:
        self._programs.end()
