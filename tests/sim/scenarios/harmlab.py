# SPDX-License-Identifier: GPL-2.0-only
"""What becomes wrong in the log's and the NVRAM's places of a DCD that search_dcd.py turns over."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from dcdworld import PLACES, World
from histories import Refused
from locklab import base, blk, dm
from poisonlab import ENTRIES, FIRST, PAYLOAD, PER_SLOT, TABLE, slot_of
from poisonlab import poison as poison_places
from statelab import sector

LINE = blk.SECTOR // ENTRIES
HEADER_COPY, END_COPY = 0, 2  # sectors


def newest(w: World, number: int) -> bytes:
    """A sector's newest bytes that were acknowledged."""
    version = w.history.acked[number]
    if not version or version in w.history.zeroes:
        raise Refused
    return sector(version, number)


def flip(w: World, raw: bytes) -> int:
    """A bit of each place of the log that has them; how many."""
    if "log" in w.hung:
        raise Refused
    found = 0
    with blk.Disk("/dev/mapper/log-medium") as medium:
        log = medium.read(0, medium.sectors)
        at = log.find(raw)
        while at >= 0:
            medium.write(at // blk.SECTOR, bytes([raw[0] ^ 4]) + raw[1:])
            at = log.find(raw, at + blk.SECTOR)
            found += 1
    return found


def _nvram(w: World) -> list[bytes]:
    """Its sectors; of one with a media error nothing."""
    if w.box.view == "none":
        raise Refused
    with blk.Disk(w.box.view, write=False) as disk:

        def read(first: int, count: int) -> Iterator[bytes]:
            try:
                raw = disk.read(first, count)
            except OSError:
                if count == 1:
                    yield b""
                    return
                for n in range(first, first + count):
                    yield from read(n, 1)
                return
            yield from (raw[n : n + blk.SECTOR] for n in range(0, len(raw), blk.SECTOR))

        step = PER_SLOT
        return [
            one
            for first in range(0, disk.sectors, step)
            for one in read(first, min(step, disk.sectors - first))
        ]


def _worn(w: World, what: str) -> None:
    w.worn.add(what)
    w.trouble.add("nvram")


def poison(w: World, raw: bytes) -> int:
    """A media error of each place of the NVRAM that has them; how many. What neither disk has is
    lost by that."""
    found = [at for at, one in enumerate(_nvram(w)) if one == raw]
    with blk.Disk("/dev/mapper/log-medium", write=False) as medium:
        log = medium.read(0, medium.sectors)
    for at in found:
        poison_places(w.box, at)
    if found:
        _worn(w, "place")
        w.rotten = w.rotten or raw not in log
    return len(found)


def wear(w: World) -> None:
    """What is free of the slot with the newest write can't keep anything any more."""
    version = max(w.history.acked)
    if not w.quiet or version in w.history.zeroes or "header" in w.worn:
        raise Refused
    last = max(n for n, one in enumerate(w.history.acked) if one == version)
    found = [at for at, one in enumerate(_nvram(w)) if one == sector(version, last)]
    if len(found) != 1:
        raise Refused
    end = slot_of(found[0]) + PER_SLOT
    if end - found[0] <= 1:
        raise Refused
    dm.message("nv", "unclearable 1")
    poison_places(w.box, found[0] + 1, end - found[0] - 1)
    _worn(w, "slot")


def header(w: World) -> None:
    """One of its two, and of the two records of the newest entry. With a driver that can't clear it
    the NVRAM is of no use (dcd_poison.py)."""
    if w.box.view == "none" or "slot" in w.worn:
        raise Refused
    poison_places(w.box, HEADER_COPY)
    poison_places(w.box, END_COPY)
    _worn(w, "header")


def _lines(nvram: list[bytes]) -> dict[int, int]:
    """Where the entries are, by their numbers; in bytes."""
    found = {}
    for slot in range(FIRST, len(nvram), PER_SLOT):
        for at in range(slot + TABLE, slot + PAYLOAD):
            for line in range(0, len(nvram[at]), LINE):
                number = int.from_bytes(nvram[at][line : line + 8], "little")
                if number:
                    found[number] = at * blk.SECTOR + line
    return found


def line(w: World, older: int) -> None:
    """Of the entry that is so many older than the newest, when the power has been cut. It may be no
    entry that counts any more: then nothing is lost."""
    if not w.well or w.worn or not w.node or w.box.view == "none":
        raise Refused
    w.cut()
    lines = _lines(_nvram(w))
    number = max(lines, default=0) - older
    if number not in lines:
        w.open()
        raise Refused
    at, off = divmod(lines[number], blk.SECTOR)
    with blk.Disk(w.box.view) as disk:
        good = disk.read(at, 1)
        disk.write(at, good[:off] + bytes(LINE) + good[off + LINE :])
    try:
        w.box.open()
    except OSError as err:
        base.equal(err.errno, errno.EUCLEAN, "with a damaged entry")
        with blk.Disk(w.box.view) as disk:
            disk.write(at, good)
    else:
        w.box.close()
    w.open()
    w.look("with a damaged entry")


def wound(w: World) -> None:
    """Leaves it closed."""
    exact = all(ways[-1] == seen for ways, seen in
                zip(w.history.issued, w.history.acked, strict=True))  # fmt: skip
    if not w.well or not w.node or not w.quiet or not exact:
        raise Refused
    raw = newest(w, 104)
    if w.volatile:
        w.leave()
    else:
        w.cut()
    content = b"".join(
        sector(0 if version in w.history.zeroes else version, n)
        for n, version in enumerate(w.history.acked)
    )
    with blk.Disk(w.box.data.node) as disk:
        disk.write(PLACES[0], content[PLACES[0] * blk.SECTOR : (PLACES[-1] + 1) * blk.SECTOR])
        disk.flush()
    if not flip(w, raw):
        w.open()
        raise Refused
    w.trouble.add("rot")


def forgets(w: World) -> None:
    """Leaves it closed."""
    if not w.well or w.box.view == "none":
        raise Refused
    w.leave()
    dm.message("nv", "forgets 1")
    try:
        w.box.open()
    except OSError as err:
        base.equal(err.errno, errno.EOPNOTSUPP, "with an NVRAM that may forget")
    else:
        w.box.close()
        raise base.Wrong("an NVRAM that may forget is taken")
    finally:
        dm.message("nv", "forgets 0")
