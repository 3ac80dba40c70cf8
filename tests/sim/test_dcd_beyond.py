# SPDX-License-Identifier: GPL-2.0-only
"""What a log has that its data disk has got past, or that was used without it, never comes over
newer data: where the data disk says so, and who asks it.
"""

from __future__ import annotations

import pytest
from labrun import KERNELS, knobs, lab

LIVES = ("--sim-timeout", "1e6", "--timeout", "300")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_log_that_failed_is_not_believed(kernel: str) -> None:
    run = lab("dcd_beyond.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["closed", "closed_volatile", "leg", "leg_cut"])
def test_a_log_that_failed_is_believed(part: str) -> None:
    """The control: nobody asks how far the data disk has got past it."""
    run = lab("dcd_beyond.py", part, options=("--param", "dcd.test_log_believed=1"))
    assert run.rc == 1 and "sector 100 has other bytes" in run.stderr, run.text


@pytest.mark.control
def test_what_the_dcd_writes_to_a_leg_makes_it_another_disk() -> None:
    run = lab("dcd_beyond.py", "marked_idle", options=knobs("dcd", "leg_is_one"))
    assert run.rc == 1 and "exit code of dcd check" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("part", "knob"),
    [("grown", "leg_at_end"), ("grown_over", "first_leg"), ("grown_often", "leg_grown_away")],
)
def test_a_mirror_s_leg_is_not_looked_for_where_it_lies(part: str, knob: str) -> None:
    run = lab("dcd_beyond.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and "in vain for: the leg to say it" in run.stderr, run.text


@pytest.mark.control
def test_a_growth_forgets_where_the_leg_lies() -> None:
    run = lab("dcd_beyond.py", "grown_unread", options=knobs("dcd", "end_unread"))
    assert run.rc == 1 and "to grow: was accepted" in run.stderr, run.text


@pytest.mark.control
def test_a_disk_that_was_used_without_the_log_ends_where_that_says() -> None:
    run = lab("dcd_beyond.py", "left_grown", options=knobs("dcd", "end_as_told"))
    assert run.rc == 1 and "the old log" in run.stderr, run.text


@pytest.mark.control
def test_the_leg_s_superblock_is_read_as_it_was() -> None:
    run = lab("dcd_beyond.py", "leg", options=knobs("dcd", "mark_unseen"))
    assert run.rc == 1 and "in vain for: the LUN to have it" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["given_up_0", "given_up_1", "given_up_end"])
def test_where_the_leg_was_there_is_data(part: str) -> None:
    run = lab("dcd_beyond.py", part, options=knobs("dcd", "over_data"))
    assert run.rc == 1 and "Wrong: the file" in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "lives"), [("plain", 50), ("checked", 8)])
def test_lives_of_a_dcd_over_a_leg(kernel: str, lives: int) -> None:
    run = lab("dcd_legs.py", str(lives), "1", kernel=kernel, options=LIVES)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "says"), [
    ("leg_at_end", "has other bytes"), ("first_leg", "retire has told the leg"),
    ("leg_grown_away", "retire has told the leg"), ("mark_unseen", "the leg's superblock by"),
    ("log_believed", "has other bytes"),
])  # fmt: skip
def test_what_loses_a_leg_is_found_by_lives(knob: str, says: str) -> None:
    run = lab("dcd_legs.py", "100", "1", options=(*LIVES, *knobs("dcd", knob)))
    assert run.rc == 1 and says in run.stderr, run.text


# 520: the NVRAM is as it was before the first write.
@pytest.mark.parametrize(
    ("kernel", "lives", "first"), [("plain", 14, 1), ("plain", 1, 520), ("checked", 2, 1)]
)
def test_lives_of_a_dcd_whose_devices_are_exchanged(kernel: str, lives: int, first: int) -> None:
    run = lab("dcd_exchanged.py", str(lives), str(first), kernel=kernel, options=LIVES)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "first", "says"), [
    ("any_data", 1, "with another data, taken"), ("nvram_apart", 1, "with another nvram, taken"),
    ("passed_unseen", 1, "with another data, taken"), ("zeroes_stay", 201, "all to be destaged"),
])  # fmt: skip
def test_what_takes_another_device_is_found_by_lives(knob: str, first: int, says: str) -> None:
    run = lab("dcd_exchanged.py", "25", str(first), options=(*LIVES, *knobs("dcd", knob)))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.control
def test_what_the_data_disk_says_is_asked_for_once() -> None:
    run = lab("dcd_beyond.py", "end_away", options=("--param", "dcd.test_data_once=1"))
    assert run.rc == 1 and "enable: Input/output error" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("part", "knob"),
    [("left_away", "mute_is_well mute_is_right"), ("other_away", "mute_is_right")],
)
def test_a_data_disk_that_gives_nothing_is_taken(part: str, knob: str) -> None:
    run = lab("dcd_beyond.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and "a disk that gives nothing: was accepted" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("stale_unread", "older_end", "its end can't be read: was accepted"),
    ("stale_another", "older_end", "the old log: was accepted"),
    ("one_slot_0", "half_said", "has other bytes"), ("one_slot_1", "half_said", "has other bytes"),
])  # fmt: skip
def test_what_the_leg_says_now_is_not_heard(part: str, knob: str, says: str) -> None:
    run = lab("dcd_beyond.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.control
def test_it_grows_to_an_end_with_which_it_cant_be_opened() -> None:
    run = lab("dcd_beyond.py", "grown_another", options=knobs("dcd", "any_leg"))
    assert run.rc == 1 and "another DCD's leg: was accepted" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["another_log", "another_log_grown"])
def test_an_old_log_is_taken_over_a_leg_that_has_another_one(part: str) -> None:
    run = lab("dcd_beyond.py", part, options=knobs("dcd", "any_leg"))
    assert run.rc == 1 and "the old log: was accepted" in run.stderr, run.text


@pytest.mark.control
def test_a_move_beside_a_growth_takes_it_back() -> None:
    run = lab("dcd_grow.py", options=knobs("dcd", "grows_beside"))
    assert run.rc == 1 and "Wrong medium type" in run.stderr, run.text


def test_an_nvram_of_an_earlier_time_is_refused() -> None:
    run = lab("dcd_old_nvram.py")
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "says"), [
    ("nvram_apart", "an older NVRAM: was accepted"),
    ("leftover_stays", "Structure needs cleaning"),
])  # fmt: skip
def test_an_nvram_of_an_earlier_time_is_believed(knob: str, says: str) -> None:
    """The control, and that of one that is none: what was given up speaks of it on and on."""
    run = lab("dcd_old_nvram.py", options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text
