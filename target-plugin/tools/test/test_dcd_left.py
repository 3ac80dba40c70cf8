# SPDX-License-Identifier: GPL-2.0-only
"""A log was given up, its data disk becomes another leg, and that is cut short, at each write.

The log's disk may come back at any time. What it has is older than the data disk for good.
"""

from __future__ import annotations

import itertools
import os
import struct
from pathlib import Path
from typing import Any

import dcdtool
import metalab
import pytest
import test_dcd_retire
from dcdimage import BLOCK, UUID, Images, after_a_cut, sealed
from sanitized import run
from test_dcd_retire import BEHIND, GROWN, SIZE, Site, put_log

# Fixtures.
dcd = dcdtool.dcd
program = metalab.program
site = test_dcd_retire.site

LEFT = 2
ENDS = SIZE - 2 * BLOCK  # Of the leg as it was: its slots begin here.
ALL = ENDS - metalab.TAIL  # More than the map.
COMMANDS = {
    "join": "join --source peer --leg remote --force data",
    "join local": "join --source data2 --leg local --force data",
    "create": "create --local peer --remote data --force --name new",
    "clean": "create --local peer --remote data --force --name new --assume-clean",
    "create local": "create --local data --remote peer --force --name new",
    "clean local": "create --local data --remote peer --force --name new --assume-clean",
}
# The new end is in the old slots; the new map is; none of the new metadata is where the old are.
GROWTH = (0, BLOCK, 2 * BLOCK, 9 * BLOCK, SIZE)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lockstep-meta that ends in the middle of its write number $CUT."""
    to = tmp_path_factory.mktemp("cut") / "lockstep-meta"
    return metalab.compile_meta(to, "-Wl,--wrap=pwrite", extra=(metalab.HERE / "cut-writes.c",))


class Left(Site):
    """Its log was given up, then the data disk grew, the log was told, and the mirror didn't grow.
    "data2": the remote leg of another mirror, in sync."""

    def __init__(self, dcd: Path, meta: Path, folder: Path, by: int, slots: str) -> None:
        self.by = by
        super().__init__(dcd, meta, folder)
        for name in ("one", "data2"):
            (folder / name).write_bytes(bytes(SIZE))
        assert self.ask("create", "--local", "one", "--remote", "data2", "--assume-clean").code == 0
        os.truncate(folder / "data", SIZE)
        assert self.ask("leave-log", "data").code == 0
        told_by(self, slots)
        os.truncate(folder / "data", SIZE + by)
        self.untouched_by("recover", *self.words, reason="data_left")

    def _cut(self, nvram: bool) -> Images:
        old = super()._cut(nvram)
        if not self.by:
            return old
        images = after_a_cut(nvram, sectors=(SIZE + self.by) // 512)
        images.data[:SIZE] = old.data
        for copy in (0, BLOCK):
            raw = images.log[copy : copy + 512]
            struct.pack_into("<QI", raw, GROWN, SIZE // 512 << 8, 0)
            images.log[copy : copy + 512] = sealed(bytes(raw), 12)
        return images


def told_by(site: Site, slots: str) -> None:
    """The superblock says it by both of its slots, or by one of them only."""
    data = bytearray(site.content()["data"])
    for end in (ENDS + BLOCK, SIZE):
        data[end - 32 : end] = b"K" * 32  # The key of a resync: else half of a new slot is a whole.
    put_log(data, UUID, LEFT)
    if slots == "first":
        older = bytearray(data)
        put_log(older, UUID, BEHIND)
        older[ENDS + BLOCK + 40] -= 1
        put_log(older, UUID, BEHIND)  # seals it
        data[ENDS + BLOCK :] = older[ENDS + BLOCK :]
    elif slots == "second":
        data[ENDS + 2048 : ENDS + BLOCK] = bytes(2048)
    (site.folder / "data").write_bytes(data)


def examined(site: Site, *names: str) -> dict[str, Any]:
    return dict(zip(names, site.ask("examine", "--no-search", *names).json(), strict=True))


def half_made(site: Site, old: str, before: bytes, command: str) -> None:
    """Nothing takes the leg for a good one that isn't."""
    words = COMMANDS[command].split()
    other = next(word for word in ("peer", "data2") if word in words)
    legs = ("data", other) if command.endswith("local") else (other, "data")
    found = examined(site, *legs)
    if found["data"].get("leg_uuid") == old:
        # As it was before, all of it.
        assert site.content()["data"][ALL:ENDS] == before[ALL:ENDS]
        return
    # Of one that counts, the map is there.
    good = {name: leg["kind"] == "superblock" and leg["bad_map_sectors"] == 0
            for name, leg in found.items()}  # fmt: skip
    alone = site.ask("verdict", *("data" if name == "data" else "-" for name in legs)).json()
    if alone["verdict"] == "ok":
        assert good["data"] and command not in ("create", "join", "join local")
    verdict = site.ask("verdict", *legs).json()
    if verdict["verdict"] == "ok":
        assert all(good.values())
        assert not command.startswith("join") or (
            verdict["full"] and legs[verdict["source"] == "remote"] == other
        )


@pytest.mark.parametrize(("command", "by", "slots"), [
    *((command, by, "both") for command in COMMANDS for by in (0, SIZE)),
    *(("join", by, slots) for by in GROWTH[:-1] for slots in ("first", "second")),
])  # fmt: skip
def test_a_new_leg_is_cut_short(
    dcd: Path, program: Path, tmp_path: Path, cut: Path, command: str, by: int, slots: str
) -> None:
    site = Left(dcd, program, tmp_path, by, slots)
    before = site.content()
    with open(tmp_path / "data", "r+b") as disk:
        disk.truncate(SIZE)
    old = examined(site, "data")["data"]["leg_uuid"]
    words = COMMANDS[command].split()
    for number in itertools.count(1):
        for name, content in before.items():
            (site.folder / name).write_bytes(content)
        code = run(cut, *words, cwd=site.folder, CUT=str(number),
                   ASAN_OPTIONS="detect_leaks=0").code  # fmt: skip
        assert code in (0, 99)
        site.untouched_by("recover", *site.words, reason="data_left")
        half_made(site, old, before["data"], command)
        if code == 0:
            break
        assert site.ask(*words).code == 0, number
        site.untouched_by("recover", *site.words, reason="data_left")
    assert number > 5
    assert examined(site, "data")["data"]["log"]["state"] == "left"


@pytest.mark.parametrize("by", [0, SIZE])
def test_a_wipe_would_forget_it(dcd: Path, program: Path, tmp_path: Path, by: int) -> None:
    site = Left(dcd, program, tmp_path, by, "both")
    before = site.content()
    said = site.ask("wipe", "data")
    assert said.code == 1 and "isn't to be used any more" in said.err and "--force" in said.err
    assert ("data by now" in said.err) == bool(by)
    assert site.content() == before
    assert site.ask("wipe", "data", "--force").code == 0
    assert site.ask("examine", "data").json()[0]["kind"] == "blank"


def test_a_wipe_would_forget_that_there_is_a_log(site: Site) -> None:
    """So first it is given up; a new leg keeps that."""
    before = site.content()
    said = site.ask("wipe", "data")
    assert said.code == 1 and "dcd retire" in said.err and "leave-log" in said.err
    assert site.content() == before
    assert site.ask("leave-log", "data").code == 0
    assert site.ask(*COMMANDS["join"].split()).code == 0
    site.untouched_by("recover", *site.words, reason="data_left")


def test_a_growth_that_was_cut_short_keeps_it(
    dcd: Path, program: Path, tmp_path: Path, cut: Path
) -> None:
    """What is at the new end may be a torn slot; or one that is whole, and the old one, too."""
    site = Left(dcd, program, tmp_path, SIZE, "both")
    before = site.content()
    for number in itertools.count(1):
        for name, content in before.items():
            (site.folder / name).write_bytes(content)
        code = run(cut, "grow", "-", "data", cwd=site.folder, CUT=str(number),
                   ASAN_OPTIONS="detect_leaks=0").code  # fmt: skip
        assert site.ask(*COMMANDS["join"].split()).code == 0
        site.untouched_by("recover", *site.words, reason="data_left")
        assert examined(site, "data")["data"]["log"]["state"] == "left"
        if code == 0:
            break
    assert number > 5
