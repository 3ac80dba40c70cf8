# SPDX-License-Identifier: GPL-2.0-only
"""dcd recover that is interrupted at any write, once and again, or reads otherwise later."""

from __future__ import annotations

from pathlib import Path

import dcdimage
import dcdtool
import pytest
from dcdimage import BLOCK, PAYLOAD, RING, SECTOR, SEGMENT, SEGMENTS, Entry, Images, after_a_cut
from dcdtool import HERE, NVRAM, TOP, compile_dcd
from sanitized import Said, run

# Fixtures.
dcd = dcdtool.dcd


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_dcd(tmp_path_factory.mktemp("cut") / "cut", "-Wl,--wrap=pwrite",
                       TOP / "dm-target/tools/test/cut-writes.c")  # fmt: skip


def recover(program: Path, words: list[str], number: int) -> Said:
    """Killed in the middle of its write @number, if it comes to that."""
    return run(program, "recover", *words, CUT=str(number), ASAN_OPTIONS="detect_leaks=0")


def put_back(folder: Path, content: dict[str, bytes]) -> None:
    for name, data in content.items():
        (folder / name).write_bytes(data)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def comes_right(dcd: Path, words: list[str], folder: Path, images: Images, when: str) -> None:
    assert run(dcd, "recover", *words).code == 0, when
    assert (folder / "data").read_bytes() == bytes(images.right), when


@NVRAM
def test_killed_at_each_write_and_again(dcd: Path, cut: Path, tmp_path: Path, nvram: bool) -> None:
    images = after_a_cut(nvram)
    words = images.save(tmp_path)
    first = twice = 0
    while (done := recover(cut, words, first := first + 1)).code == 99:
        once = content(tmp_path)
        told = run(dcd, "check", *words)
        assert told.code in (0, 4), told  # 4: the superblock that was half written
        comes_right(dcd, words, tmp_path, images, f"cut at write {first}")
        told = run(dcd, "check", *words, "--json")
        assert (told.code, told.json()["live"]["entries"]) == (0, 0), first
        again = 0
        put_back(tmp_path, once)
        while (done := recover(cut, words, again := again + 1)).code == 99:
            comes_right(dcd, words, tmp_path, images, f"cut at write {first}, then at {again}")
            put_back(tmp_path, once)
            twice += 1
        assert done.code == 0, done
        images.save(tmp_path)
    assert done.code == 0, done
    assert first > (9 if nvram else 8) and twice > (first - 3) ** 2


def test_a_segment_that_cant_be_read_again(dcd: Path, tmp_path: Path) -> None:
    """The NVRAM has nothing behind it, and no end record that is right: so nothing but its absence
    tells that it is gone."""
    other = compile_dcd(tmp_path / "other", HERE / "read-once.c", "-Wl,--wrap=pread")
    images = after_a_cut(True)
    for number in range(4):
        images.slot(number, bytes(2 * BLOCK))
    images.put(dcdimage.FIRST_SEGMENT + 5, bytes(BLOCK))
    images.damage_ends()
    folder = tmp_path / "disks"
    folder.mkdir()
    words = images.save(folder)
    before = content(folder)
    last = dcdimage.FIRST_SEGMENT + 4
    place = RING + last % dcdimage.SEGMENTS * SEGMENT
    told = run(other, "check", *words, "--json", ONCE=str(place))
    assert (told.code, told.json()["live"]["next"]) == (4, last + 1), told
    done = run(other, "recover", *words, "--json", ONCE=str(place))
    assert (done.code, done.json()["state"]) == (1, "failed"), done
    assert "read otherwise for the second time" in done.err
    after = content(folder)
    assert (after["log"], after["nvram"]) == (before["log"], before["nvram"])
    # And from a good copy it is all there.
    assert run(dcd, "recover", *words).code == 3
    assert (folder / "data").read_bytes() != before["data"]
    assert run(dcd, "check", *words, "--json").json()["live"]["entries"] == 0


@NVRAM
@pytest.mark.parametrize("how", [[], ["--salvage"]])
def test_killed_when_the_data_disk_alone_has_it(
    dcd: Path, cut: Path, tmp_path: Path, nvram: bool, how: list[str]
) -> None:
    """What is damaged in the log, which has its older version too."""
    segments = dcdimage.history()
    segments[2] = [*segments[2], Entry(12, 4, 0x60), Entry(12, 4, 0x61)]
    segments[5] = [*segments[5], Entry(14, 1, 0x62)]
    images = after_a_cut(nvram, segments=segments)
    Entry(12, 4, 0x61).apply(images.data)
    images.log[RING + 20 % SEGMENTS * SEGMENT + PAYLOAD + 6 * SECTOR] ^= 0x55
    if how:  # then it can't be a recovery
        images.log[RING + 21 % SEGMENTS * SEGMENT + BLOCK + 20] ^= 0x55
        if images.nvram is None:
            images.put(dcdimage.FIRST_SEGMENT + 7, bytes(SEGMENT))
    words = images.save(tmp_path)
    number = 0
    while (done := recover(cut, [*words, *how], number := number + 1)).code == 99:
        told = run(dcd, "recover", *words, *how)
        assert told.code in ((0, 3) if how else (0,)), (number, told)
        assert (tmp_path / "data").read_bytes()[12 * SECTOR : 16 * SECTOR] == bytes(
            images.right[12 * SECTOR : 16 * SECTOR]
        ), number
        if not how:
            assert (tmp_path / "data").read_bytes() == bytes(images.right), number
        images.save(tmp_path)
    assert done.code in (0, 3) and number > 5, (number, done)
