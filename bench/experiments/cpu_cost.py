# SPDX-License-Identifier: GPL-2.0-only
"""What a 4 KiB write costs the CPU: every mirror and every LUN of bench/instructions in one table.

Each round is a run of it: one boot, all peers in it one after another, on RAM disks. A figure is
the mean over the rounds, beside it the least and the most; `x` is the mean over the control's: md
raid1 for a mirror, iblock for a LUN. The instructions are counted by an emulated CPU, so the host
disturbs nothing, and the spread is what the guest's own timing makes of the same work.

The same in CPU seconds, for the mirrors, where the host does disturb: tests/sim/cpu-cost.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.instructions import LUNS, PEERS, TOP

CONTROL = {**dict.fromkeys(PEERS, "md"), **dict.fromkeys(LUNS, "iblock")}
Costs = Mapping[tuple[str, int], Sequence[float]]


def costs(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], list[float]]:
    """By name and writes in flight, one figure a round; of writes only."""
    found: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        if ":" not in row["peer"]:
            found.setdefault((row["peer"], row["depth"]), []).append(row["instructions"])
    return found


def table(found: Costs, depths: Sequence[int]) -> list[str]:
    head = "".join(f"{f'{depth} in flight':>14}{'least':>9}{'most':>9}{'x':>6}" for depth in depths)
    lines = [f"{'instructions a write':22}{head}"]
    for peer in dict.fromkeys(peer for peer, _ in found):
        cells = ""
        for depth in depths:
            each = found[peer, depth]
            mean, control = statistics.fmean(each), found.get((CONTROL[peer], depth))
            over = f"{mean / statistics.fmean(control):6.2f}" if control else f"{'-':>6}"
            cells += f"{mean:14.0f}{min(each):9.0f}{max(each):9.0f}{over}"
        lines.append(f"{peer:22}{cells}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench/cpu-cost", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    known = (*PEERS, *LUNS)
    parser.add_argument("peer", nargs="*", help=f"of: {', '.join(known)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--writes", type=int, default=8192)
    parser.add_argument("--depths", default="1,32", help="writes in flight (default 1,32)")
    parser.add_argument("--out", type=Path, default=TOP / "build/bench/cpu-cost")
    args = parser.parse_args()
    unknown = [name for name in args.peer if name not in known]
    if unknown:
        parser.error(f"unknown peer {unknown[0]!r}; there are: {', '.join(known)}")
    depths = [int(word) for word in args.depths.split(",")]
    rows: list[dict[str, Any]] = []
    for number in range(1, args.rounds + 1):
        place = args.out.resolve() / f"round-{number}"
        words = [str(TOP / "bench/instructions"), *(args.peer or known), "--depths", args.depths,
                 "--writes", str(args.writes), "--out", str(place)]  # fmt: skip
        if subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode:
            return 1  # it has said why
        rows += json.loads((place / "results.json").read_text())
        print(f"round {number} of {args.rounds}", flush=True)
    print("\n".join(table(costs(rows), depths)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
