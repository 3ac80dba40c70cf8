# SPDX-License-Identifier: GPL-2.0-only
"""Text for people: sizes, times, tables, bars."""

from __future__ import annotations

import io
import json
import time
import unicodedata
from collections.abc import Sequence
from typing import TextIO

_BAR = 24
# Unicode's characters that change the direction of what follows.
_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def size(sectors: int) -> str:
    """512-byte sectors in words; exact where it counts."""
    amount = sectors * 512.0
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if amount == int(amount) else f"{amount:.1f} {unit}"


def rate(kib: int) -> str:
    return f"{size(kib * 2)}/s"


def duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    text = f"{hours}:{minutes:02}:{seconds:02}"
    return f"{days} d {text}" if days else text


def moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seconds))


def bar(done: int, of: int) -> str:
    full = _BAR * done // max(of, 1)
    tip = ">" if full < _BAR else ""
    return f"[{'=' * full}{tip}{'.' * (_BAR - full - len(tip))}]"


def percent(done: int, of: int) -> str:
    """Never 100 before the end."""
    return f"{int(1000 * done / max(of, 1)) / 10:.1f} %"


def columns(rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))] if rows else []
    lines = []
    for row in rows:
        words = (f"{word:{width}}" for word, width in zip(row, widths, strict=True))
        lines.append((indent + "  ".join(words)).rstrip())
    return "\n".join(lines)


def printable(text: str) -> str:
    """Text of a disk, a kernel or a program, as a terminal may have it: what would move its cursor,
    change its title or turn the line round is shown as an escape. It may be shown again."""
    return "".join(
        one if one.isprintable() and unicodedata.bidirectional(one) not in _TURNS
        else one.encode("unicode_escape", "replace").decode("ascii")
        for one in text
    )  # fmt: skip


class Safe(io.TextIOBase):
    """A stream for people or programs: nothing reaches it but what can be printed, and line ends.
    All that the command says goes through this, so no text of a disk can be forgotten."""

    def __init__(self, to: TextIO) -> None:
        self._to = to

    def write(self, text: str) -> int:
        self._to.write("\n".join(map(printable, text.replace("\t", " ").split("\n"))))
        return len(text)

    def flush(self) -> None:
        self._to.flush()

    def isatty(self) -> bool:
        return self._to.isatty()


def as_json(what: object) -> str:
    return json.dumps(what, indent=1)
