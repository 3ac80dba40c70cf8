# SPDX-License-Identifier: GPL-2.0-only
"""Of a segment in the middle of the log nothing is known, but a slot of the NVRAM has all of it."""

from __future__ import annotations

from pathlib import Path

import dcdtool
import pytest
from dcdimage import (
    BLOCK,
    PAYLOAD,
    RING,
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


def spoil(images: Images, what: str, number: int = 21) -> None:
    at = RING + number % SEGMENTS * SEGMENT
    if what == "header":
        images.log[at : at + BLOCK] = bytes(BLOCK)
    elif what == "bit":
        images.log[at + 44] ^= 4
    elif what == "table":
        images.log[at + BLOCK : at + 2 * BLOCK] = bytes(BLOCK)
    else:
        images.put(number, segment(number - SEGMENTS, 5, [Entry(0, 1, 0x77)]))


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("what", ["header", "bit", "table", "stale"])
def test_it_is_taken(dcd: Path, tmp_path: Path, what: str, batches: bool) -> None:
    images = after_a_cut(True, batches=batches)
    spoil(images, what)
    words = images.save(tmp_path)
    told = run(dcd, "check", *words)
    assert told.code == 0 and "NVRAM has what is" in told.err, told
    told = run(dcd, "recover", *words, "--json")
    assert (told.code, told.json()["entries"]) == (0, 11), told
    assert (tmp_path / "data").read_bytes() == bytes(images.right)
    assert run(dcd, "check", *words, "--json").json()["state"] == "clean"


def test_the_first_one(dcd: Path, tmp_path: Path) -> None:
    """Its first entry is on the data disk already."""
    images = after_a_cut(True)
    for entry in (*history()[2], history()[3][0]):
        entry.apply(images.data)
    images.log[:512] = superblock(6, 21, 46, 32, True, 46)
    spoil(images, "header")
    told = run(dcd, "recover", *images.save(tmp_path), "--json")
    assert (told.code, told.json()["entries"]) == (0, 8), told
    assert (tmp_path / "data").read_bytes() == bytes(images.right)


@pytest.mark.parametrize("how", ["payload", "entry", "both", "none"])
def test_not_all_of_it(dcd: Path, tmp_path: Path, how: str) -> None:
    images = after_a_cut(how != "none")
    spoil(images, "header")
    slot = BLOCK + 21 % 4 * SEGMENT
    if images.nvram is not None:
        at = {"payload": slot + PAYLOAD, "entry": slot + BLOCK + 64, "both": 0}[how]
        images.nvram[at] ^= 4 * bool(at)
    if how == "both":
        spoil(images, "header", 22)
    words = images.save(tmp_path)
    told = run(dcd, "recover", *words, "--json")
    assert (told.code, told.json()["reason"]) == (1, "segment_missing"), told
    assert (tmp_path / "log").read_bytes() == bytes(images.log)
    assert (tmp_path / "data").read_bytes() == bytes(images.data)
