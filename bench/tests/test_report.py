# SPDX-License-Identifier: GPL-2.0-only
"""The report: figures beside the papers', ratios, gaps, pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot
from report import metrics, page, papers, plots, responses
from runner import experiment, results, tables
from runner.results import BadResults, Row


def row(cell: str, **result: Any) -> Row:
    return {"experiment": "e", "cell": cell, "seed": 1, "place": cell, "lab": "sim",
            "result": result}  # fmt: skip


def figure(**more: Any) -> papers.Figure:
    rows = [papers.Published(name="S-iW", paper=20.0), papers.Published(name="S-iDW", paper=10.0),
            papers.Published(name="S-S")]  # fmt: skip
    return papers.Figure(
        id="figure 1", unit="ms", experiment="e", metric="write.mean_ms", base="S-iW",
        rows=rows, **more,
    )  # fmt: skip


def writes(mean_ms: float) -> dict[str, Any]:
    return {"count": 10, "mean_ns": mean_ms * 1e6}


def test_ratios_are_against_the_base_row_theirs_and_ours() -> None:
    rows = [row("S-iW", write=writes(8)), row("S-iDW", write=writes(2)), row("S-S", read=1)]
    base, dcd, near = papers.beside(figure(), rows)
    assert (base.ours, base.ratio_ours) == (8.0, 1.0)
    assert (dcd.ratio_paper, dcd.ratio_ours) == (0.5, 0.25)
    assert (near.ours, near.gap) == (None, "no write.mean_ms in its result")


def test_what_is_missing_says_why() -> None:
    assert {one.gap for one in papers.beside(figure(), [])} == {"e was not run"}
    rows = [row("S-iW") | {"absent": "no module"}, row("S-iDW") | {"error": "died"}]
    gaps = [one.gap for one in papers.beside(figure(), rows)]
    assert gaps == ["not there: no module", "failed: died", "not run"]


@pytest.mark.parametrize(("ours", "better", "says"), [
    (3.9, "lower", "2.05 times as good here, 2.00 in the paper: at least the paper's"),
    (6.0, "lower", "1.33 times as good here, 2.00 in the paper: SMALLER than the paper's"),
    (6.0, "higher", "0.75 times as good here, 0.50 in the paper: at least the paper's"),
])  # fmt: skip
def test_our_improvement_is_held_against_the_papers(ours: float, better: str, says: str) -> None:
    rows = [row("S-iW", write=writes(8)), row("S-iDW", write=writes(ours))]
    one = figure(better=better)
    [line] = page._verdicts(one, papers.beside(one, rows))
    assert says in line


def test_metrics_are_paths_and_names() -> None:
    result = {"write": {"count": 90, "mean_ns": 5e6}, "writes_skipped": 10, "elapsed_s": 7.5,
              "batch": {"count": 4, "within_half_second": 3},
              "cost": {"to_mirror_packets": 3, "to_primary_packets": 1, "to_mirror_bytes": 300,
                       "to_primary_bytes": 100}}  # fmt: skip
    assert metrics.value(result, "write.mean_ms") == 5.0
    assert metrics.value(result, "elapsed_s") == 7.5
    assert metrics.value(result, "skipped_percent") == 10.0
    assert metrics.value(result, "batches_within_half_second_percent") == 75.0
    assert metrics.value(result, "bytes_a_packet") == 100.0
    assert metrics.value(result, "read.mean_ms") is None
    assert metrics.value({}, "skipped_percent") is None


FIGURES = [one for paper in papers.load().values() for one in paper.figure]


def test_what_the_papers_published_is_whole() -> None:
    assert len({one.id for one in FIGURES}) == len(FIGURES) > 50
    for one in FIGURES:
        assert one.base is None or one.base in {row.name for row in one.rows}, one.id
        for published in one.rows:
            assert published.paper is None or published.source, f"{one.id}: {published.name}"


def test_each_row_of_a_paper_is_a_cell_of_ours() -> None:
    for one in FIGURES:
        cells = {cell.name for cell in experiment.cells(one.experiment, quick=False)}
        for published in one.rows:
            name = published.cell or published.name + one.suffix
            assert name in cells, f"{one.id}: {one.experiment} has no {name!r}"


def test_each_row_of_a_paper_is_committed_with_a_reason_where_ours_is_worse() -> None:
    rows = results.gathered(results.KEPT, None)
    gaps = set()
    for one in FIGURES:
        found = papers.beside(one, rows)
        gaps |= {(one.id, beside.row.name) for beside in found if beside.gap}
        if any("SMALLER" in line for line in page._verdicts(one, found)):
            assert one.why, one.id
    assert not gaps


def test_the_page_shows_results_gaps_and_pictures(tmp_path: Path) -> None:
    common = {"quick": False, "lab": "sim", "tree": {"commit": "c" * 40, "changed": True},
              "wall": {"seconds": 1.0}, "limits": {"spindle_write_ns": 6_000_000},
              "trace": {"sha256": "0", "what": "a trace", "statistics": ["mean   1"]},
              "order": {"params": {}}}  # fmt: skip
    side = {"count": 2, "mean_ns": 9e6, "p50_ns": 9e6, "p99_ns": 9e6, "p999_ns": 9e6, "max_ns": 9e6}
    good = row("S-S", write=side, writes_skipped=1, legs_differ_at=None) | common
    bad = row("S-<iL>") | common | {"error": "the guest died"}
    rows = [one | {"experiment": "trace-mirror"} for one in (good, bad)]
    del rows[1]["result"]
    out = tmp_path / "out"
    results.write(out / "trace-mirror" / results.FILE, rows)
    log = out / "trace-mirror/S-S/requests.csv"
    log.parent.mkdir()
    log.write_text(
        "record,due_ns,issued_ns,done_ns,op,sector,bytes,result\n0,0,0,9,w,0,512,512\n", "ascii"
    )
    text = page.make(out, tmp_path / "report").read_text(encoding="utf-8")
    assert "S-&lt;iL&gt;, seed 1: failed: the guest died" in text
    assert "<td>2 (-1)</td>" in text and "<td>1.50</td>" in text  # the mean is 1.5 x the limit
    assert 'src="trace-mirror-responses.png"' in text
    assert (tmp_path / "report/trace-mirror-responses.png").stat().st_size > 1000
    assert "was not run" in text
    assert "<pre class=quiet>mean   1</pre>" in text
    assert "Wall time 2 s: S-S 1 s, S-&lt;iL&gt; 1 s." in text
    without = text.partition("<h2>Not run, here or for the tree</h2>")[2]
    assert "bench/run pgbench</code>" in without and "initiator-cpu --lab vm" in without
    assert "bench/run trace-mirror<" not in without


def test_what_a_cell_sent_is_told_by_class() -> None:
    cost = {f"{way}_packets_{size}": n for way in ("to_mirror", "to_primary")
            for n, size in enumerate(("64", "127", "255", "511", "1023", "more"))}  # fmt: skip
    cost |= {"to_mirror_bytes": 2500, "to_primary_bytes": 500, "scsi_commands": 9, "scsi_all": 9}
    cost |= {"scsi_inquiry": 0, "scsi_other": 1, "scsi_write": 6, "scsi_write_scattered": 2}
    head, lines = tables.classes([row("S-iDW", cost=cost), row("S-S", cost={"local_writes": 3})])
    assert head[1:] == ("to 127", "to 255", "to 511", "to 1023", "more", "bytes a packet",
                        "WRITE", "WRITE SCATTERED", "other")  # fmt: skip
    assert lines == [("S-iDW", "2", "4", "6", "8", "10", "100", "6", "2", "1")]
    assert tables.classes([row("S-S", cost={})])[1] == []


def test_a_batchs_panel_has_batches(tmp_path: Path) -> None:
    log = [{"record": str(n), "issued_ns": "9", "done_ns": str(20 + n)} for n in (0, 3, 1, 2)]
    assert responses.batches(log, 2) == [(9, 12), (9, 14)]
    assert responses.batches(log, 1) == [(9, 11), (9, 12), (9, 13), (9, 14)]
    file = tmp_path / results.SERIES
    file.write_text("start_s,batches,skipped,mean_ns,max_ns\n0,1,0,1e6,2000000\n", "ascii")
    axis = pyplot.subplots()[1]
    plots._stretches(axis, "S-iDW batch 8", file)
    assert axis.get_ylabel() == "batch response (ms)"


def test_a_text_of_a_table_is_shown_as_it_is_meant() -> None:
    assert page._text("a < b: `bench/run x`\n") == "a &lt; b: <code>bench/run x</code>"


def kept(cell: str, mean_ms: float, **more: Any) -> Row:
    """A row as it comes from a full run of the sim lab."""
    common = {"experiment": "trace-mirror", "quick": False, "lab": "sim",
              "tree": {"commit": "d" * 40, "changed": False}, "wall": {"seconds": 1.0}}  # fmt: skip
    times = dict.fromkeys(("p50_ns", "p99_ns", "p999_ns", "max_ns"), mean_ms * 1e6)
    return row(cell, write=writes(mean_ms) | times, elapsed_s=7.0) | common | more


def test_what_the_user_has_not_run_is_as_committed(tmp_path: Path) -> None:
    before, tree, mine = (tmp_path / name for name in ("before", "tree", "mine"))
    results.write(before / "trace-mirror" / results.FILE, [kept("S-iW", 8), kept("S-iDW", 4)])
    series = before / "trace-mirror/S-iW" / results.SERIES
    series.parent.mkdir()
    series.write_text("start_s,writes,skipped,mean_ns,max_ns\n0,10,0,8e6,8000000\n", "ascii")
    results.keep(before / "trace-mirror", tree)
    alone = results.gathered(mine, tree)
    assert [(one["cell"], one["committed"]) for one in alone] == [("S-iW", True), ("S-iDW", True)]
    assert (alone[0]["at"] / results.SERIES).read_bytes() == series.read_bytes()
    results.write(mine / "trace-mirror" / results.FILE, [kept("S-iDW", 2)])
    far, dcd = results.gathered(mine, tree)
    assert (far["committed"], dcd["committed"]) == (True, False)
    assert dcd["result"]["write"]["mean_ns"] == 2e6
    text = page.make(mine, tmp_path / "report", tree).read_text(encoding="utf-8")
    assert "<td>S-iW (committed)</td>" in text and "<td>S-iDW</td>" in text
    assert "10 writes, 7 s; committed" in text and "10 writes, 7 s; run here" in text
    with pytest.raises(BadResults, match="no results"):
        results.gathered(tmp_path / "nothing", None)


def test_results_of_the_virtual_hosts_are_kept_and_shown_by_themselves(tmp_path: Path) -> None:
    tree, sim, real = (tmp_path / name for name in ("tree", "sim", "real"))
    results.write(sim / "trace-mirror" / results.FILE, [kept("S-iW", 8)])
    runs = [kept("S-iW", mean, lab="vm", seed=seed, versions={"accel": "tcg"})
            for seed, mean in ((1, 20), (2, 50), (3, 30))]  # fmt: skip
    results.write(real / "trace-mirror" / results.FILE, runs)
    folded = real / "trace-mirror/S-iW" / results.STACKS
    folded.parent.mkdir()
    folded.write_text("fio;memcpy 3\n", "utf-8")
    results.keep(sim / "trace-mirror", tree)
    results.keep(real / "trace-mirror", tree)
    found = results.gathered(tmp_path / "mine", tree)
    assert [(one["lab"], one["seed"]) for one in found] == [("sim", 1)] + [
        ("vm", seed) for seed in (1, 2, 3)
    ]  # fmt: skip
    assert {one["lab"] for one in results.gathered(tmp_path / "mine", tree / "vm")} == {"vm"}
    assert results.stacks(found[1]["at"]) == {("fio", "memcpy"): 3}
    assert results.stacks(folded.parent) == {("fio", "memcpy"): 3}
    assert results.stacks(tree) == {}
    text = page.make(tmp_path / "mine", tmp_path / "report", tree).read_text(encoding="utf-8")
    simulated, _, hosts = text.partition('<h2 id="trace-mirror-vm">')
    assert "<td>8.00</td>" in simulated and "<td>50.00</td>" not in simulated
    assert "<td>50.00</td>" in hosts and "<td>8.00</td>" not in hosts
    assert "bench/run trace-mirror --lab vm</code>" in hosts
    assert "no figure is a machine's" in hosts


def test_a_figure_takes_real_times_only_where_nothing_is_simulated() -> None:
    runs = [row("S-iW", write=writes(mean)) | {"lab": "vm", "seed": seed}
            for seed, mean in ((1, 20), (2, 50), (3, 30))]  # fmt: skip
    simulated = row("S-iW", write=writes(8)) | {"lab": "sim"}
    assert papers.beside(figure(), [*runs, simulated])[0].ours == 8.0
    del simulated["result"]
    one = papers.beside(figure(), [simulated | {"absent": "in simulated time"}, *runs])[0]
    assert one.ours == 30.0
    assert "two virtual hosts, median of 3 runs (20 to 50)" in one.done


@pytest.mark.parametrize("unfit", [
    {"quick": True}, {"lab": "here"}, {"lab": "vm", "quick": True},
    {"tree": {"commit": "e" * 40, "changed": True}},
])  # fmt: skip
def test_only_full_runs_of_a_clean_tree_are_kept(tmp_path: Path, unfit: dict[str, Any]) -> None:
    mine = tmp_path / "mine/trace-mirror"
    results.write(mine / results.FILE, [kept("S-iW", 8), kept("S-iDW", 4, **unfit)])
    with pytest.raises(BadResults, match="S-iDW: of a quick run"):
        results.keep(mine, tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_a_long_replay_is_drawn_from_its_series(tmp_path: Path) -> None:
    file = tmp_path / "a" / "series.csv"
    file.parent.mkdir()
    head = "start_s,writes,skipped,mean_ns,max_ns\n"
    file.write_text(head + "0,10,0,1e6,2000000\n60,10,2,3e6,9000000\n", encoding="ascii")
    picture = tmp_path / "p.png"
    assert plots.scatter([row("a", write={}) | {"at": tmp_path / "a"}], picture)
    assert picture.stat().st_size > 1000
    assert not plots.scatter([row("b", write={}) | {"at": tmp_path / "b"}], picture)
