# SPDX-License-Identifier: GPL-2.0-only
"""dcd recover --salvage: two damaged writes, the later one over a part of the other, both of which
the data disk has: nothing is lost, and the older version, which is right in the log, isn't put over
them. What the data disk has of only one of both is kept, and the other one alone is lost.

Args: module, tool, salvage: who opens or saves it; no-later, no-earlier: saved, and the data disk
hasn't the write over it, or that only.
"""

from __future__ import annotations

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk
from poisonlab import HELD

AT, SIZE, FAR, PER = 320, 16, 4096, SEGMENT // blk.SECTOR


def flip(box: Box, data: bytes) -> None:
    ring = RING_START // blk.SECTOR
    at = box.log.bytes(ring, box.log.sectors - ring).find(data[: blk.SECTOR])
    base.expect(at >= 0 and at % blk.SECTOR == 0, "the log doesn't have it")
    with blk.Disk(f"/dev/mapper/{box.log.name}-medium") as medium:
        raw = bytearray(medium.read(ring + at // blk.SECTOR, 1))
        raw[77] ^= 0x14
        medium.write(ring + at // blk.SECTOR, bytes(raw))


PARTS = ("module", "tool", "salvage", "no-later", "no-earlier")
for who in base.words(1, PARTS) or PARTS:
    base.step(who)
    box = Box(data_mib=16, log_mib=5, nvram="lab", nvram_bytes=4096 + 4 * SEGMENT, settings=HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 640, 656, "first of all", SIZE)
        filled(disk, model, AT, AT + SIZE, "older", SIZE)
        older = bytes(model.bytes[AT * blk.SECTOR : (AT + SIZE) * blk.SECTOR])
        filled(disk, model, AT, AT + SIZE, "newer", SIZE)
        newer = bytes(model.bytes[AT * blk.SECTOR : (AT + SIZE) * blk.SECTOR])
        filled(disk, model, AT + 8, AT + 12, "over it", 4)
        over = bytes(model.bytes[(AT + 8) * blk.SECTOR : (AT + 12) * blk.SECTOR])
        filled(disk, model, FAR, FAR + 8 * PER, "so that they are in no slot", SIZE)
    with blk.Disk(box.data.node) as data:  # as the destager had done it before a crash
        first = bytes(model.bytes[640 * blk.SECTOR : 656 * blk.SECTOR])
        data.write(640, first)
        kept, lost = bytearray(model.bytes), []
        if who == "no-later":
            part = range(AT + 8, AT + 12)
            kept[part.start * blk.SECTOR : part.stop * blk.SECTOR] = newer[
                8 * blk.SECTOR : 12 * blk.SECTOR
            ]
            lost = [(part.start, 4)]
        elif who == "no-earlier":
            for part in (range(AT, AT + 8), range(AT + 12, AT + SIZE)):
                old = older[(part.start - AT) * blk.SECTOR : (part.stop - AT) * blk.SECTOR]
                kept[part.start * blk.SECTOR : part.stop * blk.SECTOR] = old
                lost.append((part.start, len(part)))
        data.write(AT, bytes(kept[AT * blk.SECTOR : (AT + SIZE) * blk.SECTOR]))
        data.flush()
    flip(box, first)
    flip(box, newer[blk.SECTOR :])
    flip(box, over)
    if who not in ("module", "tool"):
        box.log.fail_writes()
        if not lost:
            code, told = box.tool("recover")
            base.equal((code, told["reason"]), (1, "log_unwritable"), f"{told}")
        code, told = box.tool("recover", "--salvage")
        print(f"  {code} {told}", flush=True)
        same = box.data.bytes(0, box.data.sectors) == kept
        base.expect(same, "an older version was put over what the data disk had")
        said = [(part["sector"], part["sectors"]) for part in told["lost"]]
        base.equal((code, said), (3 if lost else 0, lost), f"{told}")
        box.log.heal()
    elif who == "tool":
        code, told = box.tool("recover")
        base.equal((code, told["state"]), (0, "recovered"), f"{told}")
        base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk's content")
    else:
        with box.disk() as disk:
            model.check(disk, who)
    box.away()
base.step("done")
