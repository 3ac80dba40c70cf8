# SPDX-License-Identifier: GPL-2.0-only
"""Outside judges of the DCD's LUN, in the same guest as stock LIO."""

from __future__ import annotations

import pytest
from labrun import KERNELS, lab


def test_iscsi_test_cu() -> None:
    run = lab("judge_iscsi.py", options=("--timeout", "900"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("kernel", KERNELS)
def test_sg3_utils(kernel: str) -> None:
    run = lab("judge_sg.py", kernel=kernel, options=("--timeout", "300"))
    assert run.rc == 0, run.text
