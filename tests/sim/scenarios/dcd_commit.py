# SPDX-License-Identifier: GPL-2.0-only
"""The log is found dead while a segment is on its way to it, which it takes long for. Writes go on,
past the log, and call for the committer again and again: what has its slot in that commit stays
there until it has come to its end, and nothing that was acknowledged is lost.

healed: with the log dead the data disk failed, too, and works again, but slowly. A round of the
destager is asked for: whoever finds NVRAM full waits for that, and isn't refused.

Args: the parts, of which without any all are run.
"""

import time

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk
from poisonlab import HELD

RING = RING_START // blk.SECTOR
SLOTS = 64
SIZE = 112  # sectors: all of a slot's payload
DAWDLES_MS = 1500
PAUSE_S = 0.02


def dawdles() -> None:
    base.step("a commit dawdles, and the log takes no superblock")
    nvram_bytes = 4096 + SLOTS * SEGMENT
    box = Box(data_mib=16, log_mib=16, nvram="lab", nvram_bytes=nvram_bytes, settings=HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 8 * SIZE, "in the log", SIZE)
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        box.log.refuse_and_dawdle((0, 15), (RING, box.log.sectors - 1), DAWDLES_MS)
        filled(disk, model, 8 * SIZE, 10 * SIZE, "a commit that dawdles", SIZE)
        box.set("destage_idle_ms=1")
        # The slots are used again and again meanwhile.
        for n in range(10, 140):
            filled(disk, model, n * SIZE, (n + 1) * SIZE, "meanwhile", SIZE)
            time.sleep(PAUSE_S)
        base.expect("log FAILING" in box.info(), box.info())
        base.expect(box.count("bypass_rounds") > 0, f"nothing went past the log: {box.info()}")
        time.sleep(2 * DAWDLES_MS / 1000)
        base.equal(box.count("lost_ranges"), 0, "ranges that are lost")
        model.check(disk, "past the log")
        filled(disk, model, 0, 80 * SIZE, "after it", SIZE)
        model.check(disk, "over it")
        box.log.heal()
        box.says("log ok", "the log to work again")
        filled(disk, model, 40 * SIZE, 50 * SIZE, "in the log again", SIZE)
        model.check(disk, "with the log back")
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()



def healed() -> None:
    base.step("log and data disk have failed; the data disk works again, and is slow")
    box = Box(nvram="lab", settings=HELD)  # three slots are for writes
    model = Model(box.data.sectors)
    with box.disk() as disk:
        box.log.fail_writes()
        box.data.fail_writes()
        filled(disk, model, 0, 8, "what is tried", 8)
        box.says("log FAILING", "the log to be found dead")
        box.says("data FAILING", "the data disk to be found dead")
        box.data.slow(200)
        filled(disk, model, 8, 2 * SIZE, "calls for a round", 8)
        time.sleep(PAUSE_S)
        filled(disk, model, 2 * SIZE, 8 * SIZE, "more than there is room for", SIZE)
        base.equal(box.count("write_errors"), 0, "writes that were refused")
        box.data.heal()
        box.log.heal()
        box.says("log ok", "the log to work again")
        model.check(disk, "with both of them back")
    box.away()


PARTS = {"dawdles": dawdles, "healed": healed}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
