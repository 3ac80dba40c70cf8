# SPDX-License-Identifier: GPL-2.0-only
"""The sum at the end of `make test`: a failure is never lost."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "run-tests"
REPORT = '<testsuites><testsuite tests="5" failures="{}" errors="{}" skipped="1"/></testsuites>'


def said(base: Path, *groups: str, **parts: str) -> tuple[int, str]:
    """Run with a make that has the given recipes, and return status and output. Without groups
    the parts run one after another."""
    rules = "".join(f"{name}:\n\t@{recipe}\n" for name, recipe in parts.items())
    (base / "Makefile").write_text(rules, encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    result = subprocess.run(
        [sys.executable, PROGRAM, *(groups or parts)],
        cwd=base,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout


def run(base: Path, *groups: str, **parts: str) -> tuple[int, str]:
    """Likewise, and return status and last line."""
    status, text = said(base, *groups, **parts)
    return status, text.splitlines()[-1]


def report(part: str, failures: int = 0, errors: int = 0) -> str:
    return f"echo '{REPORT.format(failures, errors)}' >build/test/{part}.xml"


def test_sums_the_reports_and_counts_a_part_without_one_as_one(tmp_path: Path) -> None:
    assert run(tmp_path, lint="true", unit=report("unit")) == (0, "5 passed, 0 failed")


def test_the_parts_after_a_failed_one_still_run(tmp_path: Path) -> None:
    assert run(tmp_path, lint="false", unit=report("unit")) == (1, "4 passed, 1 failed")


def test_failures_and_errors_of_a_report_fail(tmp_path: Path) -> None:
    recipe = report("unit", failures=1, errors=1) + "; false"
    assert run(tmp_path, unit=recipe) == (1, "2 passed, 2 failed")


def test_a_part_that_fails_with_a_clean_report_fails(tmp_path: Path) -> None:
    status, line = run(tmp_path, unit=report("unit") + "; false")
    assert (status, line) == (1, "4 passed, 1 failed")


def test_a_report_of_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    run(tmp_path, unit=report("unit"))
    assert run(tmp_path, unit="false") == (1, "0 passed, 1 failed")


def test_parts_of_a_group_run_at_once(tmp_path: Path) -> None:
    # Each waits for the other one, up to 10 s.
    meet = "touch {}; for i in $$(seq 100); do test -e {} && exit; sleep 0.1; done; exit 1"
    parts = {"sim": meet.format("a", "b"), "vm": meet.format("b", "a")}
    assert run(tmp_path, "sim+vm", **parts) == (0, "2 passed, 0 failed")


def test_what_fails_beside_another_part_counts_and_is_shown(tmp_path: Path) -> None:
    parts = {"sim": "true", "vm": "echo the reason; echo and more >&2; false", "last": "true"}
    status, text = said(tmp_path, "sim+vm", "last", **parts)
    assert (status, text.splitlines()[-1]) == (1, "2 passed, 1 failed")
    assert "the reason\nand more\n" in text
