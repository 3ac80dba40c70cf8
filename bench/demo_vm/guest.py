# SPDX-License-Identifier: GPL-2.0-only
"""What the demo runs in a host to look at a leg: digests of all of it, or of some sectors.

    python3 -m demo_vm.guest legs DEVICE|KIND/NAME SECTORS
    python3 -m demo_vm.guest sectors DEVICE|KIND/NAME < RANGES

KIND/NAME (as dcd/m0) is a backstore of this host, read through LIO (loopback fabric): with what is
still in its NVRAM and on its log disk. `legs` prints a digest of each MiB of so many sectors;
`sectors` takes lines `START COUNT` and prints `SECTOR DIGEST` (acked.digest). All reads are direct.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from demo_vm import acked
from locklab import blk, lio

_CORE = Path("/sys/kernel/config/target/core")


@contextlib.contextmanager
def opened(what: str) -> Iterator[blk.Disk]:
    if what.startswith("/"):
        with blk.Disk(what, write=False) as disk:
            yield disk
        return
    kind, _, name = what.partition("/")
    found = list(_CORE.glob(f"{kind}_*/{name}"))
    if len(found) != 1:
        raise SystemExit(f"guest: {len(found)} backstores {kind}_*/{name} in {_CORE}, want one")
    with lio.look(found[0]) as node, blk.Disk(node, write=False) as disk:
        yield disk


def sectors(disk: blk.Disk, ranges: Iterator[str]) -> None:
    for line in ranges:
        start, count = map(int, line.split())
        data = memoryview(disk.read(start, count))
        for n in range(count):
            one = data[n * blk.SECTOR : (n + 1) * blk.SECTOR]
            print(start + n, acked.digest(bytes(one)))


def main(words: list[str]) -> None:
    if len(words) != {"legs": 3, "sectors": 2}.get(words[0] if words else ""):
        raise SystemExit(__doc__)
    with opened(words[1]) as disk:
        if words[0] == "legs":
            print("\n".join(blk.digests(disk, int(words[2]))))
        else:
            sectors(disk, sys.stdin)


if __name__ == "__main__":
    main(sys.argv[1:])
