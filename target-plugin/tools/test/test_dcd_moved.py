# SPDX-License-Identifier: GPL-2.0-only
"""Blocks of the log are in spares: the command reads and writes them there, and guesses nothing."""

from __future__ import annotations

from pathlib import Path

import dcdtool
import pytest
from dcdimage import BAD_SPARE, BLOCK, RING, SEGMENT, SEGMENTS, Images, after_a_cut, moved
from dcdtool import NVRAM
from sanitized import run

dcd = dcdtool.dcd
# Of live segments: a header, a table, payloads; and a place that holds nothing.
BLOCKS = ((20, 0), (21, 1), (22, 2), (27, 2))
TABLES = (2 * BLOCK, 3 * BLOCK)


def with_moves(nvram: bool) -> Images:
    images = after_a_cut(nvram)
    images.move(*BLOCKS)
    return images


@NVRAM
def test_recover(dcd: Path, tmp_path: Path, nvram: bool) -> None:
    images = with_moves(nvram)
    words = images.save(tmp_path)
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["state"]) == (0, "live"), told
    assert told.json()["moved"] == {"copies": ["valid", "valid"], "blocks": 4, "bad_spares": 1}
    assert run(dcd, "dump", *words, "--all").code == 0
    told = run(dcd, "recover", *words, "--json")
    assert told.code == 0, told
    assert (tmp_path / "data").read_bytes() == bytes(images.right)
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["state"]) == (0, "clean"), told
    assert told.json()["moved"]["blocks"] == 4, told


@NVRAM
def test_the_bit_says_that_they_count(dcd: Path, tmp_path: Path, nvram: bool) -> None:
    """A table that nobody has announced is none: nothing was moved before."""
    images = after_a_cut(nvram)
    for at in TABLES:
        raw = moved(9, {0: RING // BLOCK + 20 % SEGMENTS * SEGMENT // BLOCK})
        images.log[at : at + len(raw)] = raw
    told = run(dcd, "recover", *images.save(tmp_path), "--json")
    assert told.code == 0, told
    assert (tmp_path / "data").read_bytes() == bytes(images.right)


@pytest.mark.parametrize("copy", [0, 1])
def test_one_copy_is_damaged(dcd: Path, tmp_path: Path, copy: int) -> None:
    images = with_moves(False)
    images.log[TABLES[copy] + 100] ^= 1
    words = images.save(tmp_path)
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["state"]) == (4, "damaged_copy"), told
    assert run(dcd, "recover", *words).code == 0
    assert (tmp_path / "data").read_bytes() == bytes(images.right)
    log = (tmp_path / "log").read_bytes()
    assert log[TABLES[0] : TABLES[1]] == log[TABLES[1] : TABLES[1] + BLOCK]
    assert run(dcd, "check", *words).code == 0


@pytest.mark.parametrize("newer", [0, 1])
def test_a_cut_between_the_two(dcd: Path, tmp_path: Path, newer: int) -> None:
    """The newer one counts; the older one doesn't know of one move."""
    images = with_moves(False)
    at = TABLES[not newer]
    raw = moved(2, {1: BAD_SPARE, 2: RING // BLOCK + 20 % SEGMENTS * SEGMENT // BLOCK})
    images.log[at : at + len(raw)] = raw
    words = images.save(tmp_path)
    assert run(dcd, "recover", *words).code == 0
    assert (tmp_path / "data").read_bytes() == bytes(images.right)
    assert run(dcd, "check", *words).code == 0


RING_BLOCK = RING // BLOCK + 5


@pytest.mark.parametrize("spares", [
    {3: 255}, {3: RING // BLOCK + SEGMENTS * SEGMENT // BLOCK}, {3: 2**64 - 1}, {3: 2},
    {3: RING_BLOCK, 4: RING_BLOCK}, None,
])  # fmt: skip
def test_both_are_wrong(dcd: Path, tmp_path: Path, spares: dict[int, int] | None) -> None:
    """Blocks that aren't in the ring, or in two spares; or zeroes."""
    images = with_moves(False)
    for at in TABLES:
        raw = bytes(BLOCK) if spares is None else moved(4, spares)
        images.log[at : at + len(raw)] = raw
    words = images.save(tmp_path)
    for command in ("check", "recover", "retire"):
        told = run(dcd, command, *words, "--json")
        assert told.code == (4 if command == "check" else 1), told
        assert told.json()["reason"] == "moves_damaged", told
    assert (tmp_path / "data").read_bytes() == bytes(images.data)
    assert (tmp_path / "log").read_bytes() == bytes(images.log)
    told = run(dcd, "recover", *words, "--salvage", "--json")
    assert (told.code, told.json()["state"]) == (3, "salvaged"), told
