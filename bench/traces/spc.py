# SPDX-License-Identifier: GPL-2.0-only
"""Traces in the SPC format: reading, laying out on one device, and the replay file.

A line is `ASU,LBA,size,opcode,timestamp`: application storage unit, address in 512-byte blocks
inside it, size in bytes, r or w, seconds since the trace's start. More fields may follow.
Standard library only: it runs in the guests too.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

SECTOR = 512
MAX_BYTES = 32 << 20
_HEADER = struct.Struct("<8sQQ")  # bench/replay/trace-file.h
_RECORD = struct.Struct("<QQII")
_MAGIC = b"LSREPLY1"


class BadTrace(ValueError):
    """Something in a trace file is wrong; the text says the file, the line and what."""


class Request(NamedTuple):
    asu: int
    lba: int
    size: int
    write: bool
    time_ns: int

    @property
    def sectors(self) -> int:
        return -(-self.size // SECTOR)


class Placed(NamedTuple):
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


_OPENERS: Mapping[str, Callable[..., Any]] = {
    ".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open,
}  # fmt: skip
_DAMAGED = (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error)


def read(path: Path, records: int | None = None) -> list[Request]:
    """All requests of a trace (or its first `records`), plain or packed by xz, bzip2 or gzip."""
    return list(stream(path, records))


def stream(path: Path, records: int | None = None) -> Iterator[Request]:
    """As read(), one after another: for traces that are larger than memory."""
    before = line_number = 0
    packed = path.suffix in _OPENERS
    try:
        with _open(path) as file:
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
    except _DAMAGED as err:
        kind = path.suffix[1:]
        raise BadTrace(
            f"{path}: after line {line_number}: damaged or truncated {kind}: {err}"
        ) from err
    except OSError as err:
        if packed and err.errno is None:  # bz2 says so that its data are wrong
            raise BadTrace(f"{path}: after line {line_number}: {err}") from err
        raise BadTrace(f"{path}: {err.strerror}") from err
    if not line_number:
        raise BadTrace(f"{path}: empty, no requests in it")


def _open(path: Path) -> IO[bytes]:
    opener = _OPENERS.get(path.suffix)
    return cast(IO[bytes], opener(path, "rb")) if opener else path.open("rb")


class Layout:
    """The ASUs side by side over a device of so many sectors, in equal shares.

    An ASU that spans more than its share is folded: an address modulo the share. So locality inside
    a share's length stays, and places further apart may meet. The replays of the notes' calibration
    were laid out so. A request longer than a share is refused.
    """

    def __init__(self, asus: Iterable[int], sectors: int) -> None:
        self._asus = sorted(set(asus))
        self._sectors = sectors
        self._share = sectors // len(self._asus) // 8 * 8
        self._base = {asu: n * self._share for n, asu in enumerate(self._asus)}

    def place(self, number: int, request: Request) -> Placed:
        """`number` is the record's, from 1 on, for the error."""
        length = request.sectors
        if length > self._share:
            raise BadTrace(
                f"record {number}: {request.size} bytes don't fit: {len(self._asus)} ASUs on a "
                f"device of {self._sectors} sectors have {self._share} sectors each; take a larger "
                "device"
            )
        at = min(request.lba % self._share, self._share - length)
        return Placed(self._base[request.asu] + at, length, request.write, request.time_ns)


def place(requests: Sequence[Request], sectors: int) -> list[Placed]:
    layout = Layout((request.asu for request in requests), sectors)
    return [layout.place(number, request) for number, request in enumerate(requests, 1)]


def save(file: BinaryIO, placed: Iterable[Placed]) -> None:
    """The replay file, one record after another. Times start with the first request."""
    file.write(_HEADER.pack(_MAGIC, 0, 0))
    count = span = first = 0
    for count, (sector, sectors, is_write, time_ns) in enumerate(placed, 1):
        if count == 1:
            first = time_ns
        span = max(span, sector + sectors)
        file.write(_RECORD.pack(time_ns - first, sector, sectors * SECTOR, is_write))
    file.seek(0)
    file.write(_HEADER.pack(_MAGIC, count, span))


def pack(placed: Iterable[Placed]) -> bytes:
    """The replay file's bytes."""
    file = io.BytesIO()
    save(file, placed)
    return file.getvalue()


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
    smallest_bytes: int
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


class Tally:
    """Statistics of requests that pass one after another."""

    def __init__(self) -> None:
        self._requests = self._writes = self._bytes = self._write_bytes = self._largest = 0
        self._smallest = MAX_BYTES
        self._first = self._last = self._same = self._gap_squares = 0
        self._sequential = self._rewritten = 0
        self._end: dict[int, int] = {}
        self._written: set[int] = set()  # places as numbers: millions of them have to fit

    def add(self, one: Request) -> None:
        if self._requests:
            gap = one.time_ns - self._last
            self._same += not gap
            self._gap_squares += gap * gap
        else:
            self._first = one.time_ns
        self._last = one.time_ns
        self._requests += 1
        self._bytes += one.size
        self._largest = max(self._largest, one.size)
        self._smallest = min(self._smallest, one.size)
        self._sequential += self._end.get(one.asu) == one.lba
        self._end[one.asu] = one.lba + one.sectors
        if one.write:
            self._writes += 1
            self._write_bytes += one.size
            place_ = one.lba << 16 | one.asu & 0xFFFF
            self._rewritten += place_ in self._written
            self._written.add(place_)

    def all(self, requests: Iterable[Request]) -> Iterator[Request]:
        """The same requests, counted as they pass."""
        for one in requests:
            self.add(one)
            yield one

    def asus(self) -> set[int]:
        return set(self._end)

    def result(self) -> Statistics:
        """At least one request must have passed."""
        gaps = max(self._requests - 1, 1)
        mean_gap = (self._last - self._first) / gaps
        variance = max(self._gap_squares / gaps - mean_gap**2, 0.0)
        return Statistics(
            requests=self._requests,
            writes=self._writes,
            seconds=(self._last - self._first) / 1e9,
            mean_bytes=self._bytes / self._requests,
            mean_write_bytes=self._write_bytes / max(self._writes, 1),
            smallest_bytes=self._smallest,
            largest_bytes=self._largest,
            asus=len(self._end),
            same_instant=self._same / gaps,
            cv_gap=math.sqrt(variance) / mean_gap if mean_gap else 0.0,
            sequential=self._sequential / self._requests,
            rewritten=self._rewritten / max(self._writes, 1),
        )


def statistics(requests: Iterable[Request]) -> Statistics:
    tally = Tally()
    for one in requests:
        tally.add(one)
    return tally.result()


@dataclass(frozen=True)
class Pipe:
    """The ideal pipe: a FIFO of the wire's speed and delay, no protocol, nothing skipped."""

    mean: float
    p50: float
    p99: float
    longest: float


def ideal_pipe(requests: Iterable[Request], bits_a_second: float, rtt_s: float) -> Pipe:
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
