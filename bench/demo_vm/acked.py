# SPDX-License-Identifier: GPL-2.0-only
"""Which bytes a mirror site must have after a power cut, by the replayer's own log.

A write that was acknowledged before the cut has to be there, sector by sector, unless a later one
lies over it. "Later" means: issued after the first one's acknowledgment. So each sector has a set
of writes whose bytes it may hold: every acknowledged one that no other acknowledged one follows,
and those that were under way at the cut or came after it (they may have got there or not).
A sector without an acknowledged write promises nothing and isn't looked at.

The content of a sector is a function of seed, record and place: bench/replay/replay.c, fill().
"""

from __future__ import annotations

import csv
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECTOR = 512
_MASK = (1 << 64) - 1
_A, _B, _C = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True)
class Write:
    """One write of the replay; times in nanoseconds since the replay's start."""

    record: int
    issued_ns: int
    done_ns: int
    sector: int
    sectors: int
    ok: bool


@dataclass(frozen=True)
class Verdict:
    acknowledged: int  # writes that were acknowledged before the cut
    sectors: int  # looked at
    lost: tuple[int, ...]  # sectors that hold none of the writes they may hold


def writes(log: Path) -> list[Write]:
    """The writes in the file of `replay --log`."""
    with log.open(encoding="ascii", newline="") as file:
        return [
            Write(
                int(row["record"]), int(row["issued_ns"]), int(row["done_ns"]),
                int(row["sector"]), int(row["bytes"]) // SECTOR, row["result"] == row["bytes"],
            )
            for row in csv.DictReader(file)
            if row["op"] == "w"
        ]  # fmt: skip


def candidates(done: Sequence[Write], cut_ns: int) -> dict[int, list[Write]]:
    """For each sector that was promised something: the writes whose bytes it may hold."""
    promised: dict[int, list[Write]] = {}
    maybe: dict[int, list[Write]] = {}
    for one in done:
        to = promised if one.ok and one.done_ns <= cut_ns else maybe
        for sector in range(one.sector, one.sector + one.sectors):
            to.setdefault(sector, []).append(one)
    allowed = {}
    for sector, acked in promised.items():
        newest = max(one.issued_ns for one in acked)
        allowed[sector] = [one for one in acked if one.done_ns > newest or one.issued_ns == newest]
        allowed[sector] += maybe.get(sector, [])
    return allowed


def content(seed: int, one: Write, sector: int) -> bytes:
    """The bytes of that sector as the write carried them."""
    first = 64 * (sector - one.sector)
    base = seed * _A + one.record * _B + sector * _C + first
    words = []
    for i in range(64):
        x = (base + i) & _MASK
        x = ((x ^ (x >> 30)) * _B) & _MASK
        words.append(x ^ (x >> 31))
    return struct.pack("<64Q", *words)


def digest(data: bytes) -> str:
    """What a guest tells of a sector instead of its bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def judge(done: Sequence[Write], cut_ns: int, seed: int, held: Mapping[int, str]) -> Verdict:
    """`held`: the digest of each sector at the mirror site. A sector that isn't in it is lost."""
    lost = []
    allowed = candidates(done, cut_ns)
    for sector, ones in sorted(allowed.items()):
        # The newest first: it is nearly always the one.
        for one in sorted(ones, key=lambda one: (one.done_ns > cut_ns, -one.issued_ns)):
            if digest(content(seed, one, sector)) == held.get(sector):
                break
        else:
            lost.append(sector)
    acknowledged = sum(one.ok and one.done_ns <= cut_ns for one in done)
    return Verdict(acknowledged, len(allowed), tuple(lost))
