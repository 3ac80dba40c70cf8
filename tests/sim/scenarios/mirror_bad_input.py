# SPDX-License-Identifier: GPL-2.0-only
"""Wrong tables and messages: refused with an error that names the thing; nothing changed."""

import errno

from locklab import base, blk, dm, mirror, ram

local, remote, small = ram.Ram("left", 16), ram.Ram("right", 16), ram.Ram("small", 8)
SIZE = local.sectors
L, R, S = local.node, remote.node, small.node


def wrong(what: str, table: str, kernel: str, *errnos: int) -> None:
    with base.refused(what, *(errnos or (errno.EINVAL,)), kernel=kernel):
        dm.create("bad", table)
    base.expect(not dm.exists("bad"), f"{what}: a device was left behind")


def untouched() -> None:
    for node in (L, R, S):
        with blk.Disk(node, write=False) as disk:
            base.expect(not any(disk.read(0, 2048)), f"{node} was written to")
    # Nothing holds the legs: each can be taken again.
    device = mirror.Mirror(L, R)
    device.remove()


base.step("tables")
wrong("no arguments", f"0 {SIZE} lockstep", "Not enough arguments")
wrong("one leg", f"0 {SIZE} lockstep {L}", "Not enough arguments")
wrong("no such device", f"0 {SIZE} lockstep {L} /dev/nothere", "/dev/nothere", errno.ENOENT,
      errno.ENODEV, errno.EINVAL)  # fmt: skip
SMALL = f"{S} has {small.sectors} sectors"
wrong("remote leg too small", f"0 {SIZE} lockstep {L} {S} 1 nosync", SMALL)
wrong("local leg too small", f"0 {SIZE} lockstep {S} {R} 1 nosync", SMALL)
wrong("same device twice", f"0 {SIZE} lockstep {L} {L} 1 nosync", "same device")
wrong("unknown option", f"0 {SIZE} lockstep {L} {R} 1 nosnyc", "option nosnyc: unknown")
wrong("wrong count of options", f"0 {SIZE} lockstep {L} {R} 2 nosync", "number of option words")
wrong("count isn't a number", f"0 {SIZE} lockstep {L} {R} nosync", "isn't a number")
wrong("option without value", f"0 {SIZE} lockstep {L} {R} 1 region_size", "its value is missing")
wrong("region size zero", f"0 {SIZE} lockstep {L} {R} 2 region_size 0", "region_size")
wrong("region size odd", f"0 {SIZE} lockstep {L} {R} 2 region_size 1000", "region_size")
wrong("region size text", f"0 {SIZE} lockstep {L} {R} 2 region_size big", "region_size")
wrong("policy", f"0 {SIZE} lockstep {L} {R} 2 policy hope", "policy must be")
wrong("sync and nosync", f"0 {SIZE} lockstep {L} {R} 2 sync nosync", "contradict")
wrong("an option twice", f"0 {SIZE} lockstep {L} {R} 2 nosync nosync", "given twice")
wrong("memory too large", f"0 {SIZE} lockstep {L} {R} 2 memory_kib 1073741825", "memory_kib")
untouched()

base.step("a leg that is in use")
device = mirror.Mirror(L, R)
wrong("legs of another mirror", f"0 {SIZE} lockstep {L} {R} 1 nosync", "already", errno.EBUSY,
      errno.EINVAL)  # fmt: skip

base.step("messages")
before = dm.status(device.name)
for text in ("", "hello", "fail", "fail both", "fail local now", "recover me", "resync all",
             "resync_rate", "resync_rate fast", "counters_reset now",
             "remote_timeout 0000000000002000", "fail local0000000000000"):  # fmt: skip
    with base.refused(f"message {text!r}", errno.EINVAL):
        device.message(text)
device.message("recover")  # nothing is dead: nothing to do, and no error
base.equal(dm.status(device.name), before, "status after the refused messages")

base.step("a bad table for a mirror in use leaves it as it is")
with blk.Disk(device.node) as disk:
    disk.write(0, blk.pattern("kept", 8))
    with base.refused("reload with a leg too small", errno.EINVAL, kernel="sectors"):
        dm.load(device.name, f"0 {SIZE} lockstep {L} {S} 1 nosync")
    base.equal(device.status().health, "AA", "health")
    base.expect(disk.read(0, 8) == blk.pattern("kept", 8), "data")
device.remove()
blk.same(L, R)
base.step("done")
