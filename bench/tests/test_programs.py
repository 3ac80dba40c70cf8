# SPDX-License-Identifier: GPL-2.0-only
"""What runs for cells is gone when the run is."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from runner.programs import Programs

LONG = "echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600"


def pid_in(file: Path) -> int:
    deadline = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < deadline, f"{file}: nothing was started"
        time.sleep(0.02)
    return int(file.read_text(encoding="ascii"))


def gone(pid: int) -> bool:
    """Within some seconds."""
    deadline = time.monotonic() + 20
    stat = Path(f"/proc/{pid}/stat")
    while time.monotonic() < deadline:
        try:
            if stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def test_a_program_is_told_as_it_was() -> None:
    done = Programs().run(["sh", "-c", "echo $A; echo b >&2; exit 3"], env={"A": "a"})
    assert (done.returncode, done.stdout, done.stderr) == (3, "a\n", "b\n")


def test_all_end_at_the_end_and_none_begins_afterwards(tmp_path: Path) -> None:
    one, codes = Programs(), list[int]()

    def work(number: int) -> None:
        script = LONG.format(tmp_path / str(number))
        codes.append(one.run(["sh", "-c", script]).returncode)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    pids = [pid_in(tmp_path / str(number)) for number in range(2)]
    one.end()
    for thread in threads:
        thread.join(20)
    assert all(gone(pid) for pid in pids)
    assert codes == [-signal.SIGTERM] * 2
    assert one.run(["touch", str(tmp_path / "late")]).returncode != 0
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_none_outlives_the_runner(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "pid"
    script = (f"import sys; sys.path[:] = {sys.path!r}; from runner.programs import Programs; "
              f"Programs().run(['sh', '-c', {LONG.format(file)!r}])")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", script]) as runner:
        pid = pid_in(file)
        runner.send_signal(number)
    assert gone(pid)
