# SPDX-License-Identifier: GPL-2.0-only
"""Carries out one order: builds the stack, does the work, prints one JSON line. --watch: watch.py.

The answer is {"result": ...}, or {"absent": why} when something it needs isn't there. Whatever
else goes wrong ends this program; the runner tells it as the cell's error.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cell import hosts, stack, watch
from cell.mirrors import ORDERED
from cell.order import HERE, NOWHERE, Absent, Order, Stack, parse
from locklab import base, count


def built(wanted: Stack) -> contextlib.AbstractContextManager[stack.Built]:
    if os.environ.get("LAB") == "vm":
        return hosts.built(wanted)
    if wanted.remote != HERE:
        return stack.built(wanted)
    from cell import here  # with libraries that the sim lab has no need of

    return here.built(wanted)


def requests(result: Mapping[str, Any]) -> int:
    """How many the work says it did, of all kinds."""
    kinds = (one for one in result.values() if isinstance(one, Mapping))
    return sum(int(one.get("count", 0)) for one in kinds)


def whole_second() -> None:
    """Waits for one. The modelled platters turn with the clock: with this the set-up's length, a
    microsecond more or less, doesn't change what the work meets."""
    time.sleep(2 - time.monotonic() % 1)


@contextlib.contextmanager
def made_ready(work: ModuleType, node: str, order: Order) -> Iterator[Any]:
    """What the work is done on: the device, or what the workload's ready() makes of it first (a
    file system, a database), which isn't part of its cost."""
    if not hasattr(work, "ready"):
        yield node
        return
    with work.ready(node, order.params, order.seed) as where:
        yield where


def carried_out(order: Order, watched: bool = False) -> dict[str, Any]:
    work = importlib.import_module(f"cell.workloads.{order.workload}")
    with built(order.stack) as place:
        with made_ready(work, place.node, order) as where:
            whole_second()
            before = place.snapshot()
            with watch.kept(place.snapshot) if watched else contextlib.nullcontext():
                result: dict[str, Any] = work.run(where, order.params, order.seed)
            result["cost"] = count.spent(before, place.snapshot()) | result.get("cost", {})
        if place.status():
            result["status"] = place.status()
        base.expect(requests(result) > 0, "no request was answered: the times mean nothing")
        if order.stack.remote != NOWHERE and order.stack.software != "none":
            result["legs_differ_at"] = at = place.differ_at()
            # The peers don't order writes that overlap one another in flight; theirs is only told.
            if order.stack.software in ORDERED:
                base.equal(at, None, "first sector in which the legs differ")
    return result


SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _broken_off(number: int, _frame: FrameType | None) -> None:
    for one in SIGNALS:  # another one must not end what this one begins
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> None:
    for one in SIGNALS:  # on the user's devices nothing stays behind
        signal.signal(one, _broken_off)
    os.environ.setdefault("LC_ALL", "C")
    answer: dict[str, Any]
    try:
        answer = {"result": carried_out(parse(sys.argv[1]), "--watch" in sys.argv[2:])}
    except Absent as err:
        answer = {"absent": str(err)}
    print(json.dumps(answer, sort_keys=True), flush=True)


if __name__ == "__main__":
    main()
