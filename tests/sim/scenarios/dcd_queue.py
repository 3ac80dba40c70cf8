# SPDX-License-Identifier: GPL-2.0-only
"""A data disk whose queue is full makes whoever submits to it wait: never a session's own thread,
so a write of the same session is acknowledged from NVRAM at once.

The disk is scsi_debug's with few requests, which takes long for each. With arguments: only these.
"""

import contextlib
import sys
import threading
from pathlib import Path

from dcdlab import SEGMENT, Disk, counters, format_log
from locklab import base, blk, dm, lio
from locklab.iscsi import Session
from locklab.wire import Wire

DEBUG = Path("/sys/bus/pseudo/drivers/scsi_debug")
READS, SLOW_MS = 24, 500
SOON = 0.2
ROWS = {
    "plain": "",
    "volume": "linear {disk} 0",
    "cannot-say": "delay {disk} 0 0",  # a device that takes no request that mustn't wait
}


def disk_with_few_requests() -> str:
    base.put(DEBUG / "delay", 0)
    base.put(DEBUG / "add_host", 1)
    place = "adapter*/host*/target*/*:0/block/*"
    base.until(lambda: list(DEBUG.glob(place)), "the disk")
    disk = f"/dev/{next(DEBUG.glob(place)).name}"
    base.until(Path(disk).exists, disk)
    device = Path("/sys/block") / Path(disk).name
    base.put(device / "device/queue_depth", 4)
    base.put(device / "queue/scheduler", "mq-deadline")
    base.put(device / "queue/nr_requests", 4)
    return disk


def quick() -> bool:
    with contextlib.suppress(OSError):  # not while it has commands
        base.put(DEBUG / "delay", 0)
        return True
    return False


def row(name: str) -> None:
    base.step(f"{name}: {READS} reads of {SLOW_MS} ms")
    disk = disk_with_few_requests()
    sectors = dm.sectors(disk)
    node = dm.create("above", f"0 {sectors} {ROWS[name].format(disk=disk)}") if ROWS[name] else disk
    log = Disk("log", 3)
    format_log(node, log.node)
    with blk.Disk(node) as raw:
        raw.write(0, blk.pattern("there", READS * 64))
    store = lio.dcd("d", node, log.node, "dram:battery", f"nvram_bytes={4096 + 4 * SEGMENT}",
                    "destage_idle_ms=3600000", "read_cache_bytes=0")  # fmt: skip
    target, session = lio.Target(store), Session()
    far = session.login()
    got: dict[int, bytes] = {}

    def read(n: int) -> None:
        with blk.Disk(far, write=False) as again:
            got[n] = again.read(n * 64, 8)

    base.put(DEBUG / "delay", SLOW_MS)  # jiffies
    threads = [threading.Thread(target=read, args=(n,)) for n in range(READS)]
    with blk.Disk(far) as lun:
        for thread in threads:
            thread.start()
        base.until(lambda: counters(store)["reads"] >= 5, "reads")
        took = [blk.timed(lambda: lun.write(9000, bytes(512))) for _ in range(20)]
        print(f"  the longest write: {max(took) * 1000:.1f} ms", flush=True)
        for thread in threads:
            thread.join()
        base.expect(max(took) < SOON, f"a write took {max(took):.3f} s beside {READS} reads")
    want = blk.pattern("there", READS * 64)
    for n in range(READS):
        at = n * 64 * blk.SECTOR
        base.expect(got[n] == want[at : at + 8 * blk.SECTOR], f"read {n} has other bytes")
    base.expect(counters(store)["read_errors"] == 0, store.info())
    session.close()
    target.remove()
    store.remove()
    log.remove()
    if ROWS[name]:
        dm.remove("above")
    base.until(quick, "the end of all its commands", 3600)
    base.put(DEBUG / "add_host", -1)
    base.until(lambda: not Path(disk).exists(), "the end of the disk")


wire = Wire("lan")
for each in sys.argv[1:] or ROWS:
    row(each)
wire.close()
