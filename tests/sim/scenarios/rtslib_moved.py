# SPDX-License-Identifier: GPL-2.0-only
"""The data disk was copied to one whose discards don't zero, and LIO's saved configuration is of
before: the LUN doesn't say that what is unmapped reads as zeroes, so Linux writes zeroes to it.

The new disk is scsi_debug's, by the kernel's arguments.
"""

import ctypes
import json
import os
import shutil
from pathlib import Path

import rtslib_host as host
from dcdlab import scsi_disk
from locklab import base, blk, lio, media

LINK = Path("/run/data")
AT, SIZE = 4096, 2048
KEEP_SIZE, PUNCH_HOLE = 1, 2


def punch(node: str) -> None:
    """WRITE ZEROES that may unmap."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(node, os.O_RDWR)
    try:
        r = libc.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_longlong(AT * blk.SECTOR),
                           ctypes.c_longlong(SIZE * blk.SECTOR))  # fmt: skip
        base.equal((r, ctypes.get_errno()), (0, 0), "a hole")
    finally:
        os.close(fd)


def lun() -> Path:
    return next(host.CORE.glob("dcd_*/m"))


def says() -> str:
    return (lun() / "attrib/unmap_zeroes_data").read_text().strip()


def destaged() -> None:
    live = lun() / "attrib/stat_log_live"
    base.until(lambda: live.read_text().strip() == "0", "all to be destaged")


new = scsi_disk()  # it discards, and is to have no command that zeroes
base.put(next(Path("/sys/class/scsi_disk").glob("*")) / "max_write_same_blocks", 0)
with blk.Disk(new, write=False) as disk:
    old = media.disk("old", disk.sectors >> 11, "ssd", write_cache="off")
log = media.disk("log", 9, "ssd")
LINK.symlink_to(old)
base.run(host.DCD_TOOL, "format", "--data", old, "--log", log, "--nvram", "none")
host.prepare()
host.install()
base.step("a data disk that zeroes: the LUN says so, and that isn't saved")
host.create("m", data=str(LINK), log=log, nvram="none", read_cache_bytes=0)
base.equal(says(), "1", "what it says of what was unmapped")
host.targetcli("saveconfig")
saved = host.saved()
attributes = saved["storage_objects"][0]["attributes"]
base.expect("unmap_zeroes_data" not in attributes, attributes)
with lio.look(lun()) as node, blk.Disk(node) as disk:
    disk.write(AT, blk.pattern("old", SIZE))
host.targetcli("clearconfig", "confirm=True")

base.step("a copy of it that discards only, and a configuration that has it saved")
with open(old, "rb") as source, open(new, "r+b") as copy:
    shutil.copyfileobj(source, copy, 1 << 20)
LINK.unlink()
LINK.symlink_to(new)
attributes["unmap_zeroes_data"] = 1
host.SAVED.write_text(json.dumps(saved))
restored = host.program("targetcli", "restoreconfig")
with lio.look(lun()) as node, blk.Disk(node) as disk:
    destaged()
    punch(node)
    base.expect(not any(disk.read(AT, SIZE)), "what was zeroed isn't")
    destaged()
    base.expect(not any(disk.read(AT, SIZE)), "it was zeroed, and old bytes are there again")
base.expect("Cannot set attribute unmap_zeroes_data" in restored.text, restored.text)
base.equal(says(), "0", "what it says of what was unmapped")
host.targetcli("clearconfig", "confirm=True")
base.step("done")
