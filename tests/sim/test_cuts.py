# SPDX-License-Identifier: GPL-2.0-only
"""Seeded power cuts of the mirror site and of the primary under load.

The mirror site's leg is a DCD, or an ordinary iblock backstore on a disk
without a cache: what fails on both isn't the DCD's fault. LOCKSTEP_CUTS sets
the number of cuts for each site and backstore on the plain kernel (the checked
one, ten times slower, gets a fifteenth); LAB_SEED the first seed. The long run,
200 of each, takes some minutes:

    LOCKSTEP_CUTS=200 python3 -m pytest tests/sim/test_cuts.py -k "lost_by_a_cut and plain"

or one site, each cut on a line of its own; --offline: `dcd recover` on copies has to come
to the same data disk as the module:

    tests/sim/lab run tests/sim/scenarios/cut_mirror.py --timeout 3000 -- --cuts 1000 --offline
"""

import os
import re
import subprocess
from pathlib import Path

import labrun
import pytest

TREE = Path(__file__).resolve().parents[2]
CUTS = int(os.environ.get("LOCKSTEP_CUTS", "15"))
FIRST = int(os.environ.get("LAB_SEED", "1"))
LOSS = re.compile(r"(lost|stale|mixed|foreign|misplaced|phantom|differ): sector \d+")


BACKSTORES = ["iblock", "dcd"]


def lab(
    scenario: str, kernel: str, cuts: int, *words: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    # Of the first seeds none sends a WRITE SCATTERED; the few cuts of the checked kernel are to.
    first = FIRST if kernel == "plain" else FIRST + 3
    command = [
        "tests/sim/lab", "run", f"tests/sim/scenarios/{scenario}.py", "--kernel", kernel,
        "--timeout", "1100", *options, "--", "--cuts", str(cuts), "--first", str(first), *words,
    ]  # fmt: skip
    return subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False)


def number(kernel: str) -> int:
    return CUTS if kernel == "plain" else max(CUTS // 15, 2)


@pytest.mark.parametrize("kernel", ["plain", "checked"])
@pytest.mark.parametrize("backstore", BACKSTORES)
@pytest.mark.parametrize("scenario", ["cut_mirror", "cut_primary"])
def test_no_acknowledged_write_is_lost_by_a_cut(scenario: str, backstore: str, kernel: str) -> None:
    cuts = number(kernel)
    both = ("--offline",) if (scenario, backstore) == ("cut_mirror", "dcd") else ()
    done = lab(scenario, kernel, cuts, "--backstore", backstore, *both)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{scenario}: {cuts} cuts passed" in done.stdout


def test_nor_by_one_of_a_disk_with_a_cache() -> None:
    done = lab("cut_mirror", "plain", CUTS, "--backstore", "iblock", "--cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"cut_mirror: {CUTS} cuts passed" in done.stdout


@pytest.mark.parametrize("part", ["known", "later"])
def test_zeroes_outlive_a_cut_behind_a_session_that_reconnects(part: str) -> None:
    run = labrun.lab("mirror_zero_cut.py", part)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "says"), [
    ("known", "a discard: was accepted"), ("later", "the legs differ"),
])  # fmt: skip
def test_a_flush_afterwards_does_not_do(part: str, says: str) -> None:
    knob = ("--param", "dm_lockstep.test_zero_then_flush=1")
    run = labrun.lab("mirror_zero_cut.py", part, options=knob)
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize("part", [
    "core", "core_stays", "metadata", "flush_source", "write_source", "cleaner_at_its_tick",
    "cleaner_of_a_full_log", "block", "error", "unsaid", "unsaid_mended", "unflushed",
    "suspend", "suspend_reload", "suspend_core", "suspend_core_reload",
    "both-metadata-writes", "both-metadata-gone", "both-core-writes", "both-core-gone",
])  # fmt: skip
def test_a_local_cache_that_is_lost(part: str) -> None:
    run = labrun.lab("mirror_volatile.py", part)
    assert run.rc == 0, run.text


@pytest.mark.control
@pytest.mark.parametrize(("part", "knob", "says"), [
    ("core", "core_forgets", "what was acknowledged and flushed"),
    ("flush_source", "nothing_forgotten", "differ"),
    ("write_source", "nothing_forgotten", "differ"),
    # Before what is clean is told to both superblocks, the legs are flushed, too.
    ("cleaner_at_its_tick", "cleans_forgotten unstamped home_only", "differ"),
    ("cleaner_of_a_full_log", "cleans_forgotten unstamped", "differ"),
    # Whoever reads the remote leg has it say so, for another reason, too.
    ("block", "misses_unsaid reads_unsaid", "acknowledged and read is lost"),
    ("error", "misses_unsaid reads_unsaid", "acknowledged and read is lost"),
    ("both-metadata-writes", "doubts_remote", "what was acknowledged"),
    ("both-core-gone", "doubts_remote", "what was acknowledged"),
    ("unsaid", "keeps_any takes_stale", "refused with EBUSY"),
    ("unsaid_mended", "keeps_any takes_stale", "what was acknowledged"),
    ("unflushed", "dirty_forgotten", "what was acknowledged"),
    ("suspend", "cleans_parting parts_later", "what was acknowledged"),
    ("suspend_core_reload", "cleans_parting parts_later", "what was acknowledged"),
])  # fmt: skip
def test_what_a_lost_cache_had_is_found_missing(part: str, knob: str, says: str) -> None:
    run = labrun.lab("mirror_volatile.py", part, options=labrun.knobs("dm_lockstep", knob))
    assert run.rc == 1 and says in run.stderr, run.text


@pytest.mark.parametrize("kernel", ["plain", "checked"])
def test_without_nvram_none_is_lost_either(kernel: str) -> None:
    cuts = max(number(kernel) // 3, 2)
    done = lab("cut_mirror", kernel, cuts, "--nvram", "none", "--offline")
    assert done.returncode == 0, done.stdout + done.stderr


IN_BATCHES = ("--param", "dcd.test_fill_us=400")


@pytest.mark.parametrize(
    ("kernel", "nvram"), [("plain", "lab"), ("plain", "none"), ("checked", "lab")]
)
def test_of_a_batch_all_is_there_or_nothing(kernel: str, nvram: str) -> None:
    cuts = max(number(kernel), 4)
    done = lab("cut_batches", kernel, cuts, "--nvram", nvram, options=IN_BATCHES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_parts_of_a_batch_are_reported() -> None:
    done = lab("cut_batches", "plain", 10, "--apart", options=IN_BATCHES)
    assert done.returncode == 1 and "a part of a batch is there" in done.stdout, done.stdout


TAKEOVERS = int(os.environ.get("LOCKSTEP_TAKEOVERS", "8"))


@pytest.mark.parametrize("nvram", ["lab", "none"])
def test_a_take_over_loses_nothing(nvram: str) -> None:
    number = TAKEOVERS if nvram == "lab" else max(TAKEOVERS // 4, 2)
    done = lab("takeover", "plain", number, "--nvram", nvram)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"takeover: {number} cuts passed" in done.stdout


@pytest.mark.control
def test_an_old_log_over_newer_data_is_reported() -> None:
    done = lab("takeover", "plain", 1, options=("--param", "dcd.test_use_left=1"))
    assert done.returncode == 1 and "the DCD started: old log and NVRAM" in done.stdout, done.stdout


def reported(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == 1 and LOSS.search(done.stdout) is not None


@pytest.mark.control
@pytest.mark.parametrize("nvram", ["lab", "none"])
def test_acknowledging_before_the_nvram_or_log_has_it_is_reported(nvram: str) -> None:
    options = ("--param", "dcd.test_ack_early=1", "--param", "dcd.test_trust_end=1")
    words = ("--nvram", nvram, "--first", "7")
    done = lab("cut_mirror", "plain", 40, *words, options=options)
    assert reported(done), done.stdout + done.stderr


@pytest.mark.parametrize("scenario", ["cut_mirror", "cut_primary"])
def test_disks_that_lie_about_flushes_are_reported(scenario: str) -> None:
    """On iblock: a DCD refuses to start when the lie cost it its own superblock. Some of the
    first seeds cost the mirror its own."""
    words = ("--lie", "--backstore", "iblock", "--first", "3")
    done = lab(scenario, "plain", 40, *words)
    assert reported(done), done.stdout + done.stderr


def test_same_seed_same_output() -> None:
    one, two = (lab("cut_mirror", "plain", 5, "--backstore", "iblock") for _ in range(2))
    assert one.returncode == 0, one.stdout + one.stderr
    assert one.stdout == two.stdout
