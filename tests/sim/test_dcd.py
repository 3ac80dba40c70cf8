# SPDX-License-Identifier: GPL-2.0-only
"""The DCD alone, in every situation that a power cut under load doesn't bring by itself."""

from __future__ import annotations

import pytest
from labrun import KERNELS, lab

SCENARIOS = ["dcd_disk_errors", "dcd_log_errors", "dcd_bad_input", "dcd_pressure",
             "dcd_flush", "dcd_zero", "dcd_trace", "dcd_io_faults",
             "dcd_digests", "dcd_memory", "dcd_read", "dcd_waiting",
             "dcd_none", "dcd_attributes", "dcd_grow", "dcd_blocks",
             "dcd_cache"]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_dcd(scenario: str, kernel: str) -> None:
    run = lab(f"{scenario}.py", kernel=kernel)
    assert run.rc == 0, run.text


def test_io_faults_can_fail() -> None:
    """The control: acknowledged before it is persistent, a write is lost by a cut."""
    run = lab("dcd_io_faults.py", options=("--param", "dcd.test_ack_early=1"))
    assert run.rc == 1 and "has wrong bytes" in run.stderr, run.text


@pytest.mark.parametrize("scenario", ["dcd_large", "dcd_index"])
def test_many_ranges(scenario: str) -> None:
    """On the checked kernel they take minutes."""
    run = lab(f"{scenario}.py")
    assert run.rc == 0, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_writers_that_overtake_each_other(kernel: str) -> None:
    run = lab("dcd_writers.py", kernel=kernel, options=("--param", "dcd.test_fill_us=400"))
    assert run.rc == 0, run.text


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
