# SPDX-License-Identifier: GPL-2.0-only
"""A crash of the primary, and then a bad sector of the local disk in a region that had just been
written: the remote leg has all that was acknowledged there, so nothing is lost.

Control: with dm_lockstep.test_crash_forgets=1 the place can't be read, and the resync stalls.
"""

import clilab
from locklab import base, blk
from mirrorlab import Leg

AT, COUNT, BAD = 1024, 256, 1100

one, two = Leg("one"), Leg("two")
clilab.good("create", "m", one.node, two.node, "--yes", "--assume-clean")
clilab.in_sync()
want = blk.pattern("acknowledged", COUNT)
with blk.Disk("/dev/mapper/m") as disk:
    disk.write(AT, want, fua=True)
    base.step("what is on both disks at the crash")
    images = []
    for leg in (one, two):
        with blk.Disk(leg.disk.node, write=False) as raw:
            images.append(raw.read(0, leg.disk.sectors))
clilab.good("stop", "m")
for leg, image in zip((one, two), images, strict=True):
    with blk.Disk(leg.disk.node) as raw:
        for at in range(0, leg.disk.sectors, 2048):
            raw.write(at, image[at * blk.SECTOR : (at + 2048) * blk.SECTOR])
one.bad_reads(BAD, BAD)
clilab.good("assemble", "m")
clilab.in_sync()
with blk.Disk("/dev/mapper/m", write=False) as disk:
    base.expect(disk.read(AT, COUNT) == want, "what was acknowledged")
with blk.Disk(one.node, write=False) as disk:
    base.expect(disk.read(AT, COUNT) == want, "the local leg's")
base.step("done")
