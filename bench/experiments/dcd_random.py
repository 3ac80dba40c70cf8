# SPDX-License-Identifier: GPL-2.0-only
"""4 KiB random writes on the spindle model, over the LAN: the DCD against its peers, in simulated
time.

burst: so many writes as the log takes, after a pause. steady: writes without a pause, until the
data disk is what counts. The goals: in the burst the DCD's mean is at least 10 times better than
that of iblock, it does at least 2 times as many steady writes, and no write takes longer than 10
times the load's mean. The exit code is 0 if all could be measured, whatever came out.

--places: where the writes go; zipf 0.8 (many are warm), zipf 1.2 (few are hot), or nine of ten to a
tenth of the disk. --reads: 4 KiB reads instead of writes, to each of these places, when a cache has
seen as many before; `after`: zipf 1.2 again after a long sequence of reads, that goes by the cache.

Peers of reads: iblock, dcd, and dcd-nocache, without its read cache. Of writes: iblock (LIO's own
backstore on the data disk); dm-writecache under iblock with the DCD's log disk as its cache (it
acknowledges before a write is durable, and the LUN says so: writecache), and the same with each
write asked to be durable (writecache-fua), as those of the DCD and of iblock are. dm-writeboost
isn't among them: the module of Debian's package (2.2.17) compiles with 6.1, but not with 6.12 (no
bd_inode in struct block_device, no blk_limits_io_opt) nor with the lab's 7.3, whose dm-io, kcopyd
and queue limits have other signatures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
SCRIPT = TOP / "bench/experiments/dcd_peer.py"
PEERS = ("iblock", "writecache-fua", "writecache", "dcd")
READERS = ("iblock", "dcd-nocache", "dcd")
PLACES = ("uniform", "zipf 0.8", "zipf 1.2", "hot spot")
LOADS = ("burst", "steady", *PLACES, "after")
BETTER_BURST, BETTER_STEADY, PEAK = 10.0, 2.0, 10.0
_COLUMNS = ("mean_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns")


def run(peer: str, words: list[str], out: Path, seed: int, patience: int) -> dict[str, Any]:
    """One boot; the result, or {"error": ...}."""
    command = [str(TOP / "tests/sim/lab"), "run", str(SCRIPT), "--mem", "3G", "--seed", str(seed),
               "--timeout", str(patience), "--out", str(out / peer), "--", peer,
               *words]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return {"error": f"rc {done.returncode}: {' '.join(last[-3:])}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def rate(one: Mapping[str, Any]) -> float:
    """Of them a second."""
    return float(one["count"] / max(one["seconds"], 1e-3))


HEAD = (
    f"{'load':10}{'peer':16}{'count':>9}{'a second':>10}{'mean ms':>10}{'p50':>9}{'p99':>9}"
    f"{'p99.9':>9}{'max':>9}{'max/mean':>10}{'mean x':>9}{'rate x':>8}"
)


def lines(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line a load and peer; x: how many times better than iblock."""
    told = []
    for load in LOADS:
        base = results.get("iblock", {}).get(load)
        for peer, result in results.items():
            if "error" in result:
                told.append(f"{load:10}{peer:16} {result['error']}")
            elif load in result:
                one = result[load]
                times = "".join(
                    f"{one[key] / 1e6:{10 if key == 'mean_ns' else 9}.2f}" for key in _COLUMNS
                )
                better = "" if base is None else (
                    f"{base['mean_ns'] / one['mean_ns']:9.1f}{rate(one) / rate(base):8.2f}"
                )  # fmt: skip
                told.append(
                    f"{load:10}{peer:16}{one['count']:9}{rate(one):10.0f}{times}"
                    f"{one['max_ns'] / one['mean_ns']:10.1f}{better}"
                )
    return told


def goals(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Which of the goals are reached, as far as they were measured."""
    told = []
    for load in ("burst", "steady"):
        ours, base = (results.get(peer, {}).get(load) for peer in ("dcd", "iblock"))
        if ours and base and load == "burst":
            better = base["mean_ns"] / ours["mean_ns"]
            told.append(said(better >= BETTER_BURST, f"burst: mean {better:.1f} times better, "
                             f"wanted {BETTER_BURST:g}"))  # fmt: skip
        if ours and base and load == "steady":
            better = rate(ours) / rate(base)
            told.append(said(better >= BETTER_STEADY, f"steady: {better:.2f} times the writes, "
                             f"wanted {BETTER_STEADY:g}"))  # fmt: skip
        if ours:
            peak = ours["max_ns"] / ours["mean_ns"]
            told.append(said(peak <= PEAK, f"{load}: longest write {peak:.1f} times the mean, "
                             f"wanted at most {PEAK:g}"))  # fmt: skip
    return told


def said(reached: bool, text: str) -> str:
    return f"{'reached' if reached else 'MISSED '}  {text}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench/dcd-random", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("peer", nargs="*", help=f"of: {', '.join(PEERS)}; of reads: "
                        f"{', '.join(READERS)} (default: all)")  # fmt: skip
    parser.add_argument("--data-mib", type=int, default=512)
    parser.add_argument("--log-mib", type=int, default=128)
    parser.add_argument("--nvram-mib", type=int, default=32)
    parser.add_argument("--depth", type=int, default=16, help="writes in flight")
    parser.add_argument("--burst", type=int, default=12_000, metavar="WRITES", help="0: none")
    parser.add_argument("--seconds", type=int, default=120, help="of steady writes; 0: none")
    parser.add_argument(
        "--hour", action="store_const", dest="seconds", const=3600,
        help="a simulated hour of steady writes: half an hour or more of real time for each peer",
    )  # fmt: skip
    parser.add_argument("--places", choices=PLACES, default="uniform")
    parser.add_argument("--reads", type=int, default=0, metavar="EACH",
                        help="reads of each kind instead of the writes")  # fmt: skip
    parser.add_argument("--settings", default="", help="more keys of the dcd's control: a=1,b=2")
    parser.add_argument(
        "--disks", choices=("spread", "packed", "ssd"), default="spread",
        help="spindles, the data disk over the whole stroke or not; or SSDs (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--watch", action="store_true",
        help="twice a second the DCD's state, and each batch it destages: OUT/dcd/watch.jsonl, "
        "batches.txt",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=TOP / "build/bench/dcd-random")
    args = parser.parse_args()
    peers = READERS if args.reads else PEERS
    unknown = [peer for peer in args.peer if peer not in peers]
    if unknown:
        parser.error(f"unknown peer {unknown[0]!r}; there are: {', '.join(peers)}")
    if args.reads:
        args.burst = args.seconds = 0
    out = args.out.resolve()
    if not out.is_relative_to(TOP):
        parser.error(f"--out {out} has to be inside {TOP}, where the lab's kernel sees it")
    out.mkdir(parents=True, exist_ok=True)
    words = [word for key in ("data_mib", "log_mib", "nvram_mib", "depth", "burst", "seconds",
             "reads", "places")
             for word in (f"--{key.replace('_', '-')}", str(getattr(args, key)))]  # fmt: skip
    words += [f"--settings={args.settings}", "--disks", args.disks]
    words += ["--watch"] if args.watch else []
    print(f"{args.disks}: data {args.data_mib} MiB, log or cache {args.log_mib} MiB, NVRAM "
          f"{args.nvram_mib} MiB, {args.depth} in flight"
          + ("" if args.reads else f", places {args.places}"), flush=True)  # fmt: skip
    results: dict[str, dict[str, Any]] = {}
    with (out / "results.jsonl").open("w", encoding="ascii") as kept:
        for peer in [one for one in peers if one in (args.peer or peers)]:
            began = time.monotonic()
            results[peer] = run(peer, words, out, args.seed, 3600 + 3 * args.seconds)
            print(f"  {peer}: {time.monotonic() - began:.0f} s of real time", flush=True)
            row = {"peer": peer, "words": words, "seed": args.seed}
            kept.write(json.dumps(row | results[peer], sort_keys=True) + "\n")
    print("\n".join([HEAD, *lines(results), *goals(results)]))
    print(f"results: {out / 'results.jsonl'}")
    return int(any("error" in result for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
