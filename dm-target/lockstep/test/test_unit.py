# SPDX-License-Identifier: GPL-2.0-only
"""The unit is active while its mirror runs, and no longer."""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import time
from pathlib import Path

import fakes
import pytest
from fakes import Host
from lockstep import assembly, config, dm, unit
from lockstep.config import Config

host = fakes.host

UNIT = Path(__file__).resolve().parents[1] / "systemd/lockstep@.service"
GOOD = {"verdict": "ok", "text": "in sync", "set_uuid": "u", "data_len": 100, "source": "local"}


@pytest.fixture
def m(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    for node in ("/dev/a", "/dev/b"):
        host.disk(node)
    host.says("dmsetup create")
    host.says("lockstep-meta verdict", GOOD)
    monkeypatch.setattr(unit, "_SYSTEMD", tmp_path)
    program = tmp_path / "bin/systemctl"
    program.write_text((tmp_path / "bin/dmsetup").read_text())
    program.chmod(0o755)
    host.says("systemctl")
    config.save(Config("m", "/dev/a", "/dev/b", "u", wait=0))
    return host


class Events:
    """The mirror runs until the second look."""

    def __init__(self, m: Host) -> None:
        self.m, self.slept = m, 0

    def arm(self) -> None:
        pass

    def sleep(self, seconds: float | None = None) -> bool:
        self.slept += 1
        if self.slept == 2:
            self.m.stops("m")
        return True

    def close(self) -> None:
        pass


@pytest.mark.parametrize("runs", [False, True], ids=["started", "runs already"])
def test_it_stays_until_the_mirror_is_stopped(
    m: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    """And systemd is told when it runs, not before, and by nobody else."""
    place = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", place)
    events = Events(m)
    monkeypatch.setattr(dm, "Events", lambda: events)
    if runs:
        m.runs("m")
    else:
        monkeypatch.setattr(dm, "create", lambda *_: m.runs("m"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(place)
        code, out, err = m.lockstep("assemble", "--stay", "m")
        assert systemd.recv(64) == b"READY=1"
    assert (code, events.slept) == (0, 2), err
    assert out.endswith("m: it was stopped\n")
    assert "NOTIFY_SOCKET" not in os.environ
    assert not m.calls("systemctl")


def test_the_journal_has_what_was_said_while_it_stays(
    m: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes to a pipe keeps it to himself otherwise, until he ends."""
    m.runs("m")
    journal, events = io.BytesIO(), Events(m)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(journal))
    monkeypatch.setattr(dm, "Events", lambda: events)
    seen = []
    monkeypatch.setattr(events, "arm", lambda: seen.append(journal.getvalue()))
    print("m: it was not stopped cleanly")
    unit.stay("m")
    assert seen[0] == b"m: it was not stopped cleanly\n"


def test_one_that_does_not_start_says_nothing(m: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    del m.devices["/dev/b"]
    monkeypatch.setenv("NOTIFY_SOCKET", "/nonexistent")
    assert m.lockstep("assemble", "--stay", "m")[0] == 1


def test_stop_waits_for_who_holds_it_for_a_moment(
    m: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As udev does, which looks at a device that was written to."""
    m.runs("m", opens=1)
    m.devices["/dev/mapper/m"] = m.devices["/dev/a"]
    monkeypatch.setattr(time, "sleep", lambda _: m.runs("m"))
    assert m.lockstep("stop", "m")[:2] == (0, "m: stopped\n")
    assert m.calls("dmsetup remove") == ["dmsetup remove --retry m"]


@pytest.mark.parametrize(("opens", "code"), [(0, 0), (1, 1)], ids=["free", "in use"])
def test_told_to_end_it_stops_the_mirror(
    m: Host, monkeypatch: pytest.MonkeyPatch, opens: int, code: int
) -> None:
    """And has failed if that can't be stopped."""
    monkeypatch.setattr(assembly, "_HELD_S", 0)
    m.runs("m", opens=opens)
    m.devices["/dev/mapper/m"] = m.devices["/dev/a"]
    events = Events(m)
    monkeypatch.setattr(events, "sleep", lambda: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(dm, "Events", lambda: events)
    before = signal.getsignal(signal.SIGTERM)
    got, _, err = m.lockstep("assemble", "--stay", "m")
    assert (got, "in use" in err) == (code, bool(opens)), err
    assert m.calls("dmsetup remove") == ([] if opens else ["dmsetup remove --retry m"])
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("enabled", [True, False])
def test_a_mirror_that_is_started_by_hand_has_its_unit(m: Host, enabled: bool) -> None:
    m.says("systemctl is-enabled", code=0 if enabled else 1)
    assert m.lockstep("assemble", "m")[0] == 0
    start = "systemctl start --no-block lockstep@m.service"
    assert (start in m.calls("systemctl")) == enabled


def test_the_unit_is_one_that_tells() -> None:
    lines = UNIT.read_text().splitlines()
    assert "Type=notify" in lines
    assert "ExecStart=/usr/sbin/lockstep assemble --stay %i" in lines
    assert not any(line.startswith(("RemainAfterExit", "ExecStop")) for line in lines)
