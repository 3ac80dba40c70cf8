# SPDX-License-Identifier: GPL-2.0-only
"""How far a run is, and how long it still takes: a bar on a terminal, else a line a cell."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Told:
    """The time left is the cells' own times of an earlier run where known, else this run's mean."""

    def __init__(self, names: list[str], before: Mapping[str, float], jobs: int) -> None:
        self._before, self._jobs = before, jobs
        self._left = list(names)
        self._took: list[float] = []
        self._total = len(names)
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._task = TaskID(0)
        if self._console.is_terminal:
            columns = (BarColumn(), TextColumn("{task.completed}/{task.total}"),
                       TimeElapsedColumn(), TextColumn("{task.description}"))  # fmt: skip
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("", total=self._total)

    def __enter__(self) -> Told:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._bar:
            self._bar.stop()

    def ended(self, name: str, what: str, seconds: float) -> None:
        self._left.remove(name)
        self._took.append(seconds)
        done = self._total - len(self._left)
        left = f"about {_minutes(self.left_s())} left" if self._left else "the last"
        line = f"[{done}/{self._total}] {name}: {what}, {left}"
        if self._bar:
            self._bar.update(self._task, completed=done, description=left)
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def left_s(self) -> float:
        mean = sum(self._took) / max(len(self._took), 1)
        return sum(self._before.get(name, mean) for name in self._left) / self._jobs


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
