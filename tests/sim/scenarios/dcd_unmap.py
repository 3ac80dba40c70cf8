# SPDX-License-Identifier: GPL-2.0-only
"""A SCSI disk as the data disk, which takes UNMAP, and says (lbprz=1) or doesn't say that unmapped
blocks read as zeroes: what the LUN says of that is true, before and after it was destaged.

Space is given back where that can be true, and with 0 always.

Args: 1 or 0: what the LUN has to say. The disk is scsi_debug's, by the kernel's arguments.
"""

import errno
from pathlib import Path

from dcdlab import SCSI_DEBUG as DEBUG
from dcdlab import SERIAL, counters, format_log, scsi_disk
from locklab import base, blk, lio, media

AT, SIZE = 4096, 2048


says = base.words(1, {"0": 0, "1": 1})[0]
base.step(f"UNMAP by the LUN, which says unmap_zeroes_data={says}")
data, log = scsi_disk(), media.disk("log", 9, "ssd")
if says == "0":  # an admin's way to get space back from a disk that zeroes by writing
    base.put(next(Path("/sys/class/scsi_disk").glob("*")) / "max_write_same_blocks", 0)
format_log(data, log)
settings = f"data={data},log={log},nvram=dram:battery,read_cache_bytes=0"
store = lio.Backstore("dcd", "d", settings, SERIAL)
base.equal(store.attribute("emulate_tpu"), "1", "whether the LUN takes UNMAP")
base.equal(store.attribute("unmap_zeroes_data"), says, "what it says of what was unmapped")
if says == "0":  # by a configuration of before the data disk was moved to this one
    with base.refused("zeroes by word", errno.EINVAL, kernel="isn't known to read as zeroes"):
        base.put(store.path / "attrib/unmap_zeroes_data", 1)
    base.equal(store.attribute("unmap_zeroes_data"), "0", "what it says then")


def destaged() -> None:
    base.until(
        lambda: counters(store)["live"] == 0 and " 0 in use" in store.info(), "all to be destaged"
    )


def mapped() -> bool:
    """Does the data disk use space for it?"""
    ranges = [part.split("-") for part in (DEBUG / "map").read_text().strip().split(",") if part]
    return any(int(first) < AT + SIZE and int(last) >= AT for first, last in ranges)


with lio.look(store) as node, blk.Disk(node) as disk:
    disk.write(AT, blk.pattern("old", SIZE))
    destaged()
    disk.discard(AT, SIZE)
    base.expect(counters(store)["discards"] > 0, "Linux's discards are UNMAPs")
    before = disk.read(AT, SIZE)
    destaged()
    base.expect(counters(store)["discarded_sectors"] == SIZE, store.info())
    after = disk.read(AT, SIZE)
    print(f"  destaged: zeroes {not any(after)}, space in use {mapped()}", flush=True)
    base.expect(says == "0" or not any(before), "what was unmapped isn't zeroes")
    base.expect(says == "0" or not any(after), "the LUN says zeroes, and old bytes are there again")
    thin = says == "0" or "scsi_debug.lbprz=1" in Path("/proc/cmdline").read_text()
    base.equal(mapped(), not thin, "whether the data disk uses space for it")
store.remove()
base.step("done")
