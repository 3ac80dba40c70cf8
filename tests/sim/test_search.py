# SPDX-License-Identifier: GPL-2.0-only
"""Orders of two events around two overlapping writes, and that the search sees faults: of a mirror
every sixteenth one, of a DCD one of many.

All of them, and three events, are in test_long.py. Each knob switches a mend off
(compat/lockstep-test.h): with it the search has to fail, and only with it.
"""

from __future__ import annotations

import re

import pytest
from labrun import Run, knobs, lab

SHARDS = 2
# These have tests of their own below, as they mean something in few histories.
OF_AXES = "flush_hangs,elsewhere,look,grow_legs,grow_table,alone,fail_held"
# What can't be read or written in part, and who comes by afterwards. Likewise.
IN_PART = (
    "local_unread,unread,local_unsaid,unsaid,local_half_said,half_said,blink,half_blink,rest,see,"
    "local_map_unread,map_unread,local_log_unread,bad_place,burns,local_power"
)
# What a new table may bring, a word that may come while the mirror is suspended, and with what a
# mirror that was stopped may be started. Likewise.
ANEW = "both_ways,wire_only,other_fails,fail_local,swapped,stop,older,local_older"
LOG_IN_PART = (
    "log_blinks,log_away,half_unread,log_bad_place,log_refuses,super_bad,other_super_bad"
)
# Disks that take their time to say that they can't. Likewise.
LATE = "late,too_late,local_late,local_too_late,local_dies_late"
PLAIN = f"but={OF_AXES},{IN_PART},{ANEW},{LATE}"
DCD_LATE = (
    "log_refuses_late,log_fails_late,log_place_late,data_fails_late,data_place_late,wipes_fail"
    ",log_mute"
)
PATIENCE = ("--timeout", "1100")


def search(
    most: int, shard: int, shards: int, *words: str, of: str = "mirror",
    options: tuple[str, ...] = (),
) -> Run:  # fmt: skip
    return lab(f"search_{of}.py", str(most), str(shard), str(shards), *words,
               options=(*PATIENCE, *options))  # fmt: skip


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_sixteenth_of_the_orders_of_two_events(shard: int) -> None:
    run = search(2, shard, SHARDS, "every=16", PLAIN)
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed, (\d+) void", run.stdout)
    assert told, run.text
    assert int(told[1]) > 4 * int(told[2]) > 0, run.text


def test_some_orders_of_two_events_with_queues_that_block() -> None:
    run = search(2, 0, 1, "every=127", "queue=few", PLAIN)
    assert run.rc == 0, run.text


def test_some_orders_of_two_events_with_a_volatile_cache() -> None:
    run = search(2, 0, 1, "every=127", "cache=on", PLAIN)
    assert run.rc == 0, run.text
    run = search(1, 0, 1, "only=mirror_cut", "cache=trust")
    assert run.rc == 1 and "the remote medium: sector" in run.stderr, run.text


def test_some_orders_of_two_events_around_two_pages_of_the_map() -> None:
    run = search(2, 0, 1, "every=211", "map=many")
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed", run.stdout)
    assert told and int(told[1]) > 250, run.text


def test_some_orders_of_two_events_with_flushes_that_hang() -> None:
    run = search(2, 0, 1, "every=3", "only=flush_hangs,mirror_cut,gone,reload,suspend")
    assert run.rc == 0, run.text


@pytest.mark.parametrize(("axis", "every"), [
    ("policy=degrade", 509), ("policy=block", 761), ("policy=error", 761), ("queue=few", 1151),
])  # fmt: skip
def test_some_orders_of_two_events_with_what_fails_in_part(axis: str, every: int) -> None:
    run = search(2, 0, 1, f"every={every}", axis, f"with={IN_PART}", f"but={LATE}")
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed", run.stdout)
    assert told and int(told[1]) > 15, run.text


@pytest.mark.parametrize(("axis", "every"), [
    ("policy=degrade", 157), ("policy=block", 331), ("queue=few", 331),
])  # fmt: skip
def test_some_orders_of_two_events_with_another_table(axis: str, every: int) -> None:
    run = search(2, 0, 1, f"every={every}", axis, f"with={ANEW}", f"but={IN_PART},{LATE}")
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed", run.stdout)
    assert told and int(told[1]) > 25, run.text


@pytest.mark.parametrize(("axis", "every"), [
    ("policy=degrade", 421), ("policy=block", 587), ("queue=few", 587),
])  # fmt: skip
def test_some_orders_of_two_events_with_errors_that_come_late(axis: str, every: int) -> None:
    run = search(2, 0, 1, f"every={every}", axis, f"with={LATE}")
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed", run.stdout)
    assert told and int(told[1]) > 20, run.text


HOLDS = "hang,back,fails,alone,fail_held,recover,reload,suspend,primary_cut,local_fails,local_back"


@pytest.mark.parametrize(
    ("axis", "only", "every"),
    [
        ("policy=block", HOLDS, 59),
        ("policy=error", HOLDS, 127),
        ("log=small", "elsewhere,primary_cut,suspend,reload,hang,discard,fail,recover", 37),
        ("size=more", "grow_legs,grow_table,hang,back,primary_cut,take_over,suspend,anew", 29),
        ("queue=none", "look,local_hangs,local_back,hang,back,suspend,reload,fail", 37),
    ],
)
def test_some_orders_of_two_events_with(axis: str, only: str, every: int) -> None:
    run = search(2, 0, 1, f"every={every}", axis, f"only={only}")
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed", run.stdout)
    assert told and int(told[1]) > 15, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("knob", "most", "words", "found"),
    [
        ("ask_once", 2, "only=local_unread,hang every=3", "writes while a way hangs"),
        ("one_slot keeps_unread", 2, "only=local_unread,reload every=3", "can't be started"),
        ("parting_stays", 1, "only=blink,half_blink", "a leg that misses nothing"),
        ("sure_of_halves", 2, "only=half_blink,fails every=3", "it isn't in sync|has the data"),
        (
            "reads_unsaid", 3, "policy=error only=local_fails,see,primary_cut every=17",
            "assembled from local: .* holds version",
        ),
        ("restart_forgets", 2, "policy=block only=fails,fail_held", "the remote medium: sector"),
        (
            "both_strange", 2, "only=both_ways,other_fails,suspend every=3",
            "a table on these legs can't be started",
        ),
        ("copies_unseen", 1, "only=older,local_older", "an older copy of the .* leg is taken"),
        ("swapped_later", 1, "only=swapped", "a table with swapped legs is taken"),
        ("message_stays", 3, "only=gone,local_hangs,resync every=7", "in vain for: resync"),
        ("no_bounce", 2, "only=local_hangs,look every=3", "reads while the local leg hangs"),
        ("failed_misses", 1, "only=burns", "in vain for: the remote leg goes on"),
        ("doubts_remote", 1, "cache=local only=local_power", "the local medium: .* holds version"),
        (
            "zero_then_flush", 3, "cache=on only=flush_hangs,discard,mirror_cut every=31",
            "the remote medium: sector",
        ),
    ],
)  # fmt: skip
def test_a_mend_is_found_by_what_it_is_for(knob: str, most: int, words: str, found: str) -> None:
    assert search(most, 0, 1, *words.split()).rc == 0
    options = knobs("dm_lockstep", knob)
    run = search(most, 0, 1, *words.split(), options=options)
    assert run.rc == 1, run.text
    assert re.search(f"history .*{found}", run.stderr), run.text


@pytest.mark.control
def test_a_home_that_has_no_map_is_found() -> None:
    """After a parting that failed. Five events, as the regions must be clean in between."""
    history = ("W1", "blink~", "rest", "fails", "elsewhere~", "primary_cut", "W2")
    assert lab("search_mirror.py", *history).rc == 0
    run = lab("search_mirror.py", *history, options=("--param", "dm_lockstep.test_voids_home=1"))
    assert run.rc == 1 and "the legs differ" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(("dies", "found"), [
    ("W1~ half_said fail_local~", "alone diverged"),
    ("local_hangs~ half_said W1~", "alone diverged"),
])  # fmt: skip
def test_a_dead_leg_that_comes_by_another_device_is_found(dies: str, found: str) -> None:
    """While the other leg has said half-way that it is alone, and the new table has to take it."""
    history = (*dies.split(), "both_ways")
    assert lab("search_mirror.py", *history).rc == 0
    run = lab("search_mirror.py", *history, options=("--param", "dm_lockstep.test_told_kept=1"))
    assert run.rc == 1 and found in run.stderr, run.text


@pytest.mark.control
def test_what_a_target_is_made_by_is_not_older_than_what_it_knows() -> None:
    """It waits for its superblock to be read while the source goes on alone."""
    history = ("policy=error", "gone", "W1", "local_hangs", "fails~")
    assert lab("search_mirror.py", *history).rc == 0
    run = lab("search_mirror.py", *history, options=("--param", "dm_lockstep.test_known_late=1"))
    assert run.rc == 1 and "alone diverged" in run.stderr, run.text


# Without an NVRAM that keeps its content these never happen.
OF_NVRAM = "poison,lose,slot_fails,header_bad,newest_damaged,older_damaged,forgets"


def without(events: str, nvram: str) -> str:
    return f"but={events}" if nvram == "lab" else f"but={events},{OF_NVRAM}"


@pytest.mark.parametrize(("nvram", "every"), [("lab", 251), ("none", 157), ("dram", 157)])
def test_some_orders_of_two_events_of_a_dcd(nvram: str, every: int) -> None:
    words = (f"every={every}", f"nvram={nvram}", without(f"{LOG_IN_PART},{DCD_LATE}", nvram))
    run = search(2, 0, 1, *words, of="dcd")
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed, (\d+) void", run.stdout)
    assert told, run.text
    assert int(told[1]) > int(told[2]) > 0, run.text


@pytest.mark.parametrize(("nvram", "ring", "every"), [
    ("lab", "idle", 397), ("lab", "full", 307), ("none", "full", 199), ("dram", "full", 199),
])  # fmt: skip
def test_some_orders_of_two_events_of_a_log_that_fails_in_part(
    nvram: str, ring: str, every: int
) -> None:
    words = (f"every={every}", f"nvram={nvram}", f"ring={ring}", f"with={LOG_IN_PART}")
    run = search(2, 0, 1, *words, without(DCD_LATE, nvram), of="dcd")
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed", run.stdout)
    assert told and int(told[1]) > 12, run.text


@pytest.mark.parametrize(("axis", "every"), [
    ("nvram=lab", 251), ("nvram=none ring=full", 251), ("nvram=dram", 251),
])  # fmt: skip
def test_some_orders_of_two_events_of_a_dcd_whose_disks_fail_late(axis: str, every: int) -> None:
    run = search(2, 0, 1, f"every={every}", *axis.split(), f"with={DCD_LATE}", of="dcd")
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed", run.stdout)
    assert told and int(told[1]) > 15, run.text


@pytest.mark.parametrize("nvram", ["lab", "none", "dram"])
def test_some_orders_of_two_events_of_a_log_that_is_left(nvram: str) -> None:
    words = ("every=29", f"nvram={nvram}", "with=log_left", without(DCD_LATE, nvram))
    run = search(2, 0, 1, *words, of="dcd")
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed", run.stdout)
    assert told and int(told[1]) > 4, run.text


@pytest.mark.parametrize(("of", "words"), [
    ("mirror", ""), ("mirror", "queue=few policy=block log=small"), ("mirror", "cache=local"),
    ("dcd", "nvram=lab"),
    ("dcd", "nvram=none ring=full"),
])  # fmt: skip
def test_histories_of_many_events(of: str, words: str) -> None:
    run = lab(f"search_{of}.py", "lives=1,50", *words.split(), options=PATIENCE)
    assert run.rc == 0 and b"50 histories passed, 0 void" in run.stdout, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("knob", "most", "words", "found"),
    [
        ("never_move", 2, "nvram=none ring=full only=log_refuses,lap every=3", "refused for a bad"),
        ("both_copies", 2, "nvram=none only=super_bad,cut every=5", "and it isn't opened"),
        (
            "lost_at_once", 2, "nvram=lab ring=full only=lap,half_unread every=3",
            "No data available|refused for a bad place",
        ),
        (
            "log_believed", 3, "nvram=dram ring=full only=log_unwritable,again every=17",
            "holds version",
        ),
    ],
)  # fmt: skip
def test_a_mend_for_a_log_that_fails_in_part_is_found(
    knob: str, most: int, words: str, found: str
) -> None:
    assert search(most, 0, 1, *words.split(), of="dcd").rc == 0
    options = knobs("dcd", knob)
    run = search(most, 0, 1, *words.split(), of="dcd", options=options)
    assert run.rc == 1, run.text
    assert re.search(f"history .*({found})", run.stderr), run.text


@pytest.mark.control
def test_a_place_that_loses_in_each_lap_is_found() -> None:
    history = ("log_bad_place", "W1", "W2", "lap~", "lap~", "lap~", "nvram=lab", "ring=full")
    assert lab("search_dcd.py", *history).rc == 0
    run = lab("search_dcd.py", *history, options=("--param", "dcd.test_unproven=1"))
    assert run.rc == 1 and "lap after lap is lost" in run.stderr, run.text


@pytest.mark.control
def test_a_data_disk_that_is_strange_by_what_was_refused_is_found() -> None:
    history = ("W1", "flush~", "log_fails", "W2~", "again", "nvram=none")
    assert lab("search_dcd.py", *history).rc == 0
    run = lab("search_dcd.py", *history, options=("--param", "dcd.test_witnesses_stay=1"))
    assert run.rc == 1 and "it isn't opened" in run.stderr, run.text


@pytest.mark.parametrize(("of", "history"), [
    ("mirror", "W1 hang~ W2 back"),
    ("mirror", "W1 blink~ rest fails elsewhere~ primary_cut W2"),
    ("mirror", "W1~ half_said fail_local~ both_ways"),
    ("mirror", "local_hangs~ half_said W1~ both_ways"),
    ("mirror", "policy=error gone W1 local_hangs fails~"),
    ("dcd", "log_bad_place W1 W2 lap~ lap~ lap~ nvram=lab ring=full"),
    ("dcd", "W1 flush~ log_fails W2~ again nvram=none"),
    ("dcd", "W1 W2 lose log_unwritable lap~"),
])  # fmt: skip
def test_one_history_by_its_name(of: str, history: str) -> None:
    run = lab(f"search_{of}.py", *history.split())
    assert run.rc == 0 and run.stdout == b"passed\n", run.text


@pytest.mark.parametrize("words", [("W1", "hnag"), ("1", "0", "1", "only=hnag")])
def test_an_unknown_event_is_refused(words: tuple[str, ...]) -> None:
    run = lab("search_mirror.py", *words)
    assert run.rc == 1 and "known: " in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("knob", "only", "found"),
    [
        ("drain_by_device", "hang,other_way", "the legs differ|holds version"),
        ("remove_waits", "hang,reload", "in vain for: resume with the new table"),
        ("messages_wait", "hang,local_fails,block", "in vain for: policy"),
        ("send_inline", "hang,crowd", "in vain for: writes while a way hangs"),
    ],
)
def test_a_mend_that_is_switched_off_is_found(knob: str, only: str, found: str) -> None:
    words = (f"only={only}", "queue=few" if knob == "send_inline" else "queue=none")
    assert search(2, 0, 1, *words).rc == 0
    # Else who brings a message goes, whatever it waits for.
    stays = ("--param", "dm_lockstep.test_message_stays=1") if knob == "messages_wait" else ()
    run = search(2, 0, 1, *words, options=(*knobs("dm_lockstep", knob), *stays))
    assert run.rc == 1, run.text
    assert re.search(f"history .*({found})", run.stderr), run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("knob", "most", "only", "found"),
    [
        ("plain_loads", 1, "poison", "torn or misplaced"),
        ("keep_bad_slots", 1, "poison", "in vain for: a bad slot to be retired"),
        ("keep_void", 1, "slot_fails", "No data available"),
        ("any_nvram", 1, "forgets", "an NVRAM that may forget is taken"),
        ("no_end", 1, "newest_damaged", "dcd check"),
        ("trust_end", 1, "older_damaged", "holds version"),
    ],
)
def test_a_mend_of_nvram_that_is_switched_off_is_found(
    knob: str, most: int, only: str, found: str
) -> None:
    words = (f"only={only}", "nvram=lab")
    assert search(most, 0, 1, *words, of="dcd").rc == 0
    run = search(most, 0, 1, *words, of="dcd", options=knobs("dcd", knob))
    assert run.rc == 1, run.text
    assert re.search(f"history .*({found})", run.stderr), run.text


@pytest.mark.control
def test_what_is_found_lost_past_a_dead_log_holds_no_write() -> None:
    history = ("W1", "W2", "lose", "log_unwritable", "lap~")
    assert lab("search_dcd.py", *history).rc == 0
    run = lab("search_dcd.py", *history, options=("--param", "dcd.test_lost_in_log=1"))
    assert run.rc == 1 and "refused for a bad place of a disk" in run.stderr, run.text


@pytest.mark.control
@pytest.mark.parametrize(
    ("knob", "only", "found"),
    [
        ("unasked", "wound,cut", "No data available"),
        ("trust_log", "rot,lap", "torn or misplaced"),
        ("ack_early", "cut", "holds version"),
        ("stuck_stays", "data_bad,lap", "refused for a bad place of a disk"),
        ("lost_stays", "rot,lap", "refused for a bad place of a disk|it isn't opened"),
        ("any_data", "older,lap", "an older data disk is taken"),
        ("wait_forever", "log_hangs", "in vain for: writes while a disk hangs"),
        ("through_stays", "log_left,data_hangs", "in vain for: writes while a disk hangs"),
    ],
)
def test_a_mend_of_the_dcd_that_is_switched_off_is_found(knob: str, only: str, found: str) -> None:
    words = ("every=2", f"only={only}", "nvram=none")
    assert search(2, 0, 1, *words, of="dcd").rc == 0
    run = search(2, 0, 1, *words, of="dcd", options=knobs("dcd", knob))
    assert run.rc == 1, run.text
    assert re.search(f"history .*({found})", run.stderr), run.text
