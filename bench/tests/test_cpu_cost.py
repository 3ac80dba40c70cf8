# SPDX-License-Identifier: GPL-2.0-only
"""The table of what a write costs: means, spread, and each beside its own control."""

from __future__ import annotations

from experiments import cpu_cost


def row(peer: str, instructions: float, depth: int = 1) -> dict[str, object]:
    return {"peer": peer, "depth": depth, "instructions": instructions}


ROWS = [
    row("md", 1000.0), row("lockstep", 1400.0), row("iblock", 2000.0), row("iblock:reads", 9.0),
    row("md", 1200.0), row("lockstep", 1900.0), row("iblock", 2000.0), row("fileio", 3000.0),
]  # fmt: skip


def test_a_round_is_a_figure_and_reads_are_left_out() -> None:
    found = cpu_cost.costs(ROWS)
    assert found["md", 1] == [1000.0, 1200.0]
    assert ("iblock:reads", 1) not in found


def test_a_mirror_is_beside_md_and_a_lun_beside_iblock() -> None:
    lines = cpu_cost.table(cpu_cost.costs(ROWS), [1])
    words = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert words["lockstep"] == ["1650", "1400", "1900", "1.50"]
    assert words["fileio"] == ["3000", "3000", "3000", "1.50"]


def test_without_its_control_there_is_no_ratio() -> None:
    [_, line] = cpu_cost.table(cpu_cost.costs([row("lockstep", 5.0)]), [1])
    assert line.split() == ["lockstep", "5", "5", "5", "-"]
