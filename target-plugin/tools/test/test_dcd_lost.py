# SPDX-License-Identifier: GPL-2.0-only
"""What the log can't give any more: listed by check, never taken for older data by anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dcdtool
import pytest
from dcdimage import (
    BLOCK,
    LOST,
    PAYLOAD,
    RING,
    SECTOR,
    SEGMENT,
    SEGMENTS,
    Entry,
    Images,
    after_a_cut,
    history,
    segment,
    superblock,
)
from sanitized import run

dcd = dcdtool.dcd


def place(sequence: int) -> int:
    return RING + sequence % SEGMENTS * SEGMENT


def ranges(told: Any) -> list[tuple[int, int]]:
    return sorted((item["sector"], item["sectors"]) for item in told["lost"])


def lost(dcd: Path, folder: Path, images: Images, *want: tuple[int, int]) -> list[Any]:
    """By check; recover and retire change nothing; salvage writes all else. What that lists."""
    if images.nvram is None:
        images.put(25, bytes(SEGMENT))  # salvage takes what is right of a torn one
    words = images.save(folder)
    before = [path.read_bytes() for path in sorted(folder.iterdir())]
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["state"]) == (4, "lost"), told
    assert ranges(told.json()) == sorted(want), told
    for verb in (["recover"], ["recover", "--dry-run"], ["retire"]):
        done = run(dcd, *verb, *words, "--json")
        assert (done.code, done.json()["reason"]) == (1, "medium_errors"), done
        assert [path.read_bytes() for path in sorted(folder.iterdir())] == before
    text = run(dcd, "check", *words)
    assert all(f", sectors {at} + {n}\n" in text.out for at, n in want), text
    assert run(dcd, "dump", *words).out.count(": lost ") >= 1
    done = run(dcd, "recover", "--salvage", *words, "--json")
    assert (done.code, done.json()["state"]) == (3, "salvaged"), done
    data = (folder / "data").read_bytes()
    bad = {s for at, n in want for s in range(at, at + n)}
    for n in range(len(data) // SECTOR):
        part = slice(n * SECTOR, (n + 1) * SECTOR)
        assert n in bad or data[part] == images.right[part], n
    assert (folder / "log").read_bytes() == before[1]
    listed: list[Any] = done.json()["lost"]
    return listed


@pytest.mark.parametrize("nvram", [True, False])
def test_entries(dcd: Path, tmp_path: Path, nvram: bool) -> None:
    """Logged as lost, twice, then parts of it written and zeroed."""
    segments = history()
    segments[3] = [*segments[3], Entry(12, 8, kind=LOST)]
    segments[4] = [*segments[4], Entry(12, 8, kind=LOST)]
    segments[5] = [*segments[5], Entry(14, 2, 0x70), Entry(19, 1, kind=3)]
    images = after_a_cut(nvram, segments=segments)
    listed = lost(dcd, tmp_path, images, (12, 2), (16, 3))
    assert ranges({"lost": listed}) == [(12, 2), (16, 3)]
    segments[6] = [*segments[6], Entry(12, 8, 0x71)]
    images = after_a_cut(nvram, segments=segments)
    words = images.save(tmp_path)
    assert run(dcd, "check", *words).code == 0
    assert run(dcd, "recover", *words).code == 0
    assert (tmp_path / "data").read_bytes() == bytes(images.right)


@pytest.mark.parametrize("nvram", [True, False])
def test_a_payload(dcd: Path, tmp_path: Path, nvram: bool) -> None:
    """Entry 44 writes sectors 8 and 9; 50 writes over 9 later."""
    images = after_a_cut(nvram)
    images.log[place(20) + PAYLOAD + SECTOR] ^= 0x55
    listed = lost(dcd, tmp_path, images, (8, 1))
    assert listed == [{"first_entry": 44, "last_entry": 44, "sector": 8, "sectors": 1}]


def test_all_of_it_is_written_over(dcd: Path, tmp_path: Path) -> None:
    """Entry 43 is on the data disk, 46 writes sector 0, as 52 does."""
    images = after_a_cut(True)
    images.log[place(21) + PAYLOAD] ^= 0x55
    words = images.save(tmp_path)
    assert run(dcd, "check", *words).code == 0
    assert run(dcd, "recover", *words).code == 0
    assert (tmp_path / "data").read_bytes() == bytes(images.right)


def test_the_last_segment(dcd: Path, tmp_path: Path) -> None:
    """Torn, or so it looks: it isn't if a superblock says that it was there, or by one bit."""
    images = after_a_cut(False)
    images.put(25, bytes(BLOCK))
    images.log[place(24) + PAYLOAD] ^= 0x55
    words = images.save(tmp_path)
    assert run(dcd, "check", *words, "--json").json()["live"]["newest_entry"] == 52
    images.log[:512] = superblock(6, 20, 43, 32, False, 54)
    lost(dcd, tmp_path, images, (22, 1))
    images = after_a_cut(False)
    images.log[place(24) + PAYLOAD] ^= 1
    lost(dcd, tmp_path, images, (22, 1))


def test_nvram_has_it_yet(dcd: Path, tmp_path: Path) -> None:
    """Segment 22 is in the log and in its slot, where 21 isn't any more."""
    images = after_a_cut(True)
    images.log[place(22) + PAYLOAD] ^= 0x55
    words = images.save(tmp_path)
    told = run(dcd, "check", *words)
    assert told.code == 0 and "NVRAM has what is" in told.err, told
    assert run(dcd, "recover", *words).code == 0
    assert (tmp_path / "data").read_bytes() == bytes(images.right)


def test_the_newest_are_in_no_slot(dcd: Path, tmp_path: Path) -> None:
    """But in the log, where the segment is damaged: 51 is right, 52 isn't."""
    images = after_a_cut(True)
    images.slot(23 % 4, bytes(SEGMENT))
    raw = bytearray(segment(23, 51, history()[5]))
    raw[PAYLOAD + 2 * SECTOR] ^= 0x55
    images.put(23, bytes(raw))
    lost(dcd, tmp_path, images, (0, 1), (2, 1))


def test_a_table(dcd: Path, tmp_path: Path) -> None:
    """Nobody knows what was written."""
    images = after_a_cut(True)
    images.log[place(20) + BLOCK + 64 + 20] ^= 0x55
    told = run(dcd, "check", *images.save(tmp_path), "--json")
    assert (told.code, told.json()["reason"]) == (4, "segment_missing"), told


def on_the_data_disk(nvram: bool, damaged: int = 0) -> Images:
    """Entry 47 is damaged in this sector of its four. It is destaged, and no superblock says so;
    46 is what was there before, and a later one writes over the third."""
    segments = history()
    segments[2] = [*segments[2], Entry(12, 4, 0x60), Entry(12, 4, 0x61)]
    segments[5] = [*segments[5], Entry(14, 1, 0x62)]
    images = after_a_cut(nvram, segments=segments)
    Entry(12, 4, 0x61).apply(images.data)
    images.log[place(20) + PAYLOAD + (6 + damaged) * SECTOR + 7] ^= 0x55
    return images


@pytest.mark.parametrize("nvram", [True, False])
@pytest.mark.parametrize("over", [False, True])
def test_the_data_disk_has_it(dcd: Path, tmp_path: Path, nvram: bool, over: bool) -> None:
    images = on_the_data_disk(nvram)
    if over:
        Entry(14, 1, 0x62).apply(images.data)
    words = images.save(tmp_path)
    told = run(dcd, "check", *words)
    assert told.code == 0 and "the data disk has 1 writes" in told.err, told
    assert (tmp_path / "data").read_bytes() == bytes(images.data)
    assert (tmp_path / "log").read_bytes() == bytes(images.log)
    without = run(dcd, "check", *words[2:], "--json")
    assert (without.code, ranges(without.json())) == (4, [(12, 2), (15, 1)]), without
    assert run(dcd, "recover", *words, "--dry-run").code == 0
    assert (tmp_path / "log").read_bytes() == bytes(images.log)
    assert run(dcd, "recover", *words).code == 0
    assert (tmp_path / "data").read_bytes() == bytes(images.right)
    assert run(dcd, "check", *words).code == 0


@pytest.mark.parametrize("nvram", [True, False])
def test_what_it_has_cant_be_told(dcd: Path, tmp_path: Path, nvram: bool) -> None:
    """The later one is there too, and of the damaged one what that has written over is wrong."""
    images = on_the_data_disk(nvram, 2)
    Entry(14, 1, 0x62).apply(images.data)
    lost(dcd, tmp_path, images, (12, 2), (15, 1))
