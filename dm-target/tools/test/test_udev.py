# SPDX-License-Identifier: GPL-2.0-only
"""What udev is told of a leg, and the rule that acts on it."""

from __future__ import annotations

import re

import metalab
from metalab import HERE, SLOT, Meta

# Fixtures.
program, meta, pair = metalab.program, metalab.meta, metalab.pair

RULES = HERE.parents[1] / "lockstep/udev/61-lockstep.rules"


def words(meta: Meta, name: str) -> dict[str, str]:
    said = meta("udev", name)
    found = dict(line.split("=", 1) for line in said.out.splitlines())
    assert said.code == (0 if found else 1), said
    return found


def test_legs(pair: Meta) -> None:
    for name, leg in (("a", "local"), ("b", "remote")):
        told = pair.leg(name)
        assert words(pair, name) == {
            "LOCKSTEP_MEMBER": "1", "LOCKSTEP_SET_UUID": told["set_uuid"],
            "LOCKSTEP_LEG_UUID": told["leg_uuid"], "LOCKSTEP_LEG": leg,
        }  # fmt: skip


def test_what_is_no_leg(pair: Meta) -> None:
    pair.device("other", 1 << 20)
    pair.device("small", 512)
    assert not words(pair, "other") and not words(pair, "small")
    # A disk whose last partition is a leg.
    leg = (pair.folder / "a").read_bytes()
    (pair.folder / "disk").write_bytes(bytes(1 << 20) + leg)
    assert not words(pair, "disk")
    pair.good("wipe", "a")
    assert not words(pair, "a")


def test_one_that_cant_be_used_is_one_nevertheless(pair: Meta) -> None:
    with open(pair.folder / "b", "r+b") as leg:
        end = leg.seek(0, 2) // SLOT * SLOT
        leg.seek(end - SLOT)
        slot = bytearray(leg.read(SLOT))
        slot[64] ^= 1  # another leg's uuid, and the same number
        slot[0:4] = metalab.crc32c(slot[4:]).to_bytes(4, "little")
        leg.seek(end - SLOT)
        leg.write(slot)
    assert words(pair, "b") == {"LOCKSTEP_MEMBER": "1"}


def test_the_rule_asks_this_program_and_knows_its_words(pair: Meta) -> None:
    text = RULES.read_text()
    assert "lockstep-meta udev $devnode" in text
    known = set(words(pair, "a"))
    assert set(re.findall(r"LOCKSTEP_[A-Z_]+", text)) <= known
    for line in text.splitlines():
        if line and not line.startswith("#"):
            assert re.fullmatch(r"([A-Z]+(\{\w+\})?(==|!=|=|-=)\"[^\"]*\"(, )?)+", line), line


def test_it_is_quick(pair: Meta) -> None:
    """Nothing is searched for: udev asks it of every block device."""
    large = pair.folder / "large"
    with open(large, "wb") as out:
        out.truncate(1 << 40)
    assert not words(pair, "large")

