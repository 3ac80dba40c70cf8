# SPDX-License-Identifier: GPL-2.0-only
"""What a DCD writes on a mirror's leg, in userspace."""

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIRROR = HERE.parents[1] / "dm-target"
FLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all"]  # fmt: skip


def test_a_leg_is_told_of_its_log(tmp_path: Path) -> None:
    program = tmp_path / "test_leg"
    sources = [HERE.parent / "leg.c", HERE.parent / "parse.c", HERE / "test_leg.c",
               MIRROR / "super.c", MIRROR / "tools" / "port.c"]  # fmt: skip
    cc = os.environ.get("CC", "cc")
    subprocess.run([cc, *FLAGS, "-I", HERE.parent, *sources, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
