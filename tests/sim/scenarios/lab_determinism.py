# SPDX-License-Identifier: GPL-2.0-only
"""Latencies of an iSCSI disk over a wire, to the nanosecond: the output is the seed's function.

By fio, and by hand for long enough that the kernel's periodic work comes by some times. The last
line is the kernel's own random numbers, into which it stirs the moment of every interrupt: they too
have to be the seed's.
"""

import functools
import os

from locklab import blk, dm, fio, pair

with pair.pair("iblock", "wan-varying") as both:
    job: dict[str, object] = {"rw": "randwrite", "number_ios": 300, "iodepth": 4}
    for result in fio.run(both.remote, job, {**job, "rw": "randrw"}):
        print(fio.line(result))
    with blk.Disk(both.remote) as disk:
        for turn in range(500):
            data = blk.pattern(f"write {turn}", 8)
            seconds = blk.timed(functools.partial(disk.write, 8 * turn, data))
            print(turn, f"{seconds:.9f}")
    print("sectors", dm.sectors(both.remote), "wire", both.wire.counters())
print("random", os.urandom(16).hex())
