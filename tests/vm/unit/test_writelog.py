# SPDX-License-Identifier: GPL-2.0-only
"""The power cut's rebuild of a disk, on logs made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import writelog
from laberror import LabError
from writelog import ENTRY, MAGIC, SECTOR, SUPER, Flag

DISK_SECTORS = 256


class Log:
    """A disk of zeroes and the log of what is written to it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "disk.log"
        self.disk = folder / "disk.raw"
        self.disk.write_bytes(bytes(DISK_SECTORS * SECTOR))
        # As QEMU leaves it when it is killed: behind.
        self.path.write_bytes(SUPER.pack(MAGIC, 1, 0, SECTOR).ljust(SECTOR, b"\0"))

    def add(self, sector: int, fill: bytes = b"", flags: int = 0, count: int = 0) -> None:
        count = count or len(fill)
        head = ENTRY.pack(sector, count, flags, 0).ljust(SECTOR, b"\0")
        with self.path.open("ab") as file:
            file.write(head + b"".join(bytes([byte]) * SECTOR for byte in fill))

    def flush(self) -> None:
        self.add(0, flags=Flag.FLUSH)

    def cut(self, seed: int = 1, keep: str = "some") -> writelog.Outcome:
        return writelog.cut(self.path, self.disk, seed, keep)

    def at(self, sector: int, count: int = 1) -> bytes:
        """The first byte of each of these sectors, all of whose bytes are the same."""
        data = self.disk.read_bytes()
        parts = [data[i * SECTOR : (i + 1) * SECTOR] for i in range(sector, sector + count)]
        assert all(len(set(part)) == 1 for part in parts)
        return bytes(part[0] for part in parts)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.mark.parametrize("keep", ["none", "some", "all"])
def test_what_was_flushed_is_kept(log: Log, keep: str) -> None:
    log.add(10, b"ab")
    log.add(11, b"c")
    log.flush()
    log.add(40, b"x")
    outcome = log.cut(keep=keep)
    assert log.at(10, 2) == b"ac"
    assert outcome.durable == 2


def test_without_a_flush_nothing_is_durable(log: Log) -> None:
    log.add(10, b"ab")
    assert log.cut(keep="none") == writelog.Outcome(0, 0, 0, 1)
    assert log.at(10, 2) == b"\0\0"


def test_fua_is_durable_without_a_flush(log: Log) -> None:
    log.add(10, b"a")
    log.add(20, b"b", flags=Flag.FUA)
    log.cut(keep="none")
    assert (log.at(10), log.at(20)) == (b"\0", b"b")


def test_a_later_write_beats_an_earlier_one(log: Log) -> None:
    log.add(10, b"a")
    log.add(10, b"b")
    log.cut(keep="all")
    assert log.at(10) == b"b"


def test_the_seed_decides_and_nothing_else(log: Log, tmp_path: Path) -> None:
    log.flush()
    for sector in range(0, 200, 4):
        log.add(sector, b"abcd")
    left: dict[int, bytes] = {}
    for seed in (1, 1, 2):
        log.disk.write_bytes(bytes(DISK_SECTORS * SECTOR))
        outcome = log.cut(seed)
        assert outcome.kept and outcome.torn and outcome.lost
        assert left.setdefault(seed, log.disk.read_bytes()) == log.disk.read_bytes()
    assert left[1] != left[2]


def test_a_torn_write_has_old_and_new_sectors(log: Log) -> None:
    log.add(0, bytes([7]) * 64)
    log.flush()
    log.add(0, bytes([9]) * 64)
    fates = set()
    for seed in range(20):
        log.disk.write_bytes(bytes(DISK_SECTORS * SECTOR))
        log.cut(seed)
        seen = set(log.at(0, 64))
        assert seen <= {7, 9}
        fates.add(tuple(sorted(seen)))
    assert fates == {(7,), (9,), (7, 9)}


def test_a_discard_changes_nothing_and_has_no_data(log: Log) -> None:
    log.add(10, b"a")
    log.add(10, flags=Flag.DISCARD, count=8)
    log.add(20, b"b")
    log.flush()
    log.cut()
    assert (log.at(10), log.at(20)) == (b"a", b"b")


def test_an_incomplete_last_entry_never_happened(log: Log) -> None:
    log.add(10, b"a")
    log.add(20, b"bb", flags=Flag.FUA)
    with log.path.open("r+b") as file:
        file.truncate(log.path.stat().st_size - 100)
    assert log.cut(keep="all") == writelog.Outcome(0, 1, 0, 0)
    assert log.at(20, 2) == b"\0\0"


def test_a_log_without_a_superblock_counts(log: Log) -> None:
    log.add(10, b"a")
    with log.path.open("r+b") as file:
        file.write(bytes(SECTOR))
    log.cut(keep="all")
    assert log.at(10) == b"a"


def test_an_empty_log_is_a_cut_before_the_first_write(log: Log) -> None:
    log.path.write_bytes(b"")
    assert log.cut() == writelog.Outcome(0, 0, 0, 0)


def test_twice_is_once(log: Log) -> None:
    for sector in range(0, 40, 2):
        log.add(sector, b"xy")
    log.cut(5)
    once = log.disk.read_bytes()
    log.cut(5)
    assert log.disk.read_bytes() == once


def test_a_gap_is_refused(log: Log) -> None:
    log.add(10, b"a")
    with log.path.open("ab") as file:
        file.write(bytes(2 * SECTOR))
    log.add(20, b"b", flags=Flag.FUA)
    with pytest.raises(LabError, match=r"disk\.log: a gap at byte 1536"):
        log.cut()
    assert log.at(10) == b"\0"


@pytest.mark.parametrize(
    "entry",
    [(0, 1, 64, 0), (DISK_SECTORS, 1, 0, 0), (0, DISK_SECTORS + 1, 0, 0)],
    ids=["unknown flag", "behind the end", "too long"],
)
def test_what_is_no_entry_is_refused(log: Log, entry: tuple[int, int, int, int]) -> None:
    with log.path.open("ab") as file:
        file.write(ENTRY.pack(*entry).ljust(SECTOR, b"\0"))
    with pytest.raises(LabError, match="no entry at byte 512"):
        log.cut()


def test_another_file_is_refused(log: Log) -> None:
    log.path.write_bytes(b"QFI\xfb" + bytes(SECTOR))
    with pytest.raises(LabError, match="not a write log"):
        log.cut()


def test_an_unknown_choice_is_refused(log: Log) -> None:
    with pytest.raises(LabError, match="none, some and all"):
        log.cut(keep="most")
