# SPDX-License-Identifier: GPL-2.0-only
"""The command `lockstep` on real devices."""

from __future__ import annotations

import pytest
from labrun import KERNELS, lab

# What only starts programs and looks has nothing for the checked kernel, where a start of Python
# takes seconds.
SCENARIOS = [
    ("cli_devices", "plain"),
    ("cli_create", "plain"),
    ("cli_iscsi", "plain"),
    ("cli_life", "plain"),
    ("cli_life", "checked"),
    ("cli_verify", "plain"),
    ("cli_guess", "plain"),
]


@pytest.mark.parametrize(("scenario", "kernel"), SCENARIOS)
def test_by_the_command(scenario: str, kernel: str) -> None:
    assert kernel in KERNELS
    run = lab(f"{scenario}.py", kernel=kernel, options=("--timeout", "900"))
    assert run.rc == 0, run.text
