# SPDX-License-Identifier: GPL-2.0-only
"""The VM lab for pytest: one pair of hosts for all tests, in a state folder of its own, so that a
lab brought up by hand (tests/vm/lab) is left alone."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator

import pytest
from vmlab import TREE, Lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Both hosts, up, as the last test left them. Another run of the tests waits for its turn."""
    state = TREE / "build" / "vm-test"
    state.mkdir(parents=True, exist_ok=True)
    with (state / "session").open("w") as session:
        fcntl.flock(session, fcntl.LOCK_EX)
        one = Lab(state)
        try:
            one.up()
            yield one
        finally:
            one.down()


@pytest.fixture
def clean_lab(lab: Lab) -> Lab:
    """Both hosts as after a first boot, with blank disks and a bare wire."""
    lab.restore()
    return lab
