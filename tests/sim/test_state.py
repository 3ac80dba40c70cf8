# SPDX-License-Identifier: GPL-2.0-only
"""The state of a mirror with metadata: every transition, every durable step cut by a crash, and
seeded lives. The long run is a thousand lives, in about a third of a second of CPU each:

    tests/sim/lab run tests/sim/scenarios/state_schedules.py --timeout 3600 -- 1000 1
"""

from __future__ import annotations

import re

import pytest
from labrun import KERNELS, knobs, lab

both_kernels = pytest.mark.parametrize("kernel", KERNELS)
PATIENCE = ("--timeout", "900")


@both_kernels
@pytest.mark.parametrize(
    "scenario",
    [
        "state_stuck", "state_hang", "state_told", "state_policy", "state_windows", "state_batch",
        "meta_refused",
    ],
)  # fmt: skip
def test_transitions(scenario: str, kernel: str) -> None:
    run = lab(f"{scenario}.py", kernel=kernel, options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_silent_leg_that_is_not_told_is_found() -> None:
    knob = ("--param", "dm_lockstep.test_silence_untold=1")
    run = lab("state_hang.py", "sole_leg", options=(*PATIENCE, *knob))
    assert run.rc != 0, run.text
    assert "silent: remote" in run.text


@pytest.mark.control
def test_a_message_that_waits_without_end_is_found() -> None:
    knob = ("--param", "dm_lockstep.test_messages_wait=1")
    run = lab("state_hang.py", "grown", options=(*PATIENCE, *knob))
    assert run.rc != 0, run.text
    assert "still blocked" in run.text


@pytest.mark.control
@pytest.mark.parametrize("part", [
    "sole_suspended_slots", "sole_suspended_map", "sole_removed", "sole_told_resync",
])  # fmt: skip
def test_a_suspend_that_waits_for_the_only_leg_is_found(part: str) -> None:
    knob = ("--sim-timeout", "7200", "--param", "dm_lockstep.test_silence_holds=1")
    run = lab("state_hang.py", part, options=(*PATIENCE, *knob))
    assert run.rc != 0, run.text
    assert "still blocked" in run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("join_recover", "message_stays", "in vain for: recover"),
    ("cleaner_resync", "message_stays silent_resyncs", "in vain for: resync"),
    ("verify_stop", "message_stays", "in vain for: verify stop"),
    ("parted", "unwatched_waits", "in vain for: suspend"),
    ("local_removed", "unwatched_waits", "in vain for: remove"),
    ("resumed_alone", "resume_waits", "in vain for: resume"),
    ("resumed_together", "resume_waits", "in vain for: resume"),
])  # fmt: skip
def test_what_waits_for_who_waits_for_a_leg_is_found(part: str, knob: str, says: str) -> None:
    options = (*PATIENCE, *knobs("dm_lockstep", knob))
    run = lab("state_told.py", part, options=options)
    assert run.rc != 0 and says in run.text, run.text


@pytest.mark.control
def test_a_leg_given_up_for_one_that_does_not_answer_is_found() -> None:
    knob = ("--param", "dm_lockstep.test_unasked=1")
    run = lab("state_hang.py", "both_local", options=(*PATIENCE, *knob))
    assert run.rc != 0, run.text
    assert "both are silent" in run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["answers_slowly_1010", "answers_slowly_2000"])
def test_an_answer_that_comes_just_after_each_look_is_found(part: str) -> None:
    options = (*PATIENCE, "--sim-timeout", "600", *knobs("dm_lockstep", "answers_missed"))
    run = lab("state_hang.py", part, options=options)
    assert run.rc != 0 and "still blocked" in run.text, run.text


@pytest.mark.parametrize("policy", ["block", "error"])
@pytest.mark.parametrize("leg", ["local", "remote"])
@pytest.mark.parametrize("then", ["stop", "crash", "held", "reload"])
def test_what_was_read_of_a_write_that_failed_stays(policy: str, leg: str, then: str) -> None:
    run = lab("state_read_stays.py", policy, leg, then)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize("policy", ["block", "error"])
@pytest.mark.parametrize("then", ["stop", "crash", "reload"])
def test_what_was_read_and_vanishes_is_found(policy: str, then: str) -> None:
    knob = ("--param", "dm_lockstep.test_reads_unsaid=1")
    run = lab("state_read_stays.py", policy, "local", then, options=knob)
    assert run.rc == 1 and "what was read has vanished" in run.stderr, run.text


@pytest.mark.parametrize("part", [
    "stopped_local", "stopped_remote", "running_local", "running_remote", "crashed_local",
    "crashed_remote", "alone_local", "alone_remote", "both", "neither", "rejoins",
    "rejoins_block", "exchanged",
])  # fmt: skip
def test_an_older_copy_of_a_leg(part: str) -> None:
    run = lab("state_copies.py", part, options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob"), [
    ("stopped_local", "copies_unseen"), ("stopped_remote", "copies_unseen"),
    ("running_local", "copies_unseen"), ("running_remote", "unstamped"),
    ("crashed_local", "unstamped"), ("crashed_local", "home_once"), ("crashed_remote", "unstamped"),
    ("exchanged", "unstamped reloads_foreign"), ("rejoins", "unstamped"),
    ("rejoins_block", "unstamped"), ("alone_local", "alone_anew"), ("alone_remote", "alone_anew"),
])  # fmt: skip
def test_an_older_copy_that_is_taken_is_found(part: str, knob: str) -> None:
    run = lab("state_copies.py", part, options=knobs("dm_lockstep", knob))
    assert run.rc == 1, run.text
    assert re.search("was accepted, has to be|in vain for: AD alone", run.stderr), run.text


@pytest.mark.control
def test_a_leg_that_is_given_up_for_none_is_found() -> None:
    knob = ("--param", "dm_lockstep.test_neither_stays=1")
    run = lab("state_copies.py", "neither", options=(*PATIENCE, *knob))
    assert run.rc == 1, run.text


def test_a_message_ends_while_writes_are_held() -> None:
    run = lab("state_blocked.py")
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_message_that_waits_with_the_writes_is_found() -> None:
    knob = ("--sim-timeout", "600", "--param", "dm_lockstep.test_blocked_waits=1")
    run = lab("state_blocked.py", options=knob)
    assert run.rc != 0 and "in vain for: verify stop" in run.text, run.text


ELSEWHERE = [
    "suspended", "asleep", "stopped", "survives", "put_back", "known_and_forgotten",
    "alone_suspended", "alone_asleep", "alone_at_rest", "source_suspended", "source_asleep",
    "both_suspended", "both_asleep", "newer", "one_slot", "told", "hot", "reloaded",
    "alone_reloaded", "alone_refused", "both_reloaded", "read_only", "unread",
]  # fmt: skip


@pytest.mark.parametrize("part", ELSEWHERE)
def test_a_leg_that_was_used_elsewhere(part: str) -> None:
    run = lab("state_elsewhere.py", part, options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob"), [
    ("suspended", "overwrites"), ("asleep", "overwrites"), ("stopped", "overwrites"),
    ("survives", "overwrites"), ("put_back", "overwrites"), ("both_asleep", "overwrites"),
    ("alone_suspended", "unowned any_is_a_dcds"), ("source_asleep", "unowned any_is_a_dcds"),
    ("alone_asleep", "map_unlooked"),
    ("alone_asleep", "goes_on_foreign"), ("alone_at_rest", "goes_on_foreign"),
    ("source_suspended", "resumes_foreign"), ("newer", "whole_is_damaged"),
    ("known_and_forgotten", "other_unseen"), ("one_slot", "one_slot"), ("told", "widens_unlooked"),
    ("hot", "home_only"), ("alone_reloaded", "reloads_foreign"),
    ("alone_refused", "reloads_foreign"), ("both_reloaded", "reloads_foreign"),
    ("read_only", "any_is_a_dcds"), ("unread", "unread_looked"),
])  # fmt: skip
def test_a_leg_used_elsewhere_that_is_overwritten_is_found(part: str, knob: str) -> None:
    run = lab("state_elsewhere.py", part, options=(*PATIENCE, *knobs("dm_lockstep", knob)))
    assert run.rc == 1, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_table_that_stands_by_knows_nothing(kernel: str) -> None:
    """Neither what is in the map, nor which leg another host has gone on with."""
    run = lab("state_standby.py", kernel=kernel)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "part", "says"), [
    ("any_map", "crash", "the legs differ"),
    ("standby_owns", "local", "it goes on with"), ("standby_owns", "unread", "it goes on with"),
    ("standby_hands", "given_up", "it goes on with"), ("drains_aside", "drains", "it goes on with"),
    ("standby_hands", "demoted", "it goes on with"),
    ("standby_hands", "blocked", "it goes on with"), ("standby_hands", "told", "AA together"),
    ("standby_forgets", "dead_before", "DA alone"),
    ("standby_forgets", "target", "can't suspend or resume"),
    ("standby_forgets", "foreign", "can't suspend or resume"),
    ("standby_forgets", "hung", "a writable table"),
])  # fmt: skip
def test_a_table_that_stands_by_can_be_believed(knob: str, part: str, says: str) -> None:
    run = lab("state_standby.py", part, options=knobs("dm_lockstep", knob))
    assert run.rc != 0 and says in run.stderr, run.text


def test_lives_of_a_map_of_many_pages() -> None:
    options = ("--sim-timeout", "360000", *PATIENCE)
    run = lab("state_pages.py", "30", "1", options=options)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "says"), [
    ("any_map", "the legs differ in region"),
    ("standby_owns", "legal are"),
])  # fmt: skip
def test_what_a_map_of_many_pages_lacks_is_found(knob: str, says: str) -> None:
    options = (*PATIENCE, "--sim-timeout", "360000", *knobs("dm_lockstep", knob))
    run = lab("state_pages.py", "30", "1", options=options)
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "lives"), [("plain", 60), ("checked", 4)])
def test_lives_of_legs_that_strangers_use(kernel: str, lives: int) -> None:
    options = ("--sim-timeout", "360000", *PATIENCE)
    run = lab("state_strangers.py", str(lives), "1", kernel=kernel, options=options)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "lives", "says"), [
    ("overwrites", 60, "differ, first in"), ("map_unlooked", 60, "differ, first in"),
    ("goes_on_foreign", 60, "another's and has changed"),
    ("other_unseen", 100, "another's and has changed"),
])  # fmt: skip
def test_a_leg_that_strangers_use_is_changed(knob: str, lives: int, says: str) -> None:
    options = ("--sim-timeout", "360000", *PATIENCE, *knobs("dm_lockstep", knob))
    run = lab("state_strangers.py", str(lives), "1", options=options)
    assert run.rc == 1 and says in run.stderr, run.text


FOREIGN = ["auto", "known_error", "known_block", "second", "starved", "clone"]


@pytest.mark.parametrize("part", FOREIGN)
def test_nobody_comes_back_to_a_leg_of_others(part: str) -> None:
    run = lab("state_foreign.py", part, options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("auto", "other_unseen", "was accepted"), ("known_error", "other_unseen", "was accepted"),
    ("known_block", "other_unseen", "was accepted"),
    ("second", "other_unseen touched_once tried_counts", "was accepted"),
    ("starved", "starved_stays", "reads of the remote leg"),
    ("clone", "higher_is_ours", "superblock is as it was"),
])  # fmt: skip
def test_a_leg_comes_back_to_one_of_others(part: str, knob: str, says: str) -> None:
    """The control, and of what else is done to a leg that somebody else has used."""
    run = lab("state_foreign.py", part, options=(*PATIENCE, *knobs("dm_lockstep", knob)))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "lives"), [("plain", 75), ("checked", 5)])
def test_lives_of_a_leg_that_two_hosts_use(kernel: str, lives: int) -> None:
    options = ("--sim-timeout", "360000", *PATIENCE)
    run = lab("state_hosts.py", str(lives), "1", kernel=kernel, options=options)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "lives", "says"), [
    ("unowned higher_is_ours", 100, "was acknowledged"), ("overwrites", 100, "was acknowledged"),
    ("map_unlooked", 100, "differ, first in"), ("reloads_foreign", 100, "changes what was read"),
    pytest.param("resumes_foreign", 300, "changes what was read", marks=pytest.mark.long),
])  # fmt: skip
def test_a_loss_between_two_hosts_is_found(knob: str, lives: int, says: str) -> None:
    options = (*PATIENCE, "--sim-timeout", "360000", *knobs("dm_lockstep", knob))
    run = lab("state_hosts.py", str(lives), "1", options=options)
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "lives"), [("plain", 75), ("checked", 4)])
def test_lives_of_a_mirror_whose_table_is_exchanged(kernel: str, lives: int) -> None:
    options = ("--sim-timeout", "360000", *PATIENCE)
    run = lab("state_exchanges.py", str(lives), "1", kernel=kernel, options=options)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize("knob", ["takes_stale", "both_strange"])
def test_a_table_that_goes_on_with_the_wrong_leg_is_found(knob: str) -> None:
    options = ("--sim-timeout", "360000", *PATIENCE, *knobs("dm_lockstep", knob))
    run = lab("state_exchanges.py", "60", "1", options=options)
    assert run.rc == 1 and "alone diverged" in run.stderr, run.text


@pytest.mark.parametrize(("kernel", "lives"), [("plain", 40), ("checked", 3)])
def test_lives_of_disks_with_bad_sectors(kernel: str, lives: int) -> None:
    options = ("--sim-timeout", "36000")
    run = lab("state_sectors.py", str(lives), "1", kernel=kernel, options=options)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("knob", "says"), [
    ("crash_forgets", "the legs to be in sync"), ("unmended_fails", "Input/output error"),
    ("repairs_beside", "life 5"), ("again_whole", "Input/output error"),
])  # fmt: skip
def test_what_repairs_do_wrong_is_found_by_lives(knob: str, says: str) -> None:
    options = ("--sim-timeout", "36000", *knobs("dm_lockstep", knob))
    run = lab("state_sectors.py", "40", "1", options=options)
    assert run.rc == 1 and says in run.stderr, run.text


# In it the local leg can't be written, again and again, and the remote one is another host's.
OLDER = "23281"


def test_a_leg_that_is_an_older_copy_stays_one() -> None:
    run = lab("state_strangers.py", "1", OLDER, options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_leg_that_is_an_older_copy_is_none_after_some_tries() -> None:
    run = lab("state_strangers.py", "1", OLDER,
              options=(*PATIENCE, *knobs("dm_lockstep", "tried_counts")))  # fmt: skip
    assert run.rc == 1 and "the remote leg is another's and has changed" in run.stderr, run.text


@both_kernels
@pytest.mark.parametrize("part", [
    "reloaded_local", "reloaded_remote", "blocked", "blocked_target", "held_again",
    "silent_resync", "silent_verify", "parting", "stalled", "stalled_suspended", "reads", "returns",
    "waits", "looks", "both_gone", "both_back", "both_nowrite", "both_place", "loaded", "resyncs",
])  # fmt: skip
def test_gets_on(part: str, kernel: str) -> None:
    run = lab("state_gets_on.py", part, kernel=kernel, options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("reloaded_local", "suspend_keeps keeps_unread", "can't suspend or resume"),
    ("blocked_target", "target_acks", "the remote leg hasn't got it"),
    ("held_again", "restart_forgets", "differ"),
    ("silent_verify", "silence_holds", "verify stop"),
    ("silent_resync", "silence_holds", "remove waits"),
    ("parting", "parting_stays", "recover"),
    ("stalled", "stays_stalled", "in sync again"),
    ("stalled_suspended", "runs_suspended", "what the disks have done"),
    ("returns", "looks_always", "the read"),
    ("looks", "looks_on", "blocked for more than"),
    ("both_gone", "failed_misses", "Input/output error"),
    ("both_place", "asks_a_block", "Input/output error"),
    ("loaded", "reads_missing", "blocked in I/O wait"),
    ("resyncs", "silent_resyncs", "resync"),
])  # fmt: skip
def test_without_its_mend_it_does_not(part: str, knob: str, says: str) -> None:
    options = (*PATIENCE, *knobs("dm_lockstep", knob))
    run = lab("state_gets_on.py", part, options=options)
    assert run.rc != 0 and says in run.text, run.text


@both_kernels
def test_reads_of_a_leg_that_hangs(kernel: str) -> None:
    run = lab("state_reads.py", kernel=kernel, options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize("part", ["answered", "suspend", "remote"])
def test_a_read_in_its_callers_pages_waits(part: str) -> None:
    options = (*PATIENCE, "--sim-timeout", "3600", "--param", "dm_lockstep.test_no_bounce=1")
    run = lab("state_reads.py", part, options=options)
    assert run.rc != 0 and "still blocked" in run.text, run.text


@both_kernels
@pytest.mark.parametrize("part", ["alone", "both", "crash", "stopped", "unread"])
def test_the_home_comes_back(part: str, kernel: str) -> None:
    run = lab("state_home.py", part, kernel=kernel, options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("alone", "voids_home", "sector 640 holds version 0"), ("crash", "voids_home", "differ"),
    ("stopped", "map_stays_stopped", "no end after"), ("unread", "ask_once", "no end after"),
])  # fmt: skip
def test_nobody_looks_after_the_home(part: str, knob: str, says: str) -> None:
    options = (*PATIENCE, *knobs("dm_lockstep", knob))
    run = lab("state_home.py", part, options=options)
    assert run.rc != 0 and says in run.text, run.text


@both_kernels
@pytest.mark.parametrize("part", [
    "back", "crash", "takeover", "waits", "writers", "told", "endless", "unread", "killed",
])  # fmt: skip
def test_a_parting(part: str, kernel: str) -> None:
    run = lab("state_parting.py", part, kernel=kernel, options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("back", "sure_of_halves", "in vain for: AA together"),
    ("crash", "sure_of_halves", "load a table into copy"),
    ("takeover", "sure_of_halves", "nobody says so"),
    ("waits", "sure_of_halves", "was accepted"),
    ("writers", "partings_first", "in vain for: AA together"),
    ("told", "starts_beside", "differ under one number"),
    ("endless", "starts_beside", "was accepted"),
    ("unread", "none_later", "got 116, want 16"),
    ("killed", "starts_beside", "differ under one number"),
])  # fmt: skip
def test_a_parting_that_is_taken_lightly(part: str, knob: str, says: str) -> None:
    options = (*PATIENCE, *knobs("dm_lockstep", knob))
    run = lab("state_parting.py", part, options=options)
    assert run.rc != 0 and says in run.text, run.text


@both_kernels
@pytest.mark.parametrize("leg", ["local", "remote"])
@pytest.mark.parametrize("sector", ["slot0", "slot1", "map", "log"])
def test_an_unreadable_sector_of_the_metadata(sector: str, leg: str, kernel: str) -> None:
    run = lab("meta_unreadable.py", sector, leg, kernel=kernel, options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("sector", "knob", "says"), [
    ("slot0", "one_slot", "can't load a table"), ("slot1", "one_slot", "can't load a table"),
    ("map", "one_map", "can't suspend or resume"), ("log", "one_map", "can't suspend or resume"),
])  # fmt: skip
def test_of_which_one_was_enough(sector: str, knob: str, says: str) -> None:
    options = (*PATIENCE, *knobs("dm_lockstep", knob))
    run = lab("meta_unreadable.py", sector, "local", options=options)
    assert run.rc == 1 and says in run.text, run.text


# The other site's host doesn't know what the primary has abandoned. Here both are one kernel.
TWO_HOSTS = ("--param", "dm_lockstep.test_drain_by_device=1")


@both_kernels
def test_split_brains(kernel: str) -> None:
    run = lab("state_split.py", kernel=kernel, options=(*PATIENCE, *TWO_HOSTS))
    assert run.rc == 0, run.text


def test_a_lossy_wire() -> None:
    run = lab("state_lossy.py", options=PATIENCE)
    assert run.rc == 0, run.text


def test_a_crash_after_each_durable_step() -> None:
    run = lab("state_crash.py", options=PATIENCE)
    assert run.rc == 0, run.text


def test_a_crash_after_some_durable_steps_on_the_checked_kernel() -> None:
    run = lab("state_crash.py", "parted_local", kernel="checked", options=PATIENCE)
    assert run.rc == 0, run.text


@pytest.mark.parametrize(("kernel", "lives"), [("plain", 30), ("checked", 4)])
def test_seeded_lives(kernel: str, lives: int) -> None:
    run = lab("state_schedules.py", str(lives), kernel=kernel, options=PATIENCE)
    assert run.rc == 0, run.text


@both_kernels
@pytest.mark.parametrize("part", [
    "joins", "resumes", "reloads", "reads", "opened", "requeues", "unsaid_local", "unsaid_remote",
    "unsaid_late", "unread", "unread_slots", "unread_hangs", "half", "half_late", "forgets",
    "strange", "stale", "answers", "smaller", "exchanged", "exchanged_parting",
    "parted_local", "parted_remote",
])  # fmt: skip
def test_between_the_last_steps(part: str, kernel: str) -> None:
    run = lab("state_ends.py", part, kernel=kernel, options=PATIENCE)
    assert run.rc == 0, run.text


# BLK_STS_TIMEOUT, _TARGET and _OFFLINE.
@pytest.mark.parametrize("status", [2, 5, 16])
def test_what_error_a_leg_answers_with_is_all_the_same(status: int) -> None:
    options = (*PATIENCE, "--param", f"dm_lockstep.test_answers={status}")
    run = lab("state_ends.py", "answers", options=options)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("status", "says"), [
    (2, "can't suspend or resume mirror"), (5, "in vain for: AD alone"),
])  # fmt: skip
def test_an_error_that_means_something_is_found(status: int, says: str) -> None:
    options = (*PATIENCE, "--sim-timeout", "3600", *knobs("dm_lockstep", "errors_differ"),
               "--param", f"dm_lockstep.test_answers={status}")  # fmt: skip
    run = lab("state_ends.py", "answers", options=options)
    assert run.rc != 0 and says in run.text, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("joins", "target_slips", "says that it is a target"),
    ("resumes", "runs_held", "in vain for: the write"),
    ("reloads", "keeps_the_rest takes_stale", "no end after"),
    ("opened", "writes_taken", "still blocked"),
    ("unsaid_local", "death_handed_on", "Input/output error"),
    ("unsaid_remote", "drops_the_other", "Input/output error"),
    ("unsaid_late", "unsaid_kept", "was accepted"),
    ("unread", "keeps_unread", "a resume: got 22"),
    ("unread_slots", "keeps_unread", "a resume: got 22"),
    ("unread_hangs", "keeps_unread", "in vain for: a start"),
    ("half", "keeps_the_gone", "alone diverged"),
    ("half_late", "keeps_the_gone", "alone diverged"),
    ("forgets", "dirty_unread", "both legs: sector 0 holds version 0"),
    ("strange", "takes_strange", "a table with it: was accepted"),
    ("stale", "takes_stale", "a start without it: was accepted"),
    ("smaller", "place_stays", "in vain for"),
    ("exchanged", "both_strange", "Input/output error"),
    ("exchanged_parting", "both_strange", "Invalid argument"),
    ("parted_local", "both_strange", "was accepted"),
    ("parted_remote", "both_strange", "was accepted"),
])  # fmt: skip
def test_what_comes_between_is_found(part: str, knob: str, says: str) -> None:
    options = (*PATIENCE, "--sim-timeout", "3600", *knobs("dm_lockstep", knob))
    run = lab("state_ends.py", part, options=options)
    assert run.rc != 0 and says in run.text, run.text


@pytest.mark.control
def test_a_suspend_that_is_kept_busy_is_found() -> None:
    """Its two workers are: in simulated time nobody else ever runs."""
    options = ("--timeout", "10", "--param", "dm_lockstep.test_requeues_at_once=1")
    run = lab("state_ends.py", "requeues", options=options)
    assert run.rc == 124 and "no end after" in run.text, run.text
