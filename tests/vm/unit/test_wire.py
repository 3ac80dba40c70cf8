# SPDX-License-Identifier: GPL-2.0-only
"""What each host is told to make of a wire profile."""

from __future__ import annotations

import pytest
import wire
from laberror import LabError


def test_each_end_shapes_what_it_sends() -> None:
    shapes = wire.shapes("wan", seed=1)
    assert "rate 3000000bit" in shapes["primary"]
    assert "rate 256000bit" in shapes["mirror"]
    assert all(shape.startswith("0 ") and "delay 7000us" in shape for shape in shapes.values())


def test_no_shape_is_an_empty_file() -> None:
    assert wire.shapes("none", seed=1) == {"primary": "", "mirror": ""}


def test_a_varying_wire_is_a_function_of_its_seed() -> None:
    one = wire.shapes("wan-varying", seed=1)["primary"]
    assert one == wire.shapes("wan-varying", seed=1)["primary"]
    assert one != wire.shapes("wan-varying", seed=2)["primary"]
    seconds = [float(line.split()[0]) for line in one.splitlines()]
    assert sum(seconds) >= wire.VARY_S
    assert all(2 <= each <= 8 for each in seconds)


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(LabError, match="no wire profile 'wet-string'"):
        wire.shapes("wet-string", seed=1)


def test_both_ends_lose_what_is_asked_for() -> None:
    for profile in ("none", "wan-varying"):
        shapes = wire.shapes(profile, seed=1, loss_percent=0.5)
        assert all("loss 0.5%" in line for shape in shapes.values() for line in shape.splitlines())
        assert all(shapes.values())
