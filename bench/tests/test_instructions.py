# SPDX-License-Identifier: GPL-2.0-only
"""What bench/instructions makes of its guest's words."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments import instructions
from experiments.instructions import Result
from laberror import LabError
from report import page

SAID = """\
[    1.0] kernel talk
RESULT md 1 100 3000 1000000
RESULT md 1 200 5000 2500000
RESULT lockstep 1 100 3000 1000000
RESULT lockstep 1 200 4000 2000000
DONE
"""


def test_the_second_half_of_a_load_is_what_counts() -> None:
    md, lockstep = instructions.results(SAID, Path("console"))
    assert (md.peer, md.depth, md.writes, md.instructions) == ("md", 1, 100, 15000.0)
    assert md.idle_share == pytest.approx(0.25)
    assert (lockstep.peer, lockstep.instructions, lockstep.idle_share) == ("lockstep", 10000.0, 0.0)


def test_what_is_saved_makes_the_same_table(tmp_path: Path) -> None:
    found = instructions.results(SAID, Path("console"))
    instructions.save(tmp_path / instructions.FILE, found, in_real_time=False)
    assert instructions.saved(tmp_path / instructions.FILE) == instructions.table(found, False)
    page_ = "".join(page._instructions(tmp_path, tmp_path))
    assert "Not run" in page_
    (tmp_path / "instructions").mkdir()
    instructions.save(tmp_path / "instructions" / instructions.FILE, found, in_real_time=False)
    assert "lockstep    writes" in "".join(page._instructions(tmp_path, None))
    assert "(committed)" in "".join(page._instructions(tmp_path / "no", tmp_path))


def test_in_real_time_the_whole_load_counts_however_long_its_half_took() -> None:
    said = SAID.replace("RESULT md 1 100 3000", "RESULT md 1 100 9000")
    md, _ = instructions.results(said, Path("console"), in_real_time=True)
    assert (md.writes, md.a_second) == (200, 200 / 5000e-6)


@pytest.mark.parametrize("ending", ["", "FAILED line 9: insmod"])
def test_a_guest_that_did_not_end_well_gives_no_figures(ending: str) -> None:
    with pytest.raises(LabError, match=ending or "RESULT"):
        instructions.results(SAID.replace("DONE", ending), Path("console"))


def test_too_few_writes_give_no_figures() -> None:
    said = SAID.replace("200 4000", "200 3000")  # less than a tick of the guest's clock
    with pytest.raises(LabError, match="lockstep: 100 writes are too few"):
        instructions.results(said, Path("console"))


def one(peer: str, instructions: float, a_second: float = 1.0) -> Result:
    return Result(peer, 1, 10, instructions, a_second, 0.0)


def words(found: list[Result], in_real_time: bool = False) -> dict[str, list[str]]:
    """By peer and kind, the table's figures."""
    lines = (line.split() for line in instructions.table(found, in_real_time)[1:])
    return {f"{line[0]} {line[1]}": line[3:] for line in lines}


COUNTED = [
    one("md", 1000.0), one("lockstep", 1400.0), one("iblock", 2000.0), one("iblock:reads", 100.0),
    one("md", 1200.0), one("lockstep", 1900.0), one("fileio", 3000.0), one("fileio:reads", 50.0),
]  # fmt: skip


def test_a_mirror_is_beside_md_and_a_lun_beside_iblock_reads_beside_reads() -> None:
    found = words(COUNTED)
    assert found["lockstep writes"] == ["1650", "1400", "1900", "1.50", "1"]
    assert found["fileio writes"] == ["3000", "3000", "3000", "1.50", "1"]
    assert found["fileio reads"] == ["50", "50", "50", "0.50", "1"]


def test_without_its_control_there_is_no_ratio() -> None:
    assert words([one("lockstep", 5.0)]) == {"lockstep writes": ["5", "5", "5", "-", "1"]}


def test_lockstep_above_md_is_told_from_the_means() -> None:
    assert instructions.above_md(COUNTED) == [1]
    assert instructions.above_md([one("md", 9.0), one("lockstep", 9.0)]) == []
    assert instructions.above_md([one("lockstep", 9.0)]) == []


def test_in_real_time_it_is_how_many_a_second_with_their_median() -> None:
    found = [one("dcd", 0.0, rate) for rate in (300.0, 100.0, 250.0)] + [one("iblock", 0.0, 500.0)]
    assert words(found, in_real_time=True)["dcd writes"] == ["250", "100", "300", "0.50"]


def test_peers_are_named_singly_or_together() -> None:
    assert instructions.chosen(["md", "luns", "dcd"])[:2] == ["md", "iblock"]
    assert instructions.chosen([]) == [*instructions.MIRRORS, *instructions.LUNS]
    with pytest.raises(ValueError, match="unknown peer 'mdd'; there are: bare, lockstep, md"):
        instructions.chosen(["mdd"])
