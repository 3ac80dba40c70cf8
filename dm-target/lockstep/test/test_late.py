# SPDX-License-Identifier: GPL-2.0-only
"""What the module says of requests that are out, and what the command makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from lockstep import device, late, meta
from lockstep.errors import Failed

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
