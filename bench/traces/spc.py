# SPDX-License-Identifier: GPL-2.0-only
"""Traces in the SPC format: reading, laying out on one device, and the replay file.

A line is `ASU,LBA,size,opcode,timestamp`: application storage unit, address in 512-byte blocks
inside it, size in bytes, r or w, seconds since the trace's start. More fields may follow.
Standard library only: it runs in the guests too.
"""

from __future__ import annotations

import lzma
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

SECTOR = 512
MAX_BYTES = 32 << 20
_HEADER = struct.Struct("<8sQQ")  # bench/replay/trace-file.h
_RECORD = struct.Struct("<QQII")
_MAGIC = b"LSREPLY1"


class BadTrace(ValueError):
    """Something in a trace file is wrong; the text says the file, the line and what."""


@dataclass(frozen=True)
class Request:
    asu: int
    lba: int
    size: int
    write: bool
    time_ns: int

    @property
    def sectors(self) -> int:
        return -(-self.size // SECTOR)


@dataclass(frozen=True)
class Placed:
    """A request on the one device: whole sectors."""

    sector: int
    sectors: int
    write: bool
    time_ns: int


def parse(line: str) -> Request:
    """One line; ValueError says what is wrong with it."""
    words = [word.strip() for word in line.split(",")]
    if len(words) < 5:
        raise ValueError(f"{len(words)} fields, want ASU,LBA,size,opcode,timestamp")
    asu, lba, size = (_whole(name, word) for name, word in zip(_NAMES, words, strict=False))
    if not 0 < size <= MAX_BYTES:
        raise ValueError(f"size {size} isn't 1 to {MAX_BYTES} bytes")
    if words[3] not in ("r", "R", "w", "W"):
        raise ValueError(f"opcode {words[3]!r} is neither r nor w")
    try:
        seconds = float(words[4])
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < 1e9:
        raise ValueError(f"timestamp {words[4]!r} isn't a number of seconds from 0 on")
    return Request(asu, lba, size, words[3] in "wW", round(seconds * 1e9))


_NAMES = ("ASU", "LBA", "size")


def _whole(name: str, word: str) -> int:
    if not (word.isascii() and word.isdigit()) or int(word) >= 1 << 62:
        raise ValueError(f"{name} {word!r} isn't a whole number")
    return int(word)


def read(path: Path, records: int | None = None) -> list[Request]:
    """All requests of a trace (or its first `records`), plain or .xz."""
    return list(_read(path, records))


def _read(path: Path, records: int | None) -> Iterator[Request]:
    before = line_number = 0
    line = "\n"
    try:
        with lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb") as file:
            for line_number, raw in enumerate(file, 1):
                if records is not None and line_number > records:
                    return
                try:
                    line = raw.decode("ascii")
                    request = parse(line)
                    if request.time_ns < before:
                        raise ValueError("earlier than the line before it")
                    if not line.endswith("\n"):
                        # A cut number can look like a whole one.
                        raise ValueError("no newline at its end: the file is truncated")
                except ValueError as err:
                    raise BadTrace(f"{path}: line {line_number}: {err}: {raw[:80]!r}") from None
                before = request.time_ns
                yield request
    except (EOFError, lzma.LZMAError) as err:
        raise BadTrace(f"{path}: after line {line_number}: damaged or truncated xz: {err}") from err
    except OSError as err:
        raise BadTrace(f"{path}: {err.strerror}") from err
    if not line_number:
        raise BadTrace(f"{path}: empty, no requests in it")


def place(requests: Sequence[Request], sectors: int) -> list[Placed]:
    """The ASUs side by side over a device of so many sectors, in equal shares.

    An ASU that spans more than its share is folded: an address modulo the share. So locality inside
    a share's length stays, and places further apart may meet. The replays of the notes' calibration
    were laid out so. A request longer than a share is refused.
    """
    asus = sorted({request.asu for request in requests})
    share = sectors // len(asus) // 8 * 8
    base = {asu: n * share for n, asu in enumerate(asus)}
    placed = []
    for number, request in enumerate(requests, 1):
        if request.sectors > share:
            raise BadTrace(
                f"record {number}: {request.size} bytes don't fit: {len(asus)} ASUs on a device of "
                f"{sectors} sectors have {share} sectors each; take a larger device"
            )
        at = min(request.lba % share, share - request.sectors)
        placed.append(
            Placed(base[request.asu] + at, request.sectors, request.write, request.time_ns)
        )
    return placed


def pack(placed: Iterable[Placed]) -> bytes:
    """The replay file's bytes. Times start with the first request."""
    rows = list(placed)
    first = rows[0].time_ns
    span = max(row.sector + row.sectors for row in rows)
    return _HEADER.pack(_MAGIC, len(rows), span) + b"".join(
        _RECORD.pack(row.time_ns - first, row.sector, row.sectors * SECTOR, row.write)
        for row in rows
    )


def write(path: Path, requests: Iterable[Request]) -> None:
    """As SPC text."""
    with path.open("w", encoding="ascii") as file:
        for one in requests:
            op = "w" if one.write else "r"
            file.write(f"{one.asu},{one.lba},{one.size},{op},{one.time_ns / 1e9:.6f}\n")


@dataclass(frozen=True)
class Statistics:
    requests: int
    writes: int
    seconds: float
    mean_bytes: float
    mean_write_bytes: float
    largest_bytes: int
    asus: int
    same_instant: float  # share of the requests that come at the time of the one before
    cv_gap: float  # coefficient of variation of the gaps between arrivals; 1 is Poisson
    sequential: float  # share that starts where the same ASU's last request ended
    rewritten: float  # share of the writes that start where an earlier write started

    def lines(self) -> list[str]:
        return [
            f"{self.requests} requests, {self.writes} writes, {self.seconds:.1f} s, "
            f"{self.asus} ASUs",
            f"mean request {self.mean_bytes:.0f} B, mean write {self.mean_write_bytes:.0f} B, "
            f"largest {self.largest_bytes} B",
            f"{self.requests / self.seconds:.1f} requests/s, "
            f"{self.writes / self.seconds:.1f} writes/s" if self.seconds else "all at one instant",
            f"same instant {self.same_instant:.1%}, variation of gaps {self.cv_gap:.2f}, "
            f"sequential {self.sequential:.1%}, rewritten {self.rewritten:.1%}",
        ]  # fmt: skip


def statistics(requests: Sequence[Request]) -> Statistics:
    writes = [one for one in requests if one.write]
    gaps = [b.time_ns - a.time_ns for a, b in pairwise(requests)]
    mean_gap = sum(gaps) / max(len(gaps), 1)
    variance = sum((gap - mean_gap) ** 2 for gap in gaps) / max(len(gaps), 1)
    end: dict[int, int] = {}
    seen: set[tuple[int, int]] = set()
    sequential = rewritten = 0
    for one in requests:
        sequential += end.get(one.asu) == one.lba
        end[one.asu] = one.lba + one.sectors
        if one.write:
            rewritten += (one.asu, one.lba) in seen
            seen.add((one.asu, one.lba))
    return Statistics(
        requests=len(requests),
        writes=len(writes),
        seconds=(requests[-1].time_ns - requests[0].time_ns) / 1e9,
        mean_bytes=sum(one.size for one in requests) / len(requests),
        mean_write_bytes=sum(one.size for one in writes) / max(len(writes), 1),
        largest_bytes=max(one.size for one in requests),
        asus=len({one.asu for one in requests}),
        same_instant=sum(gap == 0 for gap in gaps) / max(len(gaps), 1),
        cv_gap=math.sqrt(variance) / mean_gap if mean_gap else 0.0,
        sequential=sequential / len(requests),
        rewritten=rewritten / max(len(writes), 1),
    )


@dataclass(frozen=True)
class Pipe:
    """The ideal pipe: a FIFO of the wire's speed and delay, no protocol, nothing skipped."""

    mean: float
    p50: float
    p99: float
    longest: float


def ideal_pipe(requests: Sequence[Request], bits_a_second: float, rtt_s: float) -> Pipe:
    """Response times (seconds) of the writes if the wire did nothing but carry their bytes."""
    free = 0.0
    times = []
    for one in requests:
        if one.write:
            due = one.time_ns / 1e9
            free = max(free, due) + one.size * 8 / bits_a_second
            times.append(free - due + rtt_s)
    times.sort()
    if not times:
        return Pipe(0.0, 0.0, 0.0, 0.0)

    def rank(share: float) -> float:
        return times[max(math.ceil(share * len(times)) - 1, 0)]

    return Pipe(sum(times) / len(times), rank(0.5), rank(0.99), times[-1])
