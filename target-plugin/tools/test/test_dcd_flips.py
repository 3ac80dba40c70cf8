# SPDX-License-Identifier: GPL-2.0-only
"""Recovery of logs and NVRAMs in which a bit is wrong, or which end early.

One of 1201 bits and lengths; in `make test-long` every bit that recovery reads, and every length in
bytes. -s tells how many were right and refused.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dcdimage import after_a_cut
from dcdtool import HERE, NVRAM, PURE, TOP
from sanitized import compile_c, run


@pytest.fixture(scope="module")
def flips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("flips") / "flips"
    crc = ("-Wl,--wrap=crc32c", TOP / "tests/fuzz/crc.c")
    return compile_c(to, "-O2", *crc, HERE / "flips.c", HERE / "walk.c", *PURE)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("every", [1201, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(("batches", "moved"), [(False, False), (True, False), (False, True)])
@NVRAM
def test_flips_and_truncations(
    flips: Path, tmp_path: Path, nvram: bool, batches: bool, moved: bool, every: int
) -> None:
    images = after_a_cut(nvram, batches=batches)
    if moved:
        images.move((20, 0), (21, 1), (22, 2))
    images.save(tmp_path)
    (tmp_path / "right").write_bytes(images.right)
    paths = [str(tmp_path / name) for name in ("log", "nvram", "data", "right")]
    if not nvram:
        paths[1] = "-"
    done = run(flips, *paths, str(every))
    assert done.code == 0, done
    print(f"\n{'with' if nvram else 'without'} NVRAM, batches: {batches}: {done.out}", end="")
    found = re.fullmatch(r"right (\d+) refused (\d+) not read \d+\n", done.out)
    assert found and int(found[1]) > 100 and int(found[2]) > 100, done.out
    # The control: with other right data it is reported.
    (tmp_path / "right").write_bytes(images.data)
    assert run(flips, *paths, str(every)).code == 1
