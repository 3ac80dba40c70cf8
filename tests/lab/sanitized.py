# SPDX-License-Identifier: GPL-2.0-only
"""C of the tree, compiled by the host's compiler under the sanitizers, and run."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all"]  # fmt: skip


def compile_c(to: Path, *words: str | Path) -> Path:
    """@words: sources and options."""
    subprocess.run([os.environ.get("CC", "cc"), *FLAGS, *words, "-o", to], check=True)
    return to


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def run(program: Path, *words: str | Path, cwd: Path | None = None, **env: str) -> Said:
    """What the program said; fails if a sanitizer had something to say."""
    done = subprocess.run([program, *words], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, **env}, check=False)  # fmt: skip
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    return Said(done.returncode, done.stdout, done.stderr)
