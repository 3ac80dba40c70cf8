# SPDX-License-Identifier: GPL-2.0-only
"""Tests run scenarios through the same command as people do: tests/sim/lab run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

TREE = Path(__file__).resolve().parents[2]
SCENARIOS = Path("tests/sim/scenarios")
# Of a test that runs the same on both. It hardly ever finds on the plain one what it doesn't on the
# checked one, which has KASAN and lockdep.
KERNELS = (pytest.param("plain", marks=pytest.mark.long), "checked")
# Of one that takes half a minute on the checked one.
SLOW_KERNELS = ("plain", pytest.param("checked", marks=pytest.mark.long))


@dataclass(frozen=True)
class Run:
    rc: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """All that was said, for an assertion's message."""
        return f"rc {self.rc}\n{self.stdout.decode(errors='replace')}\n{self.stderr}"


def on_kernels(scenarios: list[str], slow: set[str]) -> list[ParameterSet]:
    """Each scenario and each kernel: those that are slow as SLOW_KERNELS, the others as KERNELS."""
    assert slow <= set(scenarios)
    return [
        pytest.param(one, kernel, marks=pytest.mark.long if long else ())
        for one in scenarios
        for kernel, long in (("plain", one not in slow), ("checked", one in slow))
    ]


def knobs(module: str, words: str) -> tuple[str, ...]:
    """The runner's options that switch on the knobs of these names of "dcd" or "dm_lockstep"."""
    return tuple(o for word in words.split() for o in ("--param", f"{module}.test_{word}=1"))


def lab(scenario: str, *args: str, kernel: str = "plain", options: tuple[str, ...] = ()) -> Run:
    """Runs tests/sim/scenarios/SCENARIO; options are the runner's, args the scenario's."""
    done = subprocess.run(
        ["tests/sim/lab", "run", str(SCENARIOS / scenario), "--kernel", kernel, *options, "--",
         *args],
        cwd=TREE, capture_output=True, check=False,
    )  # fmt: skip
    return Run(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
