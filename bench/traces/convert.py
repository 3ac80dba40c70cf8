#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""From a trace to the file that bench/replay replays.

TRACE is an SPC file (plain, .xz, .bz2, .gz), or financial-1, financial-2, tpcc20 for a generated
one of any length, or financial-1-slice for the real first 10,000 records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from traces import named, spc


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace")
    parser.add_argument("replay_file", type=Path)
    parser.add_argument("--sectors", type=int, required=True, help="the device's size")
    parser.add_argument("--records", type=int, help="only so many from the start")
    parser.add_argument("--seed", type=int, default=1, help="of a generated trace")
    args = parser.parse_args(argv)
    try:
        one = named.source(args.trace, args.records, args.seed)
        got = named.prepare(one, args.sectors, args.replay_file)
    except spc.BadTrace as err:
        print(f"convert: {err}", file=sys.stderr)
        return 1
    print(one.what, *one.lines(got), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
