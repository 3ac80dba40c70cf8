#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""From an SPC trace (plain or .xz) to the file that bench/replay replays."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from traces import spc


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("replay_file", type=Path)
    parser.add_argument("--sectors", type=int, required=True, help="the device's size")
    parser.add_argument("--records", type=int, help="only so many from the start")
    args = parser.parse_args(argv)
    try:
        requests = spc.read(args.trace, args.records)
        args.replay_file.write_bytes(spc.pack(spc.place(requests, args.sectors)))
    except spc.BadTrace as err:
        print(f"convert: {err}", file=sys.stderr)
        return 1
    print(*spc.statistics(requests).lines(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
