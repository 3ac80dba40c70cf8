# SPDX-License-Identifier: GPL-2.0-only
"""Locks that nobody else can redirect; names and texts that can't command a terminal."""

from __future__ import annotations

import io
import os
from pathlib import Path

import fakes
import pytest
from fakes import Host
from lockstep import config, meta, show

host = fakes.host

EVIL = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202egood\r"


def refused(host: Host, place: Path) -> None:
    code, _, err = host.lockstep("stop", "m")
    assert code in (1, 3) and str(place) in err, err


def test_a_lock_is_no_link(host: Host, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("root's own")
    (tmp_path / "locks").mkdir(mode=0o700)
    (tmp_path / "locks/m.lock").symlink_to(precious)
    refused(host, tmp_path / "locks/m.lock")
    assert precious.read_text() == "root's own"
    (tmp_path / "locks/m.lock").unlink()
    os.mkfifo(tmp_path / "locks/m.lock")
    refused(host, tmp_path / "locks/m.lock")


def test_a_folder_that_others_may_write_to_is_refused(host: Host, tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    locks.chmod(0o777)
    refused(host, locks)
    locks.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(locks, 65534, 65534)
        refused(host, locks)
        os.chown(locks, 0, 0)
    locks.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    locks.symlink_to(elsewhere)
    refused(host, locks)
    assert not list(elsewhere.iterdir())


def test_the_lock_folder_is_roots_alone(host: Host, tmp_path: Path) -> None:
    host.runs("m")
    host.lockstep("stop", "m")
    assert (tmp_path / "locks").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "locks/m.lock").stat().st_mode & 0o777 == 0o600


def harmless(text: str) -> bool:
    return all(one == "\n" or one.isprintable() for one in text) and "\u202e" not in text


def test_what_a_disk_says_reaches_no_terminal_raw(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.disk("/dev/a")
    leg = meta.Leg("/dev/a", "superblock", "", {"name": EVIL}, name=EVIL, leg=EVIL, state=EVIL)
    monkeypatch.setattr(meta, "examine", lambda node, given="", search=True: leg)
    host.says("dmsetup table --target")
    for words in (("examine", "/dev/a"), ("examine", "--json", "/dev/a"), ("wipe", "/dev/a")):
        _, out, err = host.lockstep(*words)
        assert harmless(out) and harmless(err), (out, err)
        assert "pwned" in out + err and "\\" in out + err


def test_nor_does_what_a_program_says(host: Host) -> None:
    host.disk("/dev/a")
    host.disk("/dev/b")
    config.save(config.Config("m", "/dev/a", "/dev/b", "u", wait=0))
    host.says("lockstep-meta verdict", err=f"lockstep-meta: {EVIL}\n", code=1)
    _, out, err = host.lockstep("assemble", "m")
    assert harmless(out) and harmless(err) and "pwned" in err, err
    _, out, err = host.lockstep("stop", EVIL)
    assert harmless(out) and harmless(err), err


def test_plain_text_stays() -> None:
    to = io.StringIO()
    text = "a: [====>...] 12.0 %, für β\n  b\n"
    assert show.Safe(to).write(text) == len(text)
    assert to.getvalue() == text


def test_a_name_that_no_unit_can_have(host: Host) -> None:
    host.disk("/dev/a")
    host.disk("/dev/b")
    code, _, err = host.lockstep("create", "a+b", "/dev/a", "/dev/b", "--yes")
    assert (code, "systemd" in err) == (2, True), err
    config.save(config.Config("a+b", "/dev/a", "/dev/b", "u", wait=0))
    assert host.lockstep("stop", "a+b")[:2] == (0, "a+b doesn't run\n")
