# SPDX-License-Identifier: GPL-2.0-only
"""What the module says of requests that are out, and what the command makes of it."""

from __future__ import annotations

from pathlib import Path

import fakes
import pytest
from fakes import Host
from lockstep import config, device, late, meta
from lockstep.config import Config
from lockstep.errors import Failed

host = fakes.host

UUID = "01234567-89ab-cdef-0123-456789abcdef"


def at(number: str) -> device.Device:
    return device.Device("/dev/x", "x", number, 8, Path("/nonexistent"))


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    leg = meta.Leg("/dev/x", "superblock", "", {}, leg_uuid=UUID)
    monkeypatch.setattr(late, "_OUT", tmp_path / "draining")
    monkeypatch.setattr(meta, "examine", lambda node, given="", search=True: leg)
    monkeypatch.setattr(device, "by_number", lambda number: f"/dev/{number}")
    return tmp_path / "draining"


@pytest.mark.parametrize(
    ("line", "number", "requests"),
    [
        (f"3 remote 8:0 {UUID} m", "8:0", 3),
        ("2 remote 8:0 - a name with blanks", "8:0", 2),
        (f"1 remote 8:16 {UUID} m", "8:0", 1),
    ],
    ids=["its device", "no metadata", "another device of the same leg"],
)
def test_a_leg_that_drains(said: Path, line: str, number: str, requests: int) -> None:
    said.write_text(f"{line}\n")
    with pytest.raises(Failed, match=f"m: /dev/x can't be the remote leg yet: {requests} requests"):
        late.check("m", "remote", at(number))


@pytest.mark.parametrize("text", ["", "1 remote 8:16 fedcba98-0000-0000-0000-000000000000 m\n",
                                  "1 remote 8:16 - m\n", "nonsense\n"])  # fmt: skip
def test_others_are_no_matter(said: Path, text: str) -> None:
    said.write_text(text)
    late.check("m", "remote", at("8:0"))


def test_no_module(said: Path) -> None:
    late.check("m", "remote", at("8:0"))


def test_no_iscsi_disk_is_not_asked() -> None:
    late.settle("m", "remote", at("8:0"))


def test_a_leg_is_as_it_was_stopped(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same connection, and with the same superblock; and only one that was in use."""
    legs = {node: meta.Leg(node, "superblock", "", {}, leg_uuid=node[-1], seq=7)
            for node in ("/dev/a", "/dev/b")}  # fmt: skip
    ports = {"/dev/a": ["connection1:0 4000"], "/dev/b": ["connection2:0 4001"]}
    monkeypatch.setattr(meta, "examine", lambda node, given="", search=True: legs[node])
    monkeypatch.setattr(late, "_connections", lambda at: ports[at.given])
    for node in legs:
        host.disk(node)
    config.save(Config("m", "/dev/a", "/dev/b", "u", wait=0))
    at_a, at_b = (host.devices[node].at for node in legs)
    assert not late._is_as_it_was_stopped("m", at_a)
    host.runs("m", line=fakes.STATUS.replace("AA", "AD", 1))
    host.says("dmsetup remove")
    assert host.lockstep("stop", "m")[0] == 0
    assert late._is_as_it_was_stopped("m", at_a)
    assert not late._is_as_it_was_stopped("m", at_b)
    ports["/dev/a"] = ["connection1:0 4002"]
    assert not late._is_as_it_was_stopped("m", at_a)
    ports["/dev/a"] = ["connection1:0 4000"]
    legs["/dev/a"] = meta.Leg("/dev/a", "superblock", "", {}, leg_uuid="a", seq=8)
    assert not late._is_as_it_was_stopped("m", at_a)


@pytest.mark.parametrize(
    "words",
    ["create n /dev/a /dev/b", "replace m remote /dev/b --force", "grow m",
     "resolve m --keep local"],
)  # fmt: skip
def test_who_writes_metadata_asks_first(
    host: Host, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """A write of an older session that arrives afterwards would undo it."""
    for node in ("/dev/a", "/dev/b"):
        host.disk(node)
    config.save(Config("m", "/dev/a", "/dev/b", "u", wait=0))
    plan = {"set_uuid": "u", "data_len": 2_000_000, "region_size": 64}
    for word in ("create", "join", "grow", "resolve"):
        host.says(f"lockstep-meta {word}", plan)
    host.says("lockstep-meta verdict", {"verdict": "split-brain", "text": "Both.", **plan})
    if words.startswith("replace"):
        host.devices["/dev/c"] = host.devices["/dev/b"]
        config.save(Config("m", "/dev/a", "/dev/x", "u", wait=0))
        words += " --lost"

    def hangs(name: str, leg: str, at: device.Device) -> None:
        raise Failed(f"{name}: no answer to a LUN reset")

    monkeypatch.setattr(late, "settle", hangs)
    code, _, err = host.lockstep(*words.split(), "--yes")
    assert (code, "no answer to a LUN reset" in err) == (1, True), err
    assert all("--dry-run" in line or "verdict" in line for line in host.calls("lockstep-meta"))
