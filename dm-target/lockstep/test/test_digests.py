# SPDX-License-Identifier: GPL-2.0-only
"""The digest LUN: waited for, as it comes up after the leg, and told when it isn't there."""

from __future__ import annotations

import time

import fakes
import pytest
from fakes import Host
from lockstep import assembly, config, device, watch
from lockstep.config import Config

host = fakes.host

LUN = "/dev/d"
GOOD = {"verdict": "ok", "text": "in sync", "set_uuid": "u", "data_len": 100, "source": "local"}
DEAD = "AD 1000/1024 waiting 0 9 degrade 0 24 0 0 alone timeout 30 0 - 0"


class Clock:
    """Of sleeps only. At `at` the LUN comes up."""

    def __init__(self, host: Host, at: float) -> None:
        self.host, self.at, self.now = host, at, 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self.at:
            self.host.disk(LUN)


@pytest.fixture
def m(host: Host) -> Host:
    for node in ("/dev/a", "/dev/b"):
        host.disk(node)
    host.says("dmsetup create")
    options = {"resync_digests": LUN}
    config.save(Config("m", "/dev/a", "/dev/b", "u", wait=20, options=options))
    host.says("lockstep-meta verdict", GOOD)
    return host


def clock(m: Host, monkeypatch: pytest.MonkeyPatch, at: float) -> Clock:
    found = Clock(m, at)
    monkeypatch.setattr(time, "monotonic", found.monotonic)
    monkeypatch.setattr(time, "sleep", found.sleep)
    return found


@pytest.mark.parametrize(("at", "passes"), [(3.0, 3.0), (1e9, 10.0)])
def test_assemble_waits_for_it(
    m: Host, monkeypatch: pytest.MonkeyPatch, at: float, passes: float
) -> None:
    """And starts all the same; it isn't a leg."""
    passed = clock(m, monkeypatch, at)
    code, _, err = m.lockstep("assemble", "m")
    assert code == 0, err
    assert passed.now == pytest.approx(passes, abs=0.3)
    assert (LUN in err) == (at > 10), err
    (made,) = m.calls("dmsetup create")
    assert made.endswith(f"0 100 lockstep 8:0 8:16 2 resync_digests {LUN}")


def test_a_mirror_without_its_remote_leg_waits_for_no_digests(
    m: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = clock(m, monkeypatch, 1e9)
    del m.devices["/dev/b"]
    assert m.lockstep("assemble", "m", "--run", "--wait", "1")[0] == 0
    assert passed.now == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize(("at", "passes"), [(3.0, 3.0), (1e9, 10.0)])
def test_the_monitor_waits_for_it(
    m: Host, monkeypatch: pytest.MonkeyPatch, at: float, passes: float
) -> None:
    """A new session: both LUNs are new, and the table is loaded only once."""
    m.runs("m", DEAD, table=f"8:0 8:48 2 resync_digests {LUN}")
    m.says("lockstep-meta verdict", {**GOOD, "join": True})
    passed = clock(m, monkeypatch, at)
    seen = assembly.status_of("m")
    watch._give_back("m", "remote", seen, set())
    err = m.capture.readouterr().err
    assert passed.now == pytest.approx(passes, abs=0.3)
    assert (LUN in err) == (at > 10), err
    assert len(m.calls("dmsetup load")) == 1


def test_the_monitor_does_not_wait_again_and_again(
    m: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leg that is dead under the number that the table has is the kernel's matter."""
    m.runs("m", DEAD, table=f"8:0 8:16 2 resync_digests {LUN}")
    passed = clock(m, monkeypatch, 1e9)
    watch._give_back("m", "remote", assembly.status_of("m"), set())
    assert passed.now == 0


def test_set_of_what_is_not_there(m: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    m.runs("m")
    code, _, err = m.lockstep("set", "m", "resync_digests=/dev/typo")
    assert (code, "/dev/typo" in err, "--rescan" in err) == (1, True, True), err
    assert not m.calls("dmsetup load")
    assert config.load("m").options == {"resync_digests": LUN}
    assert m.lockstep("set", "m", "resync_digests=-")[0] == 0
    assert config.load("m").options == {"resync_digests": "-"}


@pytest.mark.parametrize("stable", [True, False])
def test_set_keeps_a_name_that_stays(
    m: Host, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    """By /dev/sdc the kernel would claim another disk after a reboot."""
    m.runs("m")
    m.disk("/dev/c")
    m.disk("/dev/by-id/c")
    monkeypatch.setattr(
        device, "stable_name", lambda at: ("/dev/by-id/c" if stable else at.given, stable)
    )
    code, out, err = m.lockstep("set", "m", "resync_digests=/dev/c")
    kept = "/dev/by-id/c" if stable else "/dev/c"
    assert (code, "Warning" in err) == (0, not stable), err
    assert config.load("m").options == {"resync_digests": kept}
    assert (out, kept in m.calls("dmsetup load")[0]) == (f"m: resync_digests={kept}\n", True)


def test_create_with_what_is_not_there(m: Host) -> None:
    words = ("create", "n", "/dev/a", "/dev/b", "--resync-digests", "/dev/typo", "--yes")
    code, _, err = m.lockstep(*words)
    assert (code, "/dev/typo" in err) == (1, True), err
    assert not m.calls("lockstep-meta")
