# SPDX-License-Identifier: GPL-2.0-only
"""What `dcd recover --salvage` saves of what recovery refuses, and what it lists as lost."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import dcdimage
import dcdtool
import pytest
from dcdimage import (
    BLOCK,
    PAYLOAD,
    RING,
    SECTOR,
    SEGMENT,
    SEGMENTS,
    ZEROES,
    Entry,
    Images,
    after_a_cut,
    history,
)
from sanitized import run

LOSSES = 3

dcd = dcdtool.dcd


def place(sequence: int) -> int:
    return RING + sequence % SEGMENTS * SEGMENT


def salvaged(dcd: Path, folder: Path, images: Images, *without: str) -> tuple[bytes, Any]:
    """The data disk, and what was told; recovery refuses it, and log and NVRAM stay as they are."""
    words = images.save(folder)
    for word in without:
        at = words.index(word)
        del words[at : at + 2]
    assert run(dcd, "recover", *words).code == 1
    dry = run(dcd, "recover", *words, "--salvage", "--dry-run", "--json")
    assert (folder / "data").read_bytes() == bytes(images.data), dry
    told = run(dcd, "recover", *words, "--salvage", "--json")
    assert dry.json() == told.json() and told.json()["state"] == "salvaged", told
    assert told.code == dry.code == LOSSES, told
    assert (folder / "log").read_bytes() == bytes(images.log)
    return (folder / "data").read_bytes(), told.json()


def without(images: Images, *lost: int) -> bytes:
    """The data disk with all live entries but those."""
    data = bytearray(images.data)
    number = 40
    for i, entries in enumerate(history()):
        for entry in entries:
            if i >= 2 and number not in lost:
                entry.apply(data)
            number += 1
    return bytes(data)


def test_a_payload(dcd: Path, tmp_path: Path) -> None:
    """Entry 44 writes sectors 8 and 9; 50 writes over 9 later."""
    images = after_a_cut(True)
    images.log[place(20) + PAYLOAD] ^= 0x55
    data, told = salvaged(dcd, tmp_path, images)
    assert data == without(images, 44)
    assert told["lost"] == [{"first_entry": 44, "last_entry": 44, "sector": 8, "sectors": 1}]
    assert told["entries"] == 10 and not told["nvram_lost"]


def test_a_line_of_a_table(dcd: Path, tmp_path: Path) -> None:
    images = after_a_cut(True)
    images.log[place(20) + BLOCK + 64 + 20] ^= 0x55
    data, told = salvaged(dcd, tmp_path, images)
    assert data == without(images, 45)
    assert told["lost"] == [{"first_entry": 45, "last_entry": 45}]


def test_a_segment(dcd: Path, tmp_path: Path) -> None:
    images = after_a_cut(True)
    images.put(20, bytes(SEGMENT))
    data, told = salvaged(dcd, tmp_path, images)
    assert data == without(images, 44, 45)
    assert told["lost"] == [{"first_entry": 44, "last_entry": 45}]


def test_a_header(dcd: Path, tmp_path: Path) -> None:
    """Everything else of the segment is right: nothing is lost."""
    images = after_a_cut(True)
    images.put(20, b"\x55" * 512)
    words = images.save(tmp_path)
    assert run(dcd, "recover", *words).code == 1
    told = run(dcd, "recover", *words, "--salvage", "--json")
    assert told.code == 0 and told.json()["lost"] == [], told
    assert (tmp_path / "data").read_bytes() == bytes(images.right)


def test_a_slot(dcd: Path, tmp_path: Path) -> None:
    """The newest entries by the end record are neither in the log nor in NVRAM."""
    images = after_a_cut(True)
    images.slot(24 % 4, bytes(SEGMENT))
    data, told = salvaged(dcd, tmp_path, images)
    assert data == without(images, 53, 54)
    assert told["lost"] == [{"first_entry": 53, "last_entry": 54}]


def begun_anew(fourth: list[Entry]) -> Images:
    """Segment 21 has these entries, from 46 on; its slot was begun anew, by entry 55, whose payload
    is where the first one of those was. 22 to 24 have what they have in history()."""
    segments = history()
    segments[3] = fourth
    images, at = after_a_cut(True, segments=segments), BLOCK + 21 % 4 * SEGMENT
    assert images.nvram is not None
    anew = dcdimage.segment(0, 55, [Entry(30, 1, 13)], header=False)
    images.nvram[at + BLOCK : at + BLOCK + 64] = anew[BLOCK : BLOCK + 64]
    images.nvram[at + PAYLOAD : at + PAYLOAD + SECTOR] = anew[PAYLOAD:]
    images.end(55)
    Entry(30, 1, 13).apply(images.right)
    return images


def test_a_slot_that_was_begun_anew(dcd: Path, tmp_path: Path) -> None:
    """Behind its new line are two of the turn before, 47 and 48, which the log's table names."""
    images = begun_anew([Entry(24, 1, 6), Entry(25, 1, 7), Entry(26, 1, 8)])
    for n in range(3):
        images.log[place(21) + PAYLOAD + n * SECTOR] ^= 0x55
    data, told = salvaged(dcd, tmp_path, images)
    right = images.right
    right[24 * SECTOR : 25 * SECTOR] = images.data[24 * SECTOR : 25 * SECTOR]
    assert data == right
    assert told["lost"] == [{"first_entry": 46, "last_entry": 46, "sector": 24, "sectors": 1}]


@pytest.mark.parametrize("over", [False, True])
def test_an_older_line_that_the_log_does_not_name(dcd: Path, tmp_path: Path, over: bool) -> None:
    """47 zeroes what 46 writes, as the log's table said: without that nobody knows what came later,
    and the data disk has it."""
    fourth = [Entry(8, 1, 6), Entry(24, 4, kind=ZEROES), Entry(25, 1, 7)]
    if over:
        fourth = [Entry(24, 4, kind=ZEROES), Entry(24, 4, 7), Entry(26, 4, 8)]
    images = begun_anew(fourth)
    for entry in fourth:
        entry.apply(images.data)
    images.log[place(21) + BLOCK : place(21) + BLOCK + SECTOR] = bytes(SECTOR)
    data, told = salvaged(dcd, tmp_path, images)
    there = slice(24 * SECTOR, 30 * SECTOR)
    assert data[there] == images.right[there]
    assert told["lost"] == [{"first_entry": 46, "last_entry": 48}]


def test_the_nvram_is_lost(dcd: Path, tmp_path: Path) -> None:
    images = after_a_cut(True)
    images.put(23, bytes(SEGMENT))  # what was torn there
    data, told = salvaged(dcd, tmp_path, images, "--nvram")
    assert data == without(images, 51, 52, 53, 54)
    assert told["nvram_lost"] and told["lost"] == []


@pytest.mark.parametrize("nvram", [True, False])
def test_nothing_is_damaged(dcd: Path, tmp_path: Path, nvram: bool) -> None:
    """It is a recovery then."""
    images = after_a_cut(nvram)
    words = images.save(tmp_path)
    told = run(dcd, "recover", *words, "--salvage", "--json")
    assert told.code == 0 and told.json()["state"] == "recovered", told
    assert (tmp_path / "data").read_bytes() == bytes(images.right)
    assert run(dcd, "check", *words, "--json").json()["state"] == "clean"


def test_what_it_does_not_list_is_right(dcd: Path, tmp_path: Path) -> None:
    """Damage at random: each sector is right, or listed, or something unknown is."""
    rng = random.Random("salvage")
    listed = 0
    for case in range(150):
        images = after_a_cut(True)
        assert images.nvram is not None
        images.put(23, bytes(SEGMENT))  # what was torn there has bytes that no NVRAM had
        for _ in range(rng.randint(1, 4)):
            if rng.random() < 0.3:
                at = BLOCK + rng.randrange(4) * SEGMENT + rng.choice((BLOCK, PAYLOAD))
                images.nvram[at + rng.randrange(400)] ^= rng.randrange(1, 256)
            else:
                at = place(rng.randint(20, 24)) + rng.choice((0, BLOCK, PAYLOAD))
                images.log[at + rng.randrange(400)] ^= rng.randrange(1, 256)
        words = images.save(tmp_path)
        told = run(dcd, "recover", *words, "--salvage", "--json")
        assert told.code in (0, LOSSES), (case, told)
        data, lost = (tmp_path / "data").read_bytes(), told.json().get("lost", [])
        if any("sector" not in item for item in lost):
            continue
        listed += len(lost)
        bad = {s for item in lost for s in range(item["sector"], item["sector"] + item["sectors"])}
        for n in range(len(data) // SECTOR):
            part = slice(n * SECTOR, (n + 1) * SECTOR)
            assert n in bad or data[part] == images.right[part], (case, n, told)
    assert listed > 10


@pytest.mark.parametrize("page", [bytes(BLOCK), b"\x55" * BLOCK])
def test_the_page_of_the_nvrams_headers(dcd: Path, tmp_path: Path, page: bytes) -> None:
    """A block of 4 KiB has both copies of the header, and both end records; each slot is whole."""
    images = after_a_cut(True)
    images.put(23, bytes(SEGMENT))  # what was torn there
    assert images.nvram is not None
    images.nvram[:BLOCK] = page
    data, told = salvaged(dcd, tmp_path, images)
    assert data == bytes(images.right)
    assert told["lost"] == [] and told["nvram_header_lost"] and told["may_be_missing"] is None


def test_no_header_behind_a_log_that_had_failed(dcd: Path, tmp_path: Path) -> None:
    """The header knew what went to the data disk past the log: what the log has may be older."""
    images = after_a_cut(True)
    assert images.nvram is not None
    for sequence in range(21, 24):
        images.put(sequence, bytes(SEGMENT))
    images.slot(21 % 4, bytes(SEGMENT))
    images.nvram[:BLOCK] = bytes(BLOCK)
    first = 40 + sum(len(entries) for entries in history()[:4])
    data, told = salvaged(dcd, tmp_path, images)
    assert data == without(images, *range(44, first))
    assert told["lost"] == [{"first_entry": 44, "last_entry": first - 1}]


def failed_log() -> Images:
    """Behind segment 21; past it all got to the data disk. The NVRAM's headers are lost."""
    images = after_a_cut(True)
    assert images.nvram is not None
    for sequence in (22, 23):
        images.put(sequence, bytes(SEGMENT))
    images.data[:] = images.right
    images.nvram[:BLOCK] = bytes(BLOCK)
    return images


def test_no_header_and_a_payload_that_is_wrong(dcd: Path, tmp_path: Path) -> None:
    """The data disk has entry 51, whose second sector is written over: nothing older gets there."""
    images = failed_log()
    assert images.nvram is not None
    images.nvram[BLOCK + 23 % 4 * SEGMENT + PAYLOAD + SECTOR] ^= 0x55
    data, _ = salvaged(dcd, tmp_path, images)
    assert data == bytes(images.right)


def test_no_header_and_nothing_in_the_slots(dcd: Path, tmp_path: Path) -> None:
    """Another NVRAM, or a blank one: what the log has may be older than the data disk."""
    images = failed_log()
    images.nvram = bytearray(len(images.nvram or b""))
    words = images.save(tmp_path)
    told = run(dcd, "recover", *words, "--salvage", "--json")
    assert told.code == 1 and told.json()["reason"] == "nvram_empty", told
    assert (tmp_path / "data").read_bytes() == bytes(images.data)


def test_no_header_but_the_record_of_the_newest(dcd: Path, tmp_path: Path) -> None:
    """The newest slot is lost: without it the others may be older than the data disk."""
    images = after_a_cut(True)
    assert images.nvram is not None
    for at in (0, 2048):
        images.nvram[at : at + 256] = bytes(256)
    whole, told = salvaged(dcd, tmp_path, images)
    assert whole == bytes(images.right) and told["may_be_missing"] == 0
    images.slot(24 % 4, bytes(SEGMENT))
    words = images.save(tmp_path)
    refused = run(dcd, "recover", *words, "--salvage", "--json")
    assert refused.code == 1 and refused.json()["reason"] == "newest_entries_missing", refused
    assert (tmp_path / "data").read_bytes() == bytes(images.data)
