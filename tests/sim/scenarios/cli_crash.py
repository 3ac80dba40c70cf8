# SPDX-License-Identifier: GPL-2.0-only
"""A crash of the primary, and then a bad sector of the local disk in a region that had just been
written: the remote leg has all that was acknowledged there, so nothing is lost. The resync mends
it; `area`: that may be many sectors; `read`: a caller who reads there before the resync has come
to it; `reload`: likewise behind `lockstep set`, by a new table; `beside`: what is newer on the
local disk, in the sectors beside it, stays; `advanced`: so it does if the remote leg is an
advanced-format disk (scsi_debug's, by the kernel's arguments); `worn`: the place doesn't come
right when it is written, either: it is read from the remote leg; `hangs`: the local disk hangs
over it when a caller has read it and what is beside it, until a new table comes; `flaps`: no
sector is bad, the local disk's path breaks for a while: then nothing is read from the remote leg.

Control: with dm_lockstep.test_crash_forgets=1 the place can't be read, and the resync stalls.
"""

import errno
import time
from functools import partial
from pathlib import Path

import clilab
from dcdlab import scsi_disk
from locklab import base, blk, dm
from mirrorlab import Leg
from statelab import Beside

REGION = 2048  # sectors
AT, COUNT, BAD = 3 * REGION + 1024, 256, 3 * REGION + 1100


def a_read() -> None:
    """Of what is newer on the local disk, and the bad sector."""
    with blk.Disk("/dev/mapper/m", write=False) as disk:
        disk.read(BAD, 8)


PARTS = ("resync", "area", "read", "reload", "beside", "advanced", "worn", "hangs", "flaps")
(part,) = base.words(1, PARTS)
one, two = Leg("one"), Leg("two")
if part == "advanced":
    disk_of_two = scsi_disk()
    two.table(f"0 {two.disk.sectors} linear {disk_of_two} 0")
    queue = Path("/sys/block", Path(disk_of_two).name, "queue")
    physical = (queue / "physical_block_size").read_text().strip()
    base.equal(physical, "4096", "its physical blocks")
rate = "1" if part == "hangs" else "64"
pace = [] if part in ("resync", "area") else ["--resync-rate", rate, "--resync-least", "0"]
clilab.good("create", "m", one.node, two.node, "--yes", "--assume-clean", *pace)
clilab.in_sync()
want = blk.pattern("acknowledged", COUNT)
with blk.Disk("/dev/mapper/m") as disk:
    for region in range(4):
        disk.write(region * REGION, blk.pattern("before it", 8), fua=True)
    disk.write(AT, want, fua=True)
    base.step("what is on both disks at the crash")
    images = []
    for leg in (one, two):
        with blk.Disk(leg.node, write=False) as raw:
            images.append(raw.read(0, leg.disk.sectors))
clilab.good("stop", "m")
for leg, image in zip((one, two), images, strict=True):
    with blk.Disk(leg.node) as raw:
        for at in range(0, leg.disk.sectors, 2048):
            raw.write(at, image[at * blk.SECTOR : (at + 2048) * blk.SECTOR])
if part in ("beside", "advanced", "worn", "hangs", "flaps"):
    # It was under way at the crash, and had reached the local disk.
    new = BAD + {"hangs": 1, "flaps": 0}.get(part, -3)
    with blk.Disk(one.node) as raw:
        raw.write(new, blk.pattern("not acknowledged", 1))
    at = (new - AT) * blk.SECTOR
    want = want[:at] + blk.pattern("not acknowledged", 1) + want[at + blk.SECTOR :]
if part == "flaps":
    with blk.Disk(two.node) as raw:
        raw.write(BAD + 8, blk.pattern("nor is that", 1))
elif part == "worn":
    one.worn_reads(BAD)
elif part == "hangs":
    low = dm.create("low", f"0 {one.disk.sectors} linear {one.disk.node} 0")
    one.bad_reads(BAD, BAD, below=low)
    two.slow(600)
else:
    one.bad_reads(BAD, AT + COUNT - 1 if part == "area" else BAD)
clilab.good("assemble", "m")
if part == "reload":
    clilab.good("set", "m", "resync_jobs=3")
if part in ("resync", "area"):
    began = time.monotonic()
    clilab.in_sync()
    base.expect(time.monotonic() - began < 10, "it was tried again after a minute")
else:
    base.equal(clilab.status()["health"], "Aa", "the resync hasn't come to it")
if part == "flaps":
    one.gone()
    with blk.Disk("/dev/mapper/m", write=False) as disk:
        for at in (BAD, BAD + 8):
            with base.refused("a read of the local disk", errno.EIO):
                disk.read(at, 1)
    one.well()
if part == "hangs":
    dm.suspend("low", flush=False)
    reading = Beside(a_read)
    time.sleep(14)  # told after 10 s; right behind that the control finds nothing
    setting = Beside(partial(clilab.good, "set", "m", "resync_jobs=3"))
    time.sleep(0.5)  # it suspends, and nothing tells of that moment
    dm.resume("low")
    reading.result()
    setting.result()
    two.well()
with blk.Disk("/dev/mapper/m", write=False) as disk:
    base.expect(disk.read(AT, COUNT) == want, "what was acknowledged")
if part == "worn":
    one.well()
clilab.good("set", "m", "resync_rate=0")
clilab.in_sync()
with blk.Disk(one.node, write=False) as disk:
    base.expect(disk.read(AT, COUNT) == want, "the local leg's")
base.step("done")
