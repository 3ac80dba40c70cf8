# SPDX-License-Identifier: GPL-2.0-only
"""Both modules on two emulated CPUs under KCSAN: accesses that nothing orders, whether they did
harm or not. In `make test-long`: building that kernel takes ten minutes, and QEMU is slow."""

from __future__ import annotations

import pytest
from labrun import lab

pytestmark = pytest.mark.long

OPTIONS = ("--timeout", "5000")


def test_a_race_is_found() -> None:
    """The control: without it no report would mean nothing."""
    run = lab("lab_splat.py", "race", kernel="kcsan")
    assert run.rc == 86 and "BUG: KCSAN: data-race in count" in run.stderr, run.text


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("mirror_churn.py", ("4", "2")),
        ("mirror_race.py", ("lingers", "20")),
        ("mirror_race.py", ("reloads", "40")),
        ("mirror_race.py", ("removes", "40")),
        ("mirror_race.py", ("log", "4")),
        ("cut_mirror.py", ("--cuts", "9")),
        ("dcd_race.py", ("dram", "4")),
        ("dcd_race.py", ("lab", "4")),
        ("dcd_race.py", ("none", "4")),
        ("dcd_writers.py", ()),
    ],
)
def test_no_race_of_ours(scenario: str, words: tuple[str, ...]) -> None:
    run = lab(scenario, *words, kernel="kcsan", options=OPTIONS)
    assert run.rc == 0, run.text
