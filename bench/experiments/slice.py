# SPDX-License-Identifier: GPL-2.0-only
"""Runs the configurations in the sim lab one after another, and reports them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments import report
from traces import generate, spc

TOP = Path(__file__).resolve().parents[2]
SCRIPT = TOP / "bench/experiments/mirror_replay.py"
REAL = TOP.parent / "shared/traces/Financial1_first10000.spc.xz"
DCD_MODULES = ("dcd.ko", "target_core_dcd.ko", "lab-nvram.ko")
MIB = 512
RECORDS = 10_000
ALL = 1024  # slots


@dataclass(frozen=True)
class Configuration:
    name: str
    remote: str
    cache: str = "none"
    software: str = "lockstep"
    batch: int = 1
    slots: int = 16
    options: str = ""

    def words(self) -> list[str]:
        return [
            "--remote", self.remote, "--cache", self.cache, "--software", self.software,
            "--batch", str(self.batch), "--slots", str(self.slots), "--mib", str(MIB),
            "--options", self.options,
        ]  # fmt: skip


CONFIGURATIONS = (
    Configuration("S-S", "local"),
    Configuration("S-iL", "lan"),
    Configuration("S-iL md", "lan", software="md"),
    Configuration("S-iL dm-mirror", "lan", software="dm-mirror"),
    Configuration("S-iDL", "lan", cache="dcd"),
    Configuration("S-iW", "wan"),
    Configuration("S-iW md", "wan", software="md"),
    Configuration("S-iW dm-mirror", "wan", software="dm-mirror"),
    Configuration("S-iDW", "wan", cache="dcd"),
    Configuration("S-iW coalesce 1", "wan", options="coalesce 1"),
    Configuration("S-iW coalesce 8", "wan", options="coalesce 8"),
    Configuration("S-iW batch 8", "wan", batch=8),
    Configuration("S-iDW batch 8", "wan", cache="dcd", batch=8),
    # Nothing is skipped with so many slots: all do the same work, so the wire's counts compare.
    Configuration("S-iW all", "wan", slots=ALL),
    Configuration("S-iW all coalesce 1", "wan", slots=ALL, options="coalesce 1"),
    Configuration("S-iW all coalesce 8", "wan", slots=ALL, options="coalesce 8"),
    Configuration("S-iW all md", "wan", software="md", slots=ALL),
    Configuration("S-iW all dm-mirror", "wan", software="dm-mirror", slots=ALL),
)


def trace_of(path: str | None, records: int | None = None) -> tuple[str, list[spc.Request]]:
    """The trace, and what to call it: the one given, the real slice, or a generated one."""
    if path:
        limit = f", its first {records} records" if records else ""
        return path + limit, spc.read(Path(path), records)
    if REAL.exists():
        requests = spc.read(REAL, records or RECORDS)
        return f"the first {len(requests)} records of Financial-1 ({REAL.name})", requests
    count = records or RECORDS
    text = f"{count} generated records with Financial-1's published characteristics"
    return text, generate.financial1(count, seed=1)


def missing(one: Configuration) -> str | None:
    """Why a configuration can't run here."""
    if one.cache == "dcd":
        there = TOP / "build/modules/uml-plain"
        absent = [name for name in DCD_MODULES if not (there / name).exists()]
        if not (TOP / "build/bin/dcd").exists():
            absent.append("build/bin/dcd")
        if absent:
            return f"not built: {', '.join(absent)}"
    return None


def run(one: Configuration, replay_file: Path, out: Path, seed: int) -> dict[str, Any]:
    """One boot; the result, or {"error": ...}."""
    why = missing(one)
    if why:
        return {"error": why}
    place = out / one.name.replace(" ", "-")
    inside = Path("/lockstep") / replay_file.relative_to(TOP)
    words = [
        str(TOP / "tests/sim/lab"), "run", str(SCRIPT), "--mem", "3G", "--seed", str(seed),
        "--timeout", "900", "--out", str(place), "--", str(inside), *one.words(),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return {"error": f"rc {done.returncode}, see {place}/console.log: {' '.join(last[-3:])}"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    names = [one.name for one in CONFIGURATIONS]
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument("configuration", nargs="*", help=f"of: {', '.join(names)} (default: all)")
    parser.add_argument("--trace", default=os.environ.get("TRACE"), help="an SPC file, also .xz")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=TOP / "build/bench")
    args = parser.parse_args()
    unknown = [name for name in args.configuration if name not in names]
    if unknown:
        parser.error(f"unknown configuration {unknown[0]!r}; there are: {', '.join(names)}")

    out = args.out.resolve()
    if not out.is_relative_to(TOP):
        parser.error(f"--out {out} has to be inside {TOP}, where the lab's kernel sees it")
    try:
        what, requests = trace_of(args.trace)
        packed = spc.pack(spc.place(requests, MIB << 11))
    except spc.BadTrace as err:
        print(f"bench: {err}", file=sys.stderr)
        return 1
    out.mkdir(parents=True, exist_ok=True)
    replay_file = out / "trace.bin"
    replay_file.write_bytes(packed)
    print(f"trace: {what}", *spc.statistics(requests).lines(), sep="\n  ", flush=True)

    wanted = args.configuration or names
    chosen = [one for one in CONFIGURATIONS if one.name in wanted]
    results: dict[str, dict[str, Any]] = {}
    with (out / "results.jsonl").open("w", encoding="ascii") as lines:
        for number, one in enumerate(chosen, 1):
            print(f"[{number}/{len(chosen)}] {one.name} ...", end=" ", flush=True)
            began = time.monotonic()
            results[one.name] = run(one, replay_file, out, args.seed)
            took = time.monotonic() - began
            print(results[one.name].get("error", f"{took:.0f} s"), flush=True)
            row = {"configuration": vars(one), "trace": what, "seed": args.seed}
            lines.write(json.dumps(row | results[one.name], sort_keys=True) + "\n")
    print(report.table(results))
    print(report.wire_table(results))
    print(report.pipe_line(requests))
    if any(one.software == "md" for one in chosen):
        print("md raid1 with --write-mostly for the remote leg: else it reads over the wire, too")
    picture = out / "responses.png"
    drawn = report.draw({name: out / name.replace(" ", "-") for name in results
                         if "error" not in results[name]}, what, picture)  # fmt: skip
    print(f"results: {out / 'results.jsonl'}" + (f"\npicture: {picture}" if drawn else ""))
    broken = [name for name in results if "error" in results[name]]
    absent = [one.name for one in chosen if missing(one)]
    return 1 if set(broken) - set(absent) else 0


if __name__ == "__main__":
    sys.exit(main())
