# SPDX-License-Identifier: GPL-2.0-only
"""What the demo says while it works: numbered steps with their times, and the one that failed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

PLAIN_SECONDS = 30.0  # without a terminal: a line so often


class Failed(Exception):
    """The demo can't go on; the text says what was wrong and what to do."""


class Tell:
    def __init__(self, steps: int) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.now = "starting"
        self._steps, self._number = steps, 0

    def say(self, text: str) -> None:
        self.console.print(f"    {text}", markup=False)

    @contextlib.contextmanager
    def step(self, what: str, about: str = "") -> Iterator[None]:
        """A numbered step; `now` keeps its name for the message if it fails."""
        self._number += 1
        self.now = what
        began = time.monotonic()
        head = f"[{self._number}/{self._steps}] {what}"
        self.console.print(head, style="bold", markup=False)
        if about:
            self.say(about)
        yield
        self.console.print(f"    done in {time.monotonic() - began:.0f} s", style="dim")

    def wait(
        self, what: str, done: Callable[[], bool], limit: float, expected: float | None = None,
        state: Callable[[], str] = str, pause: float = 1.0,
    ) -> None:  # fmt: skip
        """Waits for `done`, with a bar. `state` says more about how far it is."""
        began = said = time.monotonic()
        with self.bar() as progress:
            task = progress.add_task(what, total=expected, state="")
            while not done():
                now = time.monotonic()
                if now - began > limit:
                    raise Failed(f"waited {limit:.0f} s in vain for: {what} ({state()})")
                progress.update(task, completed=now - began, state=state())
                if not self.console.is_terminal and now - said > PLAIN_SECONDS:
                    self.say(f"{what}: {now - began:.0f} s {state()}")
                    said = now
                time.sleep(pause)

    def bar(self) -> Progress:
        return Progress(
            TextColumn("    {task.description}"), BarColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[state]}"), console=self.console, transient=True,
            disable=not self.console.is_terminal,
        )  # fmt: skip
