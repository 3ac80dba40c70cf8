# SPDX-License-Identifier: GPL-2.0-only
"""Each mend that can be switched off has a test that finds that out."""

import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "mends"
# What these bring was seen in hostile runs, and no test of ours shows it: to be proved, or to go.
UNPROVEN = {"tick_stays", "pin_hurries", "lost_restless", "late_parts"}


def said(*words: str) -> tuple[int, list[str]]:
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_a_mend_that_nothing_proves_is_told() -> None:
    status, lines = said("--unproven")
    assert status == 1
    assert {line.split(": ")[1] for line in lines} == UNPROVEN


def test_the_table_has_a_row_for_each() -> None:
    status, lines = said()
    assert not status and len(lines) > 300
    row = next(line for line in lines if line.startswith("| `through_unread` |"))
    assert "target-plugin/through.c | scenario | test_dcd_leave: " in row
    assert next(line for line in lines if line.startswith("| `slow_starved`")).count("|") == 6


def test_an_unknown_word_is_refused() -> None:
    assert said("--table")[0] == 2
