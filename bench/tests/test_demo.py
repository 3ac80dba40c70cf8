# SPDX-License-Identifier: GPL-2.0-only
"""The demo's parts that need no host: the trace's layout, the legs, the picture's seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from demo_vm import plan, spindles
from experiments import report
from traces import spc


def placed(*rows: tuple[int, int, bool]) -> list[spc.Placed]:
    return [spc.Placed(sector, count, write, 0) for sector, count, write in rows]


def test_what_a_trace_writes_is_merged_and_reads_are_left_out() -> None:
    rows = placed((100, 8, True), (0, 4, True), (4, 4, True), (102, 2, True), (50, 8, False))
    assert plan.written(rows) == ((0, 8), (100, 8))
    assert plan.written(placed((5, 1, False))) == ()


def test_the_trace_fits_the_legs_and_says_its_name(tmp_path: Path) -> None:
    path = tmp_path / "t.spc"
    path.write_text("0,0,512,w,0.0\n0,1,512,w,1.5\n0,0,512,w,9.0\n", encoding="ascii")
    load = plan.load(str(path), 2)
    assert load.seconds == 1.5
    assert load.written == ((0, 2),)
    assert str(path) in load.what
    assert "first 2" in load.what
    with pytest.raises(spc.BadTrace, match="don't fit"):
        plan.load(str(narrow(tmp_path)), 100)


def narrow(tmp_path: Path) -> Path:
    """So many ASUs that a large request has no room in its share."""
    path = tmp_path / "n.spc"
    lines = [f"{asu},0,512,w,0.0" for asu in range(64)] + [f"0,0,{16 << 20},w,0.0"]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


def test_parts_of_one_disk_do_not_overlap() -> None:
    for disks in ([one.local for one in plan.MIRRORS], [one.data for one in plan.MIRRORS]):
        ends = 0
        for disk in sorted(disks, key=lambda one: one.first_mib):
            assert disk.first_mib >= ends
            ends = disk.first_mib + disk.mib
    names = [s.name for s in (*(m.local for m in plan.MIRRORS), *(m.data for m in plan.MIRRORS))]
    assert len(set(names)) == len(names)
    assert spindles.table([plan.LOG]) == f"mirror-log /dev/disk/by-id/virtio-log 0 {plan.LOG_MIB}\n"


def test_lateness_is_from_the_trace_to_the_issue(tmp_path: Path) -> None:
    log = tmp_path / "requests.csv"
    head = "record,due_ns,issued_ns,done_ns,op,sector,bytes,result\n"
    rows = [f"{n},{n * 1000},{n * 1000 + late},0,w,0,512,512\n" for n, late in
            enumerate([0, 1_000_000, 5_000_000])]  # fmt: skip
    log.write_text(head + "".join(rows), encoding="ascii")
    late = report.lateness(log)
    assert (late.mean, late.p99, late.longest) == pytest.approx((0.002, 0.005, 0.005))
