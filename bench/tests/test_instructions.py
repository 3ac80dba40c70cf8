# SPDX-License-Identifier: GPL-2.0-only
"""What bench/instructions makes of its guest's words."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments import instructions
from laberror import LabError

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


@pytest.mark.parametrize("ending", ["", "FAILED line 9: insmod"])
def test_a_guest_that_did_not_end_well_gives_no_figures(ending: str) -> None:
    with pytest.raises(LabError, match=ending or "RESULT"):
        instructions.results(SAID.replace("DONE", ending), Path("console"))


def test_the_spread_of_rounds_is_told() -> None:
    rates = (300.0, 100.0, 250.0)
    found = [instructions.Result("dcd", 32, 10, 0.0, rate, 0.0) for rate in rates]
    found.append(instructions.Result("dcd:reads", 32, 10, 0.0, 7.0, 0.0))
    writes, reads = (" ".join(line.split()) for line in instructions.real_time(found))
    assert writes == "dcd 32 in flight: writes a second 100, 250, 300"
    assert reads == "dcd 32 in flight: reads a second 7, 7, 7"
