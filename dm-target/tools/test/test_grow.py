# SPDX-License-Identifier: GPL-2.0-only
"""lockstep-meta grow: devices that have become larger, and a crash at each of its steps."""

import fcntl
import itertools
import os
import subprocess
from pathlib import Path
from typing import Any

import metalab
import pytest
from metalab import HERE, SLOT, TAIL, Meta, compile_meta

# Fixtures.
meta = metalab.meta
pair = metalab.pair
program = metalab.program

MAGIC = (0x31474C504554534C).to_bytes(8, "little")
MIB = 1 << 20


def larger(meta: Meta, name: str, size: int) -> None:
    """The new end has something in it, as a device's may."""
    path = meta.folder / name
    path.write_bytes(path.read_bytes() + b"\x5a" * (size - path.stat().st_size))


def sparse(meta: Meta, name: str, size: int) -> None:
    """Of so many bytes, nothing in what is new."""
    with open(meta.folder / name, "ab") as f:
        f.truncate(size)


def slots_at(meta: Meta, name: str, end: int) -> bytes:
    """What is where the superblock of a device of that size lies."""
    with open(meta.folder / name, "rb") as f:
        f.seek(end - 2 * SLOT)
        return f.read(2 * SLOT)


def put_at(meta: Meta, name: str, end: int, slots: bytes) -> None:
    with open(meta.folder / name, "r+b") as f:
        f.seek(end - 2 * SLOT)
        f.write(slots)


def test_both_have_grown(pair: Meta) -> None:
    before = pair.leg("a")
    for name in "ab":
        larger(pair, name, 20 * MIB)
    said = pair("verdict", "a", "b").json()
    assert said["verdict"] == "blank" and "`lockstep grow NAME`" in said["text"]
    content = pair.content()
    planned = pair.good("grow", "--dry-run", "a", "b")
    assert pair.content() == content
    made = pair.good("grow", "a", "b")
    assert made == planned
    assert made["data_len"] == (20 * MIB - TAIL) // 512
    for name in "ab":
        leg = pair.leg(name)
        assert (leg["data_len"], leg["state"]) == (made["data_len"], "sync")
        assert leg["set_uuid"] == before["set_uuid"] and leg["cur"] == before["cur"]
        # From the region on in which the old end lay.
        assert leg["dirty_regions"] == 20 - before["data_len"] // 2048
        data, old = pair.content()[name], before["data_len"] * 512
        assert data[:old] == content[name][:old]
    verdict = pair.good("verdict", "a", "b")
    assert (verdict["source"], verdict["full"]) == ("local", False)
    # A device that is cut to its old size again must not show a superblock of then.
    os.truncate(pair.folder / "a", 4 * MIB)
    assert pair.leg("a")["kind"] == "blank"


def test_only_the_smaller_one_has_grown(meta: Meta) -> None:
    meta.device("a", 4 * MIB)
    meta.device("b", 20 * MIB)
    meta.good("create", "--local", "a", "--remote", "b", "--assume-clean")
    larger(meta, "a", 12 * MIB)
    made = meta.good("grow", "a", "b")
    assert made["data_len"] == (12 * MIB - TAIL) // 512
    assert meta.good("verdict", "a", "b")["dirty_regions"] == 12 - 3


def test_nothing_has_grown(pair: Meta) -> None:
    before = pair.content()
    pair.good("grow", "a", "b")
    assert pair.content() == before


def test_refuses(pair: Meta) -> None:
    larger(pair, "a", 4 * MIB + SLOT)
    assert "too little" in pair.refused("grow", "a", "b")
    larger(pair, "a", 8 * MIB)
    pair.device("c", 4 * MIB)
    assert "neither at its end nor before" in pair.refused("grow", "a", "c")
    assert "both the local and the remote" in pair.refused("grow", "a", "a")
    pair.good("grow", "a", "b")
    pair.goes_alone("a", 0xA2)
    assert "only a mirror in sync can grow" in pair.refused("grow", "a", "b")


@pytest.mark.parametrize("size", [4 * MIB + 9 * SLOT, 5 * MIB, 70 * MIB, 20 * MIB + 512])
def test_a_leg_that_has_grown_is_not_blank(pair: Meta, size: int) -> None:
    """Perhaps the only one with all data: it went on alone, and only then it has grown."""
    pair.goes_alone("a", 0xA2)
    alone = pair.leg("a")
    larger(pair, "a", size)
    pair.device("c", 8 * MIB)
    leg = pair.leg("a")
    assert leg["kind"] == "grown" and f"from {4 * MIB // 512} to {size // 512}" in leg["reason"]
    for words in (
        ("join", "--source", "b", "--leg", "local", "a"),
        ("create", "--local", "a", "--remote", "c"),
        ("create", "--local", "c", "--remote", "a"),
    ):
        said = pair.refused(*words)
        assert "has grown" in said and "Grow the mirror" in said and "--force" in said
        pair.good(*words, "--force", "--dry-run")
    os.truncate(pair.folder / "a", 4 * MIB)
    assert pair.leg("a") == alone
    assert pair.good("verdict", "a", "b")["source"] == "local"


def test_a_larger_leg_that_has_grown_by_much(meta: Meta) -> None:
    """Its old end is where volumes end."""
    for name, size in (("a", 4), ("b", 200)):
        with open(meta.folder / name, "wb") as f:
            f.truncate(size * MIB)
    meta.good("create", "--local", "a", "--remote", "b", "--assume-clean")
    os.truncate(meta.folder / "b", 3 << 30)
    assert meta.leg("b")["kind"] == "grown"
    assert "has grown" in meta.refused("join", "--source", "a", "--leg", "remote", "b")
    assert "--force" in meta.refused("wipe", "b")
    meta.good("wipe", "b", "--force")
    assert meta.leg("b")["kind"] == "blank"
    os.truncate(meta.folder / "b", 200 * MIB)
    assert meta.leg("b")["kind"] == "blank"


@pytest.mark.parametrize("slot", [0, 1])
def test_wipe_of_a_device_that_has_grown_spares_what_is_data_now(pair: Meta, slot: int) -> None:
    """Where the map was, and one of the slots, a file system has put something since."""
    larger(pair, "a", 70 * MIB)
    path = pair.folder / "a"
    data = bytearray(path.read_bytes())
    slots = 4 * MIB - 2 * SLOT
    lost = slots + (1 - slot) * SLOT
    data[slots - SLOT : slots] = b"U" * SLOT
    data[lost : lost + SLOT] = b"U" * SLOT
    path.write_bytes(data)
    assert pair.leg("a")["kind"] == "grown"
    assert f"sector {slots // 512}" in pair.refused("wipe", "a")
    pair.good("wipe", "a", "--force", "--dry-run")
    assert path.read_bytes() == data
    pair.good("wipe", "a", "--force")
    data[slots + slot * SLOT : slots + (slot + 1) * SLOT] = bytes(SLOT)
    assert path.read_bytes() == data
    assert pair.leg("a")["kind"] == "blank"
    assert "no lockstep superblock" in pair.refused("wipe", "a", "--force")


def test_who_has_searched_needs_no_second_search(pair: Meta) -> None:
    larger(pair, "a", 70 * MIB)
    assert pair("examine", "--no-search", "a").json()[0]["kind"] == "blank"
    words = ("join", "--source", "b", "--leg", "local", "a")
    assert "has grown" in pair.refused(*words)
    pair.good(*words, "--dry-run", "--no-search")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lockstep-meta whose clock is at the end of its patience when it looks for the second time."""
    to = tmp_path_factory.mktemp("slow") / "lockstep-meta"
    return compile_meta(to, "-Wl,--wrap=clock_gettime", extra=(HERE / "fast-clock.c",))


def test_a_slow_device_is_not_searched_for_ever(pair: Meta, slow: Path) -> None:
    """But it is told."""
    pair.device("c", 4 * MIB)
    hurried = Meta(slow, pair.folder)
    leg = hurried.leg("c")
    assert leg["kind"] == "blank" and "too slow" in leg["warning"]
    assert "warning" not in pair.leg("c")
    said = hurried("join", "--source", "a", "--leg", "remote", "c")
    assert said.code == 0 and "c: the device is too slow" in said.err


@pytest.mark.parametrize("far", [0, 1, 31, 32, 33, 100])
def test_an_old_end_anywhere_among_many_places(meta: Meta, far: int) -> None:
    """Many of them are read at the same time."""
    for name in "ab":
        with open(meta.folder / name, "wb") as f:
            f.truncate(200 * MIB)
    meta.good("create", "--local", "a", "--remote", "b", "--assume-clean")
    os.truncate(meta.folder / "a", (200 + 4 * (17 + far)) * MIB + SLOT)
    leg = meta.leg("a")
    assert (leg["kind"], "from 409600 to" in leg["reason"]) == ("grown", True)


def test_a_place_that_can_not_be_read_is_passed_over(meta: Meta, tmp_path: Path) -> None:
    """A device with a bad sector in its middle is blank all the same, and can be used."""
    path = meta.device("a", 70 * MIB)
    meta.device("b", 70 * MIB)
    to = tmp_path / "bad" / "lockstep-meta"
    to.parent.mkdir()
    compile_meta(to, "-Wl,--wrap=pread", extra=(HERE / "bad-place.c",))
    broken = Meta(to, meta.folder)
    assert broken.leg(path.name)["kind"] == "blank"
    to.unlink()


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lockstep-meta that ends in the middle of its write number $CUT."""
    to = tmp_path_factory.mktemp("cut") / "lockstep-meta"
    return compile_meta(to, "-Wl,--wrap=pwrite", extra=(HERE / "cut-writes.c",))


def crash(cut: Path, meta: Meta, at: int, *words: str) -> bool:
    """False: it was done before it came so far."""
    done = subprocess.run([cut, *words], cwd=meta.folder, env={"CUT": str(at)}, capture_output=True)
    assert done.returncode in (0, 99), done
    return done.returncode == 99


def restore(meta: Meta, content: dict[str, bytes]) -> None:
    for name, data in content.items():
        (meta.folder / name).write_bytes(data)


def test_a_crash_at_each_write_of_grow(pair: Meta, cut: Path) -> None:
    """The verdict never takes what is half done, and doing it again completes it."""
    old = pair.leg("a")["data_len"] * 512
    for name in "ab":
        larger(pair, name, 8 * MIB)
    before = pair.content()
    for at in itertools.count(1):
        restore(pair, before)
        if not crash(cut, pair, at, "grow", "a", "b"):
            break
        verdict = pair("verdict", "a", "b").json()
        if verdict["verdict"] == "ok":
            # All moved, nothing extended; or all but the second slot of the last leg.
            assert verdict["data_len"] * 512 == old or verdict["dirty_regions"] == 8 - 3
            if verdict["data_len"] * 512 != old:
                assert verdict["source"] == "local"  # the longer one, or both are
        else:
            assert verdict["verdict"] in ("blank", "bad"), verdict
        made = pair.good("grow", "a", "b")
        assert made["data_len"] == (8 * MIB - TAIL) // 512
        verdict = pair.good("verdict", "a", "b")
        assert verdict["data_len"] == made["data_len"]
        assert verdict["dirty_regions"] == 8 - old // MIB
        for name in "ab":
            content = pair.content()[name]
            assert content[:old] == before[name][:old]
            # Nothing but the new end has a superblock: not in what are data now.
            assert content.find(MAGIC) >= made["data_len"] * 512
    assert at > 10


# Of these, only OLD is where a search looks first when the device has LATER.
OLD, NEW, LATER = 4, 6, 72  # MiB


def both(meta: Meta, size: int) -> None:
    for name in "ab":
        with open(meta.folder / name, "ab") as f:
            f.truncate(size)


def created(meta: Meta, size: int) -> None:
    both(meta, size)
    meta.good("create", "--local", "a", "--remote", "b", "--assume-clean")


def newest(meta: Meta) -> tuple[Any, ...]:
    leg = meta.leg("a")
    return leg["state"], leg["cur"], leg["leg_uuid"], leg["dirty_regions"]


def test_a_crash_in_a_growth_and_then_a_larger_growth(meta: Meta, cut: Path) -> None:
    """Of two superblocks, only the older one lies where volumes end."""
    created(meta, OLD * MIB)
    fresh = meta.content()
    moved = 0
    for at in itertools.count(1):
        restore(meta, fresh)
        both(meta, NEW * MIB)
        if not crash(cut, meta, at, "grow", "a", "b"):
            break
        there = meta.leg("a")["kind"] == "superblock"
        if there:
            meta.goes_alone("a", 0xA2)
            before = newest(meta)
            assert before[0] == "alone"
        moved += there
        both(meta, LATER * MIB)
        if MAGIC in slots_at(meta, "a", OLD * MIB):
            assert meta.leg("a")["kind"] == "grown"
        meta.good("grow", "a", "-")
        if there:
            assert newest(meta) == before
        for end in (OLD, NEW):
            assert slots_at(meta, "a", end * MIB).count(MAGIC) == 0, end
    assert at > 10 and moved > 5


def stale(meta: Meta, cut: Path) -> bytes:
    """Legs of NEW MiB, the old superblock of a at OLD MiB not zeroed: what it is."""
    created(meta, OLD * MIB)
    both(meta, NEW * MIB)
    for at in itertools.count(1):
        assert crash(cut, meta, at, "grow", "a", "b")
        if meta.leg("a")["kind"] == "superblock":
            return slots_at(meta, "a", OLD * MIB)
    raise AssertionError


def test_a_leg_whose_superblock_has_moved_beyond_its_end(meta: Meta, cut: Path) -> None:
    """The device was larger: what it had then counts, and is nowhere."""
    stale(meta, cut)
    meta.device("c", OLD * MIB)
    for size in (OLD, OLD + 1):
        os.truncate(meta.folder / "a", size * MIB)
        leg = meta.leg("a")
        assert leg["kind"] == ("bad" if size == OLD else "grown"), leg
        assert size != OLD or "moved on to sector" in leg["reason"]
        assert "moved on to sector" in meta.refused("grow", "a", "b")
        assert "--force" in meta.refused("create", "--local", "a", "--remote", "c")


def test_where_it_has_moved_to_can_not_be_read(meta: Meta, cut: Path, tmp_path: Path) -> None:
    """Nobody knows which one counts: so nobody guesses."""
    created(meta, 512 * 1024)
    both(meta, 3 * MIB)
    for at in itertools.count(1):
        assert crash(cut, meta, at, "grow", "a", "b")
        if meta.leg("a")["kind"] == "superblock":
            break
    both(meta, 100 * MIB)
    to = tmp_path.parent / f"{tmp_path.name}-bad"
    compile_meta(to, "-Wl,--wrap=pread", extra=(HERE / "bad-place.c",))
    said = Meta(to, meta.folder).refused("grow", "a", "-")
    assert "can't be read" in said
    meta.good("grow", "a", "-")


def test_a_move_that_failed_and_left_its_superblock(meta: Meta, cut: Path) -> None:
    """The leg has been in use since where it was: that one counts, at whatever end it is seen."""
    old = stale(meta, cut)
    slot = bytearray(old[:SLOT])
    seq = int.from_bytes(slot[40:48], "little") + 100
    slot[40:48] = seq.to_bytes(8, "little")
    slot[512:520] = bytes(8)  # moved_to
    slot[0:4] = metalab.crc32c(slot[4:]).to_bytes(4, "little")
    put_at(meta, "a", OLD * MIB, bytes(slot + slot))
    assert "left half-way" in meta.leg("a")["reason"]
    assert "left half-way" in meta("verdict", "a", "b").json()["text"]
    both(meta, LATER * MIB)
    meta.good("grow", "a", "-")
    assert meta.leg("a")["seq"] > seq


def test_a_wipe_takes_both_ends_of_a_move(meta: Meta, cut: Path) -> None:
    stale(meta, cut)
    keep = meta.content()["a"]
    meta.good("wipe", "a")
    assert meta.leg("a")["kind"] == "blank"
    assert slots_at(meta, "a", OLD * MIB) == bytes(2 * SLOT)
    (meta.folder / "a").write_bytes(keep)
    sparse(meta, "a", LATER * MIB)
    meta.good("wipe", "a", "--force")
    assert meta.leg("a")["kind"] == "blank"


@pytest.mark.parametrize("size", [1024, 2048, 1028, 300])
def test_the_old_superblock_goes_whatever_the_new_size(meta: Meta, cut: Path, size: int) -> None:
    """After a crash between the new one and its clearing; sizes as volumes and LUNs have them."""
    for name in "ab":
        sparse(meta, name, 200 * MIB)
    meta.good("create", "--local", "a", "--remote", "b", "--assume-clean")
    for name in "ab":
        sparse(meta, name, size * MIB)
    for at in itertools.count(1):
        assert crash(cut, meta, at, "grow", "a", "b")
        if meta.leg("a")["kind"] == "superblock":
            break
    assert MAGIC in slots_at(meta, "a", 200 * MIB)
    meta.good("grow", "a", "b")
    for name in "ab":
        assert slots_at(meta, name, 200 * MIB) == bytes(2 * SLOT)


def test_a_repeated_grow_clears_nothing_in_the_data(meta: Meta) -> None:
    """A copy of the leg's own superblock of then, in a file of the file system."""
    for name in "ab":
        sparse(meta, name, 200 * MIB)
    meta.good("create", "--local", "a", "--remote", "b", "--assume-clean")
    copy = slots_at(meta, "a", 200 * MIB)
    for name in "ab":
        sparse(meta, name, 1028 * MIB + 5 * SLOT)
    meta.good("grow", "a", "b")
    put_at(meta, "a", 200 * MIB, copy)
    meta.good("grow", "a", "b")
    assert slots_at(meta, "a", 200 * MIB) == copy


def test_a_stale_superblock_is_not_taken_for_that_of_now(meta: Meta) -> None:
    """One of another mirror, and an older one of the same, lie where volumes end."""
    for name in "ab":
        sparse(meta, name, 1024 * MIB)
    meta.good("create", "--local", "a", "--remote", "b", "--name", "old", "--assume-clean")
    for name in "ab":
        sparse(meta, name, 1500 * MIB)
    meta.good("create", "--local", "a", "--remote", "b", "--name", "m", "--assume-clean", "--force")
    older = slots_at(meta, "a", 1500 * MIB)
    for name in "ab":
        sparse(meta, name, 1900 * MIB)
    made = meta.good("grow", "a", "b")
    for name in "ab":
        sparse(meta, name, 3072 * MIB)
        assert '"m"' in meta.leg(name)["reason"]
    put_at(meta, "a", 1500 * MIB, older)
    assert f"from {1900 * MIB // 512} to" in meta.leg("a")["reason"]
    grown = meta.good("grow", "a", "b")
    assert grown["set_uuid"] == made["set_uuid"] and grown["data_len"] > 3000 * MIB // 512


def test_the_longer_leg_needs_the_other_one_to_have_room(pair: Meta) -> None:
    before = pair.content()["b"]
    for name in "ab":
        larger(pair, name, 8 * MIB)
    pair.good("grow", "a", "b")
    (pair.folder / "b").write_bytes(before)
    said = pair("verdict", "a", "b").json()
    assert (said["verdict"], said["leg"]) == ("geometry", "remote")


@pytest.mark.parametrize("there", ["a -", "- b", "a b"])
def test_a_mirror_that_is_not_in_sync_moves(pair: Meta, there: str) -> None:
    """The only leg with all data has grown, or both have: a way out that loses nothing."""
    pair.goes_alone("a", 0xA2)
    before = {name: pair.leg(name) for name in "ab"}
    for name in "ab":
        larger(pair, name, 8 * MIB)
    legs = there.split()
    made = pair.good("grow", *legs)
    assert made["data_len"] == before["a"]["data_len"]
    for name in legs:
        if name == "-":
            continue
        leg = pair.leg(name)
        for key in ("state", "cur", "base", "data_len", "dirty_regions", "leg_uuid"):
            assert leg[key] == before[name][key], key
    if there == "a -":
        assert pair.good("verdict", "a", "-")["source"] == "local"
    if there == "a b":
        assert pair.good("verdict", "a", "b")["join"]
        # All is where it should be, and nothing is to be done.
        assert "only a mirror in sync can grow" in pair.refused("grow", "a", "b")


@pytest.mark.parametrize("legs", ["a d", "c b", "b a", "b -", "- a"])
def test_legs_that_are_not_of_one_mirror_are_not_touched(pair: Meta, legs: str) -> None:
    """Nor one in the other's place: not even moved."""
    for name in "cd":
        pair.device(name, 4 * MIB)
    pair.good("create", "--local", "c", "--remote", "d", "--name", "x", "--assume-clean")
    for name in "abcd":
        larger(pair, name, 8 * MIB)
    said = pair.refused("grow", *legs.split())
    assert ("different mirrors" in said) == (legs in ("a d", "c b")), said
    assert "only a mirror in sync" not in said


def two_lengths(meta: Meta) -> dict[str, Any]:
    """A growth was cut short between the legs: b has the old length. Returns what grow said."""
    for name in "ab":
        meta.device(name, 4 * MIB)
    create = ("create", "--local", "a", "--remote", "b", "--assume-clean", "--region-size", "64")
    meta.good(*create)
    short = meta.content()["b"]
    for name in "ab":
        larger(meta, name, 40 * MIB)
    made: dict[str, Any] = meta.good("grow", "a", "b")
    (meta.folder / "b").write_bytes(short)
    larger(meta, "b", 40 * MIB)
    meta.good("grow", "-", "b")
    return made


@pytest.mark.parametrize("keep", ["local", "remote"])
def test_two_lengths_and_a_split_brain(meta: Meta, keep: str) -> None:
    """Whichever is kept: the mirror has its length."""
    two_lengths(meta)
    length = {"local": meta.leg("a")["data_len"], "remote": meta.leg("b")["data_len"]}[keep]
    meta.goes_alone("a", 0xA2)
    meta.goes_alone("b", 0xB2)
    meta.good("resolve", "--keep", keep, "a", "b")
    verdict = meta.good("verdict", "a", "b")
    assert (verdict["source"], verdict["full"], verdict["data_len"]) == (keep, True, length)


def test_two_lengths_and_not_in_sync(meta: Meta) -> None:
    """A growth was cut short between the legs, and then one of them went on alone."""
    made = two_lengths(meta)
    meta.goes_alone("a", 0xA2)
    verdict = meta.good("verdict", "a", "b")
    assert (verdict["source"], verdict["join"]) == ("local", True)
    assert meta.leg("b")["data_len"] < meta.leg("a")["data_len"] == made["data_len"]
    assert "only a mirror in sync can grow" in meta.refused("grow", "a", "b")
    for name in "ab":
        larger(meta, name, 50 * MIB)
    moved = meta.good("grow", "a", "b")
    assert moved["data_len"] == made["data_len"]
    assert meta.good("verdict", "a", "b")["dirty_regions"] == verdict["dirty_regions"]


def test_a_look_at_a_mirror_in_use(pair: Meta) -> None:
    for name in "ab":
        larger(pair, name, 8 * MIB)
    with open(pair.folder / "a", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert pair.good("grow", "--dry-run", "a", "b")["data_len"] == (8 * MIB - TAIL) // 512
        pair.refused("grow", "a", "b")


def test_a_crash_at_each_write_of_create(meta: Meta, cut: Path) -> None:
    """There is no half of a mirror."""
    for name in "ab":
        meta.device(name, MIB)
    before = meta.content()
    words = ("create", "--local", "a", "--remote", "b", "--assume-clean")
    length = meta.good(*words, "--dry-run")["data_len"]
    for at in itertools.count(1):
        restore(meta, before)
        if not crash(cut, meta, at, *words):
            break
        verdict = meta("verdict", "a", "b").json()
        # Each leg's superblock is cleared, then its map is written, in two parts.
        # The last leg's second slot was missing, or the half of the first that is all zero.
        assert verdict["verdict"] in (("blank", "bad") if at < 9 else ("ok",)), (at, verdict)
        assert at < 9 or (verdict["data_len"], verdict["dirty_regions"]) == (length, 0)
        meta.good(*words, "--force")
        for name in "ab":
            assert meta.content()[name][: length * 512] == before[name][: length * 512]
    assert at == 11
