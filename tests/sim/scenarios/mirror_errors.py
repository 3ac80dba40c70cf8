# SPDX-License-Identifier: GPL-2.0-only
"""I/O errors of a leg, and of both: survivable, reported, never a hang."""

import errno

from locklab import base, blk, mirror, ram


def fresh(tag: str) -> tuple[ram.Ram, ram.Ram, mirror.Mirror, blk.Disk]:
    local, remote = ram.Ram(f"l{tag}", 16), ram.Ram(f"r{tag}", 16)
    device = mirror.Mirror(local.node, remote.node, name=f"m{tag}")
    return local, remote, device, blk.Disk(device.node)


def away(local: ram.Ram, remote: ram.Ram, device: mirror.Mirror, disk: blk.Disk) -> None:
    disk.close()
    device.remove()
    local.remove()
    remote.remove()


def local_read_error() -> None:
    base.step("a sector that the local leg can't read comes from the remote leg")
    local, remote, device, disk = fresh("read")
    data = blk.pattern("both have it", 64)
    disk.write(1000, data)
    local.bad(1010, 1011)
    base.expect(disk.read(1000, 64) == data, "the data, by way of the remote leg")
    status = device.status()
    base.expect(status.local_errors > 0, f"the error is counted: {status}")
    base.equal(status.remote, "A", "the remote leg")
    away(local, remote, device, disk)


def one_leg_write_error(side: str) -> None:
    base.step(f"the {side} leg fails a write: given up, later recovered")
    local, remote, device, disk = fresh(side)
    bad = local if side == "local" else remote
    sick, sound = ("DA", remote) if side == "local" else ("AD", local)
    disk.write(0, blk.pattern("before", 8))
    bad.bad(2048, 2055)
    disk.write(2048, blk.pattern("after", 8))
    device.wait(sick)
    disk.flush()
    disk.write(64, blk.pattern("alone", 8))
    disk.zero(128, 64)
    base.expect(disk.read(2048, 8) == blk.pattern("after", 8), "the write that one leg failed")
    base.expect(disk.read(0, 8) == blk.pattern("before", 8), "older data")
    base.step("  recovered with the bad sectors still there: refused or dead again, never in sync")
    try:
        device.message(f"recover {side}")
    except OSError:
        pass
    else:
        device.wait(sick)
    base.expect(device.status().health == sick, f"health {device.status().health}")
    bad.good(2048, 2055)
    device.message(f"recover {side}")
    device.in_sync()
    blk.same(local.node, remote.node)
    with blk.Disk(sound.node, write=False) as leg:
        base.expect(leg.read(64, 8) == blk.pattern("alone", 8), "written while alone")
    away(local, remote, device, disk)


def both_legs_fail() -> None:
    base.step("both legs fail: the caller gets EIO, at once, and the mirror lives on")
    local, remote, device, disk = fresh("both")
    disk.write(100, blk.pattern("good", 8))
    local.bad(512, 519)
    remote.bad(512, 519)
    for what, work in (
        ("read", lambda: disk.read(512, 8)),
        ("write", lambda: disk.write(512, bytes(4096))),
        ("write with FUA", lambda: disk.write(512, bytes(4096), fua=True)),
    ):
        with base.refused(f"{what} of what both legs fail", errno.EIO):
            work()
    base.expect(disk.read(100, 8) == blk.pattern("good", 8), "other data")
    local.good(512, 519)
    remote.good(512, 519)
    disk.write(512, blk.pattern("again", 8))
    base.expect(disk.read(512, 8) == blk.pattern("again", 8), "after repair")
    away(local, remote, device, disk)


def fail_by_hand() -> None:
    base.step("fail and recover by message; the last current leg is never given up")
    local, remote, device, disk = fresh("hand")
    device.message("fail remote")
    base.equal(device.status().health, "AD", "health")
    with base.refused("failing the last leg", kernel="can't fail the local leg"):
        device.message("fail local")
    disk.write(8, blk.pattern("remote misses this", 8))
    device.message("recover")
    device.in_sync()
    device.message("fail local")
    base.equal(device.status().health, "DA", "health")
    disk.write(8, blk.pattern("local misses this", 8))
    base.expect(disk.read(8, 8) == blk.pattern("local misses this", 8), "read from the remote leg")
    device.message("recover local")
    device.in_sync()
    device.message("resync")
    device.in_sync()
    blk.same(local.node, remote.node)
    away(local, remote, device, disk)


def policy_error() -> None:
    base.step("policy error: no write is acknowledged that isn't on both legs")
    local, remote = ram.Ram("lpol", 16), ram.Ram("rpol", 16)
    device = mirror.Mirror(local.node, remote.node, "nosync", "policy", "error", name="mpol")
    with blk.Disk(device.node) as disk:
        disk.write(0, blk.pattern("good", 8))
        remote.bad(256, 263)
        with base.refused("a write that the remote leg fails", errno.EIO):
            disk.write(256, bytes(4096))
        base.expect(disk.read(0, 8) == blk.pattern("good", 8), "reads go on")
        remote.good(256, 263)
        if device.status().remote == "D":
            with base.refused("a write with the remote leg dead", errno.EIO):
                disk.write(0, bytes(4096))
            device.message("recover")
        device.in_sync()
        disk.write(256, blk.pattern("both", 8))
    device.remove()
    blk.same(local.node, remote.node)
    local.remove()
    remote.remove()


local_read_error()
one_leg_write_error("local")
one_leg_write_error("remote")
both_legs_fail()
fail_by_hand()
policy_error()
base.step("done")
