# SPDX-License-Identifier: GPL-2.0-only
"""Counters and state as attributes of the LUN: what info says, one number a file, to be read."""

import errno
import re
from pathlib import Path

from dcdlab import Box, counters
from locklab import base, blk, lio

STATE = {"log_segments", "log_live", "log_free", "slots", "slots_used", "log_failing",
         "log_damaged", "log_left", "data_failing", "stuck_ranges", "stuck_sectors", "index_used",
         "lost_ranges", "lost_sectors", "slots_retired", "index_bytes", "cache_used",
         "cache_bytes"}  # fmt: skip


def stats(path: Path) -> dict[str, int]:
    files = sorted((path / "attrib").glob("stat_*"))
    return {file.name.removeprefix("stat_"): int(file.read_text()) for file in files}


def main() -> None:
    box = Box()
    base.step("before it is enabled all is zero")
    path = base.made(Path("/sys/kernel/config/target/core/dcd_0")) / "early"
    path.mkdir()
    early = stats(path)
    base.equal(set(early.values()), {0}, "statistics of what isn't enabled")
    base.expect((path / "attrib/emulate_tpu").exists(), "the core's own attributes are there too")
    path.rmdir()

    base.step("in use they are what info says")
    store = box.open()
    base.expect("are LOST by a panic, a forced reset" in store.info(), store.info())
    with lio.look(store) as node, blk.Disk(node) as disk:
        for at in range(0, 800, 8):
            disk.write(at, blk.pattern(f"{at}", 8))
        box.destaged()
        box.data.fail()
        disk.write(0, blk.pattern("more", 8))
        box.says("data FAILING", "the data disk's failure")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        got, told = stats(store.path), counters(store)
        last = re.findall(r"\b([a-z_]+) \d+\b", store.info().splitlines()[-1])
        base.equal(set(got), set(early), "the same files")
        base.equal(set(got) - STATE, set(last), "an attribute for each counter")
        # Retries go on in between.
        steady = ("reads", "writes", "written_sectors", "segments", "log_sectors", "flushes")
        for name in steady:
            base.equal(got[name], told[name], f"stat_{name}")
        base.expect(got["writes"] >= 101, f"writes {got['writes']}")
        base.equal((got["log_live"], got["log_free"]), (told["live"], told["free"]), "the log")
        base.equal((got["log_failing"], got["data_failing"], got["slots_used"]), (0, 1, 0), "state")
        box.data.heal()
    with base.refused("a write to a statistic", errno.EACCES, errno.EPERM, errno.EINVAL):
        base.put(store.path / "attrib/stat_writes", 0)
    box.close()
    box.away()
    base.step("done")


main()
