# SPDX-License-Identifier: GPL-2.0-only
"""Latencies of an iSCSI disk over a wire, to the nanosecond: the output is the seed's function.

With the argument `fio` also by fio, which isn't always the same to the nanosecond: see fio.py.
"""

import functools
import sys

from locklab import blk, dm, fio, pair

with pair.pair("iblock", "wan-varying") as both:
    if "fio" in sys.argv:
        job: dict[str, object] = {"rw": "randwrite", "number_ios": 300, "iodepth": 4}
        for result in fio.run(both.remote, job, {**job, "rw": "randrw"}):
            print(fio.line(result))
    with blk.Disk(both.remote) as disk:
        for turn in range(200):
            data = blk.pattern(f"write {turn}", 8)
            seconds = blk.timed(functools.partial(disk.write, 8 * turn, data))
            print(turn, f"{seconds:.9f}")
    print("sectors", dm.sectors(both.remote), "wire", both.wire.counters())
