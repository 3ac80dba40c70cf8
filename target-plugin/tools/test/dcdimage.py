# SPDX-License-Identifier: GPL-2.0-only
"""Logs, NVRAMs and data disks as bytes, made by the drawing in dcd-format.h and nothing else."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from pathlib import Path

BLOCK, RING, SECTOR = 4096, 1 << 20, 512
SEGMENT, TABLE, SEGMENTS = 64 << 10, 4096, 16
PAYLOAD = BLOCK + TABLE
UUID = bytes(range(1, 17))
EPOCH = 0x1122334455667788
WRITE, DISCARD, ZEROES, LOST = 1, 2, 3, 4
FIRST_SPARE, SPARES, BAD_SPARE, MOVED = 4, 252, 1, 8


def _table() -> list[int]:
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


_CRC = _table()


def crc32c(data: bytes | bytearray) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    return crc


def sealed(raw: bytes, at: int) -> bytes:
    """With its checksum in the field at @at."""
    out = bytearray(raw)
    struct.pack_into("<I", out, at, 0)
    struct.pack_into("<I", out, at, crc32c(out))
    return bytes(out)


@dataclass(frozen=True)
class Entry:
    sector: int
    sectors: int
    fill: int = 0  # 0: the kind says zeroes
    kind: int = WRITE
    behind: int = -1  # so many entries of its batch are behind it; -1: in none

    def payload(self) -> bytes:
        """Each sector of each write is different."""
        if self.kind != WRITE:
            return b""
        return b"".join(bytes([self.fill, n]) * (SECTOR // 2) for n in range(self.sectors))

    def apply(self, data: bytearray) -> None:
        if self.kind == LOST:
            return  # what is there is older
        size = self.sectors * SECTOR
        data[self.sector * SECTOR : self.sector * SECTOR + size] = self.payload() or bytes(size)


def segment(sequence: int, first: int, entries: list[Entry], header: bool = True) -> bytes:
    """A segment; without its header it is a slot."""
    table, payload = bytearray(TABLE), bytearray()
    for i, entry in enumerate(entries):
        data = entry.payload()
        raw = struct.pack(
            "<QQQQIIIHHII8x", first + i, EPOCH, entry.sector,
            0 if entry.behind < 0 else first + i + entry.behind, entry.sectors,
            len(data) // SECTOR, (PAYLOAD + len(payload)) // SECTOR, entry.kind, 0,
            crc32c(data), 0,
        )  # fmt: skip
        table[i * 64 : i * 64 + 64] = sealed(raw, 52)
        payload += data
    body = bytes(table + payload)
    if not header:
        return bytes(BLOCK) + body
    head = struct.pack(
        "<QII16x16sQQQIII172x", 0x31474553474C4344, 1, 0, UUID, EPOCH, sequence, first,
        len(entries), BLOCK + len(body), crc32c(body),
    )  # fmt: skip
    return sealed(head, 12) + bytes(BLOCK - len(head)) + body


def superblock(generation: int, tail: int, applied: int, data_sectors: int, nvram: bool,
               newest: int = 0) -> bytes:  # fmt: skip
    raw = struct.pack(
        "<QII16x16sQQQQQIIQQIQ388x", 0x31424C4744434344, 1, 0, UUID, EPOCH, generation,
        data_sectors, (RING + SEGMENTS * SEGMENT) // SECTOR, SEGMENTS, SEGMENT, TABLE, tail,
        applied, int(nvram), newest,
    )  # fmt: skip
    return sealed(raw, 12)


def moved(generation: int, spares: dict[int, int]) -> bytes:
    """Of each spare: the block that is there."""
    raw = struct.pack("<QII16sQQ16x", 0x314456304D444344, 1, 0, UUID, EPOCH, generation)
    raw += b"".join(struct.pack("<Q", spares.get(n, 0)) for n in range(SPARES))
    return sealed(raw, 12)


def nvram_header(generation: int, applied: int, size: int) -> bytes:
    raw = struct.pack(
        "<QII16x16sQQQIIQ168x", 0x314D52564E444344, 1, 0, UUID, EPOCH, generation, size,
        SEGMENT, TABLE, applied,
    )  # fmt: skip
    return sealed(raw, 12)


def nvram_end(newest: int) -> bytes:
    return sealed(struct.pack("<QQQ36xI", 0x31444E454E444344, EPOCH, newest, 0), 60)


@dataclass
class Images:
    """What is on three devices after a power cut, and what recovery has to make of it."""

    data: bytearray
    log: bytearray
    nvram: bytearray | None
    right: bytearray = field(default_factory=bytearray)
    states: list[bytes] = field(default_factory=list)  # of the data disk, with each live entry

    def put(self, sequence: int, raw: bytes) -> None:
        at = RING + sequence % SEGMENTS * SEGMENT
        self.log[at : at + len(raw)] = raw

    def slot(self, number: int, raw: bytes) -> None:
        assert self.nvram is not None
        at = BLOCK + number * SEGMENT
        self.nvram[at : at + len(raw)] = raw

    def end(self, newest: int) -> None:
        """The NVRAM's end records say this; 0: nothing, as before the first write."""
        assert self.nvram is not None
        for at, entry in ((1024, newest - 1), (3072, newest)):
            self.nvram[at : at + 64] = nvram_end(entry) if newest else bytes(64)

    def damage_ends(self) -> None:
        """Both end records are damaged, so they say nothing."""
        assert self.nvram is not None
        for at in (1024, 3072):
            self.nvram[at + 8] ^= 1

    def move(self, *blocks: tuple[int, int]) -> None:
        """Of these segments such a block is in a spare; garbage is where it was."""
        where = {at + 2: RING // BLOCK + number % SEGMENTS * SEGMENT // BLOCK + block
                 for at, (number, block) in enumerate(blocks)}  # fmt: skip
        for spare, block in where.items():
            to, at = (FIRST_SPARE + spare) * BLOCK, block * BLOCK
            self.log[to : to + BLOCK] = self.log[at : at + BLOCK]
            self.log[at : at + BLOCK] = b"\xa5" * BLOCK
        for copy in range(2):
            at = (2 + copy) * BLOCK
            raw = moved(3, {1: BAD_SPARE, **where})
            self.log[at : at + len(raw)] = raw
            at = copy * BLOCK
            self.log[at + 24] |= MOVED
            self.log[at : at + 512] = sealed(bytes(self.log[at : at + 512]), 12)

    def save(self, folder: Path) -> list[str]:
        """The words that name them for `dcd`."""
        (folder / "data").write_bytes(self.data)
        (folder / "log").write_bytes(self.log)
        words = ["--data", str(folder / "data"), "--log", str(folder / "log")]
        if self.nvram is None:
            return words
        (folder / "nvram").write_bytes(self.nvram)
        return [*words, "--nvram", str(folder / "nvram")]


def history() -> list[list[Entry]]:
    """Segments 18 to 24: writes over writes, zeroes over writes, writes over zeroes."""
    return [
        [Entry(0, 2, 1), Entry(8, 1, 2)],
        [Entry(4, 3, 3), Entry(1, 2, 4)],
        [Entry(8, 2, 5), Entry(4, 2, kind=DISCARD)],
        [Entry(0, 1, 6), Entry(20, 4, kind=ZEROES), Entry(21, 1, 7)],
        [Entry(5, 1, 8), Entry(9, 2, 9)],
        [Entry(21, 2, 10), Entry(0, 3, 11)],
        [Entry(1, 1, kind=DISCARD), Entry(22, 1, 12)],
    ]


FIRST_SEGMENT, FIRST_ENTRY = 18, 40


def as_batches(segments: list[list[Entry]]) -> list[list[Entry]]:
    """The same writes, but those of each segment are one batch."""
    return [[replace(entry, behind=len(entries) - i) for i, entry in enumerate(entries, 1)]
            for entries in segments]  # fmt: skip


def many(number: int) -> list[Entry]:
    """Small writes, zeroes now and then, all over the place."""
    writes = [Entry(5 * n % 30, 1 + n % 2, n + 32) for n in range(number)]
    writes[5::6] = [Entry(7 * n % 31, 1, kind=ZEROES) for n in range(5, number, 6)]
    return writes


def after_a_cut(
    nvram: bool,
    sectors: int = 32,
    batches: bool = False,
    segments: list[list[Entry]] | None = None,
    generation: int = 6,
) -> Images:
    """The second turn of the ring. Destaged: the first two segments of the history; the older
    superblock doesn't know it. In the log: all, but with NVRAM the last two, which are in
    slots; the slots before have what the log has by now. The next segment is torn."""
    images = Images(bytearray(b"\xee" * sectors * SECTOR), bytearray(RING + SEGMENTS * SEGMENT),
                    bytearray(BLOCK + 4 * SEGMENT) if nvram else None)  # fmt: skip
    first = [FIRST_ENTRY]
    segments = segments or history()
    if batches:
        segments = as_batches(segments)
    for entries in segments:
        first.append(first[-1] + len(entries))
    images.log[:512] = superblock(generation, FIRST_SEGMENT + 2, first[2] - 1,
                                  sectors, nvram, first[2] - 1)  # fmt: skip
    images.log[BLOCK : BLOCK + 512] = superblock(generation - 1, FIRST_SEGMENT, first[0] - 1,
                                                 sectors, nvram)  # fmt: skip
    for old in range(FIRST_SEGMENT + len(segments) - SEGMENTS, FIRST_SEGMENT):
        images.put(old, segment(old, old, [Entry(0, 1, 0x77)]))  # of the turn before
    images.right = bytearray(images.data)
    for i, entries in enumerate(segments):
        for entry in entries:
            entry.apply(images.right)
            if i < 2:
                entry.apply(images.data)
            else:
                images.states.append(bytes(images.right))
        if not nvram or i < len(segments) - 2:
            images.put(FIRST_SEGMENT + i, segment(FIRST_SEGMENT + i, first[i], entries))
        if nvram and i >= len(segments) - 4:
            images.slot((FIRST_SEGMENT + i) % 4, segment(0, first[i], entries, header=False))
    torn = FIRST_SEGMENT + len(segments) - (2 if nvram else 0)
    raw = segment(torn, first[-3] if nvram else first[-1], [Entry(3, 3, 0x99), Entry(0, 1, 0x98)])
    images.put(torn, raw[: len(raw) - SECTOR] + bytes(SECTOR))
    if images.nvram is not None:
        size = len(images.nvram)
        images.nvram[:256] = nvram_header(2, 0, size)
        images.nvram[2048 : 2048 + 256] = nvram_header(1, 0, size)
        images.end(first[-1] - 1)
    return images
