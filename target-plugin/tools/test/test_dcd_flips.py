# SPDX-License-Identifier: GPL-2.0-only
"""Recovery of logs and NVRAMs in which a bit is wrong, or which end early.

Every bit of every byte that recovery reads, and every length:
`LOCKSTEP_FLIPS=1 python3 -m pytest target-plugin/tools/test/test_dcd_flips.py`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from dcdimage import after_a_cut, fuzz_input
from dcdtool import HERE, NVRAM, PURE
from sanitized import compile_c, run

EVERY = os.environ.get("LOCKSTEP_FLIPS", "601")


@pytest.fixture(scope="module")
def flips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("flips") / "flips"
    return compile_c(to, HERE / "flips.c", HERE / "walk.c", *PURE)


@NVRAM
def test_flips_and_truncations(flips: Path, tmp_path: Path, nvram: bool) -> None:
    images = after_a_cut(nvram)
    images.save(tmp_path)
    (tmp_path / "right").write_bytes(images.right)
    paths = [str(tmp_path / name) for name in ("log", "nvram", "data", "right")]
    if not nvram:
        paths[1] = "-"
    done = run(flips, *paths, EVERY)
    assert done.code == 0, done
    found = re.fullmatch(r"right (\d+) refused (\d+)\n", done.out)
    assert found and int(found[1]) > 100 and int(found[2]) > 100, done.out
    # The control: with other right data it is reported.
    (tmp_path / "right").write_bytes(images.data)
    assert run(flips, *paths, EVERY).code == 1


def test_fuzz(tmp_path: Path) -> None:
    """More runs: `LOCKSTEP_FUZZ=10000000`."""
    fuzz = compile_c(tmp_path / "fuzz", HERE / "fuzz.c", HERE / "walk.c", *PURE, "-O2")
    paths = []
    for nvram in (True, False):
        path = tmp_path / f"input-{nvram}"
        path.write_bytes(fuzz_input(after_a_cut(nvram, 128)))
        paths.append(str(path))
    whole = run(fuzz, "0", "1", *paths)
    assert (whole.code, whole.out) == (0, "0 runs, 2 accepted\n"), whole
    runs = os.environ.get("LOCKSTEP_FUZZ", "5000")
    done = run(fuzz, runs, "1", *paths)
    found = re.fullmatch(rf"{runs} runs, (\d+) accepted\n", done.out)
    assert done.code == 0 and found, done
    assert int(runs) // 20 < int(found[1]) < int(runs), done.out  # it gets past the checksums
