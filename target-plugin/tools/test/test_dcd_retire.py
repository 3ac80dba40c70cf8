# SPDX-License-Identifier: GPL-2.0-only
"""A data disk that is a mirror's leg is taken into use without its DCD: nothing is lost by it.

The mirror's leg was written through the DCD. Some of it is in log and NVRAM only when the disk
itself is looked at: on another host, or on the same one with the DCD stopped.
"""

from __future__ import annotations

import struct
from pathlib import Path

import dcdimage
import dcdtool
import metalab
import pytest
from dcdimage import UUID, Images, after_a_cut
from dcdtool import HERE, TOP, compile_dcd
from sanitized import Said, run

# Fixtures.
dcd = dcdtool.dcd
program = metalab.program

SIZE = 4 << 20
BEHIND, LEFT = 1, 2
INCOMPAT, RETIRED, LACKS = 24, 1, 4  # dcd-format.h
GROWN, GROWNS, GROWN_BYTES = 464, 4, 12
UUID_TEXT = "01020304-0506-0708-090a-0b0c0d0e0f10"


def put_log(leg: bytearray, uuid: bytes, state: int) -> None:
    """What the superblock says of a log, by the drawing in lockstep-format.h."""
    for at in (len(leg) - 8192, len(leg) - 4096):
        struct.pack_into("<I", leg, at + 20, 1 if state else 0)
        leg[at + 528 : at + 544] = uuid
        struct.pack_into("<I", leg, at + 544, state)
        struct.pack_into("<I", leg, at, dcdimage.crc32c(leg[at + 4 : at + 4096]))


class Site:
    """A mirror site after a cut: the leg's disk, log and NVRAM; and the other site's leg."""

    def __init__(self, dcd: Path, meta: Path, folder: Path, *, nvram: bool = True) -> None:
        self.dcd, self.meta, self.folder = dcd, meta, folder
        for name in ("data", "peer"):
            (folder / name).write_bytes(bytes(SIZE))
        assert self.ask("create", "--local", "peer", "--remote", "data", "--name", "db",
                        "--assume-clean").code == 0  # fmt: skip
        self.images = self._cut(nvram)
        self.words = self.images.save(folder)

    def _cut(self, nvram: bool) -> Images:
        images = after_a_cut(nvram, sectors=SIZE // 512)
        leg = bytearray((self.folder / "data").read_bytes())
        put_log(leg, UUID, BEHIND)
        at = 32 * 512  # The history is within the first sectors.
        images.data = bytearray(images.data[:at] + leg[at:])
        images.right = bytearray(images.right[:at] + leg[at:])
        return images

    def ask(self, *words: str) -> Said:
        return run(self.meta, *words, cwd=self.folder)

    def verdict(self) -> str:
        return str(self.ask("verdict", "-", "data").json()["verdict"])

    def has_all(self) -> bool:
        """Of the data; the superblock is another by now."""
        return (self.folder / "data").read_bytes()[: SIZE - 8192] == self.images.right[:-8192]

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}

    def untouched_by(self, *words: str, reason: str) -> None:
        before = self.content()
        said = run(self.dcd, *words, "--json")
        assert (said.code, said.json()["reason"]) == (1, reason), said
        assert self.content() == before


@pytest.fixture
def site(dcd: Path, program: Path, tmp_path: Path) -> Site:
    return Site(dcd, program, tmp_path)


class GrownSite(Site):
    """The data disk has grown, and the mirror hasn't: the leg's superblock is where it was. One of
    the sizes in the log's superblock says so, which is the word @said there."""

    def __init__(self, dcd: Path, meta: Path, folder: Path, place: int, said: int) -> None:
        self.place, self.said = place, said
        super().__init__(dcd, meta, folder)

    def _cut(self, nvram: bool) -> Images:
        old = super()._cut(nvram)
        images = after_a_cut(nvram, sectors=2 * SIZE // 512)
        for image, before in ((images.data, old.data), (images.right, old.right)):
            image[:SIZE] = before
        for copy in (0, dcdimage.BLOCK):
            raw = images.log[copy : copy + 512]
            for n in range(GROWNS):
                # The older ones were smaller: no leg is there.
                words = (self.said, 0) if n == self.place else ((SIZE - 8192 * n) // 1024 << 8, 0)
                struct.pack_into("<QI", raw, GROWN + GROWN_BYTES * n, *words)
            images.log[copy : copy + 512] = dcdimage.sealed(bytes(raw), 12)
        return images


@pytest.mark.parametrize("place", range(GROWNS))
def test_of_a_disk_that_has_grown(dcd: Path, program: Path, tmp_path: Path, place: int) -> None:
    site = GrownSite(dcd, program, tmp_path, place, SIZE // 512 << 8)
    old = site.content()
    told = run(dcd, "retire", *site.words, "--json")
    assert (told.code, told.json()["leg"]) == (0, True), told
    (site.folder / "log").write_bytes(old["log"])
    (site.folder / "nvram").write_bytes(old["nvram"])
    site.untouched_by("recover", *site.words, reason="data_left")


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("command", ["retire", "format", "leave-log"])
def test_a_file_has_one_of_the_slots(site: Site, command: str, slot: int) -> None:
    """The mirror was given up, and its leg is a file system's, as it is."""
    at = SIZE - 8192 + 4096 * slot
    with open(site.folder / "data", "r+b") as disk:
        disk.seek(at)
        disk.write(b"FILE" * 1024)
    if command == "leave-log":
        told = site.ask(command, "data")
    else:
        told = run(site.dcd, command, *site.words, *(("--force",) if command == "format" else ()))
    assert told.code == 0, told
    assert site.content()["data"][at : at + 4096] == b"FILE" * 1024


@pytest.mark.parametrize("slot", [0, 1])
def test_where_the_end_was_may_be_data(
    dcd: Path, program: Path, tmp_path: Path, slot: int
) -> None:
    """The mirror was given up, and a file has one of the slots."""
    site = GrownSite(dcd, program, tmp_path, 0, SIZE // 512 << 8)
    at = SIZE - 8192 + 4096 * slot
    with open(site.folder / "data", "r+b") as disk:
        disk.seek(at)
        disk.write(b"FILE" * 1024)
    site.images.right[at : at + 4096] = b"FILE" * 1024
    told = run(dcd, "retire", *site.words, "--json")
    assert (told.code, told.json()["leg"]) == (0, False), told
    assert site.content()["data"] == site.images.right
    assert site.ask("leave-log", "data").code == 1
    assert site.content()["data"] == site.images.right


def test_a_log_is_given_up_though_one_slot_can_not_be_read(site: Site, tmp_path: Path) -> None:
    """The other one says it; bad-place.c begins with the second one."""
    for name in ("one", "two"):
        (site.folder / name).write_bytes(bytes((1 << 20) + 4096))
    assert site.ask("create", "--local", "one", "--remote", "two", "--assume-clean").code == 0
    leg = bytearray((site.folder / "two").read_bytes())
    put_log(leg, UUID, BEHIND)
    (site.folder / "two").write_bytes(leg)
    bad = metalab.compile_meta(
        tmp_path.parent / f"{tmp_path.name}-bad", "-Wl,--wrap=pread",
        extra=(metalab.HERE / "bad-place.c",),
    )  # fmt: skip
    told = run(bad, "leave-log", "two", cwd=site.folder)
    assert told.code == 0, told
    assert site.ask("examine", "two").json()[0]["log"]["state"] == "left"


@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.parametrize("command", ["create", "join"])
def test_a_new_leg_where_a_log_was_given_up(
    dcd: Path, program: Path, tmp_path: Path, command: str, *, grown: bool
) -> None:
    """That log doesn't come back over it; nor when the disk had grown, and the mirror hadn't."""
    site: Site = Site(dcd, program, tmp_path)
    if grown:
        for name in site.content():
            (tmp_path / name).unlink()
        site = GrownSite(dcd, program, tmp_path, 0, SIZE // 512 << 8)
    assert site.ask("leave-log", "data").code == 0
    if command == "create":
        words = ["create", "--local", "peer", "--remote", "data", "--assume-clean", "--force"]
    else:
        words = ["join", "--source", "peer", "--leg", "remote", "--force", "data"]
    assert site.ask(*words).code == 0
    assert site.ask("examine", "data").json()[0]["log"]["state"] == "left"
    site.untouched_by("recover", *site.words, reason="data_left")
    site.untouched_by("retire", *site.words, reason="data_left")


def test_another_mirror_had_the_new_end(dcd: Path, program: Path, tmp_path: Path) -> None:
    """Nobody wiped its superblock: that isn't the leg that knows of this log."""
    site = GrownSite(dcd, program, tmp_path, 0, SIZE // 512 << 8)
    for name in ("one", "two"):
        (site.folder / name).write_bytes(bytes(2 * SIZE))
    assert site.ask("create", "--local", "one", "--remote", "two", "--assume-clean").code == 0
    old = site.content()
    with open(site.folder / "data", "r+b") as disk:
        disk.seek(2 * SIZE - 8192)
        disk.write(old["two"][-8192:])
    assert run(dcd, "retire", *site.words, "--json").json()["leg"] is True
    retired = site.content()
    (site.folder / "log").write_bytes(old["log"])
    (site.folder / "nvram").write_bytes(old["nvram"])
    site.untouched_by("recover", *site.words, reason="data_left")
    for name in ("log", "nvram"):
        (site.folder / name).write_bytes(retired[name])
    assert run(dcd, "format", *site.words).code == 0
    assert site.content()["data"][-8192:] == old["two"][-8192:]
    assert run(dcd, "retire", *site.words, "--json").json()["leg"] is True


def test_another_mirror_had_the_new_end_and_a_log(
    dcd: Path, program: Path, tmp_path: Path
) -> None:
    """Two legs that had a log: only who knows the disk can say which one is of today."""
    site = GrownSite(dcd, program, tmp_path, 0, SIZE // 512 << 8)
    assert run(dcd, "retire", *site.words).code == 0
    leg = site.content()["data"][SIZE - 8192 : SIZE]
    for name in ("one", "two"):
        (site.folder / name).write_bytes(bytes(2 * SIZE))
    assert site.ask("create", "--local", "one", "--remote", "two", "--assume-clean").code == 0
    stale = bytearray((site.folder / "two").read_bytes())
    put_log(stale, bytes(range(16)), LEFT)
    with open(site.folder / "data", "r+b") as disk:
        disk.seek(2 * SIZE - 8192)
        disk.write(stale[-8192:])
    before = site.content()
    told = run(dcd, "format", *site.words)
    assert told.code == 1 and "two legs" in told.err and UUID_TEXT in told.err, told
    assert site.content() == before
    assert site.ask("wipe", "--force", "data").code == 0
    assert run(dcd, "format", *site.words).code == 0
    assert site.content()["data"][SIZE - 8192 : SIZE] != leg
    assert run(dcd, "retire", *site.words, "--json").json()["leg"] is True


def test_left_and_then_grown(site: Site) -> None:
    """A log that was left isn't told that the data disk has grown."""
    for name, copies in (("log", (0, 4096)), ("nvram", (0, 2048))):
        raw = bytearray((site.folder / name).read_bytes())
        for at in copies:
            size = 512 if name == "log" else 256
            struct.pack_into("<I", raw, at + INCOMPAT, RETIRED)
            raw[at : at + size] = dcdimage.sealed(bytes(raw[at : at + size]), 12)
        (site.folder / name).write_bytes(raw)
    with open(site.folder / "data", "r+b") as disk:
        disk.truncate(SIZE + (1 << 20))
    told = run(site.dcd, "retire", *site.words, "--json")
    assert (told.code, told.json()["leg"]) == (0, True), told
    with open(site.folder / "data", "r+b") as disk:
        disk.truncate(SIZE)
    assert site.verdict() == "ok"


def test_formatted_before_the_mirror_has_grown(dcd: Path, program: Path, tmp_path: Path) -> None:
    """The leg is told of the new log, where it lies, and that one knows where."""
    site = GrownSite(dcd, program, tmp_path, 0, SIZE // 512 << 8)
    assert run(dcd, "retire", *site.words).code == 0
    assert run(dcd, "format", *site.words).code == 0
    told = run(dcd, "check", *site.words, "--json").json()
    uuid = told["log"]["uuid"]
    leg = site.content()["data"][SIZE - 8192 :]
    assert leg[528:544].hex() == uuid and struct.unpack_from("<I", leg, 544) == (BEHIND,)
    assert run(dcd, "retire", *site.words, "--json").json()["leg"] is True


def test_formatted_again_for_a_leg_that_was_made_anew(site: Site) -> None:
    """A superblock where the disk's end was names that log, too, and isn't the leg's any more."""
    log = site.folder / "another"
    log.write_bytes(bytes(4 << 20))
    another = ["--data", site.words[1], "--log", str(log), "--nvram", "none"]
    assert run(site.dcd, "retire", *site.words).code == 0
    for name in ("data", "peer"):
        with open(site.folder / name, "r+b") as disk:
            disk.truncate(2 * SIZE)
    assert site.ask("create", "--local", "peer", "--remote", "data", "--force",
                    "--assume-clean").code == 0  # fmt: skip
    assert run(site.dcd, "format", *another).code == 0
    assert run(site.dcd, "retire", *another).code == 0
    assert run(site.dcd, "format", *site.words, "--force").code == 0
    assert site.verdict() == "bypassed"
    assert run(site.dcd, "recover", *site.words).code == 0


@pytest.mark.parametrize("grown", [False, True])
def test_a_format_that_was_cut_short(
    dcd: Path, program: Path, tmp_path: Path, *, grown: bool
) -> None:
    """The leg was told of the new log, which wasn't written: whoever tries again is told that."""
    if grown:
        site: Site = GrownSite(dcd, program, tmp_path, 0, SIZE // 512 << 8)
    else:
        site = Site(dcd, program, tmp_path)
    assert run(dcd, "retire", *site.words).code == 0
    old = site.content()
    assert run(dcd, "format", *site.words).code == 0
    for name in ("log", "nvram"):
        (tmp_path / name).write_bytes(old[name])
    before = site.content()
    told = run(dcd, "format", *site.words)
    assert told.code == 1 and "another log (uuid" in told.err, told
    assert site.content() == before
    assert run(dcd, "format", *site.words, "--force").code == 0
    assert run(dcd, "retire", *site.words, "--json").json()["leg"] is True


@pytest.mark.parametrize("first", [0, SIZE - 8192])
@pytest.mark.parametrize("command", ["recover", "retire"])
def test_the_end_of_the_data_disk_can_not_be_read(
    site: Site, tmp_path: Path, command: str, first: int
) -> None:
    """Whether it was used without its log isn't known. One of the slots is enough."""
    other = compile_dcd(tmp_path.parent / f"{tmp_path.name}-away", HERE / "data-away.c",
                        "-Wl,--wrap=pread")  # fmt: skip
    before = site.content()
    told = run(other, command, *site.words, "--json", FROM=str(first))
    assert (told.code, told.json()["reason"]) == (1, "data_unread"), told
    assert site.content() == before
    run(other, command, *site.words, "--json", FROM=str(SIZE - 4096))
    assert site.has_all()


def test_the_log_is_lost_before_the_mirror_has_grown(
    dcd: Path, program: Path, tmp_path: Path
) -> None:
    site = GrownSite(dcd, program, tmp_path, 0, SIZE // 512 << 8)
    assert site.ask("grow", "-", "data").code == 1
    assert site.ask("leave-log", "data").code == 0
    assert site.ask("grow", "-", "data").code == 0
    assert site.verdict() == "ok"
    site.untouched_by("recover", *site.words, reason="data_left")


def test_an_earlier_version_gets_no_witness_that_is_not_true(
    dcd: Path, program: Path, tmp_path: Path
) -> None:
    site = GrownSite(dcd, program, tmp_path, 0, SIZE // 512 << 8 | 8)
    assert run(dcd, "retire", *site.words).code == 0
    log = site.content()["log"]
    for copy in (0, 4096):
        assert struct.unpack_from("<QI", log, copy + GROWN) == (0, 0)


def test_a_witness_of_an_earlier_version_is_no_size(
    dcd: Path, program: Path, tmp_path: Path
) -> None:
    """It is in the same place; nobody takes what happens to be there for the leg's superblock."""
    site = GrownSite(dcd, program, tmp_path, 0, SIZE // 512 << 8 | 8)
    told = run(dcd, "retire", *site.words, "--json")
    assert (told.code, told.json()["leg"]) == (0, False), told
    assert site.content()["data"] == site.images.right


def application_writes(site: Site) -> None:
    with open(site.folder / "data", "r+b") as disk:
        disk.write(b"NEW!" * 384)


def test_the_disk_alone_is_no_leg(site: Site) -> None:
    before = site.content()
    told = site.ask("verdict", "-", "data")
    assert (told.code, told.json()["verdict"], told.json()["leg"]) == (1, "bypassed", "remote")
    assert UUID_TEXT in told.json()["text"] and "dcd retire --data" in told.json()["text"]
    assert site.ask("verdict", "peer", "data").json()["verdict"] == "bypassed"
    for words in (("grow", "-", "data"), ("resolve", "--keep", "remote", "peer", "data"),
                  ("join", "--source", "data", "--leg", "local", "--force", "peer")):  # fmt: skip
        said = site.ask(*words)
        assert said.code == 1 and "below a DCD" in said.err and UUID_TEXT in said.err, said
    assert site.content() == before
    assert site.ask("examine", "data").json()[0]["log"] == {
        "uuid": UUID_TEXT, "state": "behind", "bypassed": True}  # fmt: skip


@pytest.mark.parametrize("nvram", [True, False])
def test_retire(dcd: Path, program: Path, tmp_path: Path, nvram: bool) -> None:
    site = Site(dcd, program, tmp_path, nvram=nvram)
    old = site.content()
    done = run(dcd, "retire", *site.words, "--json")
    assert (done.code, done.json()["state"], done.json()["entries"]) == (0, "retired", 11), done
    assert done.json()["leg"] is True
    assert site.has_all() and site.verdict() == "ok"
    told = run(dcd, "check", *site.words, "--json")
    assert (told.code, told.json()["state"]) == (0, "retired")
    application_writes(site)
    site.untouched_by("recover", *site.words, reason="retired")
    # Somebody restores the old log and NVRAM.
    for name in ("log", "nvram") if nvram else ("log",):
        (site.folder / name).write_bytes(old[name])
    site.untouched_by("recover", *site.words, reason="data_left")
    site.untouched_by("retire", *site.words, reason="data_left")


def test_retired_once_more_and_formatted(site: Site) -> None:
    assert run(site.dcd, "retire", *site.words).code == 0
    application_writes(site)
    before = site.content()["data"]
    again = run(site.dcd, "retire", *site.words, "--json")
    assert (again.code, again.json()["entries"], again.json()["leg"]) == (0, 0, True)
    assert site.content()["data"] == before
    done = run(site.dcd, "format", *site.words)
    assert done.code == 0, done
    data = site.content()["data"]
    assert data[: SIZE - 8192] == before[: SIZE - 8192]
    assert site.verdict() == "bypassed"
    uuid = run(site.dcd, "check", *site.words, "--json").json()["log"]["uuid"]
    assert site.ask("examine", "data").json()[0]["log"]["uuid"].replace("-", "") == uuid


def left(folder: Path, name: str, copies: tuple[int, ...], size: int, lacks: int) -> None:
    """Its copies as the module leaves them when it has left the log."""
    raw = bytearray((folder / name).read_bytes())
    for at in copies:
        copy = bytearray(raw[at : at + size])
        struct.pack_into("<I", copy, INCOMPAT, RETIRED | lacks)
        raw[at : at + size] = dcdimage.sealed(bytes(copy), 12)
    (folder / name).write_bytes(raw)


@pytest.mark.parametrize("marked", ["both", "nvram"])  # a log that takes no writes isn't
@pytest.mark.parametrize("lacks", [0, LACKS])
def test_left_by_the_module(site: Site, lacks: int, marked: str) -> None:
    """The leg is told that its disk has all, unless something was lost; nothing else is written."""
    log = site.content()["log"]
    assert run(site.dcd, "retire", *site.words).code == 0
    left(site.folder, "nvram", (0, 2048), 256, lacks)
    if marked == "nvram":
        (site.folder / "log").write_bytes(log)
    else:
        left(site.folder, "log", (0, 4096), 512, lacks)
    application_writes(site)
    leg = bytearray((site.folder / "data").read_bytes())
    put_log(leg, UUID, BEHIND)
    (site.folder / "data").write_bytes(leg)
    site.untouched_by("recover", *site.words, reason="retired")
    again = run(site.dcd, "retire", *site.words, "--json")
    assert (again.code, again.json()["entries"], again.json()["leg"]) == (0, 0, not lacks)
    data = site.content()["data"]
    assert data[: SIZE - 8192] == leg[: SIZE - 8192]
    assert (data == leg) == bool(lacks)
    site.untouched_by("recover", *site.words, reason="retired")


def test_left_when_all_was_on_the_data_disk(site: Site) -> None:
    """A log that took no writes names blocks of the data disk that were written over since."""
    assert run(site.dcd, "recover", *site.words).code == 0
    log = site.content()["log"]
    assert run(site.dcd, "retire", *site.words).code == 0
    left(site.folder, "nvram", (0, 2048), 256, 0)
    (site.folder / "log").write_bytes(log)
    application_writes(site)
    leg = bytearray((site.folder / "data").read_bytes())
    put_log(leg, UUID, BEHIND)
    (site.folder / "data").write_bytes(leg)
    told = run(site.dcd, "check", *site.words, "--json")
    assert (told.code, told.json()["state"]) == (0, "retired"), told
    again = run(site.dcd, "retire", *site.words, "--json")
    assert (again.code, again.json()["state"], again.json()["leg"]) == (0, "retired", True), again
    assert site.content()["data"][: SIZE - 8192] == leg[: SIZE - 8192]
    assert site.verdict() == "ok"


def test_the_log_disk_is_lost(site: Site) -> None:
    """The leg isn't said to be good: it lacks what only the log had. Wiped, it is none."""
    words = ["none" if word.endswith("/log") or word == "log" else word for word in site.words]
    assert words != site.words
    site.untouched_by("recover", *words[:-2], "--salvage", reason="log_missing")
    assert run(site.dcd, "retire", *words).code == run(site.dcd, "retire", *site.words,
                                                       "--salvage").code == 2  # fmt: skip
    for _ in range(2):
        done = run(site.dcd, "retire", *words, "--salvage", "--json")
        assert (done.code, done.json()["state"], done.json()["leg"]) == (3, "retired", False), done
        assert done.json()["log_lost"] is True
        assert site.verdict() == "bypassed"
    site.untouched_by("recover", *site.words, reason="retired")
    refused = run(site.dcd, "format", *site.words, "--json")
    assert refused.code == 1, refused
    assert site.ask("wipe", "data").code == 1
    assert site.ask("wipe", "data", "--force").code == 0
    (site.folder / "log").write_bytes(bytes((site.folder / "log").stat().st_size))
    assert run(site.dcd, "format", *site.words).code == 0
    assert site.verdict() != "ok"


def test_formatted_over_it_by_another_log(site: Site) -> None:
    (site.folder / "blank").write_bytes(bytes(4 << 20))
    words = ["--data", site.words[1], "--log", str(site.folder / "blank"), "--nvram", "none"]
    before = site.content()
    said = run(site.dcd, "format", *words)
    assert said.code == 1 and UUID_TEXT in said.err and "dcd retire" in said.err
    assert site.content() == before
    assert run(site.dcd, "format", *words, "--force").code == 0
    for command in ("recover", "retire"):
        site.untouched_by(command, *site.words, reason="data_has_another")


def test_the_log_is_lost(site: Site) -> None:
    assert site.ask("leave-log", "data").code == 0
    assert site.verdict() == "ok"
    application_writes(site)
    site.untouched_by("recover", *site.words, reason="data_left")
    site.untouched_by("retire", *site.words, reason="data_left")
    before = site.content()
    assert site.ask("leave-log", "data").code == 1
    assert site.ask("leave-log", "peer").code == 1
    assert site.content() == before


def test_cut_at_each_write(dcd: Path, program: Path, tmp_path: Path) -> None:
    """The leg may be used without its DCD only when log and NVRAM can't be opened any more."""
    cut = compile_dcd(tmp_path / "cut", "-Wl,--wrap=pwrite",
                      TOP / "dm-target/tools/test/cut-writes.c")  # fmt: skip
    folder = tmp_path / "site"
    folder.mkdir()
    site = Site(dcd, program, folder)
    number, words, code = 0, [], 99
    while code == 99:
        number += 1
        site.words = site.images.save(site.folder)
        code = run(cut, "retire", *site.words, CUT=str(number),
                   ASAN_OPTIONS="detect_leaks=0").code  # fmt: skip
        words.append(site.verdict())
        if words[-1] == "ok":
            assert site.has_all(), number
            before = site.content()
            assert run(dcd, "recover", *site.words).code == 1, number
            assert site.content() == before
        assert run(dcd, "retire", *site.words).code == 0, number
        assert site.has_all() and site.verdict() == "ok", number
    assert code == 0 and number > 10
    assert words == sorted(words) and set(words) == {"bypassed", "ok"}, words
