# SPDX-License-Identifier: GPL-2.0-only
"""targetcli and rtslib with our backstore, on a real kernel."""

from __future__ import annotations

import pytest
from labrun import KERNELS, lab

SCENARIOS = ("rtslib_targetcli", "rtslib_refused", "rtslib_no_module", "rtslib_state",
             "rtslib_digests")  # fmt: skip
RUNS = [(scenario, kernel) for scenario in SCENARIOS for kernel in KERNELS]
# It unloads a module. User Mode Linux leaves KASAN's marks on the module's memory, and whoever gets
# that memory next is reported: hostfs, for reading a directory.
RUNS.remove(("rtslib_no_module", "checked"))


@pytest.mark.parametrize(("scenario", "kernel"), RUNS)
def test_on_a_host_with_targetcli(scenario: str, kernel: str) -> None:
    # Each start of targetcli takes a second, on the checked kernel many.
    run = lab(f"{scenario}.py", kernel=kernel, options=("--timeout", "900"))
    assert run.rc == 0, run.text
