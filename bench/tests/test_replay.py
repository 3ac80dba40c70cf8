# SPDX-License-Identifier: GPL-2.0-only
"""The replayer under ASan and UBSan, on regular files."""

from __future__ import annotations

import csv
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
from report import responses
from traces import spc

SOURCES = Path(__file__).resolve().parents[1] / "replay"
SECTORS = 2048


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "replay"
    flags = "-std=gnu11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined"
    words = ["cc", *flags.split(), "-fno-sanitize-recover=all", "-o", str(path)]
    subprocess.run([*words, *map(str, sorted(SOURCES.glob("*.c")))], check=True)
    return path


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "device"
    path.write_bytes(bytes(SECTORS * 512))
    return path


def replay_file(tmp_path: Path, rows: list[spc.Placed]) -> Path:
    path = tmp_path / "trace.bin"
    path.write_bytes(spc.pack(rows))
    return path


def writes(count: int, gap_ms: int = 1) -> list[spc.Placed]:
    return [spc.Placed(8 * n, 8, True, n * gap_ms * 1_000_000) for n in range(count)]


def run(program: Path, *words: object, rc: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(program), *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == rc, done.stderr
    return done


def summary(program: Path, *words: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(program, *words).stdout)
    return answer


def test_every_request_reaches_its_place(program: Path, tmp_path: Path, device: Path) -> None:
    rows = [*writes(40), spc.Placed(0, 16, False, 50_000_000)]
    got = summary(program, "--slots", 64, replay_file(tmp_path, rows), device)
    assert got["writes"]["issued"] == 40
    assert got["reads"]["issued"] == 1
    assert got["writes"]["skipped"] == got["reads"]["skipped"] == got["unfinished"] == 0
    data = device.read_bytes()
    sectors = [data[at : at + 512] for at in range(0, len(data), 512)]
    assert len({*sectors[:320]}) == 320, "two sectors have the same content"
    assert not any(any(sector) for sector in sectors[320:]), "written behind the trace's requests"


def test_content_is_the_seeds(program: Path, tmp_path: Path, device: Path) -> None:
    trace = replay_file(tmp_path, writes(5))
    seen = []
    for seed in (1, 1, 2):
        run(program, "--slots", 64, "--seed", seed, trace, device)
        seen.append(device.read_bytes())
    assert seen[0] == seen[1] != seen[2]


def test_keeps_the_traces_times(program: Path, tmp_path: Path, device: Path) -> None:
    log = tmp_path / "log"
    run(program, "--log", log, replay_file(tmp_path, writes(20, gap_ms=10)), device)
    rows = list(csv.DictReader(log.open(encoding="ascii")))
    assert len(rows) == 20
    for row in rows:
        assert int(row["issued_ns"]) >= int(row["due_ns"])
        assert int(row["done_ns"]) >= int(row["issued_ns"])


def test_statistics_are_those_of_the_log(program: Path, tmp_path: Path, device: Path) -> None:
    log = tmp_path / "log"
    got = summary(program, "--log", log, replay_file(tmp_path, writes(150)), device)
    rows = csv.DictReader(log.open(encoding="ascii"))
    times = sorted(int(row["done_ns"]) - int(row["issued_ns"]) for row in rows)
    said = got["writes"]["response"]
    assert said["count"] == len(times)
    assert said["mean_ns"] == pytest.approx(sum(times) / len(times), abs=0.1)
    assert said["min_ns"] == times[0]
    for key, share in (("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999), ("max_ns", 1.0)):
        assert said[key] == times[math.ceil(share * len(times) - 1e-9) - 1], key


def test_series_sums_what_the_log_has(program: Path, tmp_path: Path, device: Path) -> None:
    rows = [*writes(30), *(spc.Placed(8 * n, 8, True, 1_000_000_000) for n in range(40))]
    log, series = tmp_path / "log", tmp_path / "series"
    words = ("--series", series, "--series-seconds", 1, "--log", log)
    got = summary(program, *words, replay_file(tmp_path, rows), device)
    bins = list(csv.DictReader(series.open(encoding="ascii")))
    assert [row["start_s"] for row in bins] == ["0", "1"]
    logged = list(csv.DictReader(log.open(encoding="ascii")))
    for row, first in zip(bins, (True, False), strict=True):
        mine = [one for one in logged if (int(one["due_ns"]) < 10**9) == first]
        times = [int(one["done_ns"]) - int(one["issued_ns"]) for one in mine]
        assert int(row["writes"]) == len(times)
        assert int(row["max_ns"]) == max(times)
        assert float(row["mean_ns"]) == pytest.approx(sum(times) / len(times), abs=0.1)
    assert sum(int(row["skipped"]) for row in bins) == got["writes"]["skipped"] == 70 - len(logged)


def test_a_large_request_is_whole(program: Path, tmp_path: Path) -> None:
    device = tmp_path / "large"
    device.write_bytes(bytes(40 << 20))
    sectors = 17_116_160 // 512
    rows = [spc.Placed(0, sectors, True, 0), spc.Placed(sectors, 8, True, 1_000_000)]
    got = summary(program, "--batch", 8, replay_file(tmp_path, rows), device)
    assert got["writes"]["response"]["count"] == 2
    assert got["batches"]["within_half_second"] <= got["batches"]["count"] == 1
    data = device.read_bytes()
    assert all(any(data[at : at + 512]) for at in range(0, (sectors + 8) * 512, 512))
    assert not any(data[(sectors + 8) * 512 :])


def test_a_batch_waits_for_its_last_write(program: Path, tmp_path: Path, device: Path) -> None:
    # 20 writes: two batches of 8 and the last 4; each is issued when it is full.
    log = tmp_path / "log"
    trace = replay_file(tmp_path, writes(20))
    series = tmp_path / "series"
    got = summary(program, "--batch", 8, "--log", log, "--series", series, trace, device)
    assert got["batches"]["count"] == 3
    bins = list(csv.DictReader(series.open(encoding="ascii")))
    assert sum(int(row["batches"]) for row in bins) == 3
    assert max(int(row["max_ns"]) for row in bins) == got["batches"]["max_ns"]
    taken = responses.batches(list(csv.DictReader(log.open(encoding="ascii"))), 8)
    assert len(taken) == 3
    assert max(ns for _, ns in taken) == pytest.approx(got["batches"]["max_ns"], rel=0.01)
    assert got["writes"]["issued"] == 20
    rows = {int(row["record"]): row for row in csv.DictReader(log.open(encoding="ascii"))}
    for first, last in ((0, 7), (8, 15), (16, 19)):
        issued = {rows[n]["issued_ns"] for n in range(first, last + 1)}
        assert len(issued) == 1
        assert int(issued.pop()) >= int(rows[last]["due_ns"])


def test_skips_when_every_slot_is_busy(program: Path, tmp_path: Path, device: Path) -> None:
    # A collected batch holds its slot, so with one slot the read finds none free.
    rows = [
        spc.Placed(0, 8, True, 0),
        spc.Placed(0, 8, False, 1_000_000),
        spc.Placed(8, 8, True, 2_000_000),
    ]
    trace = replay_file(tmp_path, rows)
    got = summary(program, "--slots", 1, "--batch", 2, trace, device)
    assert (got["writes"]["issued"], got["writes"]["skipped"]) == (2, 0)
    assert (got["reads"]["issued"], got["reads"]["skipped"]) == (0, 1)


def test_stops_at_the_given_second(program: Path, tmp_path: Path, device: Path) -> None:
    rows = [spc.Placed(0, 8, True, 0), spc.Placed(8, 8, True, 1_000_000_000)]
    got = summary(program, "--seconds", 1, replay_file(tmp_path, rows), device)
    assert (got["writes"]["issued"], got["writes"]["not_replayed"]) == (1, 1)


def test_small_device_is_refused_untouched(program: Path, tmp_path: Path, device: Path) -> None:
    trace = replay_file(tmp_path, [spc.Placed(0, 8, True, 0), spc.Placed(SECTORS, 1, True, 1)])
    done = run(program, trace, device, rc=1)
    assert f"{device}: has {SECTORS} sectors, the trace spans {SECTORS + 1}" in done.stderr
    assert not any(device.read_bytes())


def test_damaged_replay_file_is_refused(program: Path, tmp_path: Path, device: Path) -> None:
    whole = spc.pack(writes(3))
    path = tmp_path / "bad"
    for data, says in (
        (b"", "not a replay file"),
        (b"0,1,512,w,0.0\n" * 5, "not a replay file"),
        (whole[:-1], "don't hold the 3 records"),
        (whole + b"x", "don't hold the 3 records"),
        (whole[:16] + b"\1" + whole[17:], "ends behind the trace's span"),
        (whole[:-4] + b"\7\0\0\0", "record 2: unknown operation"),
        (whole[:-8] + b"\1\0\0\0" + whole[-4:], "record 2: size"),
    ):
        path.write_bytes(data)
        assert says in run(program, path, device, rc=1).stderr
    assert not any(device.read_bytes())


def test_bad_options_are_named(program: Path, tmp_path: Path, device: Path) -> None:
    trace = replay_file(tmp_path, writes(1))
    assert "--slots 0" in run(program, "--slots", 0, trace, device, rc=1).stderr
    assert "--batch x" in run(program, "--batch", "x", trace, device, rc=1).stderr
    assert "neither a block device" in run(program, trace, tmp_path, rc=1).stderr
