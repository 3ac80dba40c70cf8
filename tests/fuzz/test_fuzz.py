# SPDX-License-Identifier: GPL-2.0-only
"""The fuzz targets on their corpora, and on some inputs of the day's own.

LOCKSTEP_FUZZ sets how many; `make fuzz` is the real thing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from fuzzlab import HERE, TARGETS, Target
from sanitized import Said, compile_c, run

RUNS = int(os.environ.get("LOCKSTEP_FUZZ", "4000"))
# A check without which each target has to fail.
NEEDED = {
    "dcd": ("segment.c", "offset + stored <= g->segment_bytes", "true"),
    "lockstep": ("super.c", "!generation_is(&s->cur, &s->history[0].gen)", "false"),
}


def replay(target: Target, folder: Path, tried: list[Path], runs: int) -> Said:
    program = compile_c(folder / "replay", "-O2", *target.words, HERE / "replay.c", *tried)
    return run(program, str(runs), "1", *target.unpack(folder / "corpus"))


@pytest.mark.parametrize("name", TARGETS)
def test_corpus_and_more(name: str, tmp_path: Path) -> None:
    done = replay(TARGETS[name], tmp_path, TARGETS[name].tried, RUNS)
    found = re.fullmatch(r"(\d+) runs, (\d+) accepted\n", done.out)
    assert done.code == 0 and found, done
    runs, accepted = int(found[1]), int(found[2])
    assert runs > RUNS + 50 and runs // 20 < accepted < runs, done.out


@pytest.mark.parametrize("name", TARGETS)
def test_a_missing_check_is_found(name: str, tmp_path: Path) -> None:
    part, check, instead = NEEDED[name]
    tried = []
    for path in TARGETS[name].tried:
        if path.name == part:
            text = path.read_text()
            assert text.count(check) == 1
            path = tmp_path / part
            path.write_text(text.replace(check, instead))
        tried.append(path)
    with pytest.raises(AssertionError, match=r"Sanitizer|fuzz: "):
        assert replay(TARGETS[name], tmp_path, tried, RUNS).code == 0
