# SPDX-License-Identifier: GPL-2.0-only
"""Recovery of logs and NVRAMs that are damaged at random, by more than a bit.

Some thousands of seeded cases; in `make test-long` a million, in a quarter of an hour. -s tells
how many were right, refused, and taken for torn.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from dcdimage import FIRST_SEGMENT, Images, after_a_cut, history, many
from dcdtool import HERE, PURE, TOP
from sanitized import compile_c, run

SEED = os.environ.get("LAB_SEED", "1")


@pytest.fixture(scope="module")
def damage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("damage") / "damage"
    crc = ("-Wl,--wrap=crc32c", TOP / "tests/fuzz/crc.c")
    return compile_c(to, "-O2", *crc, HERE / "damage.c", HERE / "walk.c", *PURE)


def saved(images: Images, folder: Path) -> list[str]:
    folder.mkdir()
    images.save(folder)
    return [str(folder / "log"), "-" if images.nvram is None else str(folder / "nvram")]


# Entries that are lost at most because they look torn. With an end record: none. Without NVRAM,
# and nothing being written: the last segment. Without a right end record: what was in one table.
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("cases", [8000, pytest.param(1_000_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(("kind", "batches", "most"), [
    ("nvram", False, 0), ("nvram", True, 0), ("none", False, 0), ("at rest", False, 20),
    ("no end", False, 20), ("moved", False, 0), ("moved none", False, 0),
])  # fmt: skip
def test_damage(damage: Path, tmp_path: Path, kind: str, batches: bool, most: int,
                cases: int) -> None:  # fmt: skip
    nvram = kind in ("nvram", "no end", "moved")
    whole = [*history()[:6], many(9), many(20)]
    images = after_a_cut(nvram, batches=batches, segments=whole)
    before = after_a_cut(nvram, batches=batches, segments=whole[:6], generation=4)
    if kind.startswith("moved"):
        images.move((20, 0), (21, 1), (22, 2), (23, 1))
    if kind == "at rest":  # nothing was being written behind the last segment
        images.put(FIRST_SEGMENT + len(whole), bytes(4096))
    if kind == "no end":
        images.damage_ends()
        before.damage_ends()
    words = [*saved(images, tmp_path / "now"), *saved(before, tmp_path / "before")]
    (tmp_path / "states").write_bytes(b"".join(images.states))
    words += [str(tmp_path / "now/data"), str(tmp_path / "states")]
    done = run(damage, *words, str(cases // 5), SEED)
    print(f"\n{kind}, batches: {batches}: {done.out}", end="")
    assert done.code == 0, done
    found = re.findall(r"right (\d+) refused (\d+) torn (\d+) lost (\d+)\n", done.out)
    assert len(found) == 2, done
    assert all(int(right) > cases // 100 for right, *_ in found), done
    one = [int(number) for number in found[0]]
    assert one[1] > cases // 100 and one[3] <= most, done


def test_damage_is_seen(damage: Path, tmp_path: Path) -> None:
    """The control: where nothing says which entry is the newest, the end is lost unseen."""
    images = after_a_cut(True, segments=[*history()[:6], many(20)])
    words = [*saved(images, tmp_path / "now")] * 2
    (tmp_path / "states").write_bytes(b"".join([images.data] * 3))
    done = run(damage, *words, str(tmp_path / "now/data"), str(tmp_path / "states"), "50", SEED)
    assert done.code == 1, done
