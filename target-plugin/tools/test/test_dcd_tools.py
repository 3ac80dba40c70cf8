# SPDX-License-Identifier: GPL-2.0-only
"""dcd check, dump, recover: what they say, what they refuse, and what is on the disks then."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import dcdimage
import dcdtool
import pytest
from dcdimage import BLOCK, RING, SEGMENT, Entry, Images, after_a_cut
from dcdtool import NVRAM
from sanitized import run

# Fixtures.
dcd = dcdtool.dcd


@NVRAM
def test_recover(dcd: Path, tmp_path: Path, nvram: bool) -> None:
    images = after_a_cut(nvram)
    words = images.save(tmp_path)
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["state"]) == (0, "live"), told
    assert told.json()["live"]["entries"] == 11
    before = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    dry = run(dcd, "recover", *words, "--dry-run", "--json")
    assert (dry.code, dry.json()["state"], dry.json()["entries"]) == (0, "would_recover", 11)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == before
    done = run(dcd, "recover", *words, "--json")
    assert (done.code, done.json()["state"], done.json()["entries"]) == (0, "recovered", 11)
    assert done.json()["slots"] == (2 if nvram else 0)
    assert (tmp_path / "data").read_bytes() == bytes(images.right)
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["state"]) == (0, "clean")
    assert told.json()["live"]["next"] == dcdimage.FIRST_SEGMENT + 7
    again = run(dcd, "recover", *words, "--json")
    assert (again.code, again.json()["entries"]) == (0, 0)
    assert (tmp_path / "data").read_bytes() == bytes(images.right)


def refused(dcd: Path, folder: Path, images: Images, reason: str, *more: str) -> str:
    """By check and recover, and nothing is written."""
    words = [*images.save(folder), *more]
    before = [path.read_bytes() for path in sorted(folder.iterdir())]
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["state"], told.json()["reason"]) == (4, "refused", reason), told
    done = run(dcd, "recover", *words, "--json")
    assert (done.code, done.json()["state"], done.json()["reason"]) == (1, "refused", reason), done
    assert [path.read_bytes() for path in sorted(folder.iterdir())] == before
    return str(told.json()["message"])


def place(sequence: int) -> int:
    return RING + sequence % dcdimage.SEGMENTS * SEGMENT


def test_refusals(dcd: Path, tmp_path: Path) -> None:
    images = after_a_cut(True)
    images.data += bytes(512)
    assert "32 sectors" in refused(dcd, tmp_path, images, "other_data_disk")
    images.data.clear()
    assert "empty" in refused(dcd, tmp_path, images, "other_data_disk")

    images = after_a_cut(True)
    del images.log[-1:]
    refused(dcd, tmp_path, images, "truncated")

    for what, reason in (("EPOCH", "other_epoch"), ("UUID", "other_uuid")):
        images = after_a_cut(True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dcdimage, what, 5 if what == "EPOCH" else bytes(16))
            images.nvram = after_a_cut(True).nvram
        refused(dcd, tmp_path, images, reason)

    # Whole by its checksum, but after it no count goes up any more.
    images = after_a_cut(True)
    images.log[:512] = dcdimage.superblock(2**64 - 1, 20, 43, 32, nvram=True)
    refused(dcd, tmp_path, images, "bad_counter")
    images = after_a_cut(True)
    assert images.nvram is not None
    images.nvram[:256] = dcdimage.nvram_header(3, 2**63, len(images.nvram))
    refused(dcd, tmp_path, images, "bad_counter")

    images = after_a_cut(True)
    assert images.nvram is not None
    images.nvram[:BLOCK] = bytes(BLOCK)
    refused(dcd, tmp_path, images, "blank")

    images = after_a_cut(True)
    images.put(20, bytes(BLOCK))
    assert "20" in refused(dcd, tmp_path, images, "segment_missing")

    images = after_a_cut(True)
    images.slot(23 % 4, bytes(2 * BLOCK))
    images.put(23, bytes(SEGMENT))  # what was torn there has them too
    assert "entries 51 to 52" in refused(dcd, tmp_path, images, "entries_missing_in_nvram")

    images = after_a_cut(True)
    assert images.nvram is not None
    images.nvram[BLOCK + 24 % 4 * SEGMENT + dcdimage.PAYLOAD] ^= 0xFF
    refused(dcd, tmp_path, images, "nvram_entry_damaged")

    images = after_a_cut(False)
    images.put(25, bytes(BLOCK))
    images.log[place(24) + 100] ^= 1
    assert "bit-flipped" in refused(dcd, tmp_path, images, "last_segment_damaged")

    images = after_a_cut(False)
    images.log[0] ^= 1
    images.log[BLOCK + 20] ^= 1
    refused(dcd, tmp_path, images, "bad_checksum")


def batch(*sectors: int) -> list[Entry]:
    return [Entry(at, 1, 0x40 + at, behind=len(sectors) - i) for i, at in enumerate(sectors, 1)]


@pytest.mark.parametrize("before", [0, 1])
def test_a_batch_counts_as_a_whole(dcd: Path, tmp_path: Path, before: int) -> None:
    """In NVRAM, where a power cut may have left a part of it."""
    whole = batch(3, 11, 30)
    for there in range(len(whole) + 1):
        images = after_a_cut(True)
        entries = [Entry(12, 1, 0x55)] * before + whole
        raw = dcdimage.segment(0, 55, entries, header=False)
        images.slot(25 % 4, bytes(SEGMENT))
        images.slot(25 % 4, raw)
        lacks = len(whole) - there
        assert images.nvram
        at = BLOCK + 25 % 4 * SEGMENT + BLOCK + (before + there) * 64
        images.nvram[at : at + lacks * 64] = bytes(lacks * 64)
        counts = entries if there == len(whole) else entries[:before]
        for entry in counts:
            entry.apply(images.right)
        words = images.save(tmp_path)
        told = run(dcd, "check", *words, "--json")
        assert told.code == 0 and told.json()["live"]["entries"] == 11 + len(counts), told
        assert run(dcd, "recover", *words).code == 0
        assert (tmp_path / "data").read_bytes() == bytes(images.right), f"{there} entries of it"


def test_batches_that_cannot_be(dcd: Path, tmp_path: Path) -> None:
    one, two, three = batch(3, 11, 30)
    for entries in ([one, Entry(4, 1, 1)], [one, three, three]):
        images = after_a_cut(True)
        images.slot(25 % 4, bytes(SEGMENT))
        images.slot(25 % 4, dcdimage.segment(0, 55, entries, header=False))
        refused(dcd, tmp_path, images, "nvram_entry_damaged")
    for entries in ([one, two], [one, Entry(4, 1, 1)]):
        images = after_a_cut(False)
        images.put(25, dcdimage.segment(25, 55, entries))
        refused(dcd, tmp_path, images, "last_segment_damaged")
    images = after_a_cut(False)
    images.put(25, dcdimage.segment(25, 55, [one, two, three]))
    for entry in (one, two, three):
        entry.apply(images.right)
    assert run(dcd, "recover", *images.save(tmp_path)).code == 0
    assert (tmp_path / "data").read_bytes() == bytes(images.right)


def test_nvram_has_to_be_named(dcd: Path, tmp_path: Path) -> None:
    words = after_a_cut(True).save(tmp_path)
    told = run(dcd, "check", *words[:4], "--json")
    assert (told.code, told.json()["reason"]) == (4, "nvram_missing")
    assert run(dcd, "recover", *words[:4]).code == 1
    words = after_a_cut(False).save(tmp_path)
    told = run(dcd, "check", *words, "--nvram", str(tmp_path / "nvram"), "--json")
    assert (told.code, told.json()["reason"]) == (4, "nvram_foreign")
    assert run(dcd, "check", *words, "--nvram", "none").code == 0
    told = run(dcd, "check", *words[:2], "--log", words[1])
    assert told.code == 4 and "same device" in told.err


@NVRAM
@pytest.mark.parametrize("copy", [0, 1])
def test_either_copy_says_what_was_recovered(
    dcd: Path, tmp_path: Path, nvram: bool, copy: int
) -> None:
    words = after_a_cut(nvram).save(tmp_path)
    assert run(dcd, "recover", *words).code == 0
    with (tmp_path / "log").open("r+b") as log:
        log.seek(copy * BLOCK)
        log.write(bytes(512))
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["live"]["entries"]) == (4, 0), told
    assert told.json()["live"]["next"] == dcdimage.FIRST_SEGMENT + 7


def test_a_damaged_copy_is_told(dcd: Path, tmp_path: Path) -> None:
    images = after_a_cut(True)
    images.log[BLOCK + 30] ^= 4
    words = images.save(tmp_path)
    told = run(dcd, "check", *words, "--json")
    assert (told.code, told.json()["state"]) == (4, "damaged_copy")
    assert run(dcd, "recover", *words).code == 0
    assert (tmp_path / "data").read_bytes() == bytes(images.right)
    assert run(dcd, "check", *words).code == 0  # the next generation took its place


def test_dump(dcd: Path, tmp_path: Path) -> None:
    words = after_a_cut(True).save(tmp_path)
    told = run(dcd, "dump", *words, "--all", "--json").json()
    assert [g["segment"] for g in told["groups"]] == [20, 21, 22, 23, 24]
    assert [g.get("slot") for g in told["groups"]] == [None, None, None, 3, 0]
    entries = [e for g in told["groups"] for e in g["entries"]]
    assert [e["entry"] for e in entries] == list(range(44, 55))
    assert entries[1] == {"entry": 45, "type": "discard", "sector": 4, "sectors": 2, "live": True}
    kinds = [p["kind"] for p in told["ring"]]
    assert len(kinds) == 16 and kinds[23 % 16] == "torn" and kinds.count("valid") == 14
    text = run(dcd, "dump", *words[2:4], "--nvram", words[5])
    assert text.code == 0 and "  entry 45: discard 4 + 2\n" in text.out


def test_exit_codes(dcd: Path, tmp_path: Path) -> None:
    nothing = str(tmp_path / "nothing")
    assert run(dcd, "check", "--log", nothing).code == 8
    assert run(dcd, "check", "--log").code == 16
    assert run(dcd, "check", "--log", nothing, "--force").code == 16
    assert run(dcd, "recover", "--log", nothing).code == 2
    assert run(dcd, "dump", "--log", nothing).code == 1
    assert run(dcd, "recover", "--log", nothing, "--data", nothing).code == 1


def test_manual(dcd: Path) -> None:
    """The page has each command and option that the program names, and the exit codes."""
    page = (dcdtool.HERE.parent / "dcd.8").read_text().replace("\\-", "-")
    usage = run(dcd).err
    for word in {*re.findall(r"--[a-z-]+", usage), *re.findall(r"dcd ([a-z]+)", usage)}:
        assert word in page, word


@NVRAM
@pytest.mark.parametrize("earlier", [False, True])
def test_witnesses_of_an_earlier_version_are_void(
    dcd: Path, tmp_path: Path, nvram: bool, earlier: bool
) -> None:
    """It doesn't keep those true that it doesn't know, and they were marked as its own."""
    images = after_a_cut(nvram)
    for at, generation in ((0, 6), (BLOCK, 5)):
        raw = bytearray(images.log[at : at + 512])
        of = generation if earlier else ~generation & 0xFFFFFFFF
        struct.pack_into("<IQI", raw, 124, of, 30 << 8 | 1, 0x12345678)
        images.log[at : at + 512] = dcdimage.sealed(bytes(raw), 12)
    told = run(dcd, "check", *images.save(tmp_path), "--json")
    assert told.code == (0 if earlier else 4), told
    assert told.json()["reason"] == (None if earlier else "other_data"), told
