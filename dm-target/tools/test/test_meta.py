# SPDX-License-Identifier: GPL-2.0-only
"""lockstep-meta's commands: what they write, and what they refuse without a trace."""

import struct
from pathlib import Path

import metalab
import pytest
from metalab import SLOT, TAIL, Meta, crc32c

# Fixtures.
meta = metalab.meta
pair = metalab.pair
program = metalab.program

MIB = 1 << 20


def damage(path: Path, at: int, length: int = 1) -> None:
    """Invert bytes; a negative place counts from the end."""
    data = bytearray(path.read_bytes())
    at %= len(data)
    for i in range(at, at + length):
        data[i] ^= 0xFF
    path.write_bytes(data)


def test_create(meta: Meta) -> None:
    a, b = meta.device("a", 64 * MIB), meta.device("b", 70 * MIB + 512)
    made = meta.good("create", "--local", "a", "--remote", "b", "--name", "m")
    # The smaller device, less two slots and a map of one page.
    assert made["data_len"] == (64 * MIB - TAIL) // 512
    assert (made["region_size"], made["regions"]) == (2048, 64)
    local, remote = meta.leg("a"), meta.leg("b")
    assert (local["state"], remote["state"]) == ("sync", "new")
    assert (local["leg"], remote["leg"]) == ("local", "remote")
    assert local["set_uuid"] == remote["set_uuid"] == made["set_uuid"]
    assert local["leg_uuid"] != remote["leg_uuid"]
    assert local["cur"] == {k: local["history"][0][k] for k in ("id", "count")}
    assert (remote["cur"], remote["history"]) == (None, [])
    for leg in local, remote:
        assert (leg["name"], leg["active"], leg["dirty_regions"], leg["bad_map_sectors"]) == (
            "m", False, 0, 0)  # fmt: skip
    # The data are left alone.
    for path in a, b:
        assert path.read_bytes()[: made["data_len"] * 512].count(0xA5) == made["data_len"] * 512
    verdict = meta.good("verdict", "a", "b")
    assert (verdict["verdict"], verdict["source"], verdict["full"]) == ("ok", "local", True)
    assert verdict["table"] == f"0 {made['data_len']} lockstep a b"
    assert verdict["dirty_regions"] == 64


def test_create_assume_clean(pair: Meta) -> None:
    local, remote = pair.leg("a"), pair.leg("b")
    assert (local["state"], remote["state"]) == ("sync", "sync")
    assert local["cur"] == remote["cur"]
    verdict = pair.good("verdict", "a", "b")
    assert (verdict["source"], verdict["full"], verdict["dirty_regions"]) == ("local", False, 0)
    assert verdict["text"] == "Both legs are in sync."


@pytest.mark.parametrize(("size", "regions"), [(64, 65535), (2048, 2048), (4096, 1024)])
def test_region_size(meta: Meta, size: int, regions: int) -> None:
    for name in "ab":
        with open(meta.folder / name, "wb") as f:
            f.truncate(2 << 30)
    made = meta.good(
        "create", "--local", "a", "--remote", "b", "--region-size", str(size), "--assume-clean"
    )
    assert (made["region_size"], made["regions"]) == (size, regions)
    assert meta.good("verdict", "a", "b")["dirty_regions"] == 0


@pytest.mark.parametrize(
    ("size", "region"),
    [(1, 2048), (16 << 30, 2048), (17 << 30, 4096), (1 << 40, 8192), (8 << 40, 8192)],
)
def test_region_size_by_rule(meta: Meta, size: int, region: int) -> None:
    """The smallest power of two from 1 MiB to 4 MiB with at most 16384 regions, else 4 MiB. Larger
    ones than a file can be: format-test.c."""
    for name in "ab":
        with open(meta.folder / name, "wb") as f:
            f.truncate(max(size, MIB))
    made = meta.good("create", "--local", "a", "--remote", "b", "--dry-run")
    assert made["region_size"] == region
    assert made["regions"] <= 16384 or region == 8192


def test_create_refuses(meta: Meta) -> None:
    meta.device("a", MIB)
    meta.device("b", MIB)
    meta.device("tiny", 2 * SLOT)
    both = ("--local", "a", "--remote", "b")
    assert "both the local and the remote" in meta.refused(
        "create", "--local", "a", "--remote", "a"
    )
    assert "too small" in meta.refused("create", "--local", "a", "--remote", "tiny")
    assert "power of two" in meta.refused("create", *both, "--region-size", "3000")
    assert "power of two" in meta.refused("create", *both, "--region-size", "32")
    assert "63 bytes" in meta.refused("create", *both, "--name", "n" * 64)
    assert "can't be opened" in meta.refused("create", "--local", "a", "--remote", "nowhere")
    meta.good("create", *both, "--dry-run")
    assert meta.leg("a")["kind"] == meta.leg("b")["kind"] == "blank"
    uuid = meta.good("create", *both, "--name", "first")["set_uuid"]
    text = meta.refused("create", *both)
    assert 'the mirror "first"' in text and uuid in text and "--force" in text
    meta.device("c", MIB)
    assert "first" in meta.refused("create", "--local", "c", "--remote", "b")
    assert meta.good("create", *both, "--force")["set_uuid"] != uuid


def test_create_refuses_damaged(pair: Meta) -> None:
    """One damaged slot or two, the magic is there."""
    damage(pair.folder / "a", -SLOT + 300)
    assert "mirror" in pair.refused("create", "--local", "a", "--remote", "b")
    damage(pair.folder / "a", -2 * SLOT + 300)
    assert "damaged" in pair.refused("create", "--local", "a", "--remote", "b")
    assert pair("verdict", "a", "b").json()["verdict"] == "bad"


def test_one_slot_is_enough(pair: Meta) -> None:
    a = pair.folder / "a"
    before = pair.leg("a")
    damage(a, -SLOT, SLOT)
    assert pair.leg("a") == before
    assert pair.good("verdict", "a", "b")["verdict"] == "ok"


def test_examine(pair: Meta) -> None:
    pair.device("blank", MIB)
    said = pair("examine", "a", "blank", "nowhere")
    assert said.code == 1
    assert [leg["kind"] for leg in said.json()] == ["superblock", "blank", "absent"]
    assert "nowhere: can't be opened" in said.err
    assert pair("examine", "a", "b").code == 0


def test_a_damaged_map_is_all_set(pair: Meta) -> None:
    leg = pair.leg("a")
    damage(pair.folder / "a", leg["map_start"] * 512 + 100)
    leg = pair.leg("a")
    assert (leg["bad_map_sectors"], leg["dirty_regions"]) == (1, leg["regions"])
    assert pair.good("verdict", "a", "b")["dirty_regions"] == leg["regions"]


def test_the_activity_log_names_dirty_regions(pair: Meta) -> None:
    leg = pair.leg("a")
    at = (leg["map_start"] + leg["map_sectors"] - 3) * 512
    with (pair.folder / "a").open("r+b") as file:
        file.seek(at)
        sector = bytearray(file.read(512))
        # The first, one twice, the last, and one beyond it; 0 is none.
        for entry, region in ((0, 0), (7, 1), (70, 1), (71, leg["regions"] - 1),
                              (123, leg["regions"])):  # fmt: skip
            struct.pack_into("<I", sector, 16 + 4 * entry, region + 1)
        struct.pack_into("<I", sector, 0, crc32c(bytes(sector[4:])))
        file.seek(at)
        file.write(sector)
    assert pair.leg("a")["dirty_regions"] == 3
    assert pair.good("verdict", "a", "b")["dirty_regions"] == 3
    damage(pair.folder / "a", at + 100)
    leg = pair.leg("a")
    assert (leg["bad_map_sectors"], leg["dirty_regions"]) == (1, leg["regions"])


def test_verdict_of_one_leg(pair: Meta) -> None:
    verdict = pair.good("verdict", "a", "-")
    assert (verdict["alone"], verdict["source"]) == (True, "local")
    assert verdict["table"].endswith("lockstep a -")
    assert pair.good("verdict", "-", "b")["source"] == "remote"
    said = pair("verdict", "-", "-")
    assert (said.code, said.json()["verdict"]) == (1, "nothing")


def test_verdict_refuses(pair: Meta) -> None:
    words = {("b", "a"): "swapped", ("b", "-"): "wrong-leg", ("-", "a"): "wrong-leg"}
    pair.device("c", 4 * MIB)
    pair.device("d", 4 * MIB)
    words["a", "c"] = "blank"
    for legs, word in words.items():
        said = pair("verdict", *legs)
        assert (said.code, said.json()["verdict"]) == (1, word)
    pair.good("create", "--local", "c", "--remote", "d", "--assume-clean")
    assert pair("verdict", "a", "d").json()["verdict"] == "foreign"
    (pair.folder / "copy").write_bytes((pair.folder / "a").read_bytes())
    assert pair("verdict", "a", "copy").json()["verdict"] == "wrong-leg"
    assert "same device" in pair.refused("verdict", "a", "a")


def test_moved(pair: Meta) -> None:
    """A device that has grown by a slot shows slot 1 where slot 0 should be."""
    with open(pair.folder / "a", "ab") as f:
        f.write(bytes(SLOT))
    said = pair("verdict", "a", "b").json()
    assert said["verdict"] == "bad" and "size or start has changed" in said["text"]


def test_join(pair: Meta) -> None:
    pair.device("c", 5 * MIB)
    pair.device("small", 3 * MIB)
    join = ("join", "--source", "a", "--leg")
    assert "source itself" in pair.refused(*join, "remote", "a")
    assert "that leg itself" in pair.refused(*join, "local", "c")
    assert "room for" in pair.refused(*join, "remote", "small")
    assert "is the remote leg" in pair.refused(*join, "remote", "b")
    assert "no lockstep superblock" in pair.refused(
        "join", "--source", "c", "--leg", "remote", "small"
    )
    made = pair.good(*join, "remote", "c")
    assert made["set_uuid"] == pair.leg("a")["set_uuid"]
    assert pair.leg("c")["state"] == "new"
    verdict = pair.good("verdict", "a", "c")
    assert (verdict["source"], verdict["full"]) == ("local", True)
    assert "can't be a source" in pair.refused("join", "--source", "c", "--leg", "local", "small")
    old = pair.leg("b")["leg_uuid"]
    pair.good(*join, "remote", "b", "--force")
    assert pair.leg("b")["leg_uuid"] != old


def test_resolve_refuses_what_is_no_conflict(pair: Meta) -> None:
    assert "nothing to resolve" in pair.refused("resolve", "--keep", "local", "a", "b")
    assert "nothing that resolve can mend" in pair.refused("resolve", "--keep", "local", "b", "a")
    pair.device("c", MIB)
    assert "no lockstep superblock" in pair.refused("resolve", "--keep", "local", "a", "c")


def test_one_leg_went_on(pair: Meta) -> None:
    pair.goes_alone("b", 0xB2)
    assert pair.leg("b")["state"] == "alone"
    assert pair.leg("b")["base"] == pair.leg("a")["cur"]
    verdict = pair.good("verdict", "a", "b")
    assert (verdict["source"], verdict["full"], verdict["join"]) == ("remote", False, True)
    assert "nothing to resolve" in pair.refused("resolve", "--keep", "local", "a", "b")


@pytest.mark.parametrize(("keep", "kept", "lost"), [("local", "a", "b"), ("remote", "b", "a")])
def test_split_brain(pair: Meta, keep: str, kept: str, lost: str) -> None:
    pair.goes_alone("a", 0xA2)
    pair.goes_alone("b", 0xB2)
    said = pair("verdict", "a", "b")
    verdict = said.json()
    assert (said.code, verdict["verdict"]) == (1, "split-brain")
    for leg, newest in ("local", 0xA2), ("remote", 0xB2):
        mine = [(int(g["id"], 16), g["count"]) for g in verdict["histories"][leg]]
        assert mine[0] == (newest, 2) and len(mine) == 2
    assert verdict["histories"]["local"][1] == verdict["histories"]["remote"][1]
    before = pair.content()
    pair.good("resolve", "--keep", keep, "--dry-run", "a", "b")
    assert pair.content() == before
    pair.good("resolve", "--keep", keep, "a", "b")
    assert pair.content()[kept] == before[kept]
    assert pair.leg(lost)["state"] == "new"
    assert pair.leg(lost)["base"] == pair.leg(kept)["cur"]
    verdict = pair.good("verdict", "a", "b")
    assert (verdict["source"], verdict["full"]) == (keep, True)
    assert "nothing to resolve" in pair.refused("resolve", "--keep", keep, "a", "b")


def test_a_new_leg_is_not_filled_from_an_older_one(pair: Meta) -> None:
    (pair.folder / "old").write_bytes((pair.folder / "a").read_bytes())
    pair.goes_alone("a", 0xA2)
    pair.good("join", "--source", "a", "--leg", "remote", "b", "--force")
    assert pair.good("verdict", "a", "b")["full"]
    said = pair("verdict", "old", "b").json()
    assert (said["verdict"], said["leg"]) == ("outdated", "local")
    assert "older than the one" in said["text"]
    pair.good("resolve", "--keep", "local", "old", "b")
    assert pair.good("verdict", "old", "b")["full"]


def test_wipe(pair: Meta) -> None:
    pair.device("c", MIB)
    assert "no lockstep superblock" in pair.refused("wipe", "c")
    leg = pair.leg("a")
    pair.good("wipe", "--dry-run", "a")
    assert pair.leg("a") == leg
    # Where its map is there are somebody's data by now, if it is one of before a growth.
    damage(pair.folder / "a", leg["map_start"] * 512 + 100)
    pair.good("wipe", "a")
    data = (pair.folder / "a").read_bytes()
    assert data[: leg["data_len"] * 512].count(0xA5) == leg["data_len"] * 512
    assert any(data[leg["map_start"] * 512 :][:SLOT])
    assert not any(data[leg["map_start"] * 512 + SLOT :])
    damage(pair.folder / "b", -2 * SLOT - 512 + 300)
    damage(pair.folder / "b", -SLOT - 512 + 300)
    assert pair.leg("b")["kind"] == "bad"
    pair.good("wipe", "b")
    assert pair.leg("b")["kind"] == "blank"


@pytest.mark.parametrize(
    "words",
    [
        "", "examine", "nonsense", "verdict a", "create --local a", "join --source a b",
        "join --source a --leg middle b", "resolve a b", "wipe", "wipe a b", "wipe --keep local a",
        "join --source a --leg remote --in-use b",
        "create --local a --remote b --region-size -1", "create --local a --remote b c",
    ],
)  # fmt: skip
def test_usage(pair: Meta, words: str) -> None:
    before = pair.content()
    said = pair(*words.split())
    assert (said.code, said.out) == (2, "")
    assert "usage:" in said.err
    assert pair.content() == before
