# SPDX-License-Identifier: GPL-2.0-only
"""The settings of a LUN, compiled in userspace."""

from pathlib import Path

from sanitized import compile_c, run

HERE = Path(__file__).resolve().parent


def test_what_control_does(tmp_path: Path) -> None:
    # As the kernel is built.
    like = "-Wno-missing-field-initializers"
    program = compile_c(tmp_path / "test_settings", like, "-I", HERE / "include", "-I", HERE.parent,
                        HERE.parent / "lun-settings.c", HERE / "test_settings.c")  # fmt: skip
    done = run(program)
    assert done.code == 0, done
