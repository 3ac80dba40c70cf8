# SPDX-License-Identifier: GPL-2.0-only
"""Both modules on two CPUs, with KASAN and lockdep, in the host's time: races that one CPU hasn't.

In `make test-long`: building that kernel takes ten minutes. The first two are a short soak of each
module; then come scenarios that measure no time.
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
