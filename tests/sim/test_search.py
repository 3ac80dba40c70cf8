# SPDX-License-Identifier: GPL-2.0-only
"""Every order of two events around two overlapping writes, and that the search sees faults.

Three events are in test_long.py. Each knob switches a mend off (compat/lockstep-test.h): with it
the search has to fail, and only with it.
"""

from __future__ import annotations

import re

import pytest
from labrun import Run, lab

SHARDS = 2
PATIENCE = ("--timeout", "1100")


def search(most: int, shard: int, shards: int, *words: str, options: tuple[str, ...] = ()) -> Run:
    return lab("search_mirror.py", str(most), str(shard), str(shards), *words,
               options=(*PATIENCE, *options))  # fmt: skip


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_order_of_two_events(shard: int) -> None:
    run = search(2, shard, SHARDS)
    assert run.rc == 0, run.text
    told = re.search(rb"(\d+) histories passed, (\d+) void", run.stdout)
    assert told, run.text
    assert int(told[1]) > 4 * int(told[2]) > 0, run.text


def test_one_history_by_its_name() -> None:
    run = lab("search_mirror.py", "W1", "hang~", "W2", "back")
    assert run.rc == 0 and run.stdout == b"passed\n", run.text


@pytest.mark.parametrize("words", [("W1", "hnag"), ("1", "0", "1", "only=hnag")])
def test_an_unknown_event_is_refused(words: tuple[str, ...]) -> None:
    run = lab("search_mirror.py", *words)
    assert run.rc == 1 and "known: " in run.stderr, run.text


@pytest.mark.parametrize(
    ("knob", "only", "found"),
    [
        ("drain_by_device", "hang,other_way", "the legs differ|holds version"),
        ("remove_waits", "hang,reload", "in vain for: resume with the new table"),
        ("messages_wait", "hang,local_fails,block", "in vain for: policy"),
    ],
)
def test_a_mend_that_is_switched_off_is_found(knob: str, only: str, found: str) -> None:
    assert search(2, 0, 1, f"only={only}").rc == 0
    run = search(2, 0, 1, f"only={only}", options=("--param", f"dm_lockstep.test_{knob}=1"))
    assert run.rc == 1, run.text
    assert re.search(f"history .*({found})", run.stderr), run.text
