# SPDX-License-Identifier: GPL-2.0-only
"""targetcli and rtslib with our backstore, on a real kernel."""

from __future__ import annotations

import pytest
from labrun import knobs, lab

SCENARIOS = ("rtslib_targetcli", "rtslib_refused", "rtslib_no_module", "rtslib_state",
             "rtslib_digests")  # fmt: skip
# The checked kernel has those that take a backstore through its whole life; what targetcli says and
# refuses is the same there, and its starts are slow. And none that unloads a module: User Mode
# Linux leaves KASAN's marks on its memory, and whoever gets that memory next is reported.
CHECKED = ("rtslib_state", "rtslib_digests")
LONG = ("rtslib_no_module", "rtslib_digests")
RUNS = [
    pytest.param(s, "plain", marks=pytest.mark.long if s in LONG else ()) for s in SCENARIOS
] + [
    pytest.param(s, "checked", marks=pytest.mark.long) for s in CHECKED
]


@pytest.mark.parametrize(("scenario", "kernel"), RUNS)
def test_on_a_host_with_targetcli(scenario: str, kernel: str) -> None:
    # Each start of targetcli takes a second, on the checked kernel many.
    run = lab(f"{scenario}.py", kernel=kernel, options=("--timeout", "900"))
    assert run.rc == 0, run.text


# A disk that discards and has no command that zeroes.
DISCARDS = tuple(part for word in ("dev_size_mb=16", "lbpu=1", "lbprz=0", "lbpws=0")
                 for part in ("--boot", f"scsi_debug.{word}"))  # fmt: skip


def test_a_saved_configuration_says_nothing_of_another_data_disk() -> None:
    run = lab("rtslib_moved.py", options=DISCARDS)
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_saved_configuration_that_is_believed_is_found() -> None:
    """The control: Linux zeroes by WRITE SAME then, which is to be an UNMAP for that."""
    both = knobs("target_core_dcd", "zeroes_by_word same_unmaps")
    run = lab("rtslib_moved.py", options=(*DISCARDS, *both))
    assert run.rc == 1 and "old bytes are there again" in run.stderr, run.text
