# SPDX-License-Identifier: GPL-2.0-only
"""A DCD's log that is left, and the LUN behind it."""

from __future__ import annotations

import pytest
from labrun import KERNELS, SLOW_KERNELS, knobs, lab


@pytest.mark.parametrize("kernel", SLOW_KERNELS)
def test_a_log_is_left_while_it_is_in_use(kernel: str) -> None:
    run = lab("dcd_leave.py", kernel=kernel)
    assert run.rc == 0, run.text


def test_a_log_that_is_being_left_at_the_close() -> None:
    run = lab("dcd_leave_closed.py")
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_close_can_lose_what_the_destager_is_at() -> None:
    """The control: it doesn't wait for the round that is under way."""
    run = lab("dcd_leave_closed.py", "slow", options=knobs("dcd", "close_hurries close_once"))
    assert run.rc == 1 and "lacks what was acknowledged" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("no_marks", "again", "the superblock: got 0"), ("no_marks", "cut", "has other bytes"),
    ("left_is_fine", "dead", "0 sectors are LOST"),
    ("through_cached", "dead", "the data disk lacks something"),
    ("leave_hasty blip_leaves", "blip", "sectors that are lost: got "),
    ("leave_each", "many", "writes that were refused"), ("found_rests", "load", ": got 4, want 0"),
    ("leave_forgets", "slow", "in vain for: the log to be left"),
    ("leave_endless", "slow_many", "in vain for: the log to be left"),
    ("unread_holds leave_stays", "ended", "the close waits for the log"),
    ("leave_stays", "ended_slow", "the close waits for the log"),
    ("leave_anyway", "well", "was accepted"),
])  # fmt: skip
def test_a_log_that_is_left_can_lose(knob: str, part: str, says: str) -> None:
    """The control: the log comes back; what it had isn't told lost; the data disk's cache; a log
    that is away for a moment isn't asked again, or not soon; nor is a dead one left, nor the LUN
    closed, for as long."""
    run = lab("dcd_leave.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.control
def test_a_leave_that_was_refused_can_be_asked_for_by_others() -> None:
    """The control: by any setting."""
    options = ("--param", "target_core_dcd.test_leave_again=1")
    run = lab("dcd_leave.py", "unwritable", options=options)
    assert run.rc == 1 and "log LEFT" in run.stderr, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_data_disk_that_hangs_when_the_log_is_left_holds_nobody(kernel: str) -> None:
    run = lab("dcd_left_hangs.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("through_stays", "overtaken", "in vain for: 1 to be given up"),
    ("through_over", "overtaken", "nothing goes there yet"),
    ("through_over", "reset", "nothing goes there yet"),
    ("through_beside", "beside", "has other bytes in sector 4096"),
    ("through_beside", "crossed", "has other bytes in sector 4096"),
    ("through_passes", "passed", "it waits while the others go on"),
    ("through_unplaced", "passed", "it waits while the others go on"),
    ("through_unread", "read", "something else is read"),
])  # fmt: skip
def test_what_waits_for_it_is_given_up_and_its_sectors_are_held(
    knob: str, part: str, says: str
) -> None:
    run = lab("dcd_left_hangs.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text
