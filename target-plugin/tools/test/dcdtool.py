# SPDX-License-Identifier: GPL-2.0-only
"""The command dcd, and its pure parts, built under the sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest
import sanitized

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
PARTS = ("parse.c", "segment.c", "moves.c", "plan.c", "leg.c", "witness-pool.c")
PURE = [*(TOP / "target-plugin" / name for name in PARTS),
        TOP / "dm-target/super.c", TOP / "dm-target/tools/port.c"]  # fmt: skip
TOOL = [*HERE.parent.glob("*.c"), TOP / "dm-target/tools/json.c"]
NVRAM = pytest.mark.parametrize("nvram", [True, False])


def compile_dcd(to: Path, *words: str | Path) -> Path:
    """@words: what the test links with it."""
    return sanitized.compile_c(to, *words, *TOOL, *PURE)


@pytest.fixture(scope="session")
def dcd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_dcd(tmp_path_factory.mktemp("dcd") / "dcd")
