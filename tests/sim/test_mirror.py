# SPDX-License-Identifier: GPL-2.0-only
"""The mirror in both sites: every kind of I/O, lost links, failing legs, an admin at work."""

from __future__ import annotations

import pytest
from labrun import KERNELS, knobs, lab

# Ours on the checked kernel too; stock's shows what is the mirror's fault: plain will do for it.
BACKSTORES = [("dcd", "plain"), ("dcd", "checked"), ("iblock", "plain")]

ZEROING = ("--mem", "2G", "--sim-timeout", "3000")

both_kernels = pytest.mark.parametrize("kernel", KERNELS)


@pytest.mark.parametrize("profile", ["lan", "wan"])
@pytest.mark.parametrize(("backstore", "kernel"), BACKSTORES)
def test_every_kind_of_io(backstore: str, profile: str, kernel: str) -> None:
    run = lab("mirror_io.py", backstore, profile, kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.parametrize(("backstore", "kernel"), BACKSTORES)
def test_link_lost_and_found(backstore: str, kernel: str) -> None:
    run = lab("mirror_link.py", backstore, kernel=kernel)
    assert run.rc == 0, run.text


def test_several_sessions_and_multipath() -> None:
    run = lab("mirror_paths.py")
    assert run.rc == 0, run.text


@pytest.mark.parametrize("part", ["pages", "lease", "other"])
def test_a_way_that_holds_what_is_sent(part: str) -> None:
    run = lab("mirror_held.py", part)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("words", "knob", "says"), [
    ("pages", "pages_shared", "a place has what belongs elsewhere"),
    ("lease open", "", "the remote leg's: got"), ("other open", "", "the remote leg's: got"),
])  # fmt: skip
def test_a_way_that_holds_what_is_sent_can_bring_it_late(words: str, knob: str, says: str) -> None:
    run = lab("mirror_held.py", *words.split(), options=knobs("dm_lockstep", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize("words", ["block 8 128 600", "error 1 2048 900", "block 8 128 900 re-add"])
def test_a_leg_comes_back_though_every_answer_of_the_other_one_takes_long(words: str) -> None:
    run = lab("mirror_readers.py", *words.split(), options=("--sim-timeout", "3000"))
    assert run.rc == 0, run.text


@both_kernels
@pytest.mark.parametrize("words", [
    "mirror_bad_area.py 10000 1", "mirror_bad_area.py 4000 1", "mirror_beside.py start",
    "mirror_beside.py blip", "mirror_beside.py large", "mirror_beside.py assemble",
    "mirror_beside.py assemble_alone", "mirror_beside.py assemble_never",
    "mirror_beside.py assemble_idle",
])  # fmt: skip
def test_what_queues_on_a_slow_wire_is_not_taken_for_a_leg_that_hangs(
    words: str, kernel: str
) -> None:
    run = lab(*words.split(), kernel=kernel, options=("--sim-timeout", "3000"))
    assert run.rc == 0, run.text


def test_mirrors_that_flood_one_slow_wire_keep_their_legs() -> None:
    run = lab("mirror_floods.py")
    assert run.rc == 0, run.text


@pytest.mark.parametrize("part", ["examine", "create", "replace"])
def test_what_a_command_reads_of_a_disk_leaves_room_for_other_mirrors_writes(part: str) -> None:
    run = lab("mirror_beside.py", part, options=("--sim-timeout", "3000"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("words", ["10000 8", "10000 4 hangs"])
def test_what_mirrors_try_again_together_is_not_taken_for_a_leg_that_hangs(words: str) -> None:
    run = lab("mirror_bad_area.py", *words.split(), options=("--sim-timeout", "3000"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("part", ["large_read", "later", "crowd"])
def test_a_window_is_as_large_as_the_wire_is_now(part: str) -> None:
    run = lab("mirror_beside.py", part, options=("--sim-timeout", "3000"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("part", ["grow", "resync"])
def test_a_mark_does_not_wait_for_the_sum_of_others_requests(part: str) -> None:
    run = lab("mirror_marks.py", part)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_mark_can_wait_for_the_sum_of_others_requests() -> None:
    run = lab("mirror_marks.py", "grow", options=knobs("dm_lockstep", "grow_holds"))
    assert run.rc and "a commit took" in run.stderr, run.text


SLOW_STARVED = ("--param", "dm_lockstep.test_slow_starved=30")


def test_a_table_outlives_who_looks_for_what_has_waited_for_memory() -> None:
    """As it may on two CPUs: the suspend has called for him, and he comes late."""
    run = lab("mirror_race.py", "removes", "5", options=SLOW_STARVED)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_table_can_end_before_who_looks_for_what_has_waited_for_memory() -> None:
    options = (*SLOW_STARVED, *knobs("dm_lockstep", "starved_lingers"))
    run = lab("mirror_race.py", "removes", "5", options=options)
    assert run.rc == 125 and "Segfault with no mm" in run.text, run.text


@pytest.mark.parametrize("part", [
    "alone", "tick", "back", "suspend", "grow", "reload", "hangs",
])  # fmt: skip
def test_a_large_map_holds_nobody(part: str) -> None:
    run = lab("mirror_large.py", part)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob"), [
    ("alone", "one_at_a_time"), ("tick", "one_at_a_time no_holes"),
    ("back", "one_at_a_time no_holes"),
    ("suspend", "whole_stays"), ("grow", "clean_waits"), ("reload", "map_read"),
    ("hangs", "each_waits"),
])  # fmt: skip
def test_a_large_map_can_hold_writes(part: str, knob: str) -> None:
    run = lab("mirror_large.py", part, options=knobs("dm_lockstep", knob))
    assert run.rc and " took " in run.stderr, run.text


@pytest.mark.parametrize("words", [
    "block", "error", "error later", "error later zero", "error later hurried",
])  # fmt: skip
def test_zeroes_that_have_to_be_written_are_not_taken_for_a_leg_that_hangs(words: str) -> None:
    run = lab("mirror_slow_zeroes.py", *words.split())
    assert run.rc == 0, run.text


@pytest.mark.control
def test_zeroes_that_keep_what_is_allocated_are_taken_for_a_leg_that_hangs() -> None:
    options = knobs("dm_lockstep", "kept_large")
    run = lab("mirror_slow_zeroes.py", "error", "later", "zero", options=options)
    assert run.rc and "Input/output error" in run.text, run.text


@pytest.mark.parametrize("part", [
    "zero", "discard", "small", "verify", "held", "written", "above",
])  # fmt: skip
def test_zeroings_of_many_gib_hold_nobody(part: str) -> None:
    run = lab("mirror_zeroing.py", part, options=ZEROING)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("kept_small", "zero", "a suspend took"), ("closed_floods", "zero", "a suspend took"),
    ("zeroes_unbound", "discard", "took"), ("zeroes_small", "small", "a suspend took"),
    ("worker_sleeps", "held", "a read took"), ("worker_sleeps", "written", "a read took"),
    ("worker_sleeps", "above", "a read took"),
    ("zeroes_unbound kept_small zeroes_long", "verify", "verify stop took"),
])  # fmt: skip
def test_zeroings_of_many_gib_can_hold_all(knob: str, part: str, says: str) -> None:
    run = lab("mirror_zeroing.py", part, options=(*ZEROING, *knobs("dm_lockstep", knob)))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.control
def test_zeroes_that_have_to_be_written_are_taken_for_a_leg_that_hangs() -> None:
    whole = knobs("dm_lockstep", "zeroes_whole zeroes_long zeroes_unbound")
    options = ("--sim-timeout", "400", *whole)
    run = lab("mirror_slow_zeroes.py", "block", options=options)
    assert run.rc and "in vain for: the discard to end" in run.text, run.text


@pytest.mark.control
def test_zeroes_that_have_to_be_written_later_are_taken_for_a_leg_that_hangs() -> None:
    options = knobs("dm_lockstep", "zeroes_grow zeroes_long zeroes_unbound")
    run = lab("mirror_slow_zeroes.py", "error", "later", options=options)
    assert run.rc and "Input/output error" in run.text, run.text


@pytest.mark.control
@pytest.mark.parametrize(("words", "knob", "says"), [
    ("mirror_readers.py block 8 128 600", "one_patience reads_at_once", "in sync: "),
    ("mirror_bad_area.py 4000 1", "again_at_once", "Input/output error"),
    ("mirror_bad_area.py 10000 8", "again_apart", "Input/output error"),
    ("mirror_bad_area.py 10000 4 hangs", "again_stuck", "in vain for: a reader to end"),
    ("mirror_beside.py start", "one_start reads_at_once", "no start: "),
    ("mirror_beside.py blip", "reads_at_once", "in vain for: whole"),
    ("mirror_beside.py large", "reads_at_once", "Input/output error"),
    ("mirror_beside.py large_read", "reads_whole", "Input/output error"),
    ("mirror_beside.py later", "learned_stays", "Input/output error"),
    ("mirror_beside.py crowd", "windows_apart", "Input/output error"),
    ("mirror_beside.py assemble", "reads_at_once", "lockstep assemble a: rc 1"),
    ("mirror_floods.py", "grows_late", "of which all are well: got 'AD'"),
])  # fmt: skip
def test_what_queues_on_a_slow_wire_is_taken_for_a_leg_that_hangs(
    words: str, knob: str, says: str
) -> None:
    seed = "3" if "floods" in words else "1"  # by when the legs' requests meet
    options = ("--sim-timeout", "3000", "--seed", seed, *knobs("dm_lockstep", knob))
    run = lab(*words.split(), options=options)
    # 124: a reader that waits for ever keeps the scenario from ending.
    assert run.rc in (1, 124) and says in run.stderr, run.text


@pytest.mark.parametrize(
    ("part", "kernel"),
    # Its simulated minutes of a full wire cost the checked kernel too much.
    [
        *((part, "plain") for part in ("wire", "commands", "small", "far", "reads", "legs")),
        ("legs", "checked"),
    ],
)
def test_who_waits_for_the_wire(part: str, kernel: str) -> None:
    run = lab("mirror_window.py", part, kernel=kernel, options=("--sim-timeout", "900"))
    assert run.rc == 0, run.text


@pytest.mark.control
def test_reads_that_wait_for_nothing_cost_the_session() -> None:
    options = ("--sim-timeout", "900", *knobs("dm_lockstep", "reads_at_once"))
    run = lab("mirror_window.py", "reads", options=options)
    assert run.rc and "Input/output error" in run.text, run.text


@pytest.mark.control
def test_small_writes_that_wait_for_nothing_cost_the_leg() -> None:
    run = lab("mirror_window.py", "small", options=("--param", "dm_lockstep.test_small_at_once=1"))
    assert run.rc == 1, run.text
    assert "health, errors" in run.text, run.text


@both_kernels
@pytest.mark.parametrize("scenario", ["mirror_errors", "mirror_admin", "mirror_bad_input"])
def test_on_this_host_alone(scenario: str, kernel: str) -> None:
    run = lab(f"{scenario}.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.parametrize(
    ("profile", "disks", "kib_per_s"),
    [
        pytest.param("lan", "ram", 100_000, marks=pytest.mark.long),
        ("lan", "spindle", 40_000),
        ("wan", "ram", 320),
        ("wan", "spindle", 320),
        pytest.param("outsourcing-200", "ram", 300, marks=pytest.mark.long),
        ("none", "spindle", 40_000),
    ],
)
def test_resync_leaves_the_application_its_latency(
    profile: str, disks: str, kib_per_s: int
) -> None:
    run = lab("mirror_throttle.py", profile, disks, str(kib_per_s))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("words", [
    "small wan ram 40 400", "many wan ram 20 1000", "large metro ram 1200 500",
])  # fmt: skip
def test_resync_gets_on_under_any_load(words: str) -> None:
    run = lab("mirror_least.py", *words.split(), options=("--timeout", "900"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("words", ["remote", "remote resync_compare=on", "local"])
def test_resync_beside_large_writes_makes_no_request_old(words: str) -> None:
    run = lab("mirror_share.py", *words.split())
    assert run.rc == 0, run.text


def test_memory_of_writes_has_a_bound() -> None:
    run = lab("mirror_budget.py", "flood")
    assert run.rc == 0, run.text


@both_kernels
def test_whoever_waits_for_memory_gets_on(kernel: str) -> None:
    run = lab("mirror_budget.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.parametrize(
    "part",
    [
        "bound", "setting", "costs", "crowded", "held", "large", "pages", "returned", "suspended",
        pytest.param("parted", marks=pytest.mark.long),
    ],
)
def test_a_crash_leaves_a_bounded_resync(part: str) -> None:
    run = lab("mirror_activity.py", part, options=("--mem", "3G"))
    assert run.rc == 0, run.text


@pytest.mark.control
def test_the_bound_is_the_activity_logs() -> None:
    """Without it the same load leaves a region for each of its writes."""
    run = lab("mirror_activity.py", "bound", "test_no_activity_log", options=("--mem", "3G"))
    assert run.rc == 1 and "MiB are left to resync" in run.text, run.text


@pytest.mark.control
def test_the_live_part_needs_its_promise() -> None:
    """The control: writes that wait for memory of a leg that is gone wait on, and the guest with
    them."""
    knob = ("--param", "dm_lockstep.test_no_least=1")
    run = lab("mirror_budget.py", "dead", options=(*knob, "--sim-timeout", "3600"))
    assert run.rc != 0 and "still blocked" in run.text, run.text


@pytest.mark.parametrize(("profile", "writes"), [("lan", 100), ("wan", 60)])
def test_a_synchronous_write_is_not_behind_writeback(profile: str, writes: int) -> None:
    run = lab("mirror_background.py", profile, str(writes))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("part", [
    "suspend", "large", "synced", "joined", "written", "joining", "twice", "often", "commit",
    "later", "fast",
])  # fmt: skip
def test_an_fsync_of_many_pages(part: str) -> None:
    run = lab("mirror_fsync.py", part, options=("--mem", "3G"))
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("suspend", "front_unbound", "a suspend took"), ("commit", "front_unbound", "a commit took"),
    ("large", "front_unbound", "a suspend took"), ("joined", "front_stays", "a suspend took"),
    ("synced", "closed_floods", "a suspend took"), ("twice", "keeps_unserved", "a suspend took"),
    ("written", "front_stays", "a suspend took"), ("later", "left_first", "a commit took"),
    ("joining", "front_stays", "a suspend took"), ("often", "front_stays", "a suspend took"),
])  # fmt: skip
def test_an_fsync_of_many_pages_can_be_let_in_as_a_whole(part: str, knob: str, says: str) -> None:
    run = lab("mirror_fsync.py", part, f"test_{knob}", options=("--mem", "3G"))
    assert run.rc == 1 and says in run.stderr, run.text


@both_kernels
@pytest.mark.parametrize("part", ["wire", "verify", "load", "wrong", "troubles"])
def test_resync_by_digests(part: str, kernel: str) -> None:
    run = lab("mirror_digests.py", part, kernel=kernel, options=("--timeout", "900"))
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("scenario", "words", "knob", "found"),
    [
        ("mirror_least.py", ("small", "wan", "ram", "40", "400"), "no_least_rate", "want 40 KiB/s"),
        ("mirror_least.py", ("many", "wan", "ram", "20", "1000"), "queue_blames", "want 20 KiB/s"),
        ("mirror_least.py", ("large", "metro", "ram", "1200", "500"), "no_share", "want 1200 KiB"),
        ("mirror_share.py", ("remote", "resync_compare=on"), "any_share", "the legs beside"),
        ("mirror_share.py", ("local",), "any_share", "the legs beside"),
        ("mirror_budget.py", ("flood",), "no_budget", "KiB in flight, of"),
        ("mirror_budget.py", ("killed",), "sleeps_on", "in vain for: who is killed to be gone"),
        ("mirror_background.py", ("wan", "60"), "no_background", "p99 is"),
        ("mirror_activity.py", ("large",), "half_a_log zeroes_long", "the discard took 1."),
        ("mirror_activity.py", ("pages",), "one_page one_at_a_time", "holds what is beside it"),
        pytest.param(
            "mirror_activity.py", ("held",), "room_forgotten", "the write that waits for room took",
            marks=pytest.mark.long,
        ),
        ("mirror_late.py", ("unjudged",), "unjudged_good", "health before the start"),
        ("mirror_late.py", ("renamed",), "name_of_before", "by another device"),
    ],
)
def test_a_mend_that_is_switched_off_is_found(
    scenario: str, words: tuple[str, ...], knob: str, found: str
) -> None:
    run = lab(scenario, *words, options=knobs("dm_lockstep", knob))
    assert run.rc == 1 and found in run.text, run.text
