# SPDX-License-Identifier: GPL-2.0-only
"""A cell's counters twice a second while its work is done, and what a DCD told of its batches.

In the cell's folder: watch.jsonl (`at` in seconds of its clock, and what has been counted until
then), and batches.txt (the kernel's trace of each batch that was destaged, the last of them). For
whoever wants to know why a result is what it is. Looking takes no simulated time, but wakes the
CPU: the result is that of the same load some microseconds apart, and its row says `watched`.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from locklab import base

EVERY_S = 0.5
_TRACING = Path("/sys/kernel/tracing")
_BATCH = Path("events/dcd/dcd_batch")


@contextlib.contextmanager
def kept(snapshot: Callable[[], Mapping[str, int]]) -> Iterator[None]:
    ended = threading.Event()

    def look() -> None:
        with (base.OUT / "watch.jsonl").open("w", encoding="ascii") as file:
            while not ended.wait(EVERY_S):
                file.write(json.dumps({"at": time.monotonic(), **snapshot()}) + "\n")

    looking = threading.Thread(target=look)
    with _batches():
        looking.start()
        try:
            yield
        finally:
            ended.set()
            looking.join()


@contextlib.contextmanager
def _batches() -> Iterator[None]:
    if not (_TRACING / _BATCH).is_dir():
        yield
        return
    place = _TRACING / "instances/watch"
    place.mkdir(exist_ok=True)
    base.put(place / "buffer_size_kb", "16384")
    base.put(place / _BATCH / "enable", "1")
    try:
        yield
    finally:
        base.put(place / _BATCH / "enable", "0")
        (base.OUT / "batches.txt").write_text((place / "trace").read_text())
        place.rmdir()
