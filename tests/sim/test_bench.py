# SPDX-License-Identifier: GPL-2.0-only
"""The bench in the sim lab: its results are exact, and no worse than the committed baseline."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from labrun import lab
from runner import compare, results
from runner.experiment import TOP

BASELINE = TOP / "bench/baseline.json"
GUARDS = ("guard-random", "guard-trace")


def bench(out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """bench/run, whatever trace the user has set."""
    mine = {key: value for key, value in os.environ.items() if key != "TRACE"}
    return subprocess.run(
        ["bench/run", "--no-report", "--jobs", "1", "--out", str(out), *words],
        cwd=TOP, env=mine, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def out(request: pytest.FixtureRequest) -> Path:
    """Inside the tree, where the lab's kernel sees it."""
    return TOP / "build/test/bench" / str(request.node.name)


@pytest.mark.long
def test_two_runs_are_the_same_but_for_the_wall_times(out: Path) -> None:
    runs = []
    for name in ("once", "again"):
        done = bench(out / name, "guard-trace", "--only", "S-iDW")
        assert done.returncode == 0, done.stdout + done.stderr
        [row] = results.read(out / name)
        assert row["result"]["write"]["count"] > 100
        assert "seconds" in row["wall"]
        runs.append(results.repeatable(row))
    assert runs[0] == runs[1]


def test_a_cell_that_is_watched_leaves_its_counters_over_time(out: Path) -> None:
    done = bench(out, "guard-trace", "--only", "S-iDW", "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    [row] = results.read(out)
    assert row["watched"]
    place = out / "guard-trace" / row["place"]
    seen = [json.loads(line) for line in (place / "watch.jsonl").read_text().splitlines()]
    assert 5 < seen[-1]["at"] - seen[0]["at"] < row["simulated_s"]
    writes = [one["cache_writes"] for one in seen]
    assert 0 < writes[0] < writes[-1]
    assert writes == sorted(writes)
    assert "dcd_batch: " in (place / "batches.txt").read_text()


def test_no_figure_is_beyond_the_baselines_tolerance(out: Path) -> None:
    done = bench(out, *GUARDS)
    assert done.returncode == 0, done.stdout + done.stderr
    old, new = results.read(BASELINE), results.read(out)
    assert {compare.key(row) for row in old} == {compare.key(row) for row in new}
    changes, gaps = compare.changes(old, new)
    said = "\n".join([*map(str, changes), *gaps])
    if said:
        said = "\n".join([said, *compare.ground(old, new)])
    assert not said, f"\n{said}\nif that is wanted, renew the baseline: see {BASELINE.name}"


def named(folder: Path) -> list[int]:
    """Programs with that folder in their words."""
    found = []
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if bytes(folder) in words.read_bytes():
                found.append(int(words.parent.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_guest_outlives_a_run(out: Path, number: signal.Signals) -> None:
    shutil.rmtree(out, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
        subprocess.Popen(
            ["bench/run", "--no-report", "--out", str(out), "trace-mirror", "--only", "S-iDW"],
            cwd=TOP, env=os.environ | {"LOCKSTEP_SHM": memory},
        ) as run,
    ):  # fmt: skip
        console = out / "trace-mirror/S-iDW-seed-1/console.log"
        until(lambda: bool(named(Path(memory))) and b"Run " in console.read_bytes(), "guest")
        run.send_signal(number)
        assert run.wait(20) == (-number if number == signal.SIGKILL else 128 + number)
        until(lambda: not named(Path(memory)), "end of it")


def until(there: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline, f"no {what} in a minute"
        time.sleep(0.05)


def test_a_device_in_use_is_refused_and_others_are_used() -> None:
    run = lab("bench_here.py")
    assert run.rc == 0, run.text
