# SPDX-License-Identifier: GPL-2.0-only
"""What a power cut leaves on a disk with a volatile write cache, from the log of its writes.

The log is what QEMU's blklogwrites driver makes, in dm-log-writes' format: little-endian, in
sectors of 512 bytes.

  sector 0   superblock: u64 magic, u64 version, u64 entries, u32 sector size. Written with a
             flush, so it is absent or behind when QEMU was killed: the entries are counted here.
  sector 1.. entries, each one sector: u64 first sector, u64 sectors, u64 flags, u64 length, rest
             zero; then, unless it is a discard, the data.

All before the last flush is durable, and every FUA write. Each write after it is kept, lost or
torn (each sector by itself), decided by the seed. A later write may be kept where an earlier
one to the same place is lost, and the other way round: a cache may write back in any order, and
at any time. Discards promise nothing, and leave the old content here as they do in the running
host.

The disk's log is written in order (disk.py), so only its last entry can be incomplete; then
nobody was told that it is done. Anything else after the end of the entries is an error: a gap
would hide writes that were acknowledged.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from typing import BinaryIO

from laberror import LabError

SECTOR = 512
MAGIC = 0x6A736677736872
VERSION = 1
SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
CHUNK = 1 << 20


class Flag(IntFlag):
    FLUSH = 1
    FUA = 2
    DISCARD = 4
    MARK = 8


KNOWN = int(Flag.FLUSH | Flag.FUA | Flag.DISCARD | Flag.MARK)


@dataclass(frozen=True)
class Entry:
    """One write, flush or discard; `data` is where its bytes begin in the log."""

    sector: int
    count: int
    flags: Flag
    data: int

    @property
    def writes(self) -> bool:
        return bool(self.count) and not self.flags & (Flag.DISCARD | Flag.MARK)


@dataclass(frozen=True)
class Outcome:
    """Writes that were durable, and of the others: kept whole, torn, lost."""

    durable: int
    kept: int
    torn: int
    lost: int

    def __str__(self) -> str:
        return (
            f"{self.durable} durable writes, after the last flush"
            f" {self.kept} kept, {self.torn} torn, {self.lost} lost"
        )


def entries(log: BinaryIO, name: str, disk_sectors: int) -> Iterator[Entry]:
    """The log's whole entries, in order."""
    end = log.seek(0, 2)
    log.seek(0)
    head = log.read(SECTOR).ljust(SECTOR, b"\0")
    magic, version, _count, size = SUPER.unpack_from(head)
    if any(head) and (magic, version, size) != (MAGIC, VERSION, SECTOR):
        raise LabError(f"{name}: not a write log of {SECTOR}-byte sectors: {head[:28].hex()}")
    at = SECTOR
    while at + SECTOR <= end:
        log.seek(at)
        header = log.read(SECTOR)
        if not any(header):
            _nothing_follows(log, name, at)
            return
        sector, count, flags, _length = ENTRY.unpack_from(header)
        if any(header[ENTRY.size :]) or flags & ~KNOWN or sector + count > disk_sectors:
            raise LabError(f"{name}: no entry at byte {at}: {header[:ENTRY.size].hex()}")
        entry = Entry(sector, count, Flag(flags), at + SECTOR)
        at += SECTOR + (count * SECTOR if entry.writes else 0)
        if at > end:
            return
        yield entry


def cut(log_path: Path, disk_path: Path, seed: int | str, keep: str = "some") -> Outcome:
    """Brings the disk from its state at the start of the log to that after a power cut. `keep`:
    "none", "some" (by seed) or "all" of the writes after the last flush. Done twice, the same."""
    if keep not in ("none", "some", "all"):
        raise LabError(f"keep={keep}: there are none, some and all")
    draw = random.Random(f"power cut {seed}")
    durable = kept = torn = lost = 0
    with log_path.open("rb") as log, disk_path.open("r+b") as disk:
        sectors = disk.seek(0, 2) // SECTOR
        found = list(entries(log, str(log_path), sectors))
        flushed = max((i for i, e in enumerate(found) if e.flags & Flag.FLUSH), default=-1)
        for index, entry in enumerate(found):
            if not entry.writes:
                continue
            if index <= flushed or entry.flags & Flag.FUA:
                durable += 1
                _apply(log, disk, entry)
                continue
            fate = draw.choice(("kept", "torn", "lost")) if keep == "some" else keep
            if fate in ("kept", "all"):
                kept += 1
                _apply(log, disk, entry)
            elif fate == "torn":
                torn += 1
                _apply(log, disk, entry, draw)
            else:
                lost += 1
    return Outcome(durable, kept, torn, lost)


def _apply(log: BinaryIO, disk: BinaryIO, entry: Entry, torn: random.Random | None = None) -> None:
    """Copies the entry's data, or of a torn one each sector as the coin falls."""
    done, size = 0, entry.count * SECTOR
    while done < size:
        step = min(CHUNK, size - done) if torn is None else SECTOR
        if torn is None or torn.getrandbits(1):
            log.seek(entry.data + done)
            disk.seek(entry.sector * SECTOR + done)
            disk.write(log.read(step))
        done += step


def _nothing_follows(log: BinaryIO, name: str, at: int) -> None:
    log.seek(at)
    while block := log.read(CHUNK):
        if any(block):
            raise LabError(f"{name}: a gap at byte {at}: what follows it can't be told")
