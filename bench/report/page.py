# SPDX-License-Identifier: GPL-2.0-only
"""The report: one static page and its pictures, from whatever results there are.

First the papers' figures and tables, theirs beside ours with both ratios; then each experiment with
its limits, its cost on the wire, its pictures, and how to repeat it. What couldn't be measured is a
gap with its reason, never left out. What the user hasn't run himself is shown as it was committed
with the tree (bench/results), and said to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from experiments import instructions
from report import papers, plots
from runner import experiment, results, tables
from runner.experiment import BadExperiment, Experiment
from runner.results import Row

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff }
h1 { font-size: 1.7rem } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc }
h3 { margin: 1.6rem 0 .3rem; font-size: 1.05rem }
table { border-collapse: collapse; margin: .6rem 0; font-size: .87rem; display: block;
  overflow-x: auto }
td, th { padding: .15rem .6rem; border-bottom: 1px solid #ddd; text-align: right }
td:first-child, th:first-child, td.text, th.text { text-align: left }
.gap { color: #a33 } .quiet { color: #666; font-size: .87rem } img { max-width: 100% }
code { background: #f3f3f3; padding: 0 .2rem } pre { white-space: pre-wrap }
"""
REAL_TIME = ("initiator-cpu",)  # of --lab vm
REAL = (
    "Run on two virtual hosts (--lab vm), in real time: no two runs are the same, and rows compare "
    "with those of the same run only."
)
EMULATED = (
    "The hosts' CPUs were emulated by a program (QEMU's TCG): a request costs milliseconds of "
    "that, some kinds of instructions more than others, and no figure is a machine's."
)


def make(folder: Path, place: Path, kept: Path | None = None, refused: Sequence[str] = ()) -> Path:
    """The page of all results below a folder, and of those in `kept` that it has none of; returns
    its file. `refused`: what was asked for, and couldn't be run."""
    rows = results.gathered(folder, kept)
    place.mkdir(parents=True, exist_ok=True)
    for suffix in (".png", *plots.SUFFIX.values()):
        for old in place.glob(f"*{suffix}"):
            old.unlink()
    parts = [_head(rows)]
    parts += [f"<p class=gap>Asked for, and not run: {escape(why)}</p>" for why in refused]
    parts += _papers(rows, place)
    for name, lab in sorted({(row["experiment"], row["lab"]) for row in rows}):
        own = [row for row in rows if (row["experiment"], row["lab"]) == (name, lab)]
        parts += _experiment(name, lab, own, place)
    if kept and any(row["lab"] == "sim" for row in rows):
        parts += _instructions(folder, kept)
    parts += _without(rows)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Lockstep: measurements</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts) + "\n</body></html>\n"
    )  # fmt: skip
    file = place / "index.html"
    file.write_text(page, encoding="utf-8")
    return file


def _head(rows: Sequence[Row]) -> str:
    committed = [row for row in rows if row["committed"]]
    labs = sorted({row["lab"] + (", quick" if row["quick"] else "") for row in rows})
    gaps = sum(1 for row in rows if tables.gap(row))
    return (
        "<h1>Lockstep: measurements</h1>"
        f"<p>{len(rows)} cells, {gaps} of them gaps; lab: {escape('; '.join(labs))}. "
        f"{len(rows) - len(committed)} were run here (tree {escape(_trees(rows, False))}), "
        f"{len(committed)} were committed with the tree (measured at "
        f"{escape(_trees(rows, True))}); each row says which. Times of the sim lab are simulated: "
        "exact, and the same on every machine. They are the disks', the wire's and the protocol's; "
        "a CPU takes no time there. A ratio in bold is against the row named base.</p>"
        + ("<p class=gap>These are the quick forms of the experiments: too short for any claim.</p>"
           if any(row["quick"] for row in rows) else "")
    )  # fmt: skip


def _trees(rows: Sequence[Row], committed: bool) -> str:
    found = {f"{row['tree']['commit'][:12]}{' (changed)' if row['tree']['changed'] else ''}"
             for row in rows if row["committed"] == committed}  # fmt: skip
    return ", ".join(sorted(found)) or "-"


def _text(words: str) -> str:
    """Of a TOML file: what is in `backticks` is code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(words.strip()))


# --- the papers ---


def _papers(rows: Sequence[Row], place: Path) -> Iterable[str]:
    for name, paper in papers.load().items():
        yield f"<h2>{escape(paper.title)}</h2>"
        yield f"<p><b>What differs.</b> {_text(paper.differs)}</p>"
        for number, figure in enumerate(paper.figure):
            yield from _figure(figure, rows, place / f"{name}-{number}.png")


def _figure(figure: papers.Figure, rows: Sequence[Row], picture: Path) -> Iterable[str]:
    found = papers.beside(figure, rows)
    gaps = {one.gap for one in found}
    alike = gaps.pop() if len(gaps) == 1 else ""  # told once
    yield f"<h3>{escape(figure.id)}</h3>"
    head = ["", f"paper, {figure.unit}", f"ours, {figure.unit}", "ours / paper"]
    head += [f"paper / {figure.base}", f"ours / {figure.base}"] if figure.base else []
    lines = []
    for one in found:
        line = [
            escape(one.row.name), _number(one.row.paper, one.row.derived),
            f"<span class=gap>{escape(one.gap)}</span>" if one.gap and not alike
            else _number(one.ours), _number(papers.ratio(one.ours, one.row.paper)),
        ]  # fmt: skip
        if figure.base:
            line += [_number(one.ratio_paper), f"<b>{_number(one.ratio_ours)}</b>"]
        lines.append([*line, escape(one.done), escape(one.row.source)])
    head += ["ours was", "where in the paper"]
    yield _table(head, lines, text=(len(head) - 2, len(head) - 1))
    if alike:
        yield f"<p class=gap>Ours: {escape(alike)}.</p>"
    yield from (f"<p>{line}</p>" for line in _verdicts(figure, found))
    if figure.why:
        yield f"<p>{_text(figure.why)}</p>"
    if any(one.ours is not None for one in found):
        names = [one.row.name for one in found]
        plots.side_by_side(names, [one.row.paper for one in found], [one.ours for one in found],
                           figure.unit, picture)  # fmt: skip
        yield f'<img src="{picture.name}" alt="{escape(figure.id)}">'


def _verdicts(figure: papers.Figure, found: Sequence[papers.Beside]) -> Iterable[str]:
    """Our improvement over the base beside the paper's, where both are known."""
    for one in found:
        if one.row.name == figure.base or not one.ratio_paper or not one.ratio_ours:
            continue
        theirs, ours = one.ratio_paper, one.ratio_ours
        if figure.better == "lower":
            theirs, ours = 1 / theirs, 1 / ours
        word = "at least the paper's" if ours >= theirs * 0.995 else "SMALLER than the paper's"
        yield (
            f"{escape(one.row.name)} against {escape(figure.base or '')}: {ours:.2f} times as good "
            f"here, {theirs:.2f} in the paper: {word}."
        )


# --- the experiments ---


def _experiment(name: str, lab: str, rows: Sequence[Row], place: Path) -> Iterable[str]:
    one = _known(name)
    mark, how = ("", "") if lab == "sim" else (f"-{lab}", f" --lab {lab}")
    yield f'<h2 id="{escape(name)}{mark}">{escape(one.title if one else name)}</h2>'
    yield f"<p class=quiet>{escape(name)}: repeat by <code>bench/run {escape(name)}{how}</code></p>"
    if lab == results.VM:
        emulated = any(row.get("versions", {}).get("accel") == "tcg" for row in rows)
        yield f"<p>{REAL}{' ' + EMULATED if emulated else ''}</p>"
    if one and one.about:
        yield f"<p>{_text(one.about)}</p>"
    if one and one.differs:
        paper = escape(f" ({one.paper.figure})" if one.paper else "")
        yield f"<p><b>What differs from the paper{paper}.</b> {_text(one.differs)}</p>"
    for trace in {row["trace"]["sha256"]: row["trace"] for row in rows if "trace" in row}.values():
        yield f"<p class=quiet>Trace: {escape(trace['what'])}</p>"
        if "statistics" in trace:
            yield f"<pre class=quiet>{escape(chr(10).join(trace['statistics']))}</pre>"
    marked = [row | {"cell": f"{row['cell']} (committed)"} if row["committed"] else row
              for row in rows]  # fmt: skip
    for head, lines in (tables.times(marked), tables.wire(marked), tables.classes(marked),
                        tables.cpu(marked)):  # fmt: skip
        if lines:
            yield _table(list(head), [[escape(word) for word in line] for line in lines])
    yield from _limits(rows)
    yield _took(rows)
    for row in marked:
        if why := tables.gap(row):
            yield f"<p class=gap>{escape(row['cell'])}, seed {row['seed']}: {escape(why)}</p>"
    for plot in one.plot if one else ():
        picture = place / f"{name}{mark}-{plot}{plots.SUFFIX.get(plot, '.png')}"
        good = [row for row in rows if "result" in row]
        if plot not in plots.PLOTS:
            yield f"<p class=gap>no plot is called {escape(plot)}</p>"
        elif good and plots.PLOTS[plot](good, picture):
            image = f'<img src="{picture.name}" alt="{escape(name)}, {escape(plot)}">'
            yield f'<a href="{picture.name}">{image}</a>'


def _took(rows: Sequence[Row]) -> str:
    """Real time, which is the machine's and the day's."""
    took = [(row["cell"], row["wall"]["seconds"]) for row in rows]
    each = "" if len(took) > 4 else ": " + ", ".join(f"{cell} {s:,.0f} s" for cell, s in took)
    simulated = sum(row.get("simulated_s") or 0.0 for row in rows)
    inside = f", for {simulated:,.0f} s of simulated time" if simulated else ""
    return f"<p class=quiet>Wall time {sum(s for _, s in took):,.0f} s{inside}{escape(each)}.</p>"


def _limits(rows: Sequence[Row]) -> Iterable[str]:
    if any("pipe" in row.get("limits", {}) for row in rows):
        yield (
            "<p class=quiet>limit: the ideal pipe's mean (a FIFO of the wire's speed and round "
            "trip that carries the trace's writes, no protocol, nothing skipped), or one write's "
            "service time on the local spindle if that is more. Who skips requests, or sends fewer "
            "bytes, can be below it.</p>"
        )
    elif any(tables.limit_ns(row, kind) for row in rows for kind in tables.kinds(row)):
        yield (
            "<p class=quiet>limit: what such a request takes alone, in all that it can't go round: "
            "of a LUN the wire (round trip, bytes) and behind it the spindle (average seek, half a "
            "turn; in sequence the transfer), one sequential log write for report after complete "
            f"({_log_write(rows)} ms), nothing for another cache; of a mirror's write the slower "
            "leg, the local one being a spindle, and of its read the local leg. On a part of the "
            "disk seeks are shorter than the average, and with many in flight an elevator makes "
            "them so.</p>"
        )


def _log_write(rows: Sequence[Row]) -> str:
    found = {f"{row['limits']['log_write_ns'] / 1e6:.2f}" for row in rows
             if "log_write_ns" in row.get("limits", {})}  # fmt: skip
    return ", ".join(sorted(found)) or "-"


def _instructions(folder: Path, kept: Path | None) -> Iterable[str]:
    """What a 4 KiB write costs the CPU; another program of the bench tells it."""
    yield "<h2>What a 4 KiB write costs the CPU</h2>"
    yield f"<p>{_text(instructions.__doc__ or '')}</p>"
    for top, word in ((folder, ""), (kept, " (committed)")):
        file = top / "instructions" / instructions.FILE if top else None
        if file and file.exists():
            yield f"<pre>{escape(chr(10).join(instructions.saved(file)))}{word}</pre>"
            return
    yield "<p class=gap>Not run: <code>bench/instructions</code></p>"


def _without(rows: Sequence[Row]) -> Iterable[str]:
    """Experiments of which there is no result at all."""
    there = {row["experiment"] for row in rows}
    lines = [f"<li>{escape(experiment.load(name).title)}: <code>bench/run {name}"
             f"{' --lab vm' if name in REAL_TIME else ''}</code></li>"
             for name in experiment.names() if name not in there]  # fmt: skip
    if lines:
        yield f"<h2>Not run, here or for the tree</h2><ul class=gap>{''.join(lines)}</ul>"


def _known(name: str) -> Experiment | None:
    """Of the tree; a user's own file has no texts here."""
    try:
        return experiment.load(name)
    except BadExperiment:
        return None


def _number(value: float | None, derived: bool = False) -> str:
    if value is None:
        return "-"
    text = f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return f"about {text}" if derived else text


def _table(
    head: Sequence[str], lines: Sequence[Sequence[str]], text: Sequence[int] = ()
) -> str:
    """Cells are HTML already; `text`: the columns that aren't numbers."""

    def cells(tag: str, line: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=text' if n in text else ''}>{word}</{tag}>"
            for n, word in enumerate(line)
        )

    body = "\n".join(f"<tr>{cells('td', line)}</tr>" for line in lines)
    return f"<table><tr>{cells('th', [escape(word) for word in head])}</tr>\n{body}</table>"
