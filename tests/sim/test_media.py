# SPDX-License-Identifier: GPL-2.0-only
"""The modelled media alone: service times, power cuts, disks that lie."""

import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kernel", ["plain", "checked"])
def test_media_keep_time_and_promises(kernel: str) -> None:
    command = [
        "tests/sim/lab", "run", "tests/sim/scenarios/media_model.py", "--kernel", kernel,
        "--timeout", "900",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    assert done.stdout.count("ok ") > 15, done.stdout
