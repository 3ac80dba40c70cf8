# SPDX-License-Identifier: GPL-2.0-only
"""Recovery of a DCD whose log is full of 4 KiB writes at random places: time and memory.

The log is a modelled disk in the sim lab, so the time is what that disk takes to be read, and no
CPU time is in it. 16 GiB take about ten minutes and 3 GiB of memory here: the payload is zeroes,
which the lab doesn't keep.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SCRIPT = TOP / "bench/experiments/dcd_full_log.py"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench/dcd-recovery", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--gib", type=float, default=16.0, help="of log (default 16)")
    parser.add_argument("--model", default="spindle", help="of the log disk (default spindle)")
    parser.add_argument("--segment-kib", type=int, default=256)
    parser.add_argument("--out", type=Path, default=TOP / "build/bench/dcd-recovery.json")
    args = parser.parse_args()
    patience = int(300 + 120 * args.gib)
    command = [str(TOP / "tests/sim/lab"), "run", str(SCRIPT), "--mem", "3G", "--timeout",
               str(patience), "--", str(args.gib), args.model, str(args.segment_kib)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"dcd-recovery: rc {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
        return 1
    line = done.stdout.splitlines()[-1]
    one = json.loads(line)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(line + "\n", encoding="ascii")
    print(f"{one['gib']:g} GiB of log ({one['model']}, segments of {one['segment_kib']} KiB): "
          f"{one['segments']} segments, {one['entries']} entries, {one['bytes']} bytes read "
          f"in {one['recovery_s']:.1f} s; the index takes {one['index_memory'] / 2**20:.1f} MiB, "
          f"{one['index_memory'] / one['entries']:.1f} bytes an entry")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
