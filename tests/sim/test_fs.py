# SPDX-License-Identifier: GPL-2.0-only
"""ext4 and xfs on the mirror: cuts of the link, failing legs, power cuts of the primary."""

from __future__ import annotations

import pytest
from labrun import lab

FILE_SYSTEMS = ("ext4", "xfs")
LONG = ("--timeout", "1000")

every_fs = pytest.mark.parametrize("kind", FILE_SYSTEMS)


@pytest.mark.parametrize(
    ("kind", "kernel", "rounds"),
    [("ext4", "plain", "2"), ("xfs", "plain", "2"), ("ext4", "checked", "1")],
)
def test_at_work_while_the_link_is_cut_and_legs_fail(kind: str, kernel: str, rounds: str) -> None:
    run = lab("fs_mirror.py", kind, rounds, kernel=kernel, options=LONG)
    assert run.rc == 0, run.text


@every_fs
def test_each_leg_keeps_what_fsync_promised_through_a_power_cut(kind: str) -> None:
    run = lab("fs_power.py", kind, "2" if kind == "ext4" else "1", options=LONG)
    assert run.rc == 0, run.text


@every_fs
def test_a_disk_that_lies_about_flushes_is_caught(kind: str) -> None:
    """The control of the test above: it has to see what a lost flush does."""
    run = lab("fs_power.py", kind, "5", "lie", options=LONG)
    assert run.rc == 1, run.text
    assert "/dev/copy" in run.stderr or "fsync'ed" in run.stderr, run.text
