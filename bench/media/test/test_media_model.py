# SPDX-License-Identifier: GPL-2.0-only
"""The spindle's arithmetic, compiled in userspace, against the disk's data sheet."""

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]


def test_spindle_matches_its_data_sheet(tmp_path: Path) -> None:
    program = tmp_path / "test_model"
    sources = [str(HERE.parent / "media-model.c"), str(HERE / "test_model.c")]
    includes = ["-I", str(HERE / "include"), "-I", str(HERE.parent)]
    cc = os.environ.get("CC", "cc")
    subprocess.run([cc, *FLAGS, *includes, *sources, "-o", str(program), "-lm"], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
