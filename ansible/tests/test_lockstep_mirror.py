# SPDX-License-Identifier: GPL-2.0-only
"""Which leg `lockstep-mirror` names first, what it keeps, and what it refuses, with dmsetup faked.

The mistake that these look for overwrites the only current leg.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import threading
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[1] / "roles/primary/files/lockstep-mirror"
TOML = 'local = "/dev/L"\ntarget = "iqn.2026-11.org.example:m"\nportal = "10.9.0.2:3260"\n'


class Host:
    """A host with the legs /dev/L, a partition of /dev/disk, and /dev/R; `table` is the mirror's,
    "" if there is none."""

    def __init__(self, program: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.program: Any = program
        self.table = ""
        self.letters = "AA"
        self.messages: list[str] = []
        self.fails = ""
        self.watches = 0
        self.folder = folder
        self.state = folder / "m.json"
        self.seen_at_create: dict[str, Any] = {}
        self.seen_at_remove: dict[str, Any] = {}
        (folder / "m.toml").write_text(TOML)
        for name, fake in {
            "CONFIG": folder, "STATE": folder, "RUN": folder, "run": self.run,
            "legs": lambda _: {"local": "/dev/L", "remote": "/dev/R"},
            "exists": lambda _: bool(self.table), "sysfs": self.sysfs, "flush": lambda _: True,
            "remote_node": lambda _: "/dev/R", "remote_runs": lambda _: True,
        }.items():  # fmt: skip
            monkeypatch.setattr(program, name, fake)
        self.about("/dev/disk", serial="disk-l")
        self.about("/dev/L", dev="1:0", size="2048", partition="1", start="2048")
        self.about("/dev/R", dev="2:0", size="4096", serial="disk-r")
        (self.sysfs("/dev/R") / "device").mkdir()
        self.config = self.program.Config.load("m")

    def sysfs(self, node: str) -> Path:
        return self.folder / {"/dev/L": "disk/L", "/dev/disk": "disk", "/dev/R": "R"}[node]

    def about(self, node: str, **files: str) -> None:
        self.sysfs(node).mkdir(exist_ok=True)
        for file, text in files.items():
            (self.sysfs(node) / file).write_text(f"{text}\n")

    def run(self, *command: str) -> str:
        said = " ".join(command)
        if self.fails and said.startswith(self.fails):
            raise self.program.Failed(said)
        words = said.split()
        if said.startswith("dmsetup create"):
            self.seen_at_create = self.known()
            devices = words[words.index("lockstep") + 1 :]
            length = words[words.index("lockstep") - 1]
            self.table = f"0 {length} lockstep {devices[0]} {devices[1]}"
            self.table += "".join(f" {word}" for word in devices[2:])
        elif said == "systemctl restart --no-block lockstep-watch@m.service":
            assert self.table
            self.watches += 1
        elif said.startswith("dmsetup remove"):
            self.seen_at_remove = self.known()
            self.table = ""
        elif said.startswith("dmsetup table"):
            return self.table
        elif said.startswith("dmsetup status"):
            return f"0 2048 lockstep {self.letters} 1/1 idle 0 0"
        elif said.startswith("dmsetup info"):
            return "0"
        elif said.startswith("dmsetup wait"):
            self.table = ""
        elif said.startswith("dmsetup message"):
            self.messages.append(" ".join(words[4:]))
        return ""

    def known(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.state.read_text())
        return said

    def know(self, *current: str, clean: bool = False) -> None:
        leg = self.program.Leg
        legs = {"local": leg("disk-l part 1", 2048, 2048), "remote": leg("disk-r", 0, 4096)}
        numbers = {"local": "1:0", "remote": "2:0"}
        self.program.State(current, clean, legs, numbers).save("m")

    def lose_local(self) -> None:
        """As udev does when the disk is pulled: its name is gone, the mirror stays."""
        shutil.rmtree(self.sysfs("/dev/disk"))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    loader = SourceFileLoader("lockstep_mirror", str(PROGRAM))
    spec = importlib.util.spec_from_loader("lockstep_mirror", loader)
    assert spec is not None
    program = importlib.util.module_from_spec(spec)
    # dataclasses look their module up.
    monkeypatch.setitem(sys.modules, "lockstep_mirror", program)
    loader.exec_module(program)
    return Host(program, tmp_path, monkeypatch)


LOCAL_FIRST = "0 2048 lockstep 1:0 2:0"
REMOTE_FIRST = "0 2048 lockstep 2:0 1:0 2 local_cache fua"


@pytest.mark.parametrize(
    ("current", "clean", "table", "then"),
    [
        (("local", "remote"), True, f"{LOCAL_FIRST} 1 nosync", ["local", "remote"]),
        (("local", "remote"), False, LOCAL_FIRST, ["local"]),
        (("local",), False, LOCAL_FIRST, ["local"]),
        (("remote",), False, REMOTE_FIRST, ["remote"]),
        # Such a state is never written; if it is there, it is no permission.
        (("remote",), True, REMOTE_FIRST, ["remote"]),
        (("local",), True, LOCAL_FIRST, ["local"]),
    ],
)
def test_the_current_leg_is_named_first(
    host: Host, current: tuple[str, ...], clean: bool, table: str, then: list[str]
) -> None:
    host.know(*current, clean=clean)
    host.program.start(host.config)
    assert host.table == table and host.watches == 1
    # Durable before the first write: a crash from here on is not a clean stop.
    assert host.seen_at_create["current"] == then and not host.seen_at_create["clean"]


@pytest.mark.parametrize(
    ("words", "local_first", "remote_first"),
    [
        ('"remote_cache", "trust"', " 2 remote_cache trust", ""),
        ('"remote_cache", "fua"', " 2 remote_cache fua", " 2 local_cache fua"),
        # The kernel doesn't mind case.
        ('"Remote_Cache", "Trust"', " 2 remote_cache trust", ""),
        ('"resync_jobs", "4"', " 2 resync_jobs 4", " 4 resync_jobs 4 local_cache fua"),
    ],
)
def test_the_caches_are_those_of_the_sites(
    host: Host, words: str, local_first: str, remote_first: str
) -> None:
    (host.program.CONFIG / "m.toml").write_text(f"{TOML}options = [{words}]\n")
    config = host.program.Config.load("m")
    for leg, words in (("local", local_first), ("remote", remote_first)):
        host.table = ""
        host.know(leg)
        host.program.start(config)
        assert host.table.split()[5:] == words.split()


@pytest.mark.parametrize("word", ["nosync", "NoSync", "SYNC", "Local_cache"])
def test_words_that_follow_from_the_state_are_refused(host: Host, word: str) -> None:
    (host.program.CONFIG / "m.toml").write_text(f'{TOML}options = ["{word}"]\n')
    with pytest.raises(host.program.Refused, match="follow from the state"):
        host.program.Config.load("m")


def test_nothing_known_is_refused(host: Host) -> None:
    with pytest.raises(host.program.Refused, match="not known which leg"):
        host.program.start(host.config)
    assert not host.table


def test_no_current_leg_is_refused(host: Host) -> None:
    host.know()
    with pytest.raises(host.program.Refused, match="neither leg"):
        host.program.start(host.config)
    assert not host.table


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 1, "current": []}', '{"format": 2, "current": 7}']
)
def test_a_state_that_cannot_be_read_is_refused(host: Host, text: str) -> None:
    host.state.write_text(text)
    with pytest.raises(host.program.Refused, match="can't be read"):
        host.program.start(host.config)
    assert not host.table


@pytest.mark.parametrize(
    ("node", "file", "text", "why"),
    [
        ("/dev/disk", "serial", "another", "is the disk another part 1, and"),
        ("/dev/R", "serial", "another", "is the disk another, and"),
        ("/dev/L", "partition", "2", "is the disk disk-l part 2, and"),
        # Made anew at another place: what is there was never the mirror's.
        ("/dev/L", "start", "4096", "begins at sector 4096 of its disk, and began at 2048"),
        ("/dev/L", "size", "1024", "has 1024 sectors, and had 2048"),
        ("/dev/R", "size", "2048", "has 2048 sectors, and had 4096"),
    ],
)
def test_another_leg_is_refused(host: Host, node: str, file: str, text: str, why: str) -> None:
    host.know("local", "remote", clean=True)
    host.about(node, **{file: text})
    with pytest.raises(host.program.Refused, match=why):
        host.program.start(host.config)
    assert not host.table
    assert host.known()["current"] == ["local", "remote"], "the refusal must not use that up"


@pytest.mark.parametrize("node", ["/dev/disk", "/dev/R"])
def test_a_disk_that_nothing_tells_from_another_is_refused(host: Host, node: str) -> None:
    """Else a blank one in its place is taken for it."""
    host.know("local", "remote", clean=True)
    host.about(node, serial="")
    for what in (host.program.start, lambda config: host.program.declare(config, "local", False)):
        with pytest.raises(host.program.Refused, match=f"{node} has neither serial number"):
            what(host.config)
    assert not host.table
    assert host.known()["legs"]["local"]["disk"] == "disk-l part 1"


def test_a_start_that_waits_is_not_clean_any_more(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the mirror site is down, a file system may be mounted from the local leg itself."""
    host.know("local", "remote", clean=True)
    legs = host.program.legs

    def no_remote(_: object) -> None:
        assert not host.known()["clean"]
        raise host.program.Failed("the mirror site is down")

    monkeypatch.setattr(host.program, "legs", no_remote)
    with pytest.raises(host.program.Failed):
        host.program.start(host.config)
    monkeypatch.setattr(host.program, "legs", legs)
    host.program.start(host.config)
    assert host.table == LOCAL_FIRST


def test_a_leg_that_has_grown_is_resynced(host: Host) -> None:
    """What was added was never copied."""
    host.know("local", "remote", clean=True)
    host.about("/dev/L", size="4096")
    host.program.start(host.config)
    assert host.table == "0 4096 lockstep 1:0 2:0" and host.known()["current"] == ["local"]
    host.program.stop(host.config)
    host.program.start(host.config)
    assert host.table == "0 4096 lockstep 1:0 2:0 1 nosync"


@pytest.mark.parametrize(
    ("table", "letters", "current", "clean"),
    [
        (LOCAL_FIRST, "AA", ["local", "remote"], True),
        (LOCAL_FIRST, "Aa", ["local"], False),
        (LOCAL_FIRST, "AD", ["local"], False),
        (LOCAL_FIRST, "DA", ["remote"], False),
        (LOCAL_FIRST, "aA", ["remote"], False),
        (REMOTE_FIRST, "Aa", ["remote"], False),
        (REMOTE_FIRST, "DA", ["local"], False),
        (REMOTE_FIRST, "AA", ["local", "remote"], True),
        (LOCAL_FIRST, "aa", [], False),
        (LOCAL_FIRST, "Da", [], False),
    ],
)
def test_a_stop_says_which_leg_was_current(
    host: Host, table: str, letters: str, current: list[str], clean: bool
) -> None:
    # As the watch has saved it.
    host.know(*current)
    host.table, host.letters = table, letters
    host.program.stop(host.config)
    assert not host.table
    assert (host.known()["current"], host.known()["clean"]) == (current, clean)
    # Killed at this moment, it leaves a mirror that somebody resumes.
    assert host.seen_at_remove == host.known() | {"clean": False}


def watched(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the first wait: then the mirror is gone."""
    monkeypatch.setattr(host.program.subprocess, "run", lambda words, **_: host.run(*words))
    host.program.watch(host.config)


@pytest.mark.parametrize("back", ["", "9:0"])
def test_a_local_leg_that_vanished_is_recorded(
    host: Host, monkeypatch: pytest.MonkeyPatch, back: str
) -> None:
    """Not recorded, it would be named first after the next boot: with all that it missed."""
    host.know("local", "remote", clean=True)
    host.program.start(host.config)
    host.lose_local()
    if back:
        host.about("/dev/disk", serial="disk-l")
        host.about("/dev/L", dev=back, size="2048", partition="1", start="2048")
    host.letters = "DA"
    watched(host, monkeypatch)
    assert host.known()["current"] == ["remote"]


@pytest.mark.parametrize("command", ["start", "watch"])
def test_a_mirror_that_is_there_is_never_clean(
    host: Host, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A crash of it would be taken for a clean stop."""
    host.know("local", "remote", clean=True)
    host.table = LOCAL_FIRST
    if command == "start":
        host.program.start(host.config)
        assert host.watches == 1
    else:
        watched(host, monkeypatch)
    assert (host.known()["current"], host.known()["clean"]) == (["local", "remote"], False)


def test_the_watch_waits_for_a_stop(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what it saw before could replace what the stop has written."""
    host.know("local", "remote")
    host.table = LOCAL_FIRST
    with host.program.locked("m"):
        watch = threading.Thread(target=watched, args=(host, monkeypatch))
        watch.start()
        watch.join(0.3)
        assert watch.is_alive()
        host.program.stop(host.config)
    watch.join(10)
    assert not watch.is_alive() and host.known()["clean"]


def test_a_mirror_whose_local_leg_vanished_can_be_stopped(host: Host) -> None:
    host.know("local", "remote")
    host.program.start(host.config)
    host.lose_local()
    host.letters = "DA"
    host.program.start(host.config)  # there already
    host.program.stop(host.config)
    assert not host.table
    assert (host.known()["current"], host.known()["clean"]) == (["remote"], False)


def test_a_mirror_that_somebody_else_made_is_not_taken_for_ours(host: Host) -> None:
    host.know("local", "remote")
    host.table = "0 2048 lockstep 1:0 7:0"
    for what in (host.program.start, host.program.stop):
        with pytest.raises(host.program.Refused, match="is on 1:0 and 7:0"):
            what(host.config)
    assert host.table


def test_a_mirror_without_a_current_leg_can_be_declared_anew(host: Host) -> None:
    host.know()
    host.table, host.letters = LOCAL_FIRST, "Da"
    host.program.stop(host.config)
    host.program.declare(host.config, "remote", False)
    host.program.start(host.config)
    assert host.table == REMOTE_FIRST


def test_nothing_known_of_a_mirror_that_is_there(host: Host) -> None:
    host.table = LOCAL_FIRST
    for what in (host.program.start, host.program.stop, host.program.watch):
        with pytest.raises(host.program.Refused, match="exists, but"):
            what(host.config)
    assert host.table


def test_a_stop_without_a_flush_is_not_clean(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.know("local", "remote")
    host.table = LOCAL_FIRST
    monkeypatch.setattr(host.program, "flush", lambda _: False)
    host.program.stop(host.config)
    assert not host.known()["clean"]


def test_a_stop_that_fails_is_not_clean(host: Host) -> None:
    host.know("local", "remote")
    host.table, host.fails = LOCAL_FIRST, "dmsetup remove"
    with pytest.raises(host.program.Failed):
        host.program.stop(host.config)
    assert not host.known()["clean"] and host.table


@pytest.mark.parametrize(("table", "word"), [(LOCAL_FIRST, "remote"), (REMOTE_FIRST, "local")])
def test_the_remote_leg_is_given_back_by_its_place(host: Host, table: str, word: str) -> None:
    host.know("local")
    host.table = table
    host.program.give_back(host.config, host.program.State.load("m"))
    assert host.messages == [f"recover {word}"]


def test_another_disk_is_not_given_back(host: Host) -> None:
    host.know("local")
    host.table = LOCAL_FIRST
    host.about("/dev/R", serial="formatted anew")
    host.program.give_back(host.config, host.program.State.load("m"))
    assert not host.messages
