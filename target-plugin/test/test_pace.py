# SPDX-License-Identifier: GPL-2.0-only
"""The delays of writes, compiled in userspace: a simulated log that fills and drains."""

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHIM = HERE.parents[1] / "bench/media/test/include"  # the kernel's headers, as far as needed
FLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all"]  # fmt: skip


def test_delays_hold_the_level(tmp_path: Path) -> None:
    program = tmp_path / "test_pace"
    sources = [str(HERE.parent / "pace.c"), str(HERE / "test_pace.c")]
    includes = ["-I", str(SHIM), "-I", str(HERE.parent)]
    cc = os.environ.get("CC", "cc")
    subprocess.run([cc, *FLAGS, *includes, *sources, "-o", str(program), "-lm"], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
