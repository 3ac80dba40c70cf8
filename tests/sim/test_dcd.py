# SPDX-License-Identifier: GPL-2.0-only
"""The DCD alone, in every situation that a power cut under load doesn't bring by itself."""

from __future__ import annotations

import pytest
from labrun import KERNELS, lab

SCENARIOS = ["dcd_disk_errors", "dcd_log_errors", "dcd_bad_input", "dcd_pressure",
             "dcd_flush", "dcd_zero", "dcd_trace"]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_dcd(scenario: str, kernel: str) -> None:
    run = lab(f"{scenario}.py", kernel=kernel)
    assert run.rc == 0, run.text
