# SPDX-License-Identifier: GPL-2.0-only
"""The delays of writes, compiled in userspace: a simulated log that fills and drains."""

from pathlib import Path

from sanitized import compile_c, run

HERE = Path(__file__).resolve().parent
SHIM = HERE.parents[1] / "bench/media/test/include"  # the kernel's headers, as far as needed


def test_delays_hold_the_level(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "test_pace", "-I", SHIM, "-I", HERE.parent,
                        HERE.parent / "pace.c", HERE.parent / "turn.c",
                        HERE / "test_pace.c", "-lm")  # fmt: skip
    done = run(program)
    assert done.code == 0, done
