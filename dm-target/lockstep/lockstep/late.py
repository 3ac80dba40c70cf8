# SPDX-License-Identifier: GPL-2.0-only
"""Late writes: what was sent to a leg and given up, and may still get there. Before a device
becomes a leg again, nothing of that may be out.

What this host's kernel has sent it waits for itself, by the leg's uuid, whatever device it was
sent by (dm-target/registry.h). What an earlier life of a host has sent nobody here waits for: a LUN
reset has the target end it. The target answers when no command is left that it had taken before.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import device, meta
from .errors import Failed

_OUT = Path("/sys/module/dm_lockstep/parameters/draining")
_SG_SCSI_RESET = 0x2284
# The LUN alone: never the target, the session or the host for it.
_LUN_ONLY = struct.pack("i", 1 | 0x100)


@dataclass(frozen=True)
class Out:
    """Requests that somebody on this host has given up, and that haven't returned."""

    requests: int
    number: str
    uuid: str


def out() -> list[Out]:
    try:
        lines = _OUT.read_text().splitlines()
    except OSError:  # the module isn't loaded, or an older one
        return []
    words = [line.split(" ", 4) for line in lines]
    return [Out(int(one[0]), one[2], one[3]) for one in words if len(one) == 5]


def check(name: str, leg: str, at: device.Device) -> None:
    """Fails if requests to this leg are out, by whatever device."""
    there = out()
    found = [one for one in there if one.number == at.number]
    if there and not found:
        uuid = meta.examine(at.node, given=at.given, search=False).leg_uuid
        found = [one for one in there if uuid and one.uuid == uuid]
    if found:
        raise Failed(f"{name}: {_told(leg, at, found)}")


def take(name: str, leg: str, at: device.Device) -> None:
    """Before anything on a device that becomes a leg, or that the mirror doesn't run on, is
    believed or written: nothing that anybody has sent there earlier may still arrive."""
    check(name, leg, at)
    settle(name, leg, at)


def _told(leg: str, at: device.Device, found: list[Out]) -> str:
    count = sum(one.requests for one in found)
    ways = []
    for number in sorted({one.number for one in found}):
        node = device.by_number(number)
        session = _session_of(number)
        end = f" (its session ends by: iscsiadm -m session -r {session} -u)" if session else ""
        ways.append(f"{node}{end}")
    return (
        f"{at.given} can't be the {leg} leg yet: {count} requests that were given up, sent by"
        f" {', '.join(ways)}, haven't come back. They may still reach this leg, and would undo"
        " newer writes there. They come back when that device answers, or when its session ends"
    )


def _session_of(number: str) -> str:
    with suppress(OSError):
        for place in Path("/sys/dev/block", number).resolve().parents:
            if place.name.startswith("session"):
                return place.name.removeprefix("session")
    return ""


def settle(name: str, leg: str, at: device.Device) -> None:
    """No command that the target had begun, of any session, is left when this returns. Of a device
    that is no iSCSI LUN, nor lies on one, nothing is known (lockstep(8), LATE WRITES)."""
    paths: dict[str, list[Path]] = {}
    for disk in sorted(set(device.iscsi_disks(at.disk()))):
        paths.setdefault(_word(disk / "device/wwid") or disk.name, []).append(disk)
    for disks in paths.values():
        # One LUN by several sessions: by any of them the whole LUN is reset.
        whys = [_reset(disk) for disk in disks if _word(disk / "device/state") == "running"]
        if "" in whys:
            continue
        why = whys[0] if whys else "its session is down"
        raise Failed(
            f"{name}: {at.given} can't be the {leg} leg yet: /dev/{disks[0].name} doesn't answer to"
            f" a LUN reset ({why}). Its target may still have writes of an older session in its"
            " hands, which would undo newer ones. Look at the disks there; it is safe when they"
            " answer again, or when that host was restarted"
        )


def _word(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _reset(disk: Path) -> str:
    """Why not; "": everything that was there has ended."""
    try:
        fd = os.open(f"/dev/{disk.name.replace('!', '/')}", os.O_RDONLY | os.O_NONBLOCK)
        try:
            fcntl.ioctl(fd, _SG_SCSI_RESET, _LUN_ONLY)
        finally:
            os.close(fd)
    except OSError as err:
        return "not in time" if err.errno == errno.EIO else str(err.strerror)
    return ""
