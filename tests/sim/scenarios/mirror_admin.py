# SPDX-License-Identifier: GPL-2.0-only
"""An admin at work on a mirror in use: suspend, reload, remove in every state, ext4, dmsetup."""

import errno
import threading
import time
from pathlib import Path

from locklab import base, blk, dm, mirror, ram


def under_load(local: ram.Ram, remote: ram.Ram) -> None:
    base.step("suspend, resume and reload under load")
    device = mirror.Mirror(local.node, remote.node)
    load = blk.Load(device.node, writers=8, pause_us=200).start()
    load.wait_writes(200)
    for turn in range(5):
        dm.suspend(device.name, flush=turn % 2 == 0)
        count = load.writes
        time.sleep(1)
        base.expect(load.writes <= count + 8, "no write is acknowledged while suspended")
        dm.resume(device.name)
        load.wait_writes(50)
        dm.reload(device.name, device.table)
        load.wait_writes(50)
    base.step("a reload keeps what is known of a dead leg")
    device.message("fail remote")
    load.wait_writes(100)
    dm.reload(device.name, device.table)
    status = device.status()
    base.equal(status.health, "AD", "health after the reload")
    base.expect(status.in_sync < status.regions, "stale regions after the reload")
    load.wait_writes(50)
    device.message("recover")
    device.in_sync()
    load.stop()
    base.equal(load.errors, [], "errors of the load")
    load.check()
    device.remove()
    load.check(remote.node)
    blk.same(local.node, remote.node)


def remove_in_every_state(local: ram.Ram, remote: ram.Ram) -> None:
    base.step("remove in every state")

    def gone(what: str, device: mirror.Mirror) -> None:
        device.remove()
        base.expect(not dm.exists(device.name), f"{what}: the device is gone")
        print(f"  removed: {what}")

    gone("in sync", mirror.Mirror(local.node, remote.node))

    device = mirror.Mirror(local.node, remote.node, "sync", "resync_rate", 64)
    base.equal(device.status().action, "resync", "action")
    gone("resyncing, throttled", device)

    device = mirror.Mirror(local.node, remote.node)
    device.message("fail remote")
    gone("remote leg dead", device)

    device = mirror.Mirror(local.node, remote.node)
    device.message("fail local")
    gone("local leg dead", device)

    device = mirror.Mirror(local.node, remote.node)
    dm.suspend(device.name)
    gone("suspended", device)

    device = mirror.Mirror(local.node, remote.node)
    dm.load(device.name, device.table)
    gone("with a second table loaded", device)

    device = mirror.Mirror(local.node, remote.node)
    with blk.Disk(device.node), base.refused("removing an open device", errno.EBUSY):
        device.remove()
    gone("after it was open", device)

    device = mirror.Mirror(local.node, remote.node, "sync", "resync_rate", 64)
    error = f"0 {dm.sectors(device.node)} error"
    dm.reload(device.name, error)
    gone("replaced by an error table in mid-resync", device)


def file_system(local: ram.Ram, remote: ram.Ram) -> None:
    base.step("ext4 on it, with a leg lost and found")
    device = mirror.Mirror(local.node, remote.node)
    base.run("mkfs.ext4", "-q", "-E", "nodiscard", device.node)
    where = base.made(Path("/run/fs"))
    base.run("mount", device.node, str(where))
    for turn in range(40):
        if turn == 10:
            device.message("fail remote")
        if turn == 20:
            device.message("recover")
        file = where / f"file{turn % 15}"
        file.write_bytes(blk.pattern(f"file {turn}", 40 + turn))
    base.run("umount", str(where))
    device.in_sync()
    base.run("fsck.ext4", "-fn", device.node)
    device.remove()
    blk.same(local.node, remote.node)
    base.step("the remote leg alone is a whole file system")
    base.run("fsck.ext4", "-fn", remote.node)
    base.run("mount", "-o", "ro", remote.node, str(where))
    base.expect((where / "file9").read_bytes() == blk.pattern("file 39", 79), "a file's content")
    base.run("umount", str(where))


def by_dmsetup(local: ram.Ram, remote: ram.Ram) -> None:
    base.step("by dmsetup, as the README says")
    size = dm.sectors(local.node)
    base.run("dmsetup", "create", "byhand", "--noudevsync", "--table",
             f"0 {size} lockstep {local.node} {remote.node} 1 nosync")  # fmt: skip
    said = base.run("dmsetup", "status", "byhand").split()
    base.equal(said[2:4], ["lockstep", "AA"], "dmsetup status")
    waiter = threading.Thread(target=base.run, args=("dmsetup", "wait", "--noflush", "byhand"))
    waiter.start()
    # The event number is read when dmsetup wait starts: fail the leg only after that.
    base.until(lambda: "dm_wait_event" in _stacks(), "dmsetup wait to wait")
    base.run("dmsetup", "message", "byhand", "0", "fail", "remote")
    waiter.join(60)
    base.expect(not waiter.is_alive(), "dmsetup wait woke up")
    base.equal(base.run("dmsetup", "status", "byhand").split()[3], "AD", "health")
    shown = base.run("dmsetup", "table", "byhand").split()
    base.equal(shown[2], "lockstep", "dmsetup table")
    base.run("dmsetup", "remove", "--noudevsync", "byhand")
    print("  dmsetup table gives back:", *shown[5:])


def _stacks() -> str:
    """Where the sleeping dmsetup processes are."""
    said = ""
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().strip() == "dmsetup":
                said += (comm.parent / "wchan").read_text() + " "
                said += (comm.parent / "stack").read_text()
        except OSError:
            continue
    return said


legs = ram.Ram("left", 16), ram.Ram("right", 16)
under_load(*legs)
remove_in_every_state(*legs)
file_system(*legs)
by_dmsetup(*legs)
for leg in legs:
    leg.remove()
base.step("done")
