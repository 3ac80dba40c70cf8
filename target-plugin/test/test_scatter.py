# SPDX-License-Identifier: GPL-2.0-only
"""WRITE SCATTERED(16) in userspace. More runs on any bytes: `LOCKSTEP_FUZZ=10000000`."""

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all"]  # fmt: skip


def test_commands_and_lists(tmp_path: Path) -> None:
    program = tmp_path / "test_scatter"
    sources = [HERE.parent / "scatter.c", HERE / "test_scatter.c"]
    cc = os.environ.get("CC", "cc")
    subprocess.run([cc, *FLAGS, "-I", HERE.parent, *sources, "-o", program], check=True)
    runs = int(os.environ.get("LOCKSTEP_FUZZ", "100000"))
    done = subprocess.run([program, str(runs), "1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert runs // 100 < int(done.stdout.split()[0]) < runs, done.stdout
