# SPDX-License-Identifier: GPL-2.0-only
"""Runs experiments, cell by cell, and leaves results and a report.

Without a name: all but the long ones (of --quick those, too). What fails or can't be run (a cell, a
bad trace, an unknown experiment) is a gap: it is told, the others go on, and the report shows it.
Exit code: 0; 1 if something failed or couldn't be run; 2 if nothing could: then no result changes;
128 and its number after a signal: then cells that were running end at once, with their guests.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import FrameType

from cell import here
from cell.here import Unfit
from laberror import LabError
from report import page
from runner import cells, experiment, results, tables, vm
from runner.experiment import TOP, BadExperiment, Cell
from runner.progress import Told
from runner.results import BadResults, Row
from traces import spc

LABS = ("sim", "vm", "here")


def parser() -> argparse.ArgumentParser:
    one = argparse.ArgumentParser(
        prog="bench/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    one.add_argument("experiment", nargs="*", help="names; --list tells them")
    one.add_argument("--list", action="store_true", help="tell the experiments, and stop")
    one.add_argument(
        "--lab", choices=LABS, default="sim",
        help="vm: on two virtual hosts, in real time; here: on your own --device",
    )  # fmt: skip
    one.add_argument(
        "--device", action="append", default=[], metavar="NODE",
        help="with --lab here: the local device, then the remote leg (a LUN of your own); the "
        "first part of both is OVERWRITTEN",
    )  # fmt: skip
    one.add_argument("--overwrite", action="store_true", help="yes, overwrite the devices")
    one.add_argument("--quick", action="store_true", help="the short form of each experiment")
    one.add_argument("--only", action="append", metavar="CELL", help="this cell; may be repeated")
    one.add_argument("--trace", help="an SPC file (or NAME=FILE,NAME=FILE) instead of the traces")
    one.add_argument("--seed", type=int, action="append", help="instead of the experiment's own")
    one.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4), help="at a time")
    one.add_argument(
        "--watch", action="store_true",
        help="keep each cell's counters, twice a second: watch.jsonl in its folder",
    )  # fmt: skip
    one.add_argument("--out", type=Path, default=TOP / "build/bench")
    one.add_argument("--no-report", action="store_true")
    one.add_argument("--report", action="store_true", help="make the report of what there is only")
    one.add_argument(
        "--keep", action="store_true",
        help="put the results that there are of the named experiments into bench/results, only; "
        "with --lab vm into bench/results/vm: they are of real time, and no two runs are the same",
    )  # fmt: skip
    return one


def chosen(args: argparse.Namespace, refused: list[str]) -> dict[str, list[Cell]]:
    """The cells of each experiment; those that there aren't, or are wrong, are told in `refused`.
    Raises BadExperiment."""
    found: dict[str, list[Cell]] = {}
    for name in args.experiment or experiment.names():
        try:
            if not (args.experiment or args.quick) and experiment.load(name).long:
                continue
            found[name] = experiment.cells(name, args.quick, args.seed)
            if args.quick and not found[name] and args.experiment:
                raise BadExperiment(f"{name} has no quick form")
        except BadExperiment as err:
            refused.append(str(err))
    there = {one.name for each in found.values() for one in each}
    for name in args.only or ():
        if there and name not in there:
            raise BadExperiment(f"no cell {name!r}; there are: {', '.join(sorted(there))}")
    if args.only:
        found = {name: [one for one in each if one.name in args.only]
                 for name, each in found.items()}  # fmt: skip
    return {name: each for name, each in found.items() if each}


@contextlib.contextmanager
def the_lab(args: argparse.Namespace) -> Iterator[cells.Lab]:
    if args.lab == "vm":
        with vm.up() as hosts:
            yield hosts
    else:
        yield cells.Here(args.device) if args.lab == "here" else cells.Sim(args.watch)


def without_trace(todo: Sequence[Cell]) -> dict[str, str]:
    """The cells whose trace is bad, by label, and what is wrong with it. Raises spc.BadTrace if
    those are all."""
    bad: dict[str, str] = {}
    for cell in todo:
        try:
            cells.prepared(cell)
        except spc.BadTrace as err:
            bad[label(cell)] = str(err)
            if len(bad) == len(todo):
                raise
    return bad


def run(
    todo: Sequence[Cell], bad: Mapping[str, str], args: argparse.Namespace, out: Path, told: Told,
    lab: cells.Lab,
) -> list[Row]:  # fmt: skip
    """All cells but the bad ones, in the sim lab some at a time: there each is a function of its
    order alone. The rows are in the cells' order, and in the experiment's file as soon as there are
    any."""
    common = {"lab": args.lab, "quick": args.quick, "tree": results.tree(),
              "versions": lab.versions()}  # fmt: skip
    before = last(out, todo) if args.only else []  # with --only the others stay as they are
    found: dict[int, Row] = {}
    with ThreadPoolExecutor(args.jobs if args.lab == "sim" else 1) as pool:
        futures = {
            pool.submit(cells.unfit, one, bad[label(one)]) if label(one) in bad
            else pool.submit(lab, one, out): n
            for n, one in enumerate(todo)
        }  # fmt: skip
        try:
            for future in as_completed(futures):
                number = futures[future]
                cell = todo[number]
                which = {"experiment": cell.experiment, "cell": cell.name,
                         "seed": cell.order.seed, "place": cell.place}  # fmt: skip
                row: Row = which | common | future.result()
                found[number] = row
                own = [found[n] for n in sorted(found) if todo[n].experiment == cell.experiment]
                kept = [row for row in before if row["experiment"] == cell.experiment]
                results.write(out / cell.experiment / results.FILE, results.merged(kept, own))
                told.ended(label(cell), what(row), row["wall"]["seconds"])
        except BaseException:  # broken off: what hasn't begun never does, what has ends now
            pool.shutdown(wait=False, cancel_futures=True)
            lab.end()
            raise
    return [found[n] for n in sorted(found)]


def label(cell: Cell) -> str:
    return f"{cell.experiment}: {cell.name}, seed {cell.order.seed}"


def what(row: Row) -> str:
    if "error" in row:
        return f"FAILED: {row['error']}"
    return f"not there: {row['absent']}" if "absent" in row else f"{row['wall']['seconds']:.0f} s"


def last(out: Path, todo: Sequence[Cell]) -> list[Row]:
    """Results of the last run of these experiments."""
    found: list[Row] = []
    for name in dict.fromkeys(one.experiment for one in todo):
        with contextlib.suppress(BadResults):
            found += results.read(out / name / results.FILE)
    return found


def earlier(out: Path, todo: Sequence[Cell]) -> dict[str, float]:
    """Seconds that the cells took in the last run."""
    return {
        f"{row['experiment']}: {row['cell']}, seed {row['seed']}":
            float(row.get("wall", {}).get("seconds", 0.0))
        for row in last(out, todo)
    }  # fmt: skip


def tell_list() -> None:
    for name in experiment.names():
        one = experiment.load(name)
        marks = [f"{len(experiment.cells(name, False))} cells"]
        marks += ["long"] if one.long else []
        marks += [f"{len(experiment.cells(name, True))} quick"] if one.quick else []
        print(f"{name:24} {one.title} ({', '.join(marks)})")


def report_of(args: argparse.Namespace) -> Path:
    """Its folder: beside that of the results."""
    place: Path = args.out.resolve().parent / "report"
    return place / kind_of(args)


def kind_of(args: argparse.Namespace) -> Path:
    """What must not stand among other results: only the sim lab's times are simulated."""
    return Path("" if args.lab == "sim" else args.lab) / ("quick" if args.quick else "")


def kept_of(args: argparse.Namespace) -> Path | None:
    """What is in the tree are full runs, of the sim lab and of the VM lab."""
    return None if args.quick or args.lab == "here" else results.KEPT / kind_of(args)


def judged(args: argparse.Namespace, todo: Sequence[Cell]) -> None:
    """Whether the user's devices may be taken. Raises Unfit."""
    if os.geteuid():
        raise Unfit("--lab here needs root: it opens devices and makes mappings")
    if not 1 <= len(args.device) <= 2:
        raise Unfit("--lab here needs --device LOCAL, and --device REMOTE for a mirror")
    here.check(args.device, max(one.order.stack.mib for one in todo))
    if not args.overwrite:
        raise Unfit(f"{' and '.join(args.device)} would be OVERWRITTEN: say --overwrite")


def main(argv: Sequence[str] | None = None) -> int:
    one = parser()
    args = one.parse_args(argv)
    out = args.out.resolve() / kind_of(args)
    if not out.is_relative_to(TOP):
        one.error(f"--out {out} has to be inside {TOP}, where the lab's kernel sees it")
    if args.keep and not args.experiment:
        one.error("--keep: which experiments' results?")
    if args.watch and args.lab != "sim":
        one.error("--watch is of the sim lab")
    if args.trace:
        os.environ["TRACE"] = args.trace
    try:
        if args.list:
            tell_list()
            return 0
        if args.keep:
            for name in args.experiment:
                results.keep(out / name)
        if args.report:
            print(page.make(out, report_of(args), kept_of(args)))
        if args.keep or args.report:
            return 0
        refused: list[str] = []
        todo = [cell for each in chosen(args, refused).values() for cell in each]
        if not todo:
            raise BadExperiment("; ".join(refused) or "nothing to run")
        if args.lab == "here":
            judged(args, todo)
        bad = without_trace(todo)
        for why in (*refused, *dict.fromkeys(bad.values())):  # before hours of anything else
            print(f"bench: {why}; the rest goes on", file=sys.stderr)
        names = [label(cell) for cell in todo]
        with the_lab(args) as lab, Told(names, earlier(out, todo), args.jobs) as told:
            rows = run(todo, bad, args, out, told, lab)
    except (BadExperiment, BadResults, Unfit, spc.BadTrace, LabError) as err:
        print(f"bench: {err}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as err:
        print("bench: broken off; the cells that had ended are in the results", file=sys.stderr)
        return 128 + (err.args[0] if err.args else signal.SIGINT)
    print("\n".join([*tables.lines(rows), *(f"not run: {why}" for why in refused)]))
    for name in dict.fromkeys(cell.experiment for cell in todo):
        print(f"results: {os.path.relpath(out / name / results.FILE)}")
    if not args.no_report:
        made = page.make(out, report_of(args), kept_of(args), refused)
        print(f"report: {os.path.relpath(made)}")
    return int(bool(refused) or any("error" in row for row in rows))


def _broken_off(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    for one in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(one) is not signal.SIG_IGN:  # nohup
            signal.signal(one, _broken_off)
    sys.exit(main())
