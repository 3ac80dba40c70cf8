# SPDX-License-Identifier: GPL-2.0-only
"""Outside judges of the DCD's LUN, in the same guest as stock LIO."""

from __future__ import annotations

from labrun import lab


def test_iscsi_test_cu() -> None:
    run = lab("judge_iscsi.py", options=("--timeout", "900"))
    assert run.rc == 0, run.text
