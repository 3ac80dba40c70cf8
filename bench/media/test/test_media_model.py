# SPDX-License-Identifier: GPL-2.0-only
"""The spindle's arithmetic, compiled in userspace, against the disk's data sheet."""

from pathlib import Path

from sanitized import compile_c, run

HERE = Path(__file__).resolve().parent


def test_spindle_matches_its_data_sheet(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "test_model", "-I", HERE / "include", "-I", HERE.parent,
                        HERE.parent / "media-model.c", HERE / "test_model.c", "-lm")  # fmt: skip
    done = run(program)
    assert done.code == 0, done
