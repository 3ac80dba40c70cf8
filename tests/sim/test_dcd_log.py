# SPDX-License-Identifier: GPL-2.0-only
"""A DCD's log that is away for a moment, or that is there by two names."""

from __future__ import annotations

import pytest
from labrun import KERNELS, knobs, lab


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()),
    pytest.param(
        "checked", ("dram:battery", "full-lab", "read-only-half", "rests", "closed", "dead"),
        marks=pytest.mark.long,
    ),
])  # fmt: skip
def test_a_log_that_is_away_for_a_moment_refuses_nothing(
    kernel: str, parts: tuple[str, ...]
) -> None:
    run = lab("dcd_moment.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["dram:battery", "none", "full-lab"])
def test_a_log_that_is_away_for_a_moment_can_refuse(part: str) -> None:
    """The control: the first error is a dead log."""
    run = lab("dcd_moment.py", part, options=("--param", "dcd.test_no_blips=1"))
    assert run.rc == 1 and "writes were refused" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["read-only-half", "read-only-all"])
def test_a_dead_log_that_gives_nothing_for_a_moment_can_refuse(part: str) -> None:
    """The control: past a dead log what can't be read isn't waited for."""
    run = lab("dcd_moment.py", part, options=("--param", "dcd.test_lost_past_log=1"))
    assert run.rc == 1 and "writes were refused" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("rests", "rests_anew", "no round has ended past the log"),
    ("closed", "close_unread", "opened again: /dev/sda has other bytes"),
    ("says_lost", "lost_each", "writes were refused"),
])  # fmt: skip
def test_a_dead_log_that_is_read_again_can_be_passed_by(part: str, knob: str, says: str) -> None:
    """The control: what could be read again isn't, or a close doesn't wait for it."""
    run = lab("dcd_moment.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()),
    pytest.param("checked", ("log-lab-reads", "log-dram:battery", "bytes", "data-full", "zone"),
                 marks=pytest.mark.long),
])  # fmt: skip
def test_that_a_disk_works_again_is_found(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_away.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("log-lab", "round_unasked", "before that was found"),
    ("log-dram:battery", "round_unasked", "before that was found"),
    ("bytes", "dead_seals", "NVRAM is full after"), ("data-lab", "fails_at_once", "a write waited"),
    ("data-long", "failed_speaks", "writes that were refused"),
    ("amid", "well_at_begin stall_fails", "a write waited"),
    ("both", "dead_seals", "writes that were refused"),
    ("both-blip", "dead_fails", "writes that were refused"),
    ("both-blip-dead", "dead_fails", "writes that were refused"),
    ("zone", "asks_at_once", "no end after"),
])  # fmt: skip
def test_that_a_disk_works_again_can_be_found_late(part: str, knob: str, says: str) -> None:
    """The control: writes wait, or are refused."""
    run = lab("dcd_away.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "rc"), [
    ("asks_at_once", 0), ("asks_at_once close_flushes close_once close_asks", 1),
])
def test_a_close_waits_for_the_destagers_round(knob: str, rc: int) -> None:
    """When somebody asks for another one at that moment; the control: what NVRAM had is lost."""
    run = lab("dcd_dead_log.py", "rests-dram:battery", options=knobs("dcd", knob))
    assert run.rc == rc, run.text
    assert not rc or "opened again: /dev/sda has other bytes" in run.stderr, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_disk_by_two_names(kernel: str) -> None:
    run = lab("dcd_twice.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("any_claim", "logs", "that log and the same data disk"), ("any_claim", "lingers", "its log"),
    ("any_data_disk", "data", "such a data disk"),
    ("any_data_disk", "other_log", "such a data disk"),
])  # fmt: skip
def test_one_disk_by_two_names_is_taken(knob: str, part: str, says: str) -> None:
    """The control: two DCDs have one log, or a log is a data disk."""
    run = lab("dcd_twice.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and f"{says}: was accepted" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "rc"), [("claims_late", 0), ("claims_late super_once", 1)])
def test_what_a_log_said_before_it_was_claimed_is_not_believed(knob: str, rc: int) -> None:
    """However long it takes to claim it; the control: acknowledged writes are lost."""
    run = lab("dcd_twice.py", "left", options=knobs("dcd", knob))
    assert run.rc == rc, run.text
    assert not rc or "by its other name: /dev/sda has other bytes" in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()), ("checked", ("rests-dram:battery", "closed-lab-hang", "left", "starved")),
])  # fmt: skip
def test_past_a_dead_log(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_dead_log.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("rests-dram:battery", "rests_closed close_once", "has other bytes"),
    ("closed-dram:battery-ring", "unread_unbound", "the close took"),
    ("closed-dram:battery-super", "asks_each", "the close took"),
    ("closed-lab-hang", "unread_unbound", "the close took"),
    ("refused-super", "asks_each", "a write was refused after"),
    ("behind-ring", "missed_ends", "the data disk lacks"),
    ("reset", "gave_once others_fail", "are LOST, not"),
    ("hangs", "dead_shared", "a write took"),
    ("starved", "stuck_starves", "a write was refused after"),
])  # fmt: skip
def test_past_a_dead_log_something_can_take_long(part: str, knob: str, says: str) -> None:
    """The control: or, at the close, be lost."""
    run = lab("dcd_dead_log.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [("plain", ()), ("checked", ("late", "both", "bad"))])
def test_a_close_that_is_the_last_chance(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_last_chance.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("late", "close_once", "opened again: /dev/sda has other bytes"),
    ("both", "close_once", "opened again: /dev/sda has other bytes"),
    ("flap", "close_asks", "opened again: /dev/sda has other bytes"),
    ("bad", "closed_together", "the data disk lacks 64 blocks"),
    ("untold", "untold_tried", "the close took 5"),
])  # fmt: skip
def test_a_close_that_is_the_last_chance_can_lose(part: str, knob: str, says: str) -> None:
    """The control: it tries once, or asks the log amid that, or good blocks share a bad one's
    fate; or it goes on though nothing can be lost."""
    run = lab("dcd_last_chance.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.long
@pytest.mark.parametrize("kernel", ["plain", "checked"])
def test_a_log_is_left_under_load(kernel: str) -> None:
    run = lab("dcd_leave_load.py", kernel=kernel, options=("--timeout", "600"))
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_log_that_is_left_under_load_can_hold_writes() -> None:
    """The control: all that it has is left for its end, when no slot gets free."""
    options = (*knobs("dcd", "leave_dead"), "--timeout", "600")
    run = lab("dcd_leave_load.py", "load", options=options)
    assert run.rc == 1 and "a write took" in run.stderr, run.text
