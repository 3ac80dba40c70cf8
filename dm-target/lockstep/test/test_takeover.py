# SPDX-License-Identifier: GPL-2.0-only
"""Another host takes a mirror over, or one starts with one leg: what nobody knows is told first."""

from __future__ import annotations

import fakes
import pytest
from fakes import Host
from lockstep import ask, config, device, late, meta
from lockstep.config import Config
from lockstep.errors import Failed

host = fakes.host

ALONE = {
    "verdict": "ok", "text": "can go on alone", "set_uuid": "u", "name": "m", "data_len": 100,
    "source": "local", "alone": True, "guess": True,
}  # fmt: skip
KNOWN = {**ALONE, "guess": False}
BYPASSED = {
    "verdict": "bypassed", "text": "The remote leg is the disk below a DCD.", "leg": "remote",
    "set_uuid": "u", "name": "m", "data_len": 100,
}  # fmt: skip


@pytest.fixture
def m(host: Host) -> Host:
    """The remote leg isn't there."""
    host.disk("/dev/a")
    host.says("dmsetup create")
    config.save(Config("m", "/dev/a", "/dev/b", "u", wait=0))
    return host


def test_the_hint_says_what_it_may_cost(m: Host) -> None:
    m.says("lockstep-meta verdict", ALONE)
    code, _, err = m.lockstep("assemble", "m")
    assert code == 1
    assert err.index("split brain") < err.index("--run"), err


def test_a_split_brain_needs_a_word_before_the_start(m: Host) -> None:
    m.says("lockstep-meta verdict", ALONE)
    code, _, err = m.lockstep("assemble", "m", "--run")
    assert (code, "SPLIT BRAIN" in err, "--yes" in err) == (3, True, True), err
    assert not m.calls("dmsetup create")
    code, _, err = m.lockstep("assemble", "m", "--run", "--yes")
    assert (code, "SPLIT BRAIN" in err) == (0, True), err
    assert m.calls("dmsetup create")


def test_who_went_on_alone_before_is_not_asked(m: Host) -> None:
    m.says("lockstep-meta verdict", KNOWN)
    code, _, err = m.lockstep("assemble", "m", "--run")
    assert (code, err) == (0, ""), err


def test_start_alone_is_the_word(m: Host) -> None:
    m.says("lockstep-meta verdict", ALONE)
    config.save(Config("m", "/dev/a", "/dev/b", "u", wait=0, start_alone=True))
    code, _, err = m.lockstep("assemble", "m")
    assert (code, "SPLIT BRAIN" in err) == (0, True), err


def test_start_alone_is_not_for_a_leg_that_was_asked_until_it_went(
    m: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A LUN reset without an answer ends the session: the kernel takes that disk away."""
    m.disk("/dev/b")
    m.says("lockstep-meta verdict", ALONE)
    config.save(Config("m", "/dev/a", "/dev/b", "u", wait=0, start_alone=True))

    def resets(name: str, leg: str, at: device.Device) -> None:
        if at.given in m.devices and leg == "remote":
            del m.devices[at.given]
            raise Failed(f"{name}: no answer to a LUN reset")

    monkeypatch.setattr(late, "take", resets)
    code, _, err = m.lockstep("assemble", "m")
    assert (code, "start_alone is for one that isn't" in err) == (1, True), err
    assert "earlier writes may still reach it" in err, err
    assert not m.calls("dmsetup create")


def test_what_changes_while_a_person_thinks(m: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    m.says("lockstep-meta verdict", ALONE)

    def thinks(question: str, *, given: bool) -> None:
        m.says("lockstep-meta verdict", {**ALONE, "text": "another"})

    monkeypatch.setattr(ask, "permission", thinks)
    code, _, err = m.lockstep("assemble", "m", "--run")
    assert (code, "have changed" in err) == (3, True), err
    assert not m.calls("dmsetup create")


def test_the_disk_below_a_dcd(m: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    m.disk("/dev/b")
    m.says("lockstep-meta verdict", BYPASSED)
    config.remove("m")
    words = ("assemble", "m", "--local", "-", "--remote", "/dev/b", "--run", "--yes", "--wait", "0")
    code, _, err = m.lockstep(*words)
    assert code == 3 and "dcd retire --data /dev/b --log" in err and "--log-lost" in err, err
    assert not m.calls("dmsetup create")
    # The word is for such a disk only.
    code, _, err = m.lockstep(*words, "--log-lost")
    assert (code, "isn't needed" in err) == (3, True), err
    leg = meta.Leg("/dev/b", "superblock", "", {}, name="m", leg="remote", bypassed=True)
    monkeypatch.setattr(meta, "examine", lambda node, given="", search=True: leg)
    m.says("lockstep-meta leave-log")
    code, _, err = m.lockstep(*[word for word in words if word != "--yes"], "--log-lost")
    assert (code, "IS LOST" in err) == (3, True), err
    assert not m.calls("lockstep-meta leave-log")
    m.lockstep(*words, "--log-lost")
    assert m.calls("lockstep-meta leave-log") == ["lockstep-meta leave-log /dev/b"]


def test_a_leg_behind_a_dcd_is_marked_before_the_start(m: Host) -> None:
    m.disk("/dev/b")
    m.says("lockstep-meta verdict", {**KNOWN, "alone": False, "unmarked": True})
    m.says("lockstep-meta mark", err="lockstep-meta: /dev/b: can't be written\n", code=1)
    code, _, err = m.lockstep("assemble", "m")
    assert (code, "can't be written" in err) == (1, True), err
    assert not m.calls("dmsetup create")
    m.says("lockstep-meta mark")
    assert m.lockstep("assemble", "m")[0] == 0
    assert m.calls("lockstep-meta mark")[-1] == "lockstep-meta mark /dev/a /dev/b"
