# SPDX-License-Identifier: GPL-2.0-only
"""The mirror on two disks of one host: its invariants, each with a way to break it."""

from __future__ import annotations

import pytest
from labrun import SLOW_KERNELS, knobs, lab, on_kernels

ON_TWO_DISKS = [
    "mirror_table", "mirror_nounmap", "mirror_verify", "mirror_repair", "mirror_late",
    "mirror_coalesce", "mirror_hot", "mirror_twice", "mirror_legs", "mirror_resync", "mirror_hang",
    "mirror_scatter", "mirror_limits", "mirror_core", "meta_grow", "meta_grown", "meta_reload",
]  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "kernel"),
    on_kernels(ON_TWO_DISKS, {"meta_grow", "mirror_limits", "mirror_scatter", "mirror_resync"}),
)
def test_on_two_disks(scenario: str, kernel: str) -> None:
    run = lab(f"{scenario}.py", kernel=kernel)
    assert run.rc == 0, run.text


ODD = "zero_odd_pieces zeroes_whole zeroes_long"


@pytest.mark.control
@pytest.mark.parametrize(
    ("part", "knob", "found"),
    [
        ("zeroes up to what SCSI has, beside blocks of 4096", "odd_zeroes zeroes_long", "AD"),
        ("blocks of 4096, beside zeroes up to what SCSI has", "odd_zeroes zeroes_long", "DA"),
        ("zeroes up to what SCSI has, and blocks of 4096, on one leg", ODD, "AD"),
        ("the same on the local one", ODD, "DA"),
    ],
)
def test_a_leg_that_is_asked_for_half_a_block_is_given_up(
    part: str, knob: str, found: str
) -> None:
    run = lab("mirror_limits.py", part, options=knobs("dm_lockstep", knob))
    assert run.rc == 1 and f"health: got '{found}'" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("part", "found"),
    [
        ("loaded", "while it runs, {}: was accepted"), ("started", "other beside mirror: was acc"),
        ("joins", "recover: was accepted"), ("reloads", "nothing in the log"),
        ("dead", "in use: was accepted"),
    ],
)  # fmt: skip
def test_a_leg_in_two_mirrors_is_found(part: str, found: str) -> None:
    knob = ("--param", "dm_lockstep.test_two_mirrors=1")
    run = lab("mirror_twice.py", part, options=knob)
    assert run.rc == 1 and found in run.text, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "found"), [
    ("longer-sync-local", "grows_remote", "Input/output error"),
    ("exchanged-nosync-local", "dead_unmarked forgets_unmapped",
     "answers again: sector 4096 has other bytes"),
    ("exchanged-nosync-remote", "dead_unmarked forgets_unmapped", "differ, first in sector 4096"),
    ("copied_over", "copies_over", "a table: was accepted"),
    ("over_metadata", "core_over", "sync: was accepted"),
    ("unstarted-nosync", "forgets_unmapped", "the table that it had: sector 0 has other bytes"),
    ("unstarted-sync", "copies_over", "its resume: was accepted"),
    ("over_core", "core_over", "metadata: was accepted"),
    ("failed-nosync-local", "forgets_unmapped", "exchanged: sector 0 has other bytes"),
    ("failed-nosync-remote", "forgets_unmapped", "differ, first in sector 0"),
    ("swapped", "forgets_unmapped", "swapped: sector 0 has other bytes"),
    ("both", "copies_over", "sync: was accepted"),
])  # fmt: skip
def test_what_a_table_without_metadata_forgets_is_found(part: str, knob: str, found: str) -> None:
    run = lab("mirror_core.py", part, options=knobs("dm_lockstep", knob))
    assert run.rc == 1 and found in run.stderr, run.text


AGES = ("--sim-timeout", "360000", "--timeout", "900")


@pytest.mark.parametrize(("kernel", "lives"), [("plain", 30), ("checked", 3)])
def test_lives_of_a_mirror_without_metadata(kernel: str, lives: int) -> None:
    run = lab("core_lives.py", str(lives), "1", kernel=kernel, options=AGES)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "says"), [
    ("grows_remote", "mirror_route"), ("forgets_unmapped", "life 65, nosync"),
])  # fmt: skip
def test_what_is_forgotten_without_metadata_is_found_by_lives(knob: str, says: str) -> None:
    run = lab("core_lives.py", "100", "1", options=(*AGES, *knobs("dm_lockstep", knob)))
    assert run.rc != 0 and says in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["local no slot", "remote a slot"])
def test_a_leg_that_never_comes_back_from_growing_is_found(part: str) -> None:
    knob = ("--param", "dm_lockstep.test_moved_for_good=1")
    run = lab("meta_grow.py", part, options=knob)
    assert run.rc == 1 and "can't send a message" in run.text, run.text


@pytest.mark.control
def test_a_table_with_swapped_legs_that_is_taken_is_found() -> None:
    run = lab("meta_reload.py", options=("--param", "dm_lockstep.test_swapped_later=1"))
    assert run.rc == 1 and "swapped legs: was accepted" in run.stderr, run.text


@pytest.mark.long
@pytest.mark.parametrize("kernel", ["plain", "checked"])
def test_buffers_that_change_in_flight(kernel: str) -> None:
    run = lab("mirror_scribble.py", "md", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.parametrize(("kernel", "schedules"), [
    pytest.param("plain", 4, marks=pytest.mark.long), ("checked", 2),
])  # fmt: skip
def test_schedules_of_failures(kernel: str, schedules: int) -> None:
    run = lab("mirror_churn.py", str(schedules), kernel=kernel)
    assert run.rc == 0, run.text


def test_schedules_of_failures_on_a_lun_that_takes_batches() -> None:
    run = lab("mirror_churn.py", "8", "1", "lun")
    assert run.rc == 0, run.text


@pytest.mark.parametrize(("block", "parts"), [
    pytest.param(512, (), marks=pytest.mark.long), (512, ("on_disk", "removed")),
    (4096, ("on_disk", "removed")),
])  # fmt: skip
def test_batches_as_one_command_to_another_target(block: int, parts: tuple[str, ...]) -> None:
    """The kernel's own SCSI disk in memory, whose target is none of ours."""
    options = ("--boot", f"scsi_debug.sector_size={block}", "--boot", "scsi_debug.dev_size_mb=8")
    run = lab("mirror_scatter.py", "scsi_debug", *parts, options=options)
    assert run.rc == 0, run.text


def test_a_hang_behind_a_queue_that_blocks() -> None:
    run = lab("mirror_queues.py", options=("--boot", "scsi_debug.dev_size_mb=16"))
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("scenario", "words", "knob", "found"),
    [
        ("mirror_queues.py", ("deadline-few",), "send_inline", "the last write took 120"),
        ("mirror_queues.py", ("bfq",), "send_inline", "the last write took 120"),
        ("mirror_hang.py", ("not_told_yet",), "undoubted", "failing the leg that works"),
        ("mirror_hang.py", ("one_stuck",), "any_answer", "the one that hangs took 3"),
    ],
)
def test_a_hang_is_felt_without(
    scenario: str, words: tuple[str, ...], knob: str, found: str
) -> None:
    options = ("--boot", "scsi_debug.dev_size_mb=16", *knobs("dm_lockstep", knob))
    run = lab(scenario, *words, options=options)
    assert run.rc == 1 and found in run.text, run.text


@pytest.mark.parametrize("kernel", SLOW_KERNELS)
def test_without_memory(kernel: str) -> None:
    options = ("--timeout", "900", "--boot", "slab_nomerge")
    run = lab("mirror_memory.py", kernel=kernel, options=options)
    assert run.rc == 0, run.text


def test_failed_administration_leaves_nothing_in_memory() -> None:
    run = lab("mirror_memory.py", "leaks", options=("--boot", "slab_debug=U"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize(("kernel", "parts"), [("plain", ()), ("checked", ("log",))])
def test_a_leg_that_is_busy(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("mirror_busy.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


def test_a_leg_that_is_busy_can_fail() -> None:
    """The control: SCSI doesn't try again for long enough."""
    run = lab("mirror_busy.py", "impatient", options=("--sim-timeout", "900"))
    assert run.rc == 1 and "the legs, meanwhile: got 'A" in run.stderr, run.text
