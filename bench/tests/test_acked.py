# SPDX-License-Identifier: GPL-2.0-only
"""What has to be at the mirror site after a power cut: the demo's judge, and that it can say no."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from demo_vm import acked
from traces import spc

REPLAY = Path(__file__).resolve().parents[1] / "replay"
SECTORS = 256


def write(record: int, issued: int, done: int, sector: int = 0, sectors: int = 1) -> acked.Write:
    return acked.Write(record, issued, done, sector, sectors, True)


def held(*ones: tuple[int, acked.Write], seed: int = 1) -> dict[int, str]:
    return {sector: acked.digest(acked.content(seed, one, sector)) for sector, one in ones}


def test_the_last_acknowledged_write_has_to_be_there() -> None:
    old, new = write(1, 0, 10), write(2, 20, 30)
    assert acked.judge([old, new], 50, 1, held((0, new))).lost == ()
    assert acked.judge([old, new], 50, 1, held((0, old))).lost == (0,)
    assert acked.judge([old, new], 50, 1, {}).lost == (0,)
    assert acked.judge([old, new], 50, 2, held((0, new))).lost == (0,)  # another replay's bytes


def test_either_of_two_at_the_same_time() -> None:
    one, two = write(1, 0, 30), write(2, 20, 40)
    assert acked.judge([one, two], 50, 1, held((0, one))).lost == ()
    assert acked.judge([one, two], 50, 1, held((0, two))).lost == ()


def test_what_was_under_way_at_the_cut_may_be_there() -> None:
    sure, late = write(1, 0, 10), write(2, 40, 90)
    failed = acked.Write(3, 5, 8, 0, 1, False)
    for one in (sure, late, failed):
        assert acked.judge([sure, late, failed], 50, 1, held((0, one))).lost == ()
    verdict = acked.judge([late, failed], 50, 1, {})
    assert (verdict.acknowledged, verdict.sectors, verdict.lost) == (0, 0, ())


def test_a_write_is_judged_sector_by_sector() -> None:
    wide, narrow = write(1, 0, 10, 0, 3), write(2, 20, 30, 1, 1)
    right = held((0, wide), (1, narrow), (2, wide))
    verdict = acked.judge([wide, narrow], 50, 1, right)
    assert (verdict.acknowledged, verdict.sectors, verdict.lost) == (2, 3, ())
    torn = right | held((1, wide))
    assert acked.judge([wide, narrow], 50, 1, torn).lost == (1,)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "replay"
    subprocess.run(
        ["cc", "-std=gnu11", "-O1", "-o", str(path), *map(str, sorted(REPLAY.glob("*.c")))],
        check=True,
    )
    return path


def test_the_replayers_own_bytes(program: Path, tmp_path: Path) -> None:
    rows = [spc.Placed(n * 5 % 200, 1 + n % 9, True, n * 1_000_000) for n in range(60)]
    trace, device, log = tmp_path / "t", tmp_path / "d", tmp_path / "log"
    trace.write_bytes(spc.pack(rows))
    device.write_bytes(bytes(SECTORS * 512))
    # A slot for each request: on a slow machine too, none is skipped.
    words = [str(program), "--slots", "60", "--seed", "7", "--log", str(log), str(trace)]
    words.append(str(device))
    answer = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert answer["started_ns"] > 0
    data = device.read_bytes()
    found = {n: acked.digest(data[n * 512 : n * 512 + 512]) for n in range(SECTORS)}
    end = max(one.done_ns for one in acked.writes(log))
    verdict = acked.judge(acked.writes(log), end, 7, found)
    assert verdict.acknowledged == 60
    touched = {one.sector + n for one in rows for n in range(one.sectors)}
    assert verdict.sectors == len(touched)
    assert verdict.lost == ()
    assert acked.judge(acked.writes(log), end, 7, found | {rows[59].sector: "0"}).lost == (
        rows[59].sector,
    )
