# SPDX-License-Identifier: GPL-2.0-only
"""I/O errors anywhere at random, in both disks, with power cuts: args [ROUNDS].

fail_make_request fails a part of the requests to the log and to the data disk. A write may then be
refused; one that was acknowledged is there, after the errors' end and after a cut (with plain dram:
if it was flushed).
"""

import random
import sys
import time

from dcdlab import Box, Model
from faultlab import faults, mark
from locklab import base, blk

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 6 if base.CHECKED else 15
END = 3000  # sectors in use


class May:
    """The bytes that each sector may have: more than one after a failed write."""

    def __init__(self, model: Model) -> None:
        self.sectors: list[set[bytes]] = [
            {bytes(model.bytes[n * 512 : n * 512 + 512])} for n in range(END)
        ]

    def wrote(self, first: int, data: bytes, acknowledged: bool) -> None:
        for n in range(len(data) // 512):
            sector = data[n * 512 : n * 512 + 512]
            if acknowledged:
                self.sectors[first + n] = {sector}
            else:
                self.sectors[first + n].add(sector)

    def check(self, disk: blk.Disk, what: str, *, settle: bool = True) -> None:
        data = disk.read(0, END)
        for n in range(END):
            sector = data[n * 512 : n * 512 + 512]
            base.expect(sector in self.sectors[n], f"{what}: sector {n} has wrong bytes")
            if settle:
                self.sectors[n] = {sector}


def one(box: Box, may: May, rng: random.Random, number: int) -> tuple[int, int]:
    taken = refused = 0
    cut = rng.random() < 0.6 and box.nvram in ("lab", "none")
    with box.disk_until_cut() if cut else box.disk() as disk:
        may.check(disk, f"round {number}, at the start")
        sick = rng.choice((("log",), ("data",), ("log", "data")))
        for name in sick:
            mark(getattr(box, name).node, on=True)
        faults(rng.choice((2, 10, 40)))
        for n in range(rng.randint(20, 120)):
            count = rng.randint(1, 60)
            first = rng.randrange(END - count)
            zero = rng.random() < 0.2
            data = bytes(512 * count) if zero else blk.pattern(f"{number} {n}", count)
            try:
                if zero:
                    disk.zero(first, count)
                else:
                    disk.write(first, data, fua=rng.random() < 0.1)
            except OSError:
                refused += 1
                may.wrote(first, data, acknowledged=False)
            else:
                taken += 1
                may.wrote(first, data, acknowledged=True)
            if rng.random() < 0.02:
                time.sleep(rng.random() * 8)  # destage has its turn
        if cut and rng.random() < 0.5:
            faults(0)
        elif not cut:
            faults(0)
            box.says("log ok, data ok", "the disks to work again")
            may.check(disk, f"round {number}, at the errors' end")
            if rng.random() < 0.5:
                box.destaged()
                may.check(disk, f"round {number}, destaged")
    faults(0)
    return taken, refused


def main() -> None:
    all_refused = 0
    for nvram in ("lab", "dram:battery", "none"):
        base.step(f"{nvram}: {ROUNDS} rounds")
        rng = random.Random(f"io faults {base.SEED} {nvram}")
        box = Box(nvram=nvram, nvram_bytes=4096 + 6 * 65536)
        may = May(Model(box.data.sectors))
        taken = refused = 0
        for number in range(ROUNDS):
            more = one(box, may, rng, number)
            taken, refused = taken + more[0], refused + more[1]
        with box.disk() as disk:
            may.check(disk, "in the end")
            box.destaged()
            may.check(disk, "from the data disk")
        print(f"  {taken} writes taken, {refused} refused", flush=True)
        base.expect(taken > 5 * ROUNDS, "too few were taken")
        all_refused += refused
        box.away()
    base.expect(all_refused, "none was refused")
    base.step("done")


main()
