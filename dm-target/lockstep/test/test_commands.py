# SPDX-License-Identifier: GPL-2.0-only
"""What the commands tell the kernel, what they refuse, and what they say."""

from __future__ import annotations

import json
import time
from pathlib import Path

import fakes
import pytest
from fakes import STATUS, Host
from lockstep import ask, assembly, config, dm, status, watch
from lockstep.config import Config
from lockstep.errors import Failed

host = fakes.host

OLD = {"id": "00000000000000a1", "count": 1, "time": 1700000000, "reason": "created"}
LEFT = {"id": "00000000000000b2", "count": 2, "time": 1700000100, "reason": "absent"}
RIGHT = {"id": "00000000000000c2", "count": 2, "time": 1700000200, "reason": "absent"}
SPLIT = {
    "verdict": "split-brain", "text": "both legs went on alone", "set_uuid": "u",
    "histories": {"local": [LEFT, OLD], "remote": [RIGHT, OLD]},
}  # fmt: skip
GOOD = {"verdict": "ok", "text": "in sync", "set_uuid": "u", "data_len": 100, "source": "local"}
DEAD = "AD 1000/1024 waiting 0 9 degrade 0 24 0 0 alone timeout 30 0 - 0"
BLOCKED = "AD 1024/1024 idle 0 9 block 0 0 0 0 blocked failed 0 0 - 0"


@pytest.fixture
def m(host: Host) -> Host:
    """Two disks and the configuration of a mirror of them."""
    host.disk("/dev/a")
    host.disk("/dev/b")
    host.says("dmsetup create")
    config.save(Config("m", "/dev/a", "/dev/b", "u", wait=0, options={"policy": "block"}))
    return host


def test_assemble(m: Host) -> None:
    m.says("lockstep-meta verdict", GOOD)
    code, out, err = m.lockstep("assemble", "m")
    assert (code, out) == (0, "m: in sync\n"), err
    assert m.calls("lockstep-meta") == ["lockstep-meta verdict /dev/a /dev/b"]
    (made,) = m.calls("dmsetup create")
    assert made.endswith("0 100 lockstep 8:0 8:16 2 policy block")


def test_assemble_one_that_runs(m: Host) -> None:
    m.runs("m")
    assert m.lockstep("assemble", "m")[:2] == (0, "m runs already\n")
    assert not m.calls("dmsetup create")


def test_a_missing_leg_needs_run(m: Host) -> None:
    del m.devices["/dev/b"]
    m.says("lockstep-meta verdict", GOOD)
    code, _, err = m.lockstep("assemble", "m")
    assert code == 1
    assert "the remote leg /dev/b isn't there" in err
    assert "--run" in err
    assert not m.calls("dmsetup create")
    assert m.lockstep("assemble", "m", "--run")[0] == 0
    assert m.calls("dmsetup create")[0].endswith("0 100 lockstep 8:0 - 2 policy block")
    assert m.calls("lockstep-meta")[-1] == "lockstep-meta verdict /dev/a -"


@pytest.mark.parametrize(("unread", "code"), [(True, 1), (False, 3)])
def test_a_leg_that_can_not_be_read_may_be_read_later(m: Host, unread: bool, code: int) -> None:
    """It gave I/O errors after the legs had been found: the unit at boot tries it again."""
    m.says("lockstep-meta verdict", {
        "verdict": "no-superblock", "text": "the remote leg: I/O error", "leg": "remote",
        "unread": unread})  # fmt: skip
    told, _, err = m.lockstep("assemble", "m")
    assert (told, "I/O error" in err) == (code, True)
    assert not m.calls("dmsetup create")


def test_another_host_takes_over_the_remote_leg(m: Host) -> None:
    m.says("lockstep-meta verdict", {**GOOD, "source": "remote"})
    config.remove("m")
    assert m.lockstep("assemble", "n", "--remote", "/dev/b", "--run")[0] == 2
    code, _, err = m.lockstep("assemble", "n", "--local", "-", "--remote", "/dev/b", "--wait", "0")
    assert (code, "--run" in err) == (1, True)
    assert not m.calls("dmsetup create")
    words = ("assemble", "n", "--local", "-", "--remote", "/dev/b", "--run", "--wait", "0")
    assert m.lockstep(*words)[0] == 0
    assert m.calls("dmsetup create")[0].endswith("0 100 lockstep - 8:16")
    kept = config.load("n")
    assert (kept.local, kept.remote, kept.uuid) == ("-", "/dev/b", "u")


def test_one_set_has_one_name(m: Host) -> None:
    """Two names, two units: each would start a leg alone."""
    m.says("lockstep-meta verdict", {**GOOD, "source": "remote"})
    words = ("assemble", "n", "--local", "-", "--remote", "/dev/b", "--run", "--wait", "0")
    code, _, err = m.lockstep(*words)
    assert (code, "are the mirror m on this host" in err) == (3, True), err
    assert not m.calls("dmsetup create")
    assert config.names() == ["m"]


def test_the_name_is_that_of_the_metadata(m: Host) -> None:
    """Another name is a slip of the hand, unless somebody has written the file."""
    m.says("lockstep-meta verdict", {**GOOD, "set_uuid": "v", "name": "other"})
    words = ("assemble", "n", "--local", "/dev/a", "--remote", "/dev/b", "--wait", "0")
    code, _, err = m.lockstep(*words)
    assert (code, "lockstep assemble other --local" in err, '"v"' in err) == (3, True, True), err
    assert not m.calls("dmsetup create")
    config.save(Config("n", "/dev/a", "/dev/b", "v", wait=0))
    code, _, err = m.lockstep("assemble", "n")
    assert code == 0, err


def test_a_take_over_that_can_not_be_kept(m: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise Failed("/etc/lockstep/n.toml can't be written: Read-only file system")

    m.says("lockstep-meta verdict", GOOD)
    config.remove("m")
    monkeypatch.setattr(config, "save", fails)
    words = ("assemble", "n", "--local", "/dev/a", "--remote", "/dev/b", "--wait", "0")
    code, _, err = m.lockstep(*words)
    assert (code, "n runs, but" in err) == (1, True), err


def test_a_leg_that_is_not_on_this_host_is_not_waited_for(
    m: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.save(Config("m", "-", "/dev/b", "u", wait=60))
    m.says("lockstep-meta verdict", {**GOOD, "source": "remote"})
    m.runs("nosuch")
    monkeypatch.setattr(assembly, "_PAUSE_S", 100)
    code, _, err = m.lockstep("assemble", "m")
    assert (code, "no local leg on this host" in err, "leg -" in err) == (1, True, False), err
    assert m.lockstep("assemble", "m", "--run")[0] == 0


def test_the_words_of_lockstep_meta_are_told_once(m: Host) -> None:
    m.says("lockstep-meta verdict", err="lockstep-meta: /dev/b: can't be read: I/O error\n", code=1)
    _, _, err = m.lockstep("assemble", "m")
    assert err == "lockstep: assemble: /dev/b: can't be read: I/O error\n"


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "soon", "86401", ""])
@pytest.mark.parametrize("words", ["assemble m", "grow m", "resolve m --keep local"])
def test_a_wait_that_is_no_time_is_refused(m: Host, words: str, wait: str) -> None:
    """It would never be over, or is a slip of the hand."""
    code, _, err = m.lockstep(*words.split(), f"--wait={wait}")
    assert (code, "from 0 to 86400" in err) == (2, True), err
    assert not m.calls("dmsetup")


@pytest.mark.parametrize("interval", ["nan", "0", "-3"])
def test_a_monitor_does_not_spin(m: Host, interval: str) -> None:
    assert m.lockstep("monitor", "m", f"--interval={interval}")[0] == 2


def test_who_waits_for_a_leg_is_in_nobodys_way(m: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit waits for the other site, and somebody wants to start the mirror without it."""
    del m.devices["/dev/b"]
    m.says("lockstep-meta verdict", GOOD)
    monkeypatch.setattr(config, "_PATIENCE_S", 0.0)
    done: list[int] = []

    def meanwhile(_: float) -> None:
        monkeypatch.setattr(time, "sleep", lambda _: None)
        with config.locked("m"):  # Free, or this fails.
            done.append(1)

    monkeypatch.setattr(time, "sleep", meanwhile)
    assert m.lockstep("assemble", "m", "--wait", "0.5")[0] == 1
    assert done


def test_one_that_was_started_meanwhile(m: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    del m.devices["/dev/b"]
    monkeypatch.setattr(time, "sleep", lambda _: m.runs("m"))
    code, out, err = m.lockstep("assemble", "m", "--wait", "0.5")
    assert (code, out) == (0, "m runs already\n"), err
    assert not m.calls("dmsetup create")


def test_a_configuration_that_changes_while_legs_are_waited_for(
    m: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    del m.devices["/dev/b"]
    other = Config("m", "/dev/a", "/dev/c", "u", wait=0)
    monkeypatch.setattr(time, "sleep", lambda _: config.save(other))
    code, _, err = m.lockstep("assemble", "m", "--wait", "0.5", "--run")
    assert (code, "has changed meanwhile" in err) == (3, True), err
    assert not m.calls("dmsetup create")


def test_a_login_takes_no_longer_than_the_wait(m: Host, tmp_path: Path) -> None:
    del m.devices["/dev/b"]
    m.says("lockstep-meta verdict", GOOD)
    config.save(Config("m", "/dev/a", "/dev/b", "u", "iqn.x", "10.0.0.2:3260", wait=0))
    slow = tmp_path / "bin/iscsiadm"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 300\n")
    begun = time.monotonic()
    code, _, err = m.lockstep("assemble", "m")
    assert (code, "can't log in to iqn.x at 10.0.0.2:3260: no answer within" in err) == (1, True)
    assert time.monotonic() - begun < 60


def test_no_leg_at_all(m: Host) -> None:
    m.devices.clear()
    code, _, err = m.lockstep("assemble", "m", "--run")
    assert (code, "neither leg is there to be read" in err) == (1, True)


def test_a_split_brain_shows_both_histories_and_the_way_out(m: Host) -> None:
    m.says("lockstep-meta verdict", SPLIT)
    code, _, err = m.lockstep("assemble", "m", "--run")
    assert code == 3
    for text in (LEFT["id"], RIGHT["id"], "both have it", "lockstep resolve m --keep local",
                 "lockstep resolve m --keep remote"):  # fmt: skip
        assert str(text) in err
    assert not m.calls("dmsetup create")


def test_resolve_asks_and_says_what_is_lost(m: Host) -> None:
    m.says("lockstep-meta verdict", SPLIT)
    m.says("lockstep-meta resolve")
    code, _, err = m.lockstep("resolve", "m", "--keep", "remote")
    assert (code, "--yes" in err) == (3, True)
    assert not m.calls("lockstep-meta resolve")
    code, _, err = m.lockstep("resolve", "m", "--keep", "remote", "--yes")
    assert code == 0
    assert "OVERWRITTEN: the local leg /dev/a" in err
    assert m.calls("lockstep-meta resolve") == ["lockstep-meta resolve --keep remote /dev/a /dev/b"]


def test_resolve_what_needs_no_resolving(m: Host) -> None:
    m.says("lockstep-meta verdict", GOOD)
    code, _, err = m.lockstep("resolve", "m", "--keep", "local", "--yes")
    assert (code, "nothing to resolve" in err) == (3, True)
    assert not m.calls("lockstep-meta resolve")


def test_grow(m: Host) -> None:
    m.disk("/dev/a", mirror="m")
    m.says("lockstep-meta grow", {"set_uuid": "u", "data_len": 4096, "region_size": 64})
    code, _, err = m.lockstep("grow", "m")
    assert (code, "2 MiB" in err, "--yes" in err) == (3, True, True)
    assert m.calls("lockstep-meta") == ["lockstep-meta grow --dry-run /dev/a /dev/b"]
    assert m.lockstep("grow", "m", "--yes")[0] == 0
    assert m.calls("lockstep-meta")[-1] == "lockstep-meta grow /dev/a /dev/b"


def test_grow_a_mirror_that_runs(m: Host) -> None:
    m.runs("m", table="8:0 8:16 2 policy block")
    for node in ("/dev/a", "/dev/b"):
        m.disk(node, 1 << 22, mirror="m", room=4000000)
    code, _, err = m.lockstep("grow", "m")
    assert (code, "2 GiB" in err, "--yes" in err) == (3, True, True), err
    assert not m.calls("dmsetup message")
    code, out, err = m.lockstep("grow", "m", "--yes")
    assert (code, "4000000 sectors" in out, "xfs_growfs" in out) == (0, True, True), err
    assert m.calls("dmsetup message") == ["dmsetup message m 0 grow"]
    assert m.calls("dmsetup load") == [
        "dmsetup load m --table 0 4000000 lockstep 8:0 8:16 2 policy block"
    ]
    m.disk("/dev/b", 1 << 22, mirror="m", room=1 << 21)
    code, _, err = m.lockstep("grow", "m", "--yes")
    assert (code, "nothing to grow" in err) == (3, True)


def test_grow_a_mirror_that_has_lost_a_leg(m: Host) -> None:
    """The other one's metadata move, so that it is found at the next start."""
    m.runs("m", DEAD)
    code, _, err = m.lockstep("grow", "m", "--yes")
    assert (code, "when both legs are there" in err) == (1, True), err
    assert m.calls("dmsetup message") == ["dmsetup message m 0 grow"]
    assert not m.calls("dmsetup load")


def test_grow_the_only_leg_that_is_there(m: Host) -> None:
    del m.devices["/dev/b"]
    m.disk("/dev/a", grown=True)
    m.says("lockstep-meta grow", {"set_uuid": "u", "data_len": 4096, "region_size": 64})
    code, out, err = m.lockstep("grow", "m", "--yes", "--wait", "0")
    assert (code, "when both legs are there" in out) == (0, True), err
    assert m.calls("lockstep-meta")[-1] == "lockstep-meta grow /dev/a -"


@pytest.mark.parametrize(("which", "calls"), [
    ("remote", ["lockstep-meta grow --dry-run - /dev/c", "lockstep-meta grow - /dev/c"]),
    ("local", ["dmsetup message m 0 grow"]),
])  # fmt: skip
def test_re_add_when_devices_have_grown(m: Host, which: str, calls: list[str]) -> None:
    """The metadata of the leg that runs, or of the one that comes, aren't at the end any more."""
    m.runs("m", DEAD, table="8:0 8:16 2 policy block")
    m.disk("/dev/c", grown=True)
    m.says("lockstep-meta verdict", {"verdict": "blank", "text": "No superblock.", "leg": which})
    m.says("lockstep-meta grow", {"set_uuid": "u", "data_len": 4096, "region_size": 64})
    m.lockstep("re-add", "m", "--device", "/dev/c")
    assert m.calls("lockstep-meta grow") + m.calls("dmsetup message") == calls
    assert len(m.calls("lockstep-meta verdict")) == 2


def test_the_wrong_devices(m: Host) -> None:
    m.says("lockstep-meta verdict", {**GOOD, "set_uuid": "another"})
    code, _, err = m.lockstep("assemble", "m")
    assert (code, "belong to another mirror" in err) == (3, True)
    assert not m.calls("dmsetup create")


@pytest.mark.parametrize("words", ["grow", "resolve --keep local"])
def test_legs_that_change_while_the_person_thinks(
    m: Host, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    m.disk("/dev/a", mirror="m")
    m.says("lockstep-meta verdict", SPLIT)
    for word in ("grow", "resolve"):
        m.says(f"lockstep-meta {word}", {"set_uuid": "u", "data_len": 4096, "region_size": 64})
    monkeypatch.setattr(ask, "permission", lambda *_, **__: m.disk("/dev/b", 1 << 22))
    command, *rest = words.split()
    code, _, err = m.lockstep(command, "m", *rest)
    assert (code, "have changed" in err) == (3, True), err
    for line in m.calls("lockstep-meta"):
        assert "--dry-run" in line or "verdict" in line


@pytest.mark.parametrize("words", ["grow", "resolve --keep local", "replace remote /dev/c"])
def test_the_wrong_devices_are_never_written(m: Host, words: str) -> None:
    """The file names them, but they are another mirror's."""
    command, *rest = words.split()
    m.disk("/dev/c")
    m.says("lockstep-meta verdict", {**SPLIT, "set_uuid": "another"})
    for word in ("grow", "resolve", "join"):
        m.says(f"lockstep-meta {word}", {"set_uuid": "another", "data_len": 9, "region_size": 64})
    code, _, err = m.lockstep(command, "m", *rest, "--yes")
    assert (code, "belong to another mirror" in err) == (3, True), err
    for line in m.calls("lockstep-meta"):
        assert "--dry-run" in line or "verdict" in line


@pytest.mark.parametrize("word", ["blank", "bad", "incomplete", "geometry", "foreign"])
def test_resolve_what_it_can_not_mend(m: Host, word: str) -> None:
    """It doesn't even ask."""
    m.says("lockstep-meta verdict", {"verdict": word, "text": "It is so.", "leg": "remote"})
    code, _, err = m.lockstep("resolve", "m", "--keep", "local")
    assert (code, "It is so." in err, "OVERWRITTEN" in err) == (3, True, False)
    assert "generation" not in err, "a table of nothing"


def test_a_leg_in_use_is_told(m: Host) -> None:
    m.in_use["/dev/a"] = ["a is mounted on /srv"]
    code, _, err = m.lockstep("assemble", "m")
    assert (code, "a is mounted on /srv" in err) == (3, True)


def test_a_leg_that_has_grown_is_not_to_be_replaced(m: Host) -> None:
    """It looks blank, and may be the only one that has all writes."""
    m.disk("/dev/a", grown=True)
    m.says("lockstep-meta verdict", {"verdict": "blank", "text": "No superblock.", "leg": "local"})
    code, _, err = m.lockstep("assemble", "m", "--run")
    assert (code, "has grown" in err, "lockstep grow m" in err) == (3, True, True)
    assert "lockstep replace" not in err
    m.disk("/dev/a")
    code, _, err = m.lockstep("assemble", "m", "--run")
    assert code == 3
    assert err.index("has grown") < err.index("lockstep replace m local /dev/a")


def test_assemble_all_goes_on_after_a_failure(m: Host) -> None:
    config.save(Config("a", "/dev/x", "/dev/y", wait=0))
    m.says("lockstep-meta verdict", GOOD)
    code, out, err = m.lockstep("assemble", "--all")
    assert (code, out) == (1, "m: in sync\n")
    assert "a: neither leg is there to be read" in err


def test_stop_refuses_one_in_use(m: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "_HELD_S", 0)
    m.runs("m", opens=1)
    m.devices["/dev/mapper/m"] = m.devices["/dev/a"]
    code, _, err = m.lockstep("stop", "m")
    assert (code, "in use" in err) == (1, True)
    assert not m.calls("dmsetup remove")
    m.runs("m")
    assert m.lockstep("stop", "m")[:2] == (0, "m: stopped\n")
    assert m.calls("dmsetup remove") == ["dmsetup remove --retry m"]


def test_stop_one_that_does_not_run(m: Host) -> None:
    assert m.lockstep("stop", "m")[:2] == (0, "m doesn't run\n")
    assert m.lockstep("stop", "nosuch")[0] == 3


@pytest.mark.parametrize(
    ("line", "code"), [(STATUS, 0), (DEAD, 1), (BLOCKED, 2)], ids=["good", "degraded", "blocked"]
)
def test_status(m: Host, line: str, code: int) -> None:
    m.runs("m", line)
    got, out, err = m.lockstep("status", "m", "--json")
    assert got == code, err
    (told,) = json.loads(out).values()
    assert (told["running"], told["exit_code"]) == (True, code)
    assert m.lockstep("status")[0] == code


def test_status_of_one_that_is_stopped_and_of_none(m: Host) -> None:
    m.says("dmsetup status --noflush --target", "No devices found\n")
    m.says("dmsetup table --target", "No devices found\n")
    code, out, _ = m.lockstep("status", "--json")
    assert (code, json.loads(out)["m"]["running"]) == (2, False)
    assert m.lockstep("status", "nosuch")[0] == 4


def test_a_full_resync_has_to_be_asked_for(m: Host) -> None:
    m.runs("m")
    code, _, err = m.lockstep("resync", "m")
    assert (code, "--full" in err) == (3, True)
    assert not m.calls("dmsetup message")
    assert m.lockstep("resync", "m", "--full")[0] == 0
    assert m.calls("dmsetup message") == ["dmsetup message m 0 resync"]


def test_fail_keeps_one_good_leg(m: Host) -> None:
    m.runs("m", "Aa 1000/1024 resync 0 0 degrade 0 24 0 0 together - 30 512 - 0")
    code, _, err = m.lockstep("fail", "m", "local")
    assert (code, "the remote leg isn't in sync" in err) == (3, True)
    assert not m.calls("dmsetup message")
    # The kernel never does it, so there is no word for it.
    assert m.lockstep("fail", "m", "local", "--force")[0] == 2
    assert m.lockstep("fail", "m", "remote")[0] == 0
    # Once more, as the fake's status doesn't change: somebody may have given it back.
    assert m.calls("dmsetup message") == ["dmsetup message m 0 fail remote"] * 2


@pytest.mark.parametrize(("why", "messages"), [("timeout", 2), ("told", 0)])
def test_fail_of_a_dead_leg_keeps_it_out(m: Host, why: str, messages: int) -> None:
    """It would be tried again, and taken back."""
    m.runs("m", DEAD.replace("timeout", why))
    code, out, _ = m.lockstep("fail", "m", "remote")
    assert (code, "is dead already" in out) == (0, True)
    assert m.calls("dmsetup message") == ["dmsetup message m 0 fail remote"] * messages


def test_re_add_the_same_device(m: Host) -> None:
    m.runs("m", DEAD)
    assert m.lockstep("re-add", "m")[0] == 0
    assert m.calls("dmsetup message") == ["dmsetup message m 0 recover remote"]


def test_re_add_of_what_the_kernel_does_not_take(m: Host) -> None:
    """The same device, and another disk: the command knows the way out."""
    m.runs("m", DEAD)
    m.says("dmsetup message", err="device-mapper: message ioctl failed\n", code=1)
    m.says("lockstep-meta verdict", {"verdict": "blank", "text": "No superblock.", "leg": "remote"})
    code, _, err = m.lockstep("re-add", "m")
    assert (code, "lockstep replace m remote" in err) == (3, True), err
    m.says("lockstep-meta verdict", JOIN)
    code, _, err = m.lockstep("re-add", "m")
    assert (code, "message ioctl failed" in err) == (1, True), err


JOIN = {**GOOD, "join": True}


def test_re_add_under_a_new_number(m: Host) -> None:
    m.runs("m", DEAD, table="8:0 8:16 2 policy block")
    m.disk("/dev/c")
    m.says("lockstep-meta verdict", JOIN)
    assert m.lockstep("re-add", "m", "--device", "/dev/c")[0] == 0
    assert m.calls("lockstep-meta") == ["lockstep-meta verdict /dev/a /dev/c"]
    assert m.calls("dmsetup load") == [
        "dmsetup load m --table 0 2097152 lockstep 8:0 8:32 2 policy block"
    ]
    assert config.load("m").remote == "/dev/c"


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ({"verdict": "blank", "text": "No superblock.", "leg": "remote"}, "lockstep replace m"),
        ({**JOIN, "source": "remote"}, "went on without this mirror"),
    ],
)
def test_re_add_what_does_not_belong_here(m: Host, verdict: dict[str, str], says: str) -> None:
    """A running mirror isn't even suspended for it."""
    m.runs("m", DEAD)
    m.disk("/dev/c")
    m.says("lockstep-meta verdict", verdict)
    code, _, err = m.lockstep("re-add", "m", "--device", "/dev/c")
    assert (code, says in err) == (3, True), err
    assert not m.calls("dmsetup load")
    assert config.load("m").remote == "/dev/b"


@pytest.mark.parametrize(("why", "given_back"), [("timeout", True), ("told", False)])
def test_the_monitor_does_not_undo_fail(m: Host, why: str, given_back: bool) -> None:
    """The device has another number now, as a LUN of a new session has."""
    m.runs("m", DEAD.replace("timeout", why), table="8:0 8:48 2 policy block")
    m.says("lockstep-meta verdict", JOIN)
    watch._give_back("m", "remote", assembly.status_of("m"), set())
    assert bool(m.calls("dmsetup load")) == given_back
    # It was told between the look and the lock.
    seen = status.parse(f"0 {1 << 21} lockstep {DEAD}")
    before = len(m.calls("dmsetup load"))
    watch._give_back("m", "remote", seen, set())
    assert (len(m.calls("dmsetup load")) > before) == given_back


@pytest.mark.parametrize(
    ("why", "given_back"), [("told,timeout", "remote"), ("timeout,told", "local")]
)
def test_the_monitor_knows_which_leg_was_failed(m: Host, why: str, given_back: str) -> None:
    m.disk("/dev/c")
    source = "local" if given_back == "remote" else "remote"
    m.says("lockstep-meta verdict", {**JOIN, "source": source})
    m.runs("m", f"DD 1000/1024 waiting 0 9 degrade 0 24 0 0 alone {why} 30 0 - 0",
           table="8:64 8:48 2 policy block")  # fmt: skip
    for leg in ("local", "remote"):
        watch._give_back("m", leg, assembly.status_of("m"), set())
    (load,) = m.calls("dmsetup load")
    assert ("8:0 8:48" if given_back == "local" else "8:64 8:16") in load
    _, out, _ = m.lockstep("status", "m")
    by_hand, tried = ("local", "remote") if why.startswith("told") else ("remote", "local")
    for line in out.splitlines():
        assert (line.split()[0] == by_hand) == ("failed by hand" in line)
        assert (line.split()[0] == tried) == ("within its timeout" in line)


def test_re_add_without_a_device(m: Host) -> None:
    """A take-over without the local leg: its file says so."""
    config.save(Config("n", "-", "/dev/b", "u", wait=0))
    m.runs("n", "-A 1000/1024 waiting 0 9 degrade 24 0 0 0 alone absent 30 0 - 0", table="- 8:16")
    code, _, err = m.lockstep("re-add", "n")
    assert (code, "--device" in err, "lockstep replace n local" in err) == (3, True, True), err


def test_re_add_what_is_not_dead(m: Host) -> None:
    m.runs("m")
    assert m.lockstep("re-add", "m")[0] == 3
    assert m.lockstep("re-add", "m", "local")[0] == 3


def test_a_new_table_that_does_not_start_leaves_the_old_one(
    m: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dm, "PATIENCE", 0)
    m.runs("m", DEAD, table="8:0 8:16 2 policy block")
    m.disk("/dev/c")
    m.says("lockstep-meta verdict", JOIN)
    m.says("dmsetup resume", err="device-mapper: resume ioctl on m failed\n", code=1)
    code, _, err = m.lockstep("re-add", "m", "--device", "/dev/c")
    assert (code, "THE DEVICE IS SUSPENDED" in err) == (1, True)
    assert [line.split("lockstep ")[1] for line in m.calls("dmsetup load")] == [
        "8:0 8:32 2 policy block",
        "8:0 8:16 2 policy block",
    ]
    assert len(m.calls("dmsetup resume")) == 2
    assert config.load("m").remote == "/dev/b"


def test_a_suspended_mirror_is_unusable(m: Host) -> None:
    m.runs("m", suspended=True)
    code, out, _ = m.lockstep("status", "m")
    assert (code, "SUSPENDED" in out) == (2, True)
    assert json.loads(m.lockstep("status", "m", "--json")[1])["m"]["exit_code"] == 2


def test_set_at_once_and_for_good(m: Host) -> None:
    m.runs("m", table="8:0 8:16 2 policy block")
    code, _, err = m.lockstep("set", "m", "policy=error", "resync_jobs=4", "wait=5")
    assert code == 0, err
    assert not m.calls("dmsetup message")
    assert m.calls("dmsetup load") == [
        "dmsetup load m --table 0 2097152 lockstep 8:0 8:16 4 policy error resync_jobs 4"
    ]
    assert m.lockstep("set", "m", "policy=block", "resync_rate=10")[0] == 0
    assert m.calls("dmsetup message") == [
        "dmsetup message m 0 policy block",
        "dmsetup message m 0 resync_rate 10",
    ]
    assert len(m.calls("dmsetup load")) == 1
    assert m.lockstep("set", "m", "policy=error")[0] == 0
    kept = config.load("m")
    want = {"policy": "error", "resync_jobs": "4", "resync_rate": "10"}
    assert (kept.options, kept.wait) == (want, 5)


@pytest.mark.parametrize("pair", ["policy", "policy=maybe", "resync_rate=-1", "speed=1", "wait=x"])
def test_set_what_there_is_not(m: Host, pair: str) -> None:
    m.runs("m")
    assert m.lockstep("set", "m", pair)[0] == 2
    assert not m.calls("dmsetup message")


def test_the_kernel_refuses_a_setting(m: Host) -> None:
    m.runs("m")
    m.says("dmsetup message", err="device-mapper: message ioctl failed\n", code=1)
    assert m.lockstep("set", "m", "policy=error")[0] == 1
    assert config.load("m").options == {"policy": "block"}


def test_the_kernel_refuses_one_setting_of_three(m: Host) -> None:
    """What it has taken before counts already: it is told, and the file says so too."""
    m.runs("m")
    m.says("dmsetup message m 0 coalesce", err="device-mapper: message ioctl failed\n", code=1)
    code, _, err = m.lockstep("set", "m", "resync_rate=100", "coalesce=4", "policy=error")
    assert code == 1
    for text in ("coalesce=4: ", "Set and kept: resync_rate=100.",
                 "Not set: coalesce=4 policy=error"):  # fmt: skip
        assert text in err
    assert config.load("m").options == {"policy": "block", "resync_rate": "100"}
    assert "dmsetup message m 0 policy error" not in m.calls("dmsetup message")


def test_a_setting_that_can_not_be_kept(m: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise Failed("/etc/lockstep/m.toml can't be written: Read-only file system")

    m.runs("m")
    monkeypatch.setattr(config, "change", fails)
    code, _, err = m.lockstep("set", "m", "policy=error")
    assert (code, "counts until the mirror stops" in err) == (1, True), err


def test_unblock_only_what_is_blocked(m: Host) -> None:
    m.runs("m", DEAD)
    assert m.lockstep("unblock", "m")[0] == 3
    assert m.lockstep("fail-held", "m")[0] == 3
    m.runs("m", BLOCKED)
    assert m.lockstep("unblock", "m")[0] == 0
    assert m.lockstep("fail-held", "m")[0] == 0
    assert m.calls("dmsetup message") == ["dmsetup message m 0 unblock",
                                          "dmsetup message m 0 fail_held"]  # fmt: skip


def test_verify_needs_two_good_legs(m: Host) -> None:
    m.runs("m", DEAD)
    assert m.lockstep("verify", "start", "m")[0] == 1
    m.runs("m", STATUS)
    assert m.lockstep("verify", "start", "m")[0] == 0
    assert m.calls("dmsetup message") == ["dmsetup message m 0 verify start"]
    m.runs("m", "AA 1024/1024 resync 0 0 degrade 0 0 0 0 together - 0 0 10/1024 24")
    code, out, _ = m.lockstep("verify", "status", "m", "--json")
    told = json.loads(out)["m"]
    assert (code, told["out_of_sync_sectors"], told["running"]) == (1, 24, True)
    m.runs("m", "AA 1024/1024 idle 0 0 degrade 0 0 0 0 together - 0 0 1024/1024 0")
    code, out, _ = m.lockstep("verify", "status", "m")
    assert (code, out) == (0, "m: everything was compared: no sector differed\n")


@pytest.mark.parametrize(("differ", "says"), [(0, "not compared"), (8, "8 sectors differed")])
def test_what_was_never_compared_to_its_end_is_not_called_equal(
    m: Host, differ: int, says: str
) -> None:
    m.runs("m", f"AA 1024/1024 idle 0 0 degrade 0 0 0 0 together - 0 0 - {differ}")
    code, out, _ = m.lockstep("verify", "status", "m")
    assert (code, "not compared to the end" in out, says in out) == (1, True, True)


def test_verify_that_runs_already(m: Host) -> None:
    m.runs("m", "AA 1024/1024 verify 0 0 degrade 0 0 0 0 together - 0 0 10/1024 0")
    for words in ("start m", "start m --wait", "start m --check --wait"):
        code, _, err = m.lockstep("verify", *words.split())
        assert (code, "verify runs already" in err) == (3, True), err
    assert not m.calls("dmsetup message")
    assert m.lockstep("verify", "stop", "m")[:2] == (0, "m: verify is stopped\n")
    m.runs("m")
    assert m.lockstep("verify", "stop", "m")[:2] == (0, "m: verify does not run\n")
    assert m.lockstep("verify", "start", "m", "--check")[0] == 0
    assert m.calls("dmsetup message")[-1] == "dmsetup message m 0 verify check"
    for words in ("status m --wait", "stop m --wait", "start m --json", "stop m --check"):
        assert m.lockstep("verify", *words.split())[0] == 2


def test_a_device_of_another_target_is_left_alone(m: Host) -> None:
    m.runs("m")
    m.says("dmsetup status --noflush m", "0 100 linear\n")
    m.says("dmsetup table m", "0 100 linear 8:0 0\n")
    for words in (("stop", "m"), ("fail", "m", "local"), ("set", "m", "policy=block")):
        code, _, err = m.lockstep(*words)
        assert (code, "is no lockstep mirror" in err) == (3, True)
    assert not m.calls("dmsetup remove")


def test_programs_that_are_missing(m: Host) -> None:
    (m.folder / "bin/lockstep-meta").unlink()
    code, _, err = m.lockstep("assemble", "m")
    assert (code, "lockstep-meta isn't installed" in err) == (1, True)
    (m.folder / "bin/dmsetup").unlink()
    code, _, err = m.lockstep("status")
    assert (code, "apt install dmsetup" in err) == (4, True)
