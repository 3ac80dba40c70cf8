# SPDX-License-Identifier: GPL-2.0-only
"""BLKZEROOUT through a mirror keeps what is allocated (REQ_NOUNMAP), a discard doesn't."""

from pathlib import Path

from locklab import base, blk
from mirrorlab import Pair


def allocated() -> dict[str, int]:
    """Sectors of the legs' files."""
    return {leg: Path(f"/tmp/{leg}.img").stat().st_blocks for leg in ("llocal", "lremote")}


pair = Pair(zeroes=True)
with blk.Disk(pair.mirror.node) as disk:
    disk.write(0, blk.pattern("a", 2048))
    before = allocated()
    base.step("a discard gives space back")
    disk.discard(0, 2048)
    for leg, sectors in allocated().items():
        base.equal(sectors, before[leg] - 2048, f"sectors of {leg} that are allocated")
    # The last step: the file system below can't do this, and the legs zero nothing from then on.
    base.step("zeroes keep it")
    disk.write(0, blk.pattern("a", 2048))
    disk.zero(0, 2048)
    base.equal(allocated(), before, "sectors allocated")
    base.equal(disk.read(0, 2048), bytes(2048 * 512), "what is read")
base.step("done")
