# SPDX-License-Identifier: GPL-2.0-only
"""Compares results: what is further from OLD's than its tolerance, each metric by name.

Simulated results are exact, so a tolerance is no margin for noise: it is what a change may cost or
gain without anybody having to look. Better beyond the tolerance is told as well as worse: the old
figure is no measure any more, and a later loss would hide behind it.

OLD and NEW: results.jsonl or folders with some, or a baseline. Exit code: 0 all within; 1 something
isn't; 2 a file can't be read.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cell.order import Stack
from runner import results
from runner.results import BadResults, Row
from runner.tables import aligned, gap, kinds

PERCENT = {
    # A mean moves with all requests; the far tail is some single requests.
    "mean_ns": 2.0, "p50_ns": 3.0, "p99_ns": 8.0, "p999_ns": 25.0, "max_ns": 25.0, "count": 1.0,
    "seconds": 2.0, "skipped": 5.0, "to_mirror_bytes": 1.0, "to_mirror_packets": 1.0,
    "scsi_commands": 1.0,
    # Mostly answers, TCP's own among them: a microsecond more in the set-up decides how many share
    # a packet; 2 % came of nothing else.
    "to_primary_bytes": 5.0, "to_primary_packets": 5.0,
}  # fmt: skip
# Below these a share means nothing: one packet of a keep-alive, one skipped request.
LEAST = {
    "skipped": 2.0, "count": 2.0, "scsi_commands": 4.0, "to_mirror_packets": 8.0,
    "to_primary_packets": 8.0, "to_mirror_bytes": 1024.0, "to_primary_bytes": 1024.0,
}  # fmt: skip
LOWER_IS_BETTER = {name for name in PERCENT if name != "count"}


@dataclass(frozen=True)
class Change:
    cell: str
    metric: str
    old: float
    new: float
    percent: float  # allowed

    @property
    def by(self) -> float:
        return (self.new - self.old) / self.old * 100 if self.old else float("inf")

    def __str__(self) -> str:
        name = self.metric.rpartition(" ")[2]
        better = (self.new < self.old) == (name in LOWER_IS_BETTER)
        return (
            f"{self.cell}: {self.metric} was {_plain(name, self.old)}, is "
            f"{_plain(name, self.new)}: {self.by:+.2f} % ({'better' if better else 'WORSE'}; "
            f"allowed {self.percent:g} %)"
        )


def metrics(row: Row) -> dict[str, float]:
    """By name, those that PERCENT has a tolerance for."""
    if "metrics" in row:  # a baseline's
        return dict(row["metrics"])
    found: dict[str, float] = {}
    for kind, side in kinds(row).items():
        found |= {f"{kind} {key}": float(side[key]) for key in PERCENT if key in side}
        skipped = row["result"].get(f"{kind}s_skipped")
        if skipped is not None:
            found[f"{kind} skipped"] = float(skipped)
    cost = row.get("result", {}).get("cost", {})
    return found | {f"cost {key}": float(cost[key]) for key in PERCENT if key in cost}


def changes(old: Sequence[Row], new: Sequence[Row]) -> tuple[list[Change], list[str]]:
    """What changed beyond its tolerance, and what can't be compared."""
    now = {key(row): row for row in new}
    found, gaps = list[Change](), list[str]()
    for row in old:
        name = label(row)
        other = now.get(key(row))
        if other is None:
            gaps.append(f"{name}: isn't in the new results")
            continue
        if why := gap(other):
            if not gap(row):
                gaps.append(f"{name}: had a result, now {why}")
            continue
        if gap(row):
            continue
        if why := _other(work(row), work(other)):
            gaps.append(f"{name}: other work than before, so nothing to compare: {why}")
            continue
        before, after = metrics(row), metrics(other)
        for metric, value in before.items():
            if metric not in after:
                gaps.append(f"{name}: {metric} isn't in the new results")
            elif beyond(metric, value, after[metric]):
                percent = PERCENT[metric.rpartition(" ")[2]]
                found.append(Change(name, metric, value, after[metric], percent))
    return found, gaps


def ground(old: Sequence[Row], new: Sequence[Row]) -> list[str]:
    """In what lab each was measured, where that isn't the same: then what changed may be the lab's
    (another kernel source, other programs) and not the tree's."""
    found = []
    for name in ("kernel", "rootfs"):
        was, now = (_versions(rows, name) for rows in (old, new))
        if was and now and was != now:
            found.append(
                f"not the same {name}: the old results were measured with {', '.join(was)}, the "
                f"new with {', '.join(now)}; what changed may be the lab's, not the tree's"
            )
    return found


def _versions(rows: Sequence[Row], name: str) -> list[str]:
    return sorted({row["versions"][name] for row in rows if name in row.get("versions", {})})


def beyond(metric: str, old: float, new: float) -> bool:
    name = metric.rpartition(" ")[2]
    return abs(new - old) > max(old * PERCENT[name] / 100, LEAST.get(name, 0.0))


def key(row: Row) -> tuple[str, str, int, bool]:
    return row["experiment"], row["cell"], row["seed"], bool(row.get("quick"))


def label(row: Row) -> str:
    return f"{row['experiment']}: {row['cell']}, seed {row['seed']}"


def work(row: Row) -> dict[str, Any]:
    """What was to be done. A replay file is known by its content; a key of the stack that there
    was none of at that time had its default."""
    order = dict(row.get("order", {}))
    order["stack"] = dataclasses.asdict(Stack()) | order.get("stack", {})
    order["stack"]["devices"] = list(order["stack"]["devices"])
    order["params"] = {k: v for k, v in order.get("params", {}).items() if k != "file"}
    return order | {"trace": row.get("trace", {}).get("sha256")}


def _other(a: Any, b: Any, at: str = "") -> str:
    """The first key that isn't the same; nothing if there is none."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        found = (_other(a.get(name), b.get(name), f"{at}.{name}" if at else name)
                 for name in sorted(a.keys() | b.keys()))  # fmt: skip
        return next((one for one in found if one), "")
    return "" if a == b else f"{at} was {a!r}, is {b!r}"


ABOUT = (
    "The regression guard's baseline: make test (tests/sim/test_bench.py) runs the experiments",
    "guard-random and guard-trace and fails if a simulated latency, a count or the bytes on the",
    "wire are further from these than bench/compare allows. They are exact: the same tree gives",
    "the same figures on every machine. The tolerances (runner/compare.py) are what a change may",
    "cost or gain without a look; and a few microseconds more in one place make other requests",
    "meet the platters otherwise, which moves the tails by some percents, the means by less than",
    "one. Renew it in the commit that changes the figures on purpose, and say there why:",
    "  bench/run guard-random guard-trace",
    "  bench/compare --renew bench/baseline.json build/bench/guard-*",
)


def renewed(rows: Sequence[Row]) -> str:
    """A baseline of these results."""
    if bad := [f"{label(row)}: {why}" for row in rows if (why := gap(row))]:
        raise BadResults(f"a baseline has no gaps: {bad[0]}")
    kept = [
        {name: row[name] for name in ("experiment", "cell", "seed", "quick", "versions")}
        | {"order": work(row), "trace": row.get("trace", {}), "metrics": metrics(row)}
        for row in rows
    ]
    head = {"_license": "SPDX-License-Identifier: GPL-2.0-only", "_about": ABOUT}
    lines = ",\n".join(json.dumps(row, sort_keys=True) for row in kept)
    return json.dumps(head, indent=1).removesuffix("\n}") + f',\n "rows": [\n{lines}\n]}}\n'


def _plain(name: str, value: float) -> str:
    return f"{value / 1e6:.4f} ms" if name.endswith("_ns") else f"{value:g}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench/compare", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="tolerances in percent: " + ", ".join(f"{k} {v:g}" for k, v in PERCENT.items()),
    )  # fmt: skip
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="+")
    parser.add_argument("--all", action="store_true", help="tell each metric, changed or not")
    parser.add_argument("--renew", action="store_true", help="make OLD a baseline of NEW instead")
    args = parser.parse_args(argv)
    try:
        new = [row for path in args.new for row in results.read(path)]
        if args.renew:
            args.old.write_text(renewed(new), encoding="utf-8")
            return 0
        old = results.read(args.old)
    except BadResults as err:
        print(f"compare: {err}", file=sys.stderr)
        return 2
    if args.all:
        print("\n".join(_all(old, new)))
    found, gaps = changes(old, new)
    for one in (*found, *gaps, *ground(old, new)):
        print(one)
    print(f"{len(old)} cells compared: {len(found)} metrics changed, {len(gaps)} gaps")
    return int(bool(found or gaps))


def _all(old: Sequence[Row], new: Sequence[Row]) -> list[str]:
    now = {key(row): metrics(row) for row in new}
    rows = [("cell", "metric", "old", "new", "ratio")]
    for row in old:
        for metric, value in metrics(row).items():
            other = now.get(key(row), {}).get(metric)
            name = metric.rpartition(" ")[2]
            rows.append((
                label(row), metric, _plain(name, value),
                "-" if other is None else _plain(name, other),
                f"{other / value:.4f}" if other is not None and value else "-",
            ))  # fmt: skip
    return aligned(rows)


if __name__ == "__main__":
    sys.exit(main())
