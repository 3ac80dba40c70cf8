# SPDX-License-Identifier: GPL-2.0-only
"""The sim lab itself: exit codes, timeouts, splats, determinism, wires."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import splat
from labrun import TREE, lab
from simlab import RC_LAB, RC_SPLAT, RC_TIMEOUT


@pytest.mark.parametrize("kernel", ["plain", "checked"])
def test_exit_code_output_and_files(kernel: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = lab("lab_hello.py", "3", kernel=kernel, options=("--out", str(out), "--seed", "7"))
    assert run.rc == 3, run.text
    assert run.stdout.startswith(f"seed 7 kernel {kernel} args ['3']\n".encode()), run.text
    assert b"slept 3600.000 s" in run.stdout, run.text
    assert b"to stderr" not in run.stdout
    assert "to stderr" in run.stderr
    assert (out / "left-behind").read_text() == "kept\n"
    assert "reboot: Power down" in (out / "console.log").read_text()


def test_shell_scripts_run_too() -> None:
    run = lab("lab_shell.sh", "an argument", "5")
    assert run.rc == 5, run.text
    assert run.stdout == b"bash an argument seed 1\n", run.text


def test_a_stuck_script_is_ended_by_wall_time() -> None:
    before = time.monotonic()
    run = lab("lab_stuck.py", "spin", options=("--timeout", "5"))
    assert run.rc == RC_TIMEOUT, run.text
    assert "no end after 5 s of wall time" in run.stderr, run.text
    assert time.monotonic() - before < 30


def test_a_stuck_script_is_ended_by_simulated_time() -> None:
    run = lab("lab_stuck.py", "sleep", options=("--sim-timeout", "1000"))
    assert run.rc == RC_TIMEOUT, run.text
    assert "no end after 1000" in run.stderr, run.text


def test_a_script_that_dies_is_a_failure() -> None:
    run = lab("lab_stuck.py", "die")
    assert run.rc == 128 + signal.SIGKILL, run.text
    run = lab("lab_stuck.py", "raise")
    assert run.rc == 1, run.text
    assert "ValueError: on purpose" in run.stderr, run.text


def test_a_guest_that_panics_is_the_labs_failure() -> None:
    run = lab("lab_stuck.py", "panic")
    assert run.rc == RC_LAB, run.text
    assert "the guest died" in run.stderr, run.text


def test_what_cannot_run_is_said(tmp_path: Path) -> None:
    run = lab("no_such_scenario.py")
    assert run.rc == RC_LAB, run.text
    assert "no script" in run.stderr and "no_such_scenario.py" in run.stderr, run.text
    outside = tmp_path / "outside.py"
    outside.touch()
    run = lab(str(outside))
    assert run.rc == RC_LAB, run.text
    assert "is outside" in run.stderr, run.text
    (tmp_path / "precious").touch()
    run = lab("lab_hello.py", options=("--out", str(tmp_path)))
    assert run.rc == RC_LAB, run.text
    assert (tmp_path / "precious").exists()
    run = lab("lab_hello.py", options=("--param", "nonsense"))
    assert run.rc == RC_LAB, run.text
    assert "MODULE.PARAMETER=VALUE" in run.stderr, run.text


def test_a_knob_that_a_module_doesnt_have_is_refused() -> None:
    run = lab("lab_hello.py", options=("--param", "dcd.test_nonsense=1"))
    assert run.rc == 125 and "dcd/parameters/test_nonsense" in run.stderr, run.text


@pytest.mark.parametrize(
    "words",
    [
        ("mirror_window.py", "wrie"), ("mirror_limits.py", "row"), ("mirror_memory.py", "leak"),
        ("mirror_scribble.py", "dm"), ("mirror_churn.py", "1", "1", "luns"),
        ("fs_power.py", "ext4", "1", "lies"),
    ],
)  # fmt: skip
def test_a_part_that_a_scenario_doesnt_have_is_refused(words: tuple[str, ...]) -> None:
    run = lab(*words)
    assert run.rc == 1, run.text
    assert f"no '{words[-1]}'; known: " in run.stderr, run.text


def test_nothing_is_left_when_the_runner_is_ended() -> None:
    process = subprocess.Popen(
        ["tests/sim/lab", "run", "tests/sim/scenarios/lab_stuck.py", "--", "spin"],
        cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"spinning\n"
    guests = _children(process.pid)
    assert guests
    process.terminate()
    process.communicate(timeout=30)
    for _ in range(100):
        if not any(os.path.exists(f"/proc/{pid}") for pid in guests):
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {[pid for pid in guests if os.path.exists(f'/proc/{pid}')]}")


SPLATS = [
    ("plain", "warn", "WARNING:"),
    ("plain", "hang", "INFO: task "),
    ("checked", "uaf", "BUG: KASAN: slab-use-after-free"),
    ("checked", "oob", "BUG: KASAN: slab-out-of-bounds"),
    ("checked", "abba", "WARNING: possible circular locking"),
    ("checked", "sleep", "BUG: sleeping function called from invalid context"),
]


@pytest.mark.parametrize(("kernel", "kind", "text"), SPLATS)
def test_a_splat_fails_a_run_that_passed(kernel: str, kind: str, text: str) -> None:
    run = lab("lab_splat.py", kind, kernel=kernel)
    assert run.rc == RC_SPLAT, run.text
    assert f"lab: kernel splat: {text}" in run.stderr.replace("] ", ": "), run.text


def test_an_expected_splat_is_none() -> None:
    run = lab("lab_splat.py", "warn", "WARNING:")
    assert run.rc == 0, run.text


def test_an_expected_splat_has_to_come() -> None:
    run = lab("lab_splat.py", "warn", "WARNING:", "BUG: something else")
    assert run.rc == RC_SPLAT, run.text
    assert "expected a kernel splat with 'BUG: something else', none came" in run.stderr, run.text


def test_the_judge_of_consoles() -> None:
    clean = ["scsi 0:0:0:0: Direct-Access", "Lock dependency validator: Copyright", "device: ok"]
    assert splat.find(clean) == []
    bad = [
        "WARNING: CPU: 0 PID: 1 at fs/x.c:3 f+0x1/0x2",
        "UBSAN: shift-out-of-bounds in lib/x.c:1:2",
        "INFO: task dd:42 blocked for more than 120 seconds.",
        "ODEBUG: free active (active state 0) object: 1",
        "BUG: unable to handle kernel NULL pointer dereference",
        "WARNING: suspicious RCU usage",
    ]
    assert splat.find(clean + bad) == bad
    assert splat.judge(bad[:1], None) == [f"kernel splat: {bad[0]}"]
    assert splat.judge(bad[:1], ["WARNING:"]) == []


def test_a_fault_of_the_kernels_own_is_known_as_a_whole() -> None:
    report = [
        "WARNING: suspicious RCU usage",
        "lib/maple_tree.c:720 suspicious rcu_dereference_check() usage!",
        " [<6014d941>] flush_tlb_mm+0x91/0x140",
        " [<604631b3>] tlb_finish_mmu+0x273/0x3e0",
    ]
    assert splat.find(report) == []
    assert splat.find(report[:2]) == report[:1]
    assert splat.find([*report, " [<7014d941>] write_map+0x91/0x140 [dm_lockstep]"]) == report[:1]
    assert splat.find([*report, "BUG: KASAN: slab-use-after-free in x"]) == [
        "BUG: KASAN: slab-use-after-free in x"
    ]


def test_a_race_counts_if_it_is_ours() -> None:
    line, ours = "=" * 66, " window_take+0x4f/0x90 [dm_lockstep]"
    race = [
        line, "BUG: KCSAN: data-race in _find_next_bit / clear_bit", "",
        "read to 0xffff888003a9c0c8 of 8 bytes by task 64 on cpu 1:",
        " _find_next_bit+0x4f/0x90", " sbitmap_get+0x4f/0x90", "",
        "write (marked) to 0xffff888003a9c0c8 of 8 bytes by interrupt on cpu 0:",
        " clear_bit+0x4f/0x90", " sbitmap_clear+0x4f/0x90", "", line,
    ]  # fmt: skip
    assert splat.find([*race, "dm_lockstep: something else [dm_lockstep]"]) == []
    assert splat.find([*race[:10], ours, *race[10:]]) == []  # it only called
    for at in (4, 5, 8, 9):
        assert splat.find([*race[:at], ours, *race[at + 1 :]]) == race[1:2]


def test_same_seed_same_bytes() -> None:
    one, two = (lab("lab_determinism.py") for _ in range(2))
    assert one.rc == 0, one.text
    assert one.stdout == two.stdout
    other = lab("lab_determinism.py", options=("--seed", "2"))
    assert other.rc == 0, other.text
    assert other.stdout != one.stdout


def test_wires_are_what_they_say() -> None:
    run = lab("lab_wire.py")
    assert run.rc == 0, run.text


def test_a_varying_wire_varies_by_seed() -> None:
    seeds = ["1", "1", "2"]
    runs = [lab("lab_varying.py", options=("--seed", seed)) for seed in seeds]
    assert [run.rc for run in runs] == [0, 0, 0], runs[0].text
    assert runs[0].stdout == runs[1].stdout != runs[2].stdout


def test_real_time_by_option() -> None:
    before = time.monotonic()
    run = lab("lab_stuck.py", "nap", options=("--realtime",))
    assert run.rc == 0, run.text
    assert time.monotonic() - before > 2


def _children(pid: int) -> list[int]:
    """The process's descendants."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_children(int(child))]
    return found
