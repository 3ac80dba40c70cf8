# SPDX-License-Identifier: GPL-2.0-only
"""Both modules on two CPUs, with KASAN and lockdep, in the host's time: races that one CPU hasn't.

In `make test-long`: building that kernel takes ten minutes. First comes a short soak of each room
of the modules; then scenarios that measure no time. Not dcd_rot yet: its writes are slow there, so
slots are sealed by time and the destager empties a ring that the scenario wants full. That
explains a log without the entry to damage; a read over one that was accepted, once, it doesn't.
"""

from __future__ import annotations

import pytest
from labrun import lab

pytestmark = [pytest.mark.long, pytest.mark.timeout(3 * 3600)]
PATIENCE = ("--timeout", "1000")


@pytest.mark.parametrize(
    ("scenario", "words", "options"),
    [
        ("mirror_churn.py", ("2", "2"), ()),
        ("cut_mirror.py", ("--cuts", "10"), ()),
        # The sender, at the end of its leg.
        ("mirror_race.py", ("lingers", "20"), ()),
        ("mirror_race.py", ("reloads", "40"), ()),
        ("mirror_race.py", ("removes", "40"), ()),
        ("mirror_race.py", ("log", "4"), ()),
        ("mirror_activity.py", ("crowded",), ("--mem", "3G")),
        # The checksums of the log, the turn.
        ("dcd_race.py", ("dram", "4"), ()),
        ("dcd_race.py", ("lab", "4"), ()),
        ("dcd_race.py", ("none", "4"), ()),
    ],
)
def test_a_soak(scenario: str, words: tuple[str, ...], options: tuple[str, ...]) -> None:
    run = lab(scenario, *words, kernel="smp", options=(*PATIENCE, *options))
    assert run.rc == 0, run.text


LONG = [
    ("mirror_io.py", ("dcd", "lan")),
    ("mirror_churn.py", ("100",)),
    ("mirror_resync.py", ()),
    ("mirror_repair.py", ()),
    ("mirror_legs.py", ()),
    ("mirror_errors.py", ()),
    ("mirror_hang.py", ("write", "zeroing", "reloaded", "full_queue")),
    ("state_schedules.py", ("100", "1")),
    ("dcd_io_faults.py", ("3",)),
    ("dcd_zero.py", ()),
    ("dcd_grow.py", ()),
    ("dcd_cache.py", ()),
    ("cut_mirror.py", ("--cuts", "100")),
    ("cut_primary.py", ("--cuts", "100")),
    ("cut_batches.py", ("--cuts", "100")),
]


@pytest.mark.parametrize(("scenario", "words"), LONG)
def test_what_measures_no_time(scenario: str, words: tuple[str, ...]) -> None:
    options = ("--timeout", "10000", "--param", "dcd.test_fill_us=400")
    run = lab(scenario, *words, kernel="smp", options=options)
    assert run.rc == 0, run.text
