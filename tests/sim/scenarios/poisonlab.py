# SPDX-License-Identifier: GPL-2.0-only
"""Media errors of a lab NVRAM: where a DCD has what, and making it unreadable."""

from dcdlab import SEGMENT, Box
from locklab import base, blk, dm

BLOCK = 4096
PER_SLOT = SEGMENT // blk.SECTOR
FIRST = BLOCK // blk.SECTOR  # sector of the NVRAM where slot 0 begins
TABLE, PAYLOAD = BLOCK // blk.SECTOR, 2 * BLOCK // blk.SECTOR  # sectors of a slot
ENTRIES = 8  # of a sector of the table
# All of it stays in the log.
HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99,read_cache_bytes=0"


def box_of(settings: str = "", slots: int = 6) -> Box:
    return Box(nvram="lab", settings=settings, nvram_bytes=BLOCK + slots * SEGMENT)


def poison(box: Box, sector: int, sectors: int = 1) -> None:
    dm.message(f"nv{box.tag}", f"poison {sector} {sectors}")


def clears(box: Box, yes: bool) -> None:
    """Whether the driver can clear a media error."""
    dm.message(f"nv{box.tag}", f"unclearable {int(not yes)}")


def sector_of(box: Box, data: bytes) -> int:
    """Where NVRAM has these bytes' first sector."""
    with blk.Disk(box.view, write=False) as disk:
        for sector in range(disk.sectors):
            try:
                if disk.read(sector, 1) == data[: blk.SECTOR]:
                    return sector
            except OSError:
                continue
    raise base.Wrong("NVRAM doesn't have them")


def slot_of(sector: int) -> int:
    """The sector where its slot begins."""
    return sector - (sector - FIRST) % PER_SLOT
