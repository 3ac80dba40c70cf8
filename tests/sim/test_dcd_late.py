# SPDX-License-Identifier: GPL-2.0-only
"""The DCD on disks that answer late, never, or with an error that comes late, and what a discard or
a zeroing holds up."""

from __future__ import annotations

import pytest
from labrun import KERNELS, SLOW_KERNELS, knobs, lab


@pytest.mark.parametrize("part", ["cut", "thin", "zeroing", "trim", "remote", "mkfs", "quick"])
def test_discards_hold_up_nothing(part: str) -> None:
    run = lab("dcd_discard.py", part)
    assert run.rc == 0, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_discards_that_fail_for_a_moment_or_always(kernel: str) -> None:
    run = lab("dcd_discard.py", "away", "refused", "never", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "says"), [
    ("away", "the discards don't reach the pool"), ("never", "whether one error says"),
])  # fmt: skip
def test_a_discard_that_fails_can_be_taken_for_a_refusal(part: str, says: str) -> None:
    """The control: no later one gets to the disk, and a trim writes to it."""
    run = lab("dcd_discard.py", part, options=knobs("dcd", "any_refuses"))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()), ("checked", ("fits", "stale", "parked", "lives")),
])  # fmt: skip
def test_reads_that_take_longer_than_their_time(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_taken_over.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("begins_anew", "slow", "Input/output error"), ("none_kept", "slow", "reads, and not"),
    ("begins_anew", "fits", "whether it is asked"), ("none_kept", "fits", "whether it is asked"),
    ("takes_stale", "stale", "other data than what is there"),
    ("parked_stay", "parked", "in vain for: the other one"),
    ("stale_hides", "both", "what the disk was asked for by then"),
])  # fmt: skip
def test_reads_can_begin_anew_each_time(knob: str, part: str, says: str) -> None:
    """The control: they never end; or what was given up is taken, whatever was written since."""
    run = lab("dcd_taken_over.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()), ("checked", ("opened", "late", "closed", "left", "left_whole", "taken_back")),
])  # fmt: skip
def test_a_log_that_hangs(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_hung_log.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_damaged_segment_in_a_log_that_hangs(kernel: str) -> None:
    run = lab("dcd_hung_mend.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("some", "keeps_some", "what only a part of a slot has"),
    ("unread", "keeps_some", "No data available"), ("after", "only_stays", "a write took"),
    ("many", "pins_only", "Input/output error"),
    ("at_random", "mends_over", "No data available"), ("rotted", "random_opens", "is left out"),
])  # fmt: skip
def test_a_damaged_segment_in_a_log_that_hangs_can_be_lost(
    part: str, knob: str, says: str
) -> None:
    run = lab("dcd_hung_mend.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "says"), [
    ("passed", "a write took"), ("closed", "a write still waits"), ("grown", "a write took"),
    ("left", "in vain for: the log to be gone past"), ("slow", "the close took"),
    ("taken_back", "Wrong medium type"), ("opened_slow", "to enable it took"),
])  # fmt: skip
def test_a_log_that_hangs_can_be_waited_for(part: str, says: str) -> None:
    knob = {"slow": "close_commits", "taken_back": "late_marks",
            "opened_slow": "opening_commits"}.get(part, "writes_wait")
    run = lab("dcd_hung_log.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(
    ("kernel", "parts"), [
        ("plain", ()), pytest.param("checked", ("closed", "cut", "both"), marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_discards_that_hang(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_hung_discard.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("knob", "part", "says"),
    [
        ("discard_waits", "minutes", "Input/output error"),
        ("discard_unheld", "minutes", "has other bytes"),
        ("discard_unheld", "dead_log", "has other bytes"),
        ("close_waits", "closed", "the close waits for the discard"),
    ],
)
def test_discards_that_hang_can_hold_or_overtake(knob: str, part: str, says: str) -> None:
    """The control: destage waits for them, or writes where they may still come; so does a close."""
    run = lab("dcd_hung_discard.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    pytest.param("plain", (), marks=pytest.mark.long),
    ("plain", ("battery", "cut_bad", "dead_log_closed")),
    pytest.param("checked", ("overtaken", "closed", "closed_bad", "cut", "dead_log"),
                 marks=pytest.mark.long),
])  # fmt: skip
def test_zeroes_that_come_late(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_zeroing.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "seed", "says"), [
    ("zeroing_waits", "some", 1, "a write took"), ("looks_long", "quick", 1, "a write took"),
    ("always_asks", "some", 3, "a write took"),
    ("discard_unheld", "overtaken", 1, "has other bytes"),
    ("discard_unheld", "dead_log", 1, "has other bytes"),
])  # fmt: skip
def test_zeroes_that_come_late_can_hold_or_overtake(
    knob: str, part: str, seed: int, says: str
) -> None:
    """The control: destage waits for them or for what it asks, or writes where they may come."""
    run = lab("dcd_zeroing.py", part, options=("--seed", str(seed), *knobs("dcd", knob)))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()),
    pytest.param("checked", ("closed", "cut", "dead_log", "dead_log_closed"),
                 marks=pytest.mark.long),
])  # fmt: skip
def test_writes_that_come_late(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_late_write.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("late_waits", "errors", "a write took"), ("late_unheld", "dead_log", "has other bytes"),
    ("asks_held", "asked", "has other bytes"), ("late_lasts", "flushed", "has other bytes"),
])  # fmt: skip
def test_writes_that_come_late_can_hold_or_overtake(knob: str, part: str, says: str) -> None:
    """The control: destage waits for them, writes where they may still come, or believes a disk
    that has lost its cache."""
    run = lab("dcd_late_write.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()),
    pytest.param("checked", ("overtaken", "moved", "closed", "cut", "dead_log", "leave_hung"),
                 marks=pytest.mark.long),
])  # fmt: skip
def test_reads_of_the_log_that_come_late(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_late_read.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.parametrize("seed", [3, pytest.param(5, marks=pytest.mark.long)])
def test_places_of_the_log_that_cannot_be_read_and_others_that_are_lost(seed: int) -> None:
    run = lab("dcd_late_read.py", "errors", options=("--seed", str(seed)))
    assert run.rc == 0, run.text


@pytest.mark.control
def test_what_is_lost_can_hide_what_cannot_be_read() -> None:
    """The control: the next round is later, and writes aren't paced."""
    run = lab("dcd_late_read.py", "errors", options=("--seed", "4", *knobs("dcd", "left_hides")))
    assert run.rc == 1 and "a write took" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("late_reads_wait", "errors", "a write took"),
    ("aside_waits", "errors", "Input/output error"),
    ("late_stale", "overtaken", "has other bytes"), ("read_stale", "moved", "something else"),
    ("held_holds_all", "errors", "Input/output error"),
    ("late_stays", "leave_all_hung", "the log to be left"),
    ("leave_open", "leave_hung", "the log to be left"),
    ("pins_hold", "pinned_closed", "the close waits for the log"),
    ("pins_hold", "pinned_dead", "a write took"),
])  # fmt: skip
def test_reads_of_the_log_that_come_late_can_hold_or_overtake(
    knob: str, part: str, says: str
) -> None:
    """The control: who asks the log waits for it, or what comes late is believed."""
    run = lab("dcd_late_read.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize("kernel", SLOW_KERNELS)
def test_refusals_that_come_late(kernel: str) -> None:
    run = lab("dcd_slow_refusals.py", kernel=kernel, options=("--sim-timeout", "3600"))
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("discard", "wiped_again", "write 0 took"),
    ("zeroing", "wiped_again", " took 55"),
    ("left", "zeroes_fail", "BLKZEROOUT"), ("left_late", "zeroed_again", "Input/output error"),
    # What is late isn't waited for, so these are felt without that alone.
    ("log", "writes_wait refusal_hurries", "of 400 s writes stood"),
    ("well_again", "writes_wait asked_late", "writes that failed"),
    ("slow_death", "writes_wait dead_searched", "writes that failed"),
    ("stall", "stall_counts", "writes that failed"),
    ("data_stall", "stall_fails", "writes that failed"),
    ("close", "close_others", "the close took"),
    ("scratch", "spares_forget", "writes that failed"),
    ("scratch", "spares_hurry", "writes that failed"),
    ("unread", "late_believed", "lap after lap writes are lost"),
])  # fmt: skip
def test_refusals_that_come_late_can_hold(part: str, knob: str, says: str) -> None:
    run = lab("dcd_slow_refusals.py", part, options=("--sim-timeout", "3600", *knobs("dcd", knob)))
    assert run.rc == 1 and says in run.text, run.text


@pytest.mark.parametrize("kernel", SLOW_KERNELS)
def test_opens_of_what_is_late_or_fails_now_and_then(kernel: str) -> None:
    run = lab("dcd_late_open.py", kernel=kernel, options=("--sim-timeout", "36000"))
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("block", "opens_late", "the open took"), ("sector", "opens_late", "the open took"),
    ("segment", "opens_late", "the open took"), ("rest", "opens_late", "the refusal took long"),
    ("random", "opens_once", "what is lost: got"), ("late", "opens_once", "what is lost: got"),
    ("data", "in_turn", "the open took"),
    ("path", "opens_blind", "Input/output error"),
])  # fmt: skip
def test_an_open_can_take_long_or_lose(part: str, knob: str, says: str) -> None:
    """The control: each is waited for by itself, and again; or nothing is asked for again."""
    run = lab("dcd_late_open.py", part, options=("--sim-timeout", "36000", *knobs("dcd", knob)))
    assert run.rc == 1 and says in run.text, run.text


@pytest.mark.control
def test_info_can_wait_for_an_open() -> None:
    run = lab("dcd_late_open.py", "info", options=knobs("target_core_dcd", "shows_late"))
    assert run.rc == 1 and "info took" in run.stderr, run.text


@pytest.mark.parametrize(
    "part",
    ["cut", "low", "hung", "trim", "load", "split", "leave", "dawdles", "stream", "dead",
     "fails"],
)
def test_zeroes_in_many_pieces(part: str) -> None:
    crowd = knobs("dcd", "zeroes_crowd") if part == "hung" else ()
    run = lab("dcd_pieces.py", part, options=("--mem", "3G", "--sim-timeout", "600", *crowd))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("part", ["full", "left", "large", "hung", "pieces", "leave", "crowd"])
def test_no_write_waits_for_what_takes_a_hard_disk_long(part: str) -> None:
    run = lab("dcd_beside.py", part, options=("--mem", "3G", "--sim-timeout", "1000"))
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "seed"), [
    ("past_unshared", "full", 1), ("past_unshared", "pieces", 1), ("leave_dead", "left", 1),
    ("leave_once", "large", 1), ("leave_bursts", "large", 1),
    ("through_floods", "hung", 1), ("zeroes_alike", "crowd", 5),
])  # fmt: skip
def test_a_write_can_wait_for_what_takes_a_hard_disk_long(knob: str, part: str, seed: int) -> None:
    options = ("--mem", "3G", "--sim-timeout", "1000", "--seed", str(seed), *knobs("dcd", knob))
    run = lab("dcd_beside.py", part, options=options)
    assert run.rc == 1 and "a write waits for" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("knob", "part", "says"),
    [
        ("zeroes_crowd", "trim", "the writes beside it are held up"),
        ("zeroes_hold", "load", "a write behind it took"),
        ("leave_zeroes", "leave", "a write beside it took"),
        ("moment_each", "split", "large writes, the longest"),
        ("leave_late", "dawdles", "a write beside it took"),
        ("zeroes_past", "dead", "a write beside it took"),
        ("zeroes_past", "fails", "a write beside it took"),
        ("zeroes_stay", "low", "in vain for"),
        ("zeroes_alone zeroes_crowd", "hung", "without a write"),
    ],
)
def test_zeroes_can_fill_the_log(knob: str, part: str, says: str) -> None:
    options = ("--mem", "3G", "--sim-timeout", "600", *knobs("dcd", knob))
    run = lab("dcd_pieces.py", part, options=options)
    assert run.rc == 1 and says in run.stderr, run.text
