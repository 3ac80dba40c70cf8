# SPDX-License-Identifier: GPL-2.0-only
"""The DCD alone, in every situation that a power cut under load doesn't bring by itself."""

from __future__ import annotations

import pytest
from labrun import KERNELS, SLOW_KERNELS, knobs, lab, on_kernels

SCENARIOS = ["dcd_disk_errors", "dcd_log_errors", "dcd_bad_input", "dcd_pressure",
             "dcd_flush", "dcd_zero", "dcd_trace", "dcd_io_faults",
             "dcd_digests", "dcd_memory", "dcd_read", "dcd_waiting",
             "dcd_none", "dcd_attributes", "dcd_grow", "dcd_blocks",
             "dcd_cache", "dcd_dies_amid"]  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "kernel"),
    on_kernels(SCENARIOS, {"dcd_bad_input", "dcd_disk_errors", "dcd_log_errors", "dcd_pressure"}),
)
def test_dcd(scenario: str, kernel: str) -> None:
    run = lab(f"{scenario}.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_refused_writes_can_make_the_data_disk_strange() -> None:
    """The control: they go past a dead log, which goes on to name what was there before."""
    run = lab("dcd_none.py", "refused", options=("--param", "dcd.test_witnesses_stay=1"))
    assert run.rc == 1 and "Wrong medium type" in run.stderr, run.text


@pytest.mark.control
def test_a_segment_can_be_committed_twice_at_once() -> None:
    run = lab("dcd_dies_amid.py", options=knobs("dcd", "asks_beside"))
    assert run.rc == 125 and "kernel splat" in run.text, run.text


@pytest.mark.control
def test_the_read_cache_can_keep_what_came_late() -> None:
    run = lab("dcd_cache.py", options=knobs("dcd", "time_of_whole"))
    assert run.rc == 1 and "at the edge, 0: sectors from 2040 on" in run.stderr, run.text


@pytest.mark.control
def test_io_faults_can_fail() -> None:
    """The control: acknowledged before it is persistent, a write is lost by a cut.

    Where that leaves a hole, recovery would refuse.
    """
    knobs = ("--param", "dcd.test_ack_early=1", "--param", "dcd.test_trust_end=1")
    run = lab("dcd_io_faults.py", options=knobs)
    assert run.rc == 1 and "has wrong bytes" in run.stderr, run.text


@pytest.mark.control
def test_a_failing_disk_can_be_tried_without_a_pause() -> None:
    """The control: each wipe that ends calls for another round."""
    run = lab("dcd_disk_errors.py", options=("--param", "dcd.test_wipes_call=1"))
    assert run.rc == 1 and "rounds in a second" in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [("plain", ()), ("checked", ("reset", "lost"))])
def test_every_wait_ends(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_deadline.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("knob", "part", "says"),
    [
        ("dcd.test_wait_forever", "none", "Input/output error"),
        ("target_core_dcd.test_caw_inline", "deadline", "200 answers BUSY"),
        ("dcd.test_done_twice", "once", "none: sense (14, 29, 0), 1 answers BUSY"),
        ("dcd.test_done_twice", "once_fua", "fua: sense (14, 29, 0), 1 answers BUSY"),
        ("dcd.test_done_twice", "once_left", "left: 1 answers BUSY"),
    ],
)
def test_waits_without_end_are_found(knob: str, part: str, says: str) -> None:
    """The control: the reset isn't answered; who compares holds its session's thread, or finds
    its own data."""
    run = lab("dcd_deadline.py", part, options=("--param", f"{knob}=1"))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_command_of_many_parts_is_done_at_its_first_try(kernel: str) -> None:
    run = lab("dcd_in_parts.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["same", "unmap"])
def test_a_command_of_many_parts_may_never_be_done(part: str) -> None:
    options = ("--param", "target_core_dcd.test_parts_at_once=1")
    run = lab("dcd_in_parts.py", part, options=options)
    assert run.rc == 1 and "isn't done: status 8" in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()), ("checked", ("reset", "lost", "compare", "mixed", "closed")),
])  # fmt: skip
def test_reads_that_hang(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_hung_read.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("knob", "part", "says"),
    [
        ("read_stays", "reset", "Input/output error"),
        ("read_holds", "mixed", "Input/output error"),
        ("never_park begins_anew", "many", "reads were given up"),
        ("few_given_up", "bound", "Input/output error"),
        ("log_holds", "log_zone", "Input/output error"),
        ("one_queue log_holds", "logs", "Input/output error"),
    ],
)
def test_reads_that_hang_can_hold_others(knob: str, part: str, says: str) -> None:
    """The control: whoever asked waits, the log's tail does, memory goes, or flushes wait."""
    run = lab("dcd_hung_read.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [("plain", ()), ("checked", ("hung",))])
def test_large_reads_of_what_is_all_over_the_log(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_scattered.py", *parts, kernel=kernel, options=("--mem", "3G"))
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("no_turns", "many", "the first one took"),
    ("no_turns", "beside", "a read of 64 KiB of the log took"),
    ("few_wait", "beside", "a read of 64 KiB of the log took"),
    ("turns_last", "hung", "a large read waited"),
    ("begins_last begins_anew", "on", "one waited"),
])  # fmt: skip
def test_large_reads_can_be_asked_for_at_once(knob: str, part: str, says: str) -> None:
    """The control: all end together, or never; or one that hangs has its turn until it is over."""
    options = ("--mem", "3G", *knobs("dcd", knob))
    run = lab("dcd_scattered.py", part, options=options)
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_digests_of_a_disk_that_hangs(kernel: str) -> None:
    run = lab("dcd_hung_digest.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["reset", "closed"])
def test_digests_of_a_disk_that_hangs_can_hold(part: str) -> None:
    """The control: who asks for them waits for it."""
    run = lab("dcd_hung_digest.py", part, options=("--param", "dcd.test_digests_wait=1"))
    assert run.rc == 1 and "waits for a disk that hangs" in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [("plain", ()), ("checked", ("holder",))])
def test_late_writes_of_a_lost_session(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_preempt.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_late_writes_can_hold_who_takes_over() -> None:
    """The control: what is aborted waits for room all the same."""
    options = ("--param", "dcd.test_wait_forever=1", "--sim-timeout", "600")
    run = lab("dcd_preempt.py", "holder", options=options)
    assert run.rc == 1 and "PR out (Preempt and abort)" in run.stderr, run.text


def test_damage_is_refused() -> None:
    run = lab("dcd_damage.py")
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "what"), [
    ("trust_end", "a line of the middle"), ("no_end", "the newest entry"),
])  # fmt: skip
def test_damage_can_be_taken_for_an_end(knob: str, what: str) -> None:
    """The control: with what tells them from each other switched off."""
    run = lab("dcd_damage.py", options=knobs("dcd", knob))
    assert run.rc == 1 and f"{what}: was accepted, has to be refused" in run.stderr, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_nobody_gets_what_is_damaged(kernel: str) -> None:
    run = lab("dcd_rot.py", kernel=kernel)
    assert run.rc == 0, run.text


def test_damage_is_found_without_memory() -> None:
    """Where the checksums are read from the log again: not with a damaged table."""
    options = ("--param", "dcd.test_forget_sums=1")
    run = lab("dcd_rot.py", "reads", "destage", "part", "cable", "lost", options=options)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "says"), [
    ("reads", "was accepted, has to be refused"), ("destage", "the data disk got damaged bytes"),
])  # fmt: skip
def test_damage_gets_through(part: str, says: str) -> None:
    """The control: what is read is taken as it is."""
    run = lab("dcd_rot.py", part, options=("--param", "dcd.test_trust_log=1"))
    assert run.rc == 1 and says in run.stderr, run.text


# All of it takes the checked kernel five minutes.
@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()), pytest.param("checked", ("lab",), marks=pytest.mark.long),
])  # fmt: skip
def test_bad_places_fill_no_ring(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_bad_places.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_bad_places_can_fill_the_ring() -> None:
    """The control: they keep their segments."""
    run = lab("dcd_bad_places.py", "lab", options=("--param", "dcd.test_stuck_stays=1"))
    assert run.rc == 1 and "Input/output error" in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()), ("checked", ("payload", "reads", "commit", "places", "dead_log", "worn")),
])  # fmt: skip
def test_media_errors_of_nvram(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_poison.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("plain_loads", "reads", "has other bytes"), ("keep_bad_slots", "free", "to be retired"),
    ("any_nvram", "forgets", "was accepted, has to be refused"),
])  # fmt: skip
def test_media_errors_of_nvram_get_through(knob: str, part: str, says: str) -> None:
    """The control: NVRAM is read as if it had none; its slots are used on; any NVRAM will do."""
    run = lab("dcd_poison.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


SEVERAL = ("--param", "dcd.test_fill_us=400")
# So that the cut comes before what couldn't be kept is tried again.
HELD_UP = ("--param", "dcd.test_drain_slots=1")
VOID = [("older", HELD_UP), ("batches", HELD_UP), ("table", HELD_UP), ("lives", ())]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("part", "more"), VOID)
def test_what_nvram_cannot_keep_never_counts(part: str, more: tuple[str, ...], kernel: str) -> None:
    run = lab("dcd_void.py", part, kernel=kernel, options=(*SEVERAL, *more))
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "says"), [
    ("older", "it was acknowledged"), ("batches", "lost: got (8, 0)"),
    ("table", "acknowledged: got True"), ("lives", "No data available"),
])  # fmt: skip
def test_what_nvram_cannot_keep_can_count(part: str, says: str) -> None:
    """The control: it is taken for kept."""
    knobs = (*SEVERAL, *dict(VOID)[part], "--param", "dcd.test_keep_void=1")
    run = lab("dcd_void.py", part, options=knobs)
    assert run.rc == 1 and says in run.stderr, run.text


# All of it takes the checked kernel minutes.
@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()), ("checked", ("dead_log", "full", "behind")),
])  # fmt: skip
def test_nobody_waits_for_a_bad_slot(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_slots.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "says"), [
    ("dead_log", "Input/output error"), ("full", "Input/output error"), ("behind", "a write took"),
])  # fmt: skip
def test_a_bad_slot_can_hold_up_writes(part: str, says: str) -> None:
    """The control: nobody gets a slot until what NVRAM has has left it."""
    run = lab("dcd_slots.py", part, options=("--param", "dcd.test_drain_slots=1"))
    assert run.rc == 1 and says in run.stderr, run.text


def test_a_dead_log_disk_is_replaced() -> None:
    run = lab("dcd_dead_log.py")
    assert run.rc == 0, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_commit_that_is_under_way_when_the_log_dies(kernel: str) -> None:
    run = lab("dcd_commit.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_commit_that_is_under_way_when_the_log_dies_can_lose() -> None:
    """The control: nobody waits for it once the committer is called for again."""
    run = lab("dcd_commit.py", "dawdles", options=("--param", "dcd.test_commit_hurries=1"))
    assert run.rc == 1 and "ranges that are lost" in run.stderr, run.text


@pytest.mark.control
def test_a_round_that_was_asked_for_can_come_too_late() -> None:
    """The control: a write is refused by what the one before it has found. Not while that may be a
    blip, but for the other knob."""
    run = lab("dcd_commit.py", "healed", options=knobs("dcd", "stuck_stale dead_fails"))
    assert run.rc == 1 and "Input/output error" in run.stderr, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_copy_of_the_superblock_is_enough(kernel: str) -> None:
    run = lab("dcd_super.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_one_copy_of_the_superblock_is_too_little() -> None:
    """The control: both are read at once."""
    run = lab("dcd_super.py", options=("--param", "dcd.test_both_copies=1"))
    assert run.rc == 1 and "Input/output error" in run.stderr, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_older_copy_of_the_superblock_is_right(kernel: str) -> None:
    run = lab("dcd_super_older.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("one_told", "past_dram", "has other bytes in sector 100"),
    ("one_told", "past_battery", "has other bytes in sector 100"),
    ("one_told", "past_battery_used", "Structure needs cleaning"),
    ("one_told", "known", "has other bytes in sector 100"),
    ("one_passes", "lap_lab", "Structure needs cleaning"),
    ("one_passes", "lap_battery", "Structure needs cleaning"),
    ("one_passes", "lap_none", "Structure needs cleaning"),
    # The clock seals slots enough for one round that some are used again.
    ("one_header dead_seals", "header", "Structure needs cleaning"),
])  # fmt: skip
def test_the_older_copy_of_the_superblock_can_be_wrong(knob: str, part: str, says: str) -> None:
    """The control: one copy is told what got past the log, or gives places of the ring, or slots,
    away."""
    run = lab("dcd_super_older.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


def test_a_log_that_is_away_for_a_second_loses_nothing() -> None:
    run = lab("dcd_blip.py")
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_log_that_is_away_for_a_second_can_lose() -> None:
    """The control: given up as soon as more than half of the ring is used."""
    run = lab("dcd_blip.py", options=("--param", "dcd.test_lost_at_once=1"))
    assert run.rc == 1 and "places that were given up" in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()), ("checked", ("lab",)),
    pytest.param("checked", ("opened", "no-room", "patience", "flaky"), marks=pytest.mark.long),
])  # fmt: skip
def test_what_the_log_lost(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_lost.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.parametrize(("kernel", "parts"), [
    ("plain", ()), ("checked", ("unwritten-none", "cut-lab")),
    pytest.param("checked", ("unread-lab", "opened", "no_table"), marks=pytest.mark.long),
])  # fmt: skip
def test_bad_blocks_of_the_log_are_moved(kernel: str, parts: tuple[str, ...]) -> None:
    run = lab("dcd_spare.py", *parts, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "says"), [
    ("unwritten-none", "refused"), ("unwritten-dram:battery", "refused"),
    ("unwritten-lab", "moved, Status"), ("unread-none", "refused"),
    ("opened", "Input/output error"),
])  # fmt: skip
def test_bad_blocks_of_the_log_can_stay(part: str, says: str) -> None:
    """The control: nothing is moved."""
    run = lab("dcd_spare.py", part, options=("--param", "dcd.test_never_move=1"))
    assert run.rc == 1 and says in run.stderr, run.text


STAYS = ("--param", "dcd.test_never_move=1")


@pytest.mark.parametrize(("kernel", "parts", "options"), [
    ("plain", ("lab", "table"), ()), ("plain", (), STAYS),
    pytest.param("checked", ("table",), (), marks=pytest.mark.long),
])  # fmt: skip
def test_a_bad_place_of_the_log_loses_once(
    kernel: str, parts: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """Whether a spare is for it, or slots keep what it can't."""
    run = lab("dcd_bad_log_place.py", *parts, kernel=kernel, options=options)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("unproven", "lab", "lap after lap acknowledged writes are lost"),
    ("unproven", "table", "Structure needs cleaning"),
    ("never_pin", "several", "slots keep what the log can't give"),
    ("let_go", "kept", "what the cut has lost"), ("let_go", "end", "writes that are wrong"),
    ("let_go", "neighbours", "was accepted"),
])  # fmt: skip
def test_a_bad_place_of_the_log_can_lose_in_every_lap(knob: str, part: str, says: str) -> None:
    """The control: nothing is read back; that is a dead log; recovery believes the log."""
    run = lab("dcd_bad_log_place.py", part, options=(*STAYS, *knobs("dcd", knob)))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize("kernel", SLOW_KERNELS)
def test_what_the_data_disk_has_is_not_lost(kernel: str) -> None:
    run = lab("dcd_wounded.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["lab", "none"])
def test_what_the_data_disk_has_can_be_lost(part: str) -> None:
    """The control: the module doesn't ask it."""
    run = lab("dcd_wounded.py", part, options=("--param", "dcd.test_unasked=1"))
    assert run.rc == 1 and "No data available" in run.stderr, run.text


@pytest.mark.control
def test_what_a_slot_has_can_be_refused() -> None:
    """The control: the module doesn't look there for a segment of which nothing is known."""
    run = lab("dcd_wounded.py", "slot", options=("--param", "dcd.test_no_copy=1"))
    assert run.rc == 1 and "Structure needs cleaning" in run.stderr, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_two_damaged_writes_over_each_other(kernel: str) -> None:
    run = lab("dcd_salvage_order.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.parametrize("kernel", SLOW_KERNELS)
def test_two_things_at_once(kernel: str) -> None:
    run = lab("dcd_double.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_what_may_be_missing_is_not_told() -> None:
    """The control: nobody looks at damaged end records."""
    run = lab("dcd_double.py", "end_and_newest", options=("--param", "dcd.test_any_end=1"))
    assert run.rc == 1 and "isn't said that the newest write" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["past_the_log", "past_a_dead_log"])
def test_the_data_disk_is_not_asked_for_what_nvram_had(part: str) -> None:
    """The control: what NVRAM can't give is lost, whatever got past the log."""
    run = lab("dcd_double.py", part, options=("--param", "dcd.test_unasked=1"))
    assert run.rc == 1 and "No data available" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["lost_and_dead_log", "lost_and_dead_log_mended"])
def test_what_is_lost_can_hold_a_dead_log(part: str) -> None:
    """The control: nothing but the log says what is lost."""
    run = lab("dcd_double.py", part, options=("--param", "dcd.test_lost_in_log=1"))
    assert run.rc == 1 and "Input/output error" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "says"), [
    ("lab", "Input/output error"), ("opened", "Structure needs cleaning"),
])  # fmt: skip
def test_damage_of_the_log_can_hold_it(part: str, says: str) -> None:
    """The control: the tail stays where it is, and so does the next start."""
    run = lab("dcd_lost.py", part, options=("--param", "dcd.test_lost_stays=1"))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.control
def test_what_a_flaky_log_has_can_be_given_up() -> None:
    """The control: nobody asks whether others can be read each time."""
    run = lab("dcd_lost.py", "flaky", options=knobs("dcd", "others_fail"))
    assert run.rc == 1 and "places that were given up" in run.stderr, run.text


@pytest.mark.parametrize("kernel", SLOW_KERNELS)
def test_the_wrong_data_disk_is_refused(kernel: str) -> None:
    run = lab("dcd_witness.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("any_data", "lab", "blank: was accepted"),
    ("passed_unseen", "past", "past a log: check: got (0, 'clean'"),
    ("hot_hide", "known_ring", "older, a journal: check: got (0, 'live'"),
    ("asks_once", "once", "an older disk: was accepted"),
])  # fmt: skip
def test_the_wrong_data_disk_is_taken(knob: str, part: str, says: str) -> None:
    """The control: nobody asks the witnesses, or once only."""
    run = lab("dcd_witness.py", part, options=knobs("dcd", knob))
    assert run.rc == 1 and says in run.stderr, run.text


SCSI = ("--boot", "scsi_debug.dev_size_mb=8")


GRANULE = 128


def unmaps(lbprz: int, granule: int = 1) -> tuple[str, ...]:
    words = ("dev_size_mb=16", "lbpu=1", f"lbprz={lbprz}", f"lbpws={lbprz}",
             f"unmap_granularity={granule}")  # fmt: skip
    return tuple(part for word in words for part in ("--boot", f"scsi_debug.{word}"))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_full_queue_holds_no_session(kernel: str) -> None:
    run = lab("dcd_queue.py", kernel=kernel, options=SCSI)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_full_queue_that_holds_a_session_is_found() -> None:
    """The control: who asks for a read waits for the data disk's queue."""
    options = (*SCSI, "--param", "dcd.test_read_waits=1")
    run = lab("dcd_queue.py", "plain", options=options)
    assert run.rc == 1 and "beside 24 reads" in run.stderr, run.text


@pytest.mark.parametrize(("lbprz", "says"), [(0, "1"), (1, "1"), (0, "0")])
def test_what_was_unmapped_is_as_it_is_said(lbprz: int, says: str) -> None:
    run = lab("dcd_unmap.py", says, options=unmaps(lbprz))
    assert run.rc == 0, run.text


@pytest.mark.control
def test_what_was_unmapped_can_be_other_than_it_is_said() -> None:
    """The control: the data disk's discards are trusted."""
    run = lab("dcd_unmap.py", "1", options=(*unmaps(0), "--param", "dcd.test_discard_keeps=1"))
    assert run.rc == 1 and "old bytes are there again" in run.stderr, run.text


@pytest.mark.control
def test_space_can_be_kept_by_a_short_page_of_limits() -> None:
    """The control: the kernel's own answer, and Linux unmaps by WRITE SAME."""
    options = (*unmaps(0), "--param", "target_core_dcd.test_limits_short=1")
    run = lab("dcd_unmap.py", "0", options=options)
    assert run.rc == 1 and "Linux's discards are UNMAPs" in run.stderr, run.text


@pytest.mark.parametrize(("part", "lbprz"), [
    ("zeroing", 1), ("thin", 0), ("moved", 0), ("logged", 0), ("stays", 1), ("frees", 1),
    ("parts", 1), ("parked", 0),
])  # fmt: skip
def test_write_same_that_unmaps_is_a_write(part: str, lbprz: int) -> None:
    run = lab("dcd_write_same.py", part, options=unmaps(lbprz, GRANULE if part == "parts" else 1))
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "lbprz", "says"), [
    ("target_core_dcd.test_same_unmaps", "zeroing", 1, "of a pattern, flags 8: it isn't there at"),
    ("target_core_dcd.test_same_unmaps", "thin", 0, "of zeroes, flags 8: it isn't there, destaged"),
    ("target_core_dcd.test_same_unmaps", "moved", 0, "the remote leg has other than zeroes"),
    ("dcd.test_discards_thin", "logged", 0, "what was unmapped is there again"),
    ("dcd.test_zeroes_unmap", "stays", 1, "space in use: got False"),
    ("dcd.test_through_fills", "frees", 1, "space in use: got True"),
    ("dcd.test_through_parts", "parts", 1, "aren't zeroes"),
    ("dcd.test_through_alike", "parked", 0, "acknowledged zeroes aren't there"),
])  # fmt: skip
def test_write_same_that_unmaps_can_lose_its_data(
    knob: str, part: str, lbprz: int, says: str
) -> None:
    """The control: it is an UNMAP; or what was unmapped in the log is as the data disk leaves it
    that is there later."""
    granule = GRANULE if part == "parts" else 1
    options = (*unmaps(lbprz, granule), "--param", f"{knob}=1")
    run = lab("dcd_write_same.py", part, options=options)
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize("scenario", ["dcd_large", "dcd_index"])
def test_many_ranges(scenario: str) -> None:
    """On the checked kernel they take minutes."""
    run = lab(f"{scenario}.py")
    assert run.rc == 0, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_writers_that_overtake_each_other(kernel: str) -> None:
    run = lab("dcd_writers.py", kernel=kernel, options=("--param", "dcd.test_fill_us=400"))
    assert run.rc == 0, run.text


def test_sixteen_tib() -> None:
    """All of it discarded: test_long.py."""
    run = lab("dcd_huge.py", "64")
    assert run.rc == 0, run.text


@pytest.mark.control
def test_long_writes_hold_up_short_ones() -> None:
    """The control: they wait in one queue."""
    run = lab("dcd_discard.py", "mkfs", options=("--param", "dcd.test_one_turn=1"))
    assert run.rc == 1 and "a write took 5." in run.stderr, run.text


@pytest.mark.control
def test_zeroes_in_turn_hold_up_writes() -> None:
    """The control: zeroes go to the data disk as they come, however long they are."""
    options = ("--param", "dcd.test_zero_in_turn=1", "--timeout", "600")
    run = lab("dcd_discard.py", "zeroing", options=options)
    assert run.rc == 1 and "a write took" in run.stderr, run.text


SLOW = ("--param", "dcd.test_fill_us=400")


@pytest.mark.parametrize("kernel", KERNELS)
def test_write_scattered(kernel: str) -> None:
    run = lab("dcd_scatter.py", kernel=kernel, options=SLOW)
    assert run.rc == 0, run.text


def test_parts_of_a_batch_are_reported() -> None:
    """The control: each range by a command of its own."""
    run = lab("dcd_scatter.py", "12", "apart", options=SLOW)
    assert run.rc == 1 and "a part of a batch is there" in run.stderr, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_memory(kernel: str) -> None:
    run = lab("dcd_nomem.py", kernel=kernel, options=("--timeout", "600"))
    assert run.rc == 0, run.text
