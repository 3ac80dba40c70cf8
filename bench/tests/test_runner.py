# SPDX-License-Identifier: GPL-2.0-only
"""Experiments and their errors, the runner around cells that fail, comparing results; no lab."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from cell.order import BadOrder, Order, Stack, parse, stack
from runner import cells, compare, experiment, limits, progress, results, run, tables
from runner.experiment import BadExperiment
from runner.results import BadResults, Row
from traces import generate, spc

GOOD = """
title = "t"
workload = "fio"
params = { rw = "randwrite", bs = "4k" }
seeds = [1, 2]

[[configurations]]
name = "near"
stack = { remote = "lan" }

[[configurations]]
name = "far"
stack = { remote = "wan", software = "md" }
params = { bs = "8k" }

[axes]
"params.iodepth" = [1, 16]

[quick]
only = ["far"]
params = { number_ios = 10 }
seeds = [3]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD, encoding="utf-8")
    return path


def test_cells_are_all_configurations_with_all_values_and_seeds(file: Path) -> None:
    found = experiment.cells(str(file), quick=False)
    assert [(one.name, one.order.seed) for one in found] == [
        (f"{name} iodepth={depth}", seed)
        for name in ("near", "far") for depth in (1, 16) for seed in (1, 2)
    ]  # fmt: skip
    far = found[-1].order
    assert far.stack == Stack(remote="wan", software="md")
    assert far.params == {"rw": "randwrite", "bs": "8k", "iodepth": 16}
    assert len({one.place for one in found}) == len(found)
    assert parse(far.text()) == far


def test_a_quick_run_is_what_its_table_says(file: Path) -> None:
    found = experiment.cells(str(file), quick=True)
    assert {one.name for one in found} == {"far iodepth=1", "far iodepth=16"}
    assert {one.order.seed for one in found} == {3}
    assert all(one.order.params["number_ios"] == 10 for one in found)


@pytest.mark.parametrize(("old", "new", "says"), [
    ('title = "t"', "", "title: Field required"),
    ('title = "t"', 'title = "t"\ncolour = 1', "colour: Extra inputs"),
    ("seeds = [1, 2]", 'seeds = ["1"]', "seeds.0: Input should be a valid integer"),
    ('"fio"', '"fya"', "workload: no 'fya'; there are: .*fio"),
    ('remote = "lan"', 'remote = "lawn"', "configuration 'near iodepth=1': no wire profile 'lawn'"),
    ('software = "md"', 'software = "mdd"', "'far iodepth=1': stack: no software 'mdd'; there"),
    ('software = "md"', 'media = "tape"', "stack: no media 'tape'"),
    ('software = "md"', 'softwear = "md"', "unknown key 'softwear'"),
    ('software = "md"', "mib = 0", "mib is 0, want at least 1"),
    ('software = "md"', 'mib = "1"', "mib is '1', want int"),
    ('remote = "lan"', "connections = 3", "near iodepth=1': stack: remote is 'local', and several"),
    ('remote = "lan"', 'cache = "dcd"', "near iodepth=1': stack: remote is 'local', and several"),
    ('software = "md"', 'software = "drbd", connections = 3', "connections are of iSCSI, drbd has"),
    ('"params.iodepth"', "iodepth", "axes: 'iodepth' isn't stack.KEY or params.KEY"),
    ('only = ["far"]', 'only = ["fra"]', "quick.only: no configuration 'fra'"),
    ('name = "far"', 'name = "near"', "configuration 'near iodepth=1': twice"),
    ("[axes]", "[axes", r"mine.toml: Expected ']'"),
])  # fmt: skip
def test_an_error_names_the_file_and_the_key(file: Path, old: str, new: str, says: str) -> None:
    assert GOOD.count(old) >= 1
    file.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(BadExperiment, match=says) as caught:
        experiment.cells(str(file), quick=False)
    assert str(file) in str(caught.value)


def test_every_experiment_of_the_tree_is_good() -> None:
    for name in experiment.names():
        assert experiment.cells(name, quick=False), name
    assert all(not experiment.load(name).long for name in ("guard-random", "guard-trace"))


def test_a_quick_run_of_all_has_the_long_ones_too() -> None:
    def names(*words: str) -> set[str]:
        return set(run.chosen(run.parser().parse_args(words), []))

    long = {name for name in experiment.names() if experiment.load(name).long}
    assert long
    assert not long & names()
    assert {name for name in long if experiment.load(name).quick} <= names("--quick")


def test_an_unknown_experiment_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run.main(["no-such-thing"]) == 2
    said = capsys.readouterr().err
    assert "no experiment 'no-such-thing'; there are: " in said
    assert "guard-random, guard-trace" in said
    assert run.main(["guard-random", "--only", "S-Q"]) == 2
    assert "no cell 'S-Q'; there are: DCD alone, " in capsys.readouterr().err


def test_what_cannot_be_run_is_told_and_the_rest_goes_on(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.spc"
    trace.write_text("0,0,512,x,0.0\n", encoding="ascii")
    monkeypatch.setattr(cells.Sim, "versions", lambda _: {"kernel": "none"})
    monkeypatch.setattr(cells.Sim, "__call__", lambda *_: answer())
    monkeypatch.setattr(results, "KEPT", tmp_path)
    monkeypatch.setattr(cells, "TRACES", tmp_path)
    monkeypatch.setenv("TRACE", "")
    out = experiment.TOP / "build/test/cannot/bench"
    words = [str(file), "no-such-thing", "guard-trace", "--seed", "1", "--out", str(out)]
    assert run.main([*words, "--trace", f"financial-1={trace}"]) == 1
    done = capsys.readouterr()
    bad = f"{trace}: line 1: opcode 'x' is neither r nor w"
    assert "bench: no experiment 'no-such-thing'; there are: " in done.err
    assert done.err.count(f"bench: {bad}") == 1  # before it begins, once for all cells
    assert "not run: no experiment 'no-such-thing'" in done.out
    assert all("result" in row for row in results.read(out / "mine"))
    assert all(bad in row["error"] for row in results.read(out / "guard-trace"))
    page = (out.parent / "report/index.html").read_text(encoding="utf-8")
    assert "Asked for, and not run: no experiment &#x27;no-such-thing&#x27;" in page
    assert "S-iDW, seed 1: failed: " in page and "opcode &#x27;x&#x27;" in page


def test_a_bad_trace_line_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.spc"
    trace.write_text("0,0,512,w,0.0\n0,1,512,x,1.5\n", encoding="ascii")
    monkeypatch.setattr(cells.Sim, "__call__", pytest.fail)
    monkeypatch.setattr(cells, "TRACES", tmp_path)
    monkeypatch.setenv("TRACE", "")
    assert run.main(["trace-mirror", "--only", "S-S", "--trace", str(trace)]) == 2
    said = capsys.readouterr().err
    assert f"{trace}: line 2: opcode 'x' is neither r nor w" in said


def test_a_given_spc_file_is_replayed_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is generated, written as SPC text and given, makes the same replay file."""
    [cell] = experiment.cells("financial-1-whole", quick=True)
    monkeypatch.setattr(cells, "TRACES", experiment.TOP / "build/test/traces")
    monkeypatch.setenv("TRACE", "")
    generated = cells.prepared(cell)
    count = generated.about["trace"]["records"]
    file = tmp_path / "Financial1.spc"
    spc.write(file, generate.requests("financial-1", count, 1))
    monkeypatch.setenv("TRACE", f"financial-1={file}")
    monkeypatch.setattr(cells, "TRACES", experiment.TOP / "build/test/traces-given")
    given = cells.prepared(cell)
    assert given.about["trace"]["what"] == f"{file}, its first {count} records"
    assert given.about["trace"]["sha256"] == generated.about["trace"]["sha256"]
    assert given.about["limits"] == generated.about["limits"]
    assert given.order.params["file"] != generated.order.params["file"]


SIDE = {"count": 100, "mean_ns": 1e6, "p50_ns": 9e5, "p99_ns": 2e6, "p999_ns": 3e6, "max_ns": 3e6}


def answer(**more: Any) -> Row:
    cost = {"to_mirror_bytes": 500_000, "to_mirror_packets": 400, "to_primary_bytes": 10_000,
            "to_primary_packets": 200, "scsi_commands": 100}  # fmt: skip
    return {"wall": {"seconds": 1.0}, "order": {"stack": {}, "params": {}},
            "result": {"write": SIDE | more, "cost": cost, "legs_differ_at": None}}  # fmt: skip


def test_a_cell_that_fails_or_lacks_its_peer_is_a_gap_and_the_rest_goes_on(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: dict[str, Row] = {
        "near iodepth=1": {"wall": {"seconds": 0.1}, "absent": "no module of that name"},
        "near iodepth=16": {"wall": {"seconds": 0.1}, "error": "the guest died"},
    }
    monkeypatch.setattr(cells.Sim, "versions", lambda _: {"kernel": "none"})
    monkeypatch.setattr(
        cells.Sim, "__call__", lambda _, one, out: answers.get(one.name) or answer()
    )
    out = experiment.TOP / "build/test/runner"
    assert run.main([str(file), "--seed", "1", "--out", str(out)]) == 1
    rows = results.read(out / "mine")
    assert [row["cell"] for row in rows] == [
        "near iodepth=1", "near iodepth=16", "far iodepth=1", "far iodepth=16",
    ]  # fmt: skip
    assert ["result" in row for row in rows] == [False, False, True, True]
    said = capsys.readouterr().out
    assert "near iodepth=1: not there: no module of that name" in said
    assert "near iodepth=16: failed: the guest died" in said
    page = (out.parent / "report/index.html").read_text(encoding="utf-8")
    assert "near iodepth=1, seed 1: not there: no module of that name" in page
    assert "near iodepth=16, seed 1: failed: the guest died" in page
    del answers["near iodepth=16"]  # what isn't there fails nothing
    assert run.main([str(file), "--seed", "1", "--out", str(out), "--no-report"]) == 0


def test_a_run_that_is_broken_off_keeps_what_it_has(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []
    told_to_end = threading.Event()

    def sim(_: cells.Sim, one: experiment.Cell, _out: Path) -> Row:
        began.append(one.name)
        if len(began) > 1:
            assert told_to_end.wait(20)
        return answer()

    def ended(*_: object) -> None:
        raise KeyboardInterrupt(signal.SIGTERM)

    monkeypatch.setattr(cells.Sim, "versions", lambda _: {"kernel": "none"})
    monkeypatch.setattr(cells.Sim, "__call__", sim)
    monkeypatch.setattr(cells.Sim, "end", lambda _: told_to_end.set())
    monkeypatch.setattr(progress.Told, "ended", ended)
    out = experiment.TOP / "build/test/broken-off"
    assert run.main([str(file), "--seed", "1", "--out", str(out), "--jobs", "1"]) == 143
    assert [row["cell"] for row in results.read(out / "mine")] == ["near iodepth=1"]
    assert told_to_end.is_set()
    assert len(began) < 4


def test_a_cell_without_an_answer_is_an_error() -> None:
    assert cells.answer('noise\n{"result": {"a": 1}}\n') == {"result": {"a": 1}}
    for said in ("", "Killed\n", '{"result"', "[]"):
        assert "without an answer" in cells.answer(said)["error"]


def row(**more: Any) -> Row:
    return {"experiment": "e", "cell": "c", "seed": 1, "quick": False, "versions": {}} | answer(
        **more
    )


def test_a_change_names_the_metric_and_both_figures() -> None:
    assert compare.changes([row()], [row()]) == ([], [])
    assert compare.changes([row()], [row(mean_ns=1.019e6)]) == ([], [])
    changes, gaps = compare.changes([row()], [row(mean_ns=1.021e6)])
    assert [str(one) for one in changes] == [
        "e: c, seed 1: write mean_ns was 1.0000 ms, is 1.0210 ms: +2.10 % (WORSE; allowed 2 %)"
    ]
    assert not gaps
    [better] = compare.changes([row()], [row(mean_ns=0.9e6)])[0]
    assert "(better; allowed 2 %)" in str(better)


def test_bytes_on_the_wire_and_counts_are_guarded_too() -> None:
    more = row()
    more["result"]["cost"]["to_mirror_bytes"] += 6000
    [one] = compare.changes([row()], [more])[0]
    assert one.metric == "cost to_mirror_bytes"
    [one] = compare.changes([row()], [row(count=90)])[0]
    assert "WORSE" in str(one)


def test_what_cannot_be_compared_is_no_success() -> None:
    assert "isn't in the new" in compare.changes([row()], [])[1][0]
    broken = row() | {"error": "died"}
    del broken["result"]
    assert "now failed: died" in compare.changes([row()], [broken])[1][0]
    other = row() | {"order": {"stack": {"mib": 1}, "params": {}}}
    assert "stack.mib was 512, is 1" in compare.changes([row()], [other])[1][0]
    other["order"]["stack"]["mib"] = 512  # as it was when nobody could say otherwise
    assert compare.changes([row()], [other]) == ([], [])
    less = row()
    del less["result"]["write"]["p99_ns"]
    assert "write p99_ns isn't in the new" in compare.changes([row()], [less])[1][0]


def test_another_kernel_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def made_with(kernel: str) -> Row:
        return row() | {"versions": {"kernel": kernel, "rootfs": "r-1"}}

    assert not compare.ground([made_with("uml-a")], [made_with("uml-a")])
    [said] = compare.ground([made_with("uml-a")], [made_with("uml-b")])
    assert "measured with uml-a, the new with uml-b" in said
    old, new = tmp_path / "old" / results.FILE, tmp_path / "new" / results.FILE
    results.write(old, [made_with("uml-a")])
    results.write(new, [made_with("uml-b")])
    assert compare.main([str(old), str(new)]) == 0  # of itself it is no change
    assert said in capsys.readouterr().out


def test_compare_ends_with_what_it_found(tmp_path: Path) -> None:
    old, new = tmp_path / "old" / results.FILE, tmp_path / "new" / results.FILE
    results.write(old, [row()])
    results.write(new, [row(p50_ns=1.2e6)])
    base = tmp_path / "base.json"
    assert compare.main(["--renew", str(base), str(old)]) == 0
    assert compare.main([str(base), str(old)]) == 0
    assert compare.main([str(base), str(new.parent)]) == 1
    old.write_text('{"a": 1}\n', encoding="ascii")
    assert compare.main([str(old), str(new)]) == 2
    old.write_text('{"a": \n', encoding="ascii")
    with pytest.raises(BadResults, match="line 1"):
        results.read(old)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadResults, match="of bench/run in it"):
        results.read(tmp_path / "empty")


def test_limits_follow_the_wire_and_the_disk() -> None:
    wan = limits.of(Stack(remote="wan"), 4096)
    assert wan["wire_write_ns"] == 14_000_000 + round(4096 * 8 / 3e6 * 1e9)
    assert 6_300_000 < wan["spindle_write_ns"] < 6_500_000
    assert "pipe" not in wan
    burst = [spc.Request(0, 0, 3750, True, 0)] * 2  # 10 ms each
    pipe = limits.of(Stack(remote="wan"), 3750, burst)["pipe"]
    assert (pipe["mean_ns"], pipe["max_ns"]) == (29_000_000, 34_000_000)
    assert "wire_write_ns" not in limits.of(Stack(), 4096)
    assert "spindle_write_ns" not in limits.of(Stack(media="ram"), 4096)


@pytest.mark.parametrize(("stack_", "of", "ms"), [
    ({}, ("write", "random", 4096), 6.368),  # command, seek, half a turn, transfer
    ({}, ("read", "random", 4096), 5.768),
    ({}, ("write", "sequential", 6000), 0.2),
    ({}, ("write", "identical", 4096), 4.0),
    ({"remote": "wan", "software": "none"}, ("write", "identical", 3750), 24 + 0.1625),
    ({"remote": "wan"}, ("write", "random", 3750), 24 + 6.3625),  # the wire, then its spindle
    ({"remote": "wan", "cache": "dcd"}, ("write", "random", 3750), 24.0),
    ({"remote": "wan", "cache": "dcd-complete"}, ("write", "random", 3750), 24 + 2.1625),
    ({"remote": "wan"}, ("read", "random", 4096), 5.768),  # of the local leg
    ({"remote": "wan", "software": "none"}, ("read", "sequential", 3200), 14 + 100 + 0.1),
    ({"remote": "lan", "software": "none", "cache": "dcd"}, ("read", "random", 12500), 0.3),
    ({"remote": "lan", "cache": "dcd"}, ("write", "random", 4096), 6.368),  # the local leg
    ({"remote": "wan-varying", "cache": "dcd"}, ("write", "random", 29400), 14 + 100),  # its best
])  # fmt: skip
def test_a_request_alone_takes_what_it_cannot_go_round(
    stack_: dict[str, Any], of: tuple[str, str, int], ms: float
) -> None:
    got = limits.alone_ns(Stack(**stack_), limits.Kind(*of))
    assert got is not None and got / 1e6 == pytest.approx(ms, abs=0.002)


def test_a_limit_is_of_the_kind_of_request_that_it_stands_beside() -> None:
    sizes = ["1k", "64k"]
    assert limits.kind("blocks", {"sizes": sizes}, "identical_read_64k") == limits.Kind(
        "read", "identical", 65536
    )
    assert limits.kind("fio", {"rw": "randrw"}, "read") == limits.Kind("read", "random", 4096)
    assert limits.kind("fio", {"rw": "write", "bs": "512"}, "write") == limits.Kind(
        "write", "sequential", 512
    )
    assert limits.kind("micro", {"mode": "sync"}, "write") == limits.Kind("write", "random", 4096)
    assert limits.kind("micro", {"mode": "async"}, "write") is None  # into the page cache
    assert limits.kind("pgbench", {}, "transaction") is None
    assert limits.alone_ns(Stack(media="ram"), limits.Kind("write", "random", 4096)) is None
    row = {"order": {"workload": "blocks", "params": {}, "stack": {"software": "none"}}}
    ms = [tables.limit_ns(row | {"limits": {"log_write_ns": 1}}, f"{one}_1k")
          for one in ("random_read", "sequential_read")]  # fmt: skip
    assert ms[0] and ms[1] and ms[1] < ms[0] / 10
    assert tables.limit_ns(row | {"limits": {}}, "random_read_1k") is None  # the user's devices


def test_an_order_is_read_back_as_it_was() -> None:
    one = Order("fio", Stack(devices=("/dev/a", "/dev/b")), {"bs": "4k"}, 7)
    assert parse(one.text()) == one
    with pytest.raises(BadOrder, match="unknown key 'speed'"):
        stack(json.loads('{"speed": 1}'))


def test_results_that_were_kept_are_no_change_of_what_is_measured(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e", *words],
                       check=True, capture_output=True)  # fmt: skip

    for name in ("bench/results/x.jsonl", "bench/run"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("as it was")
    git("init")
    git("add", "--all")
    git("commit", "--message", "m")
    assert not results.tree(tmp_path)["changed"]
    (tmp_path / "bench/results/x.jsonl").write_text("of a run")
    (tmp_path / "bench/results/y.jsonl").write_text("of another")
    assert not results.tree(tmp_path)["changed"]
    (tmp_path / "bench/run").write_text("not as it was")
    assert results.tree(tmp_path)["changed"]
