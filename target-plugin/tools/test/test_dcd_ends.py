# SPDX-License-Identifier: GPL-2.0-only
"""The NVRAM's end records: what may be missing of the newest entries is said if one is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dcdtool
import pytest
from dcdimage import BLOCK, RING, SEGMENT, SEGMENTS, Images, after_a_cut, history, nvram_end
from sanitized import run

dcd = dcdtool.dcd
OLDER, NEWER = 1024, 3072  # they say 53 and 54, which is the second one in slot 0
NEWEST = BLOCK + 24 % 4 * SEGMENT + BLOCK + 64


def damaged(images: Images, at: int, blank: bool = False) -> None:
    assert images.nvram is not None
    if blank:
        images.nvram[at : at + 64] = bytes(64)
    else:
        images.nvram[at + 17] ^= 0x55


def recovered(dcd: Path, folder: Path, images: Images, right: bytes, most: int | None) -> None:
    """It is said by everybody that so many may be missing, and once only."""
    words = images.save(folder)
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["state"]) == (4, "damaged_copy"), told
    assert told.json()["may_be_missing"] == most, told
    number = "any number of" if most is None else f"up to {most}"
    assert f"{number} acknowledged writes may be missing behind entry" in told.err, told
    done = run(dcd, "recover", "--dry-run", *words, "--json")
    assert (done.code, done.json()["may_be_missing"]) == (3, most), done
    done = run(dcd, "recover", *words, "--json")
    assert (done.code, done.json()["state"]) == (3, "recovered"), done
    assert number in done.err and done.json()["may_be_missing"] == most, done
    assert (folder / "data").read_bytes() == right
    again = run(dcd, "check", *words, "--json")
    assert (again.code, again.json()["may_be_missing"]) == (0, 0), again
    assert again.err == "", again
    assert run(dcd, "recover", *words).code == 0


@pytest.mark.parametrize("blank", [False, True])
def test_with_the_newest_entry(dcd: Path, tmp_path: Path, blank: bool) -> None:
    """Two damages make the newest write look like what a power cut has torn."""
    images = after_a_cut(True)
    assert images.nvram is not None
    images.nvram[NEWEST : NEWEST + 64] = bytes(64)
    words = images.save(tmp_path)
    assert run(dcd, "recover", *words).code == 1  # the other damage is needed for that
    damaged(images, NEWER, blank)
    recovered(dcd, tmp_path, images, images.states[-2], 32)


@pytest.mark.parametrize(("at", "most"), [(NEWER, 31), (OLDER, 32)])
def test_alone(dcd: Path, tmp_path: Path, at: int, most: int) -> None:
    """Nobody knows that it is no more than this: the other one may have been the older one."""
    images = after_a_cut(True)
    damaged(images, at)
    recovered(dcd, tmp_path, images, bytes(images.right), most)


def test_both(dcd: Path, tmp_path: Path) -> None:
    images = after_a_cut(True)
    damaged(images, OLDER)
    damaged(images, NEWER)
    recovered(dcd, tmp_path, images, bytes(images.right), None)


def test_more_is_there_than_one_publishes(dcd: Path, tmp_path: Path) -> None:
    """The damaged one was the newer one, and all that it can have named is there."""
    images = after_a_cut(True)
    assert images.nvram is not None
    images.nvram[OLDER : OLDER + 64] = nvram_end(54 - 32)
    damaged(images, NEWER)
    words = images.save(tmp_path)
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["state"]) == (4, "damaged_copy"), told
    assert told.json()["may_be_missing"] == 0 and told.err == "", told
    assert run(dcd, "recover", *words).code == 0
    assert run(dcd, "check", *words).code == 0


@pytest.mark.parametrize("applied", [False, True])
def test_of_before_the_first_write(dcd: Path, tmp_path: Path, applied: bool) -> None:
    """Blank records, though the log, or its superblock alone, has entries: an older copy."""
    images = after_a_cut(True)
    if applied:
        assert run(dcd, "recover", *images.save(tmp_path)).code == 0
        images.log = bytearray((tmp_path / "log").read_bytes())
        images.nvram = bytearray((tmp_path / "nvram").read_bytes())
    images.end(0)
    words = images.save(tmp_path)
    before = (tmp_path / "data").read_bytes()
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["reason"]) == (4, "nvram_older"), told
    for command in ("recover", "retire"):
        done = run(dcd, command, *words)
        assert done.code == 1 and "of an earlier time than the log (0 there" in done.err, done
    assert (tmp_path / "data").read_bytes() == before


@pytest.mark.parametrize("lost", [0, BLOCK, BLOCK + 64])
def test_of_before_a_segment_that_a_cut_has_torn(dcd: Path, tmp_path: Path, lost: int) -> None:
    """The log has entries 51 and 52 in part only: with so many bytes lost at the beginning."""
    images = after_a_cut(True)
    for number in (23, 24):
        images.slot(number % 4, bytes(SEGMENT))
    images.put(23, bytes(lost))
    images.end(50)
    told = run(dcd, "check", *images.save(tmp_path), "--json")
    assert (told.code, told.json()["reason"]) == (4, "nvram_older"), told
    assert "(50 there, 52 in the log)" in told.json()["message"], told
    images.put(23, bytes(2 * BLOCK))
    assert run(dcd, "check", *images.save(tmp_path)).code == 0


def test_retire(dcd: Path, tmp_path: Path) -> None:
    images = after_a_cut(True)
    damaged(images, NEWER)
    words = images.save(tmp_path)
    done = run(dcd, "retire", *words, "--json")
    assert (done.code, done.json()["state"], done.json()["may_be_missing"]) == (3, "retired", 31)
    assert run(dcd, "retire", *words).code == 0


def salvaged(dcd: Path, folder: Path, images: Images, *log: str) -> tuple[int, Any, bytes]:
    words = images.save(folder)
    if log:
        words[words.index("--log") + 1] = log[0]
    told = run(dcd, "recover", *words, "--salvage", "--json")
    if told.code == 3:
        number = told.json()["may_be_missing"]
        assert f"up to {number} acknowledged writes may be missing" in told.err, told
    return told.code, told.json(), (folder / "data").read_bytes()


def test_salvage_beside_a_damaged_header(dcd: Path, tmp_path: Path) -> None:
    """Nothing is lost; but that nothing is missing, nobody knows."""
    images = after_a_cut(True)
    images.log[RING + 20 % SEGMENTS * SEGMENT + 8] ^= 0x55
    damaged(images, NEWER)
    code, told, data = salvaged(dcd, tmp_path, images)
    assert (code, told["state"], told["lost"], told["may_be_missing"]) == (3, "salvaged", [], 31)
    assert data == bytes(images.right)


@pytest.mark.parametrize(("at", "most"), [(NEWER, 31), (OLDER, 32)])
def test_salvage_without_a_log(dcd: Path, tmp_path: Path, at: int, most: int) -> None:
    """Entry 54 is behind the older record, and joins it: it counts."""
    log_has_it = after_a_cut(True)
    data = bytearray(log_has_it.data)
    number = 40
    for i, entries in enumerate(history()):
        for entry in entries:
            if i >= len(history()) - 4:
                entry.apply(data)
            number += 1
    assert number == 55
    damaged(log_has_it, at)
    code, told, found = salvaged(dcd, tmp_path, log_has_it, "none")
    assert (code, told["state"], told["may_be_missing"]) == (3, "salvaged", most), told
    assert found == bytes(data)


def test_salvage_without_a_log_behind_a_gap(dcd: Path, tmp_path: Path) -> None:
    """What joins the older record isn't the end, as more is behind a gap: nothing is written."""
    images = after_a_cut(True)
    assert images.nvram is not None
    images.nvram[OLDER : OLDER + 64] = nvram_end(52)
    images.nvram[NEWEST - 64 : NEWEST] = bytes(64)  # entry 53
    damaged(images, NEWER)
    code, told, found = salvaged(dcd, tmp_path, images, "none")
    assert (code, told["reason"]) == (1, "newest_entries_missing"), told
    assert found == bytes(images.data)


@pytest.mark.parametrize("log", [(), ("none",)])
def test_salvage_takes_no_part_of_a_batch(
    dcd: Path, tmp_path: Path, log: tuple[str, ...]
) -> None:
    """Entry 54 is the last of a batch, and not there: nothing of that batch counts."""
    images = after_a_cut(True, batches=True)
    assert images.nvram is not None
    images.nvram[OLDER : OLDER + 64] = nvram_end(52)
    images.nvram[NEWEST : NEWEST + 64] = bytes(64)
    images.log[RING + 20 % SEGMENTS * SEGMENT + 8] ^= 0x55
    damaged(images, NEWER)
    code, told, found = salvaged(dcd, tmp_path, images, *log)
    assert (code, told["may_be_missing"]) == (3, 32), told
    if not log:
        assert found == images.states[-3], told
