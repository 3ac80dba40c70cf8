# SPDX-License-Identifier: GPL-2.0-only
"""What the bench's figures rest on: its mirrors mirror, its caches are what it says of them."""

from __future__ import annotations

import pytest
from labrun import lab


@pytest.mark.parametrize("software", ["lockstep", "md", "md-behind", "dm-mirror", "drbd"])
def test_mirror_software(software: str) -> None:
    run = lab("cell_peers.py", software, "verify")
    assert run.rc == 0, run.text


@pytest.mark.parametrize("software", ["lockstep", "md", "dm-mirror"])
def test_three_connections(software: str) -> None:
    run = lab("cell_peers.py", software, "verify", "3")
    assert run.rc == 0, run.text


def test_what_a_cache_has_acknowledged_survives_a_power_cut_or_not() -> None:
    run = lab("cell_durable.py")
    assert run.rc == 0, run.text
