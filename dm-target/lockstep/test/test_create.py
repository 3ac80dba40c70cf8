# SPDX-License-Identifier: GPL-2.0-only
"""What `create`, `replace` and `wipe` refuse, ask and say before anything is written."""

from __future__ import annotations

import fcntl
import io
import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace

import fakes
import pytest
from fakes import Host
from lockstep import config, device, legs
from lockstep.device import Sign
from lockstep.errors import Failed

host = fakes.host

PLAN = {"set_uuid": "u1", "data_len": 2_000_000, "region_size": 2048}
MAKE = "lockstep-meta create --no-search --local /dev/a --remote /dev/b --name m"


@pytest.fixture
def two(host: Host) -> Host:
    """Two blank disks, and a lockstep-meta that makes a mirror of them."""
    host.disk("/dev/a")
    host.disk("/dev/b")
    host.says("lockstep-meta create", PLAN)
    host.says("lockstep-meta verdict", {"verdict": "ok", "text": "fine", **PLAN})
    host.says("dmsetup create")
    return host


def writes(host: Host) -> list[str]:
    """Calls that change something on a disk."""
    return [line for line in host.calls("lockstep-meta") if "--dry-run" not in line]


def refused(host: Host, *words: str, says: tuple[str, ...], code: int = 3) -> None:
    got, _, err = host.lockstep(*words)
    assert got == code, err
    for text in says:
        assert text in err
    assert not writes(host)
    assert not (host.folder / "etc/m.toml").exists()


def test_two_blank_disks(two: Host) -> None:
    code, _, err = two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--policy", "block")
    assert code == 0, err
    assert "/dev/a IS KEPT" in err
    assert "/dev/b IS OVERWRITTEN" in err
    assert MAKE in two.calls("lockstep-meta")
    (made,) = two.calls("dmsetup create")
    assert made.endswith("--uuid LOCKSTEP-u1 --table 0 2000000 lockstep 8:0 8:16 2 policy block")
    kept = tomllib.loads((two.folder / "etc/m.toml").read_text())
    assert kept == {"local": "/dev/a", "remote": "/dev/b", "uuid": "u1",
                    "options": {"policy": "block"}}  # fmt: skip


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yes please\n"])
def test_anything_but_yes_is_no(two: Host, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    refused(two, "create", "m", "/dev/a", "/dev/b", says=("Create the mirror m?", "nothing was"))


def test_yes_is_yes(two: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO("Yes\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert two.lockstep("create", "m", "/dev/a", "/dev/b")[0] == 0
    assert MAKE in two.calls("lockstep-meta")


def test_without_a_terminal_nothing_is_confirmed(
    two: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    refused(two, "create", "m", "/dev/a", "/dev/b", says=("no terminal", "--yes"))


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_device_in_use_is_never_touched(two: Host, force: list[str]) -> None:
    two.in_use["/dev/b"] = ["b1 is mounted on /srv"]
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", *force,
            says=("/dev/b is in use", "mounted on /srv"))  # fmt: skip


def test_a_remote_with_a_file_system_needs_force(two: Host) -> None:
    two.disk("/dev/a", data=True)
    two.disk("/dev/b", signs=(Sign("ext4", "home", 1000),))
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", "--keep-data",
            says=("ext4 'home'", "overwritten", "--force"))  # fmt: skip
    assert two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--force")[0] == 0


def test_the_data_is_on_the_wrong_leg(two: Host) -> None:
    two.disk("/dev/b", signs=(Sign("xfs", "", 1000),))
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes",
            says=("/dev/b carries xfs. /dev/a carries nothing", "copy it to /dev/a"))  # fmt: skip
    code, _, err = two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--force")
    assert code == 0
    assert "Warning: /dev/b carries xfs" in err


@pytest.mark.parametrize("force", [[], ["--force", "--force-local"]])
def test_the_legs_are_the_wrong_way_round(
    two: Host, monkeypatch: pytest.MonkeyPatch, force: list[str]
) -> None:
    """Of two blank disks nothing else tells which is which."""
    lun = "/dev/a"
    monkeypatch.setattr(device, "over_a_network", lambda at: at.given == lun)
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", *force,
            says=("/dev/a is reached over a network", "lockstep create m /dev/b /dev/a",
                  "--swapped"))  # fmt: skip
    lun = "/dev/b"
    assert two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--no-start")[0] == 0
    lun = "/dev/a"
    words = ("create", "n", "/dev/a", "/dev/b", "--yes", "--no-start", "--swapped")
    assert two.lockstep(*words)[0] == 0


def test_data_without_a_signature_on_the_remote_leg_needs_force(two: Host) -> None:
    """A database on the bare device, or plain dm-crypt: a yes to the question is not enough."""
    two.disk("/dev/a", data=True)
    two.disk("/dev/b", data=True)
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes",
            says=("/dev/b carries data that no signature names", "overwritten", "--force"),
    )  # fmt: skip
    assert two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--force")[0] == 0


def test_data_on_the_wrong_leg_without_a_signature(two: Host) -> None:
    two.disk("/dev/b", data=True)
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", says=("copy it to /dev/a",))


@pytest.mark.parametrize("clean", [[], ["--assume-clean"]])
def test_data_without_a_signature_where_the_metadata_goes(two: Host, clean: list[str]) -> None:
    words = ("create", "m", "/dev/a", "/dev/b", "--yes", "--keep-data", *clean)
    two.disk("/dev/a", data=True)
    two.tails.add("/dev/a")
    refused(two, *words, says=("/dev/a carries data at its end", "from sector 2000000",
                               "--force-local"))  # fmt: skip
    # A file system is known to end before.
    two.disk("/dev/a", signs=(Sign("ext4", "", 1000),))
    assert two.lockstep(*words, "--no-start")[0] == 0


def test_assume_clean_and_data_where_the_remote_metadata_goes(two: Host) -> None:
    words = ("create", "m", "/dev/a", "/dev/b", "--yes", "--assume-clean")
    for node in ("/dev/a", "/dev/b"):
        two.disk(node, data=True)
    two.tails.add("/dev/b")
    refused(two, *words, says=("/dev/b carries data at its end", "--force"))
    assert two.lockstep(*words, "--force")[0] == 0


def test_a_local_file_system_is_kept_if_that_is_wanted(two: Host) -> None:
    two.disk("/dev/a", signs=(Sign("ext4", "", 2_000_000),))
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", says=("ext4", "--keep-data"))
    assert two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--keep-data")[0] == 0


@pytest.mark.parametrize("words", [["--keep-data"], ["--force"], []])
def test_a_file_system_that_would_be_cut(two: Host, words: list[str]) -> None:
    two.disk("/dev/a", signs=(Sign("ext4", "", 2_000_008),))
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", *words,
            says=("ends at sector 2000008", "begins at 2000000", "by 8 sectors"))  # fmt: skip


def test_a_local_partition_table_of_unknown_extent(two: Host) -> None:
    two.disk("/dev/a", signs=(Sign("gpt", "", None),))
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", "--keep-data",
            says=("gpt", "isn't known", "--force-local"))  # fmt: skip
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", "--force", says=("--force-local",))
    assert two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--force-local")[0] == 0


@pytest.mark.parametrize("clean", [[], ["--assume-clean"]])
def test_a_word_about_one_leg_says_nothing_about_the_other(two: Host, clean: list[str]) -> None:
    words = ("create", "m", "/dev/a", "/dev/b", "--yes", *clean)
    two.disk("/dev/a", signs=(Sign("LVM2_member", "", None),))
    two.disk("/dev/b", signs=(Sign("gpt", "", None),))
    refused(two, *words, "--force-local", says=("/dev/b carries gpt", "--force"))
    refused(two, *words, "--force", says=("/dev/a carries LVM2_member", "--force-local"))
    code, _, err = two.lockstep(*words, "--force", "--force-local")
    assert code == 0, err


@pytest.mark.parametrize("leg", ["/dev/a", "/dev/b"])
@pytest.mark.parametrize("clean", [[], ["--assume-clean"]])
def test_a_leg_of_another_mirror(two: Host, leg: str, clean: list[str]) -> None:
    two.disk("/dev/a", data=True)
    two.disk("/dev/b", data=True)
    if not clean:
        two.disk("/dev/b")
    two.disk(leg, mirror="other")
    two.says("dmsetup table --target")
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", "--keep-data", *clean,
            says=("lockstep mirror 'other'", "--force"))  # fmt: skip
    words = ("create", "m", "/dev/a", "/dev/b", "--yes", "--keep-data", *clean)
    right, wrong = ("--force-local", "--force") if leg == "/dev/a" else ("--force", "--force-local")
    refused(two, *words, wrong, says=("lockstep mirror 'other'", right))
    code, _, err = two.lockstep(*words, right)
    assert code == 0, err
    assert any(line.endswith("--force") for line in writes(two))


@pytest.mark.parametrize("leg", ["/dev/a", "/dev/b"])
def test_a_leg_that_has_grown(two: Host, leg: str) -> None:
    two.disk("/dev/a", data=True)
    two.disk("/dev/b", data=True)
    two.disk(leg, grown=True, data=True)
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", "--keep-data",
            says=(leg, "has grown", "--force"))  # fmt: skip


def test_assume_clean_cuts_neither_leg(two: Host) -> None:
    two.disk("/dev/a", signs=(Sign("ext4", "", 1000),))
    two.disk("/dev/b", signs=(Sign("ext4", "", 2_000_001),))
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", "--keep-data", "--assume-clean",
            says=("/dev/b", "by 1 sectors"))  # fmt: skip


def test_names_and_devices_that_are_taken(two: Host) -> None:
    refused(two, "create", "../m", "/dev/a", "/dev/b", "--yes", says=("can't be a mirror's name",),
            code=2)  # fmt: skip
    refused(two, "create", "m", "/dev/a", "/dev/a", "--yes", says=("are the same device",))
    two.runs("m")
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", says=("/dev/mapper/m already",))


def test_an_existing_configuration_is_kept(two: Host) -> None:
    assert two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--no-start")[0] == 0
    before = (two.folder / "etc/m.toml").read_text()
    code, _, err = two.lockstep("create", "m", "/dev/b", "/dev/a", "--yes", "--force")
    assert (code, (two.folder / "etc/m.toml").read_text()) == (3, before)
    assert "there is a mirror m already" in err


def test_bad_options_are_refused_before_anything_is_looked_at(two: Host) -> None:
    refused(two, "create", "m", "/dev/a", "/dev/b", "--yes", "--resync-jobs", "17",
            says=("resync_jobs", "from 1 to 16"), code=2)  # fmt: skip
    words = ("create", "m", "/dev/a", "/dev/b")
    for wrong in ("--policy hope", "--region-size 3M", "--region-size 16K", "--region-size 4"):
        assert two.lockstep(*words, *wrong.split())[0] == 2
    # No abbreviation means something else.
    assert two.lockstep(*words, "--yes", "--force-loc")[0] == 2
    assert not two.calls("lockstep-meta")


def test_meta_that_fails_leaves_no_configuration(two: Host) -> None:
    two.says(MAKE, err="lockstep-meta: /dev/b: write error\n", code=1)
    two.says(f"{MAKE} --dry-run", PLAN)
    code, _, err = two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes")
    assert code == 1
    assert "write error" in err
    assert not (two.folder / "etc/m.toml").exists()


def test_replace_a_leg_of_a_running_mirror(two: Host) -> None:
    two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--no-start")
    two.disk("/dev/c")
    two.says("lockstep-meta join", PLAN)
    two.runs("m", "AA 1024/1024 idle 0 0 degrade 0 0 0 0 together - 0 0 - 0")
    code, _, err = two.lockstep("replace", "m", "remote", "/dev/c", "--yes")
    assert (code, "lockstep fail m remote" in err) == (3, True)
    assert not two.calls("lockstep-meta join")


@pytest.mark.parametrize(("health", "leg", "way"), [
    ("Aa", "local", "wait (lockstep status m) until it is"),
    ("AD", "local", "lockstep re-add m remote, or replace"),
    ("DA", "remote", "lockstep re-add m local, or replace"),
])  # fmt: skip
def test_replace_the_leg_that_alone_has_everything(
    two: Host, health: str, leg: str, way: str
) -> None:
    """`lockstep fail` would be refused."""
    two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--no-start")
    two.disk("/dev/c")
    two.runs("m", f"{health} 1023/1024 waiting 0 0 degrade 0 0 0 0 alone failed 0 0 - 0")
    code, _, err = two.lockstep("replace", "m", leg, "/dev/c", "--yes")
    assert (code, way in err) == (3, True), err
    assert f"lockstep re-add m {leg} --device" in err
    assert not two.calls("lockstep-meta join")


ALONE = "AD 1024/1024 idle 0 0 degrade 0 0 0 0 alone foreign 0 0 - 0"


def running(host: Host, device: str) -> None:
    """A mirror whose remote leg is dead, and lockstep-meta and dmsetup that do what they are
    told. `device` is to be the new leg."""
    config.save(config.Config("m", "/dev/a", "/dev/b", "u1", options={"policy": "block"}, wait=0))
    host.disk(device)
    host.says("lockstep-meta join", PLAN)
    host.runs("m", ALONE, table="8:0 8:16 2 policy block")


def steps(host: Host) -> list[str]:
    """What changes something, in order."""
    return [
        line.removesuffix(" --no-search").replace("--no-search ", "")
        for line in host.calls("")
        if line.startswith(("lockstep-meta join", "dmsetup load")) and "--dry-run" not in line
    ]


JOIN_B = "lockstep-meta join --source /dev/a --leg remote /dev/b"
LOAD = "dmsetup load m --table 0 2097152 lockstep 8:0"


def test_replace_a_dead_leg_of_a_running_mirror(two: Host) -> None:
    running(two, "/dev/c")
    code, out, err = two.lockstep("replace", "m", "remote", "/dev/c", "--yes")
    assert (code, "is filled" in out) == (0, True), err
    assert steps(two) == [JOIN_B.replace("/dev/b", "/dev/c"), f"{LOAD} 8:32 2 policy block"]
    assert config.load("m").remote == "/dev/c"


def test_replace_by_the_same_device_of_a_running_mirror(two: Host) -> None:
    """A disk that was swapped in its place, a LUN that was made anew: the mirror has it still."""
    running(two, "/dev/b")
    two.in_use["/dev/b"] = ["b is part of dm-0 (other)"]
    code, _, err = two.lockstep("replace", "m", "remote", "/dev/b", "--yes")
    assert (code, "in use" in err, steps(two)) == (3, True, [])
    two.in_use["/dev/b"] = ["b is part of dm-2 (m)"]
    code, _, err = two.lockstep("replace", "m", "remote", "/dev/b")
    assert (code, "no terminal" in err, steps(two)) == (3, True, [])
    # The reload takes it out of the table: nobody has it then.
    code, _, err = two.lockstep("replace", "m", "remote", "/dev/b", "--yes")
    assert (code, "in use" in err) == (3, True)
    assert steps(two) == [f"{LOAD} - 2 policy block"]
    assert "lockstep re-add m remote" in err


def test_replace_by_the_same_device_once_the_mirror_has_let_it_go(
    two: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(two, "/dev/b")
    two.in_use["/dev/b"] = ["b is part of dm-2 (m)"]

    def let_go(name: str, leg: str, at: object) -> bool:
        two.in_use.clear()
        return real(name, leg, at)  # type: ignore[arg-type]

    real = legs.let_go
    monkeypatch.setattr(legs, "let_go", let_go)
    code, _, err = two.lockstep("replace", "m", "remote", "/dev/b", "--yes")
    assert code == 0, err
    assert steps(two) == [f"{LOAD} - 2 policy block", JOIN_B, f"{LOAD} 8:16 2 policy block"]


def test_the_living_leg_is_not_made_the_other(two: Host) -> None:
    running(two, "/dev/b")
    two.in_use["/dev/a"] = ["a is part of dm-2 (m)"]
    code, _, err = two.lockstep("replace", "m", "remote", "/dev/a", "--yes", "--force")
    assert (code, "is the local leg" in err, steps(two)) == (3, True, [])


class Thinking:
    """A terminal whose person says yes, while something happens."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self.happens = happens

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        self.happens()
        return "y\n"


@pytest.mark.parametrize("change", ["size", "data", "file system", "another disk", "in use", ""])
@pytest.mark.parametrize("words", ["create m /dev/a /dev/b", "replace n remote /dev/b"])
def test_what_changes_while_the_person_thinks(
    two: Host, monkeypatch: pytest.MonkeyPatch, words: str, change: str
) -> None:
    two.disk("/dev/c")
    two.disk("/dev/d")
    config.save(config.Config("n", "/dev/c", "/dev/d", wait=0))
    two.says("lockstep-meta join", PLAN)

    def happens() -> None:
        if change == "another disk":
            old = two.devices["/dev/b"]
            two.devices["/dev/b"] = replace(old, at=replace(old.at, sequence="9"))
        elif change == "in use":
            two.in_use["/dev/b"] = ["b is mounted"]
        elif change:
            two.disk("/dev/b", (1 << 21) + (change == "size"), data=change == "data",
                     signs=(Sign("ext4", "", 9),) * (change == "file system"))  # fmt: skip

    monkeypatch.setattr(sys, "stdin", Thinking(happens))
    code, _, err = two.lockstep(*words.split())
    wrote = [line for line in writes(two) if "verdict" not in line]
    assert (code, bool(wrote)) == ((3, False) if change else (0, True)), err
    assert not change or "/dev/b" in err.splitlines()[-1]


def fails(*_: object) -> None:
    raise Failed("/etc/lockstep/m.toml can't be written: Read-only file system")


def test_a_configuration_that_can_not_be_written(
    two: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata are there already: to do it all again would be wrong."""
    with monkeypatch.context() as patch:
        patch.setattr(config, "save", fails)
        code, _, err = two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes")
    assert (code, "Read-only" in err) == (1, True)
    assert "lockstep assemble m --local /dev/a --remote /dev/b" in err
    two.disk("/dev/c")
    two.says("lockstep-meta join", PLAN)
    config.save(config.Config("m", "/dev/a", "/dev/b", "u1", wait=0))
    monkeypatch.setattr(config, "change", fails)
    code, _, err = two.lockstep("replace", "m", "remote", "/dev/c", "--yes")
    assert (code, "Read-only" in err, "put /dev/c into" in err) == (1, True, True), err
    two.runs("m", "AD 1024/1024 idle 0 0 degrade 0 0 0 0 alone failed 0 0 - 0")
    code, _, err = two.lockstep("replace", "m", "remote", "/dev/c", "--yes")
    assert (code, "lockstep re-add m remote --device /dev/c" in err) == (1, True), err


def taken(name: str) -> bool:
    """By somebody, as another process sees it."""
    with (config._LOCKS / f"{name}.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_nobody_waits_for_a_person(two: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """`unblock` and `stop` come through while somebody is asked; and what they changed is seen."""
    seen: list[bool] = []

    def happens() -> None:
        seen.append(taken("m"))
        config.save(config.Config("m", "/dev/x", "/dev/y"))

    two.says("lockstep-meta create --local", PLAN)
    monkeypatch.setattr(sys, "stdin", Thinking(happens))
    code, _, err = two.lockstep("create", "m", "/dev/a", "/dev/b")
    assert (code, seen, "there is a mirror m already" in err) == (3, [False], True), err
    assert all("--dry-run" in line for line in two.calls("lockstep-meta create"))
    with config.locked("m"):
        assert taken("m")
        with config.unlocked():
            assert not taken("m")
        assert taken("m")
    assert not taken("m")


def test_who_waits_says_for_whom(two: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_PATIENCE_S", 0.3)
    with config.locked("m"):
        code, _, err = two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes")
    assert (code, f"(process {os.getpid()})" in err, "waiting" in err) == (1, True, True), err
    assert not writes(two)


AHEAD = {"verdict": "ok", "text": "The remote leg went on.", "source": "remote", "join": True}
HISTORIES = {leg: [{"id": leg, "count": 2}] for leg in ("local", "remote")}
DIVERGED = {"verdict": "split-brain", "text": "Both went on alone.", "histories": HISTORIES}


@pytest.fixture
def stopped(two: Host) -> Host:
    """A mirror that is stopped, and a new disk."""
    assert two.lockstep("create", "m", "/dev/a", "/dev/b", "--yes", "--no-start")[0] == 0
    two.disk("/dev/c")
    two.says("lockstep-meta join", PLAN)
    return two


def joined(host: Host) -> list[str]:
    return [line for line in host.calls("lockstep-meta join") if "--dry-run" not in line]


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ({**AHEAD, **PLAN}, "has writes that the local leg lacks"),
        ({**DIVERGED, **PLAN}, "lockstep resolve m --keep"),
        ({"verdict": "outdated", "leg": "local", "text": "Older.", **PLAN}, "lockstep resolve m"),
        ({"verdict": "incomplete", "leg": "local", "text": "No leg has all.", **PLAN}, "No leg"),
    ],
)
def test_replace_of_a_stopped_mirror_asks_the_old_leg(
    stopped: Host, verdict: dict[str, object], says: str
) -> None:
    """It went on alone: the other leg isn't current, however good it looks by itself."""
    stopped.says("lockstep-meta verdict", verdict)
    for words in ((), ("--force", "--lost")):
        code, _, err = stopped.lockstep("replace", "m", "remote", "/dev/c", "--yes", *words)
        assert (code, says in err) == (3, True), err
    assert not joined(stopped)


@pytest.mark.parametrize(
    "verdict",
    [
        {"verdict": "ok", "text": "in sync", "source": "local", **PLAN},
        {"verdict": "ok", "text": "behind", "source": "local", "join": True, **PLAN},
        {"verdict": "outdated", "leg": "remote", "text": "Older.", **PLAN},
    ],
)
def test_replace_a_leg_that_has_nothing_of_its_own(
    stopped: Host, verdict: dict[str, object]
) -> None:
    stopped.says("lockstep-meta verdict", verdict)
    code, _, err = stopped.lockstep("replace", "m", "remote", "/dev/c", "--yes")
    assert code == 0, err
    assert joined(stopped)


@pytest.mark.parametrize("word", ["", "blank", "bad", "foreign", "wrong-leg"])
def test_replace_a_leg_that_can_not_be_asked(stopped: Host, word: str) -> None:
    if word:
        stopped.says("lockstep-meta verdict",
                     {"verdict": word, "leg": "remote", "text": "Nothing."})  # fmt: skip
    else:
        del stopped.devices["/dev/b"]
    words = ("replace", "m", "remote", "/dev/c", "--yes")
    code, _, err = stopped.lockstep(*words)
    assert (code, "nobody knows" in err, "--lost" in err) == (3, True, True), err
    assert not joined(stopped)
    code, _, err = stopped.lockstep(*words, "--lost")
    assert (code, "IS LOST" in err) == (0, True), err
    assert joined(stopped)


def test_wipe_only_what_is_ours(host: Host) -> None:
    host.disk("/dev/a")
    host.disk("/dev/b", mirror="m")
    host.says("dmsetup table --target")
    host.says("lockstep-meta wipe")
    code, _, err = host.lockstep("wipe", "/dev/a", "--yes")
    assert (code, "no leg of a mirror" in err) == (3, True)
    host.in_use["/dev/b"] = ["b is part of dm-0 (m)"]
    assert host.lockstep("wipe", "/dev/b", "--yes")[0] == 3
    host.in_use.clear()
    assert host.lockstep("wipe", "/dev/b", "--yes")[0] == 0
    assert host.calls("lockstep-meta") == ["lockstep-meta wipe /dev/b"]


@pytest.mark.parametrize(("other", "code"), [("b's", 3), ("a new one's", 0), ("", 3)])
def test_wipe_a_running_mirrors_leg_by_another_path(host: Host, other: str, code: int) -> None:
    """`other`: the leg uuid of the device that the mirror has; "": it can't be read."""
    host.disk("/dev/b", mirror="m")
    host.disk("/dev/c", mirror="m" if other else "")
    for node, uuid in (("/dev/b", "b's"), ("/dev/c", other)):
        old = host.devices[node]
        host.devices[node] = replace(
            old, mirror=replace(old.mirror, uuid="u", leg_uuid=uuid, leg="remote")
        )
    host.runs("m", table="8:0 8:32")
    host.says("lockstep-meta wipe")
    result, _, err = host.lockstep("wipe", "/dev/b", "--yes")
    assert (result, "in use as 8:32" in err) == (code, code == 3), err
    assert bool(host.calls("lockstep-meta wipe")) == (code == 0)


def test_wipe_of_a_device_that_has_grown_needs_force(host: Host) -> None:
    """What would be zeroed may be data by now."""
    host.disk("/dev/a", grown=True)
    host.says("lockstep-meta wipe")
    code, _, err = host.lockstep("wipe", "/dev/a", "--yes")
    assert (code, "data by now" in err, "--force" in err) == (3, True, True)
    assert not host.calls("lockstep-meta")
    assert host.lockstep("wipe", "/dev/a", "--yes", "--force")[0] == 0
    assert host.calls("lockstep-meta") == ["lockstep-meta wipe --force /dev/a"]


@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.parametrize("log", ["bypassed", "left"])
def test_wipe_would_forget_a_log(host: Host, log: str, *, grown: bool) -> None:
    """It would come back over newer data."""
    host.disk("/dev/a", grown=grown, mirror="" if grown else "m")
    old = host.devices["/dev/a"]
    leg = replace(old.mirror, bypassed=log == "bypassed", left=log == "left")
    host.devices["/dev/a"] = replace(old, mirror=leg)
    host.says("dmsetup table --target")
    host.says("lockstep-meta wipe")
    code, _, err = host.lockstep("wipe", "/dev/a", "--yes")
    assert (code, "DCD" in err, "say --force" in err) == (3, True, True)
    assert ("data by now" in err) == grown
    assert not host.calls("lockstep-meta")
    assert host.lockstep("wipe", "/dev/a", "--yes", "--force")[0] == 0
    assert host.calls("lockstep-meta") == ["lockstep-meta wipe --force /dev/a"]
