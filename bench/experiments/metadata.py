# SPDX-License-Identifier: GPL-2.0-only
"""Writes to the metadata for each data write, over sparse legs of 100 GiB.

Loads: the trace (Financial-1 if it is there) at its own times; uniform random 4 KiB writes at a
given rate; the same as fast as the legs are, with 1, 16 and 128 in flight. Each load also runs on a
mirror without metadata (nosync), so that what the marking adds to the response times is seen.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from traces import named, spc

TOP = named.TOP
SCENARIO = TOP / "tests/sim/scenarios/bench_metadata.py"
KEPT_MIB = 16  # of the legs, for the metadata
RATES = (10, 100, 1000)  # a second
DEPTHS = (1, 16, 128)


def uniform(count: int, rate: float, sectors: int, seed: int) -> list[spc.Placed]:
    """So many 4 KiB writes at random places, at random times of that rate."""
    rng = random.Random(f"uniform {seed}")
    now = 0.0
    rows = []
    for _ in range(count):
        now += rng.expovariate(rate)
        rows.append(spc.Placed(rng.randrange(sectors // 8) * 8, 8, True, round(now * 1e9)))
    return rows


def run(words: list[str], seed: int) -> dict[str, Any]:
    command = [str(TOP / "tests/sim/lab"), "run", str(SCENARIO), "--mem", "3G", "--seed", str(seed),
               "--timeout", "900", "--", *words]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, Any] = {}
    if done.stdout.strip():
        found = json.loads(done.stdout.splitlines()[-1])
    if done.returncode:
        found["error"] = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-3:])
    return found


def line(name: str, result: dict[str, Any]) -> str:
    if "counters" not in result:
        return f"{name:28} {result['error']}"
    own, writes = result["counters"], max(result["counters"]["writes"], 1)
    pages = sum(result["tail_pages"].values())
    slower = result["with"]["mean_ns"] / max(result["without"]["mean_ns"], 1)
    return (
        f"{name:28} {writes:7} {own['map_writes']:7} {own['super_writes']:6} {pages:7} "
        f"{pages / writes:9.4f} {own['marked'] / writes:8.1%} {own['cleaned']:8} "
        f"{result['without']['mean_ns'] / 1e3:9.0f} {result['with']['mean_ns'] / 1e3:9.0f} "
        f"{slower:6.2f}" + (f"  {result['error']}" if "error" in result else "")
    )


HEAD = (
    f"{'load':28} {'writes':>7} {'map':>7} {'super':>6} {'pages':>7} {'pages/wr.':>9} "
    f"{'waited':>8} {'cleaned':>8} {'us bare':>9} {'us':>9} {'ratio':>6}"
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench/metadata", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--trace", default=os.environ.get("TRACE"), help="an SPC file, also .xz")
    parser.add_argument("--gib", type=int, default=100)
    parser.add_argument("--region-size", type=int, default=0, metavar="SECTORS")
    parser.add_argument("--writes", type=int, default=20_000, help="of the uniform loads")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    out = TOP / "build/bench/metadata"
    out.mkdir(parents=True, exist_ok=True)
    sectors = ((args.gib << 10) - KEPT_MIB) << 11
    try:
        what, requests = named.trace_of(args.trace)
        traces = {"trace": spc.pack(spc.place(requests, sectors))}
    except spc.BadTrace as err:
        print(f"metadata: {err}", file=sys.stderr)
        return 1
    for rate in RATES:
        rows = uniform(args.writes, rate, sectors, args.seed)
        traces[f"uniform, {rate} a second"] = spc.pack(rows)
    print(f"trace: {what}; uniform: {args.writes} writes of 4 KiB over {args.gib} GiB\n{HEAD}")
    mib, region = str(args.gib << 10), str(args.region_size)
    bad = False
    with (out / "results.jsonl").open("w", encoding="ascii") as results:
        loads: dict[str, list[str]] = {}
        for name, data in traces.items():
            file = out / f"{name.replace(', ', '-').replace(' ', '-')}.bin"
            file.write_bytes(data)
            loads[name] = [mib, region, "replay", str(Path("/lockstep") / file.relative_to(TOP))]
        for depth in DEPTHS:
            loads[f"uniform, {depth} in flight"] = [mib, region, "stream", str(depth),
                                                    str(args.writes)]  # fmt: skip
        for name, words in loads.items():
            result = run(words, args.seed)
            results.write(json.dumps({"load": name, "trace": what} | result) + "\n")
            print(line(name, result), flush=True)
            bad = bad or "error" in result
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
