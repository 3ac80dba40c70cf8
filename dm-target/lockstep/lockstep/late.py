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
import signal
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from . import config, device, meta
from .errors import Failed, Refused

_OUT = Path("/sys/module/dm_lockstep/parameters/draining")
_SG_SCSI_RESET = 0x2284
_STOPPED_S = 2.0
# What is under way at a disk that works has ended by then.
_QUIET_S = 5.0
# The kernel waits no longer for the answer to a reset.
_RECOVERY_S = 40.0
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


def stopped(name: str, legs: Iterable[device.Device]) -> None:
    """The mirror was stopped just now, and had these legs in use: nothing of earlier was out when
    they came to be, nor is anything of since. While a leg's superblock stays as it is now, and the
    connection to it the same one, that is still so. A leg that doesn't answer soon isn't noted."""
    notes: dict[str, Any] = {}

    def look(at: device.Device) -> None:
        with suppress(Failed, Refused):
            leg = meta.examine(at.node, search=False)
            if leg.exists and not leg.active:
                notes[leg.leg_uuid] = [leg.seq, _connections(at)]

    looks = [threading.Thread(target=look, args=(at,), daemon=True)
             for at in legs if _connections(at)]  # fmt: skip
    for one in looks:
        one.start()
    for one in looks:
        one.join(_STOPPED_S)
    # An older note doesn't fit a superblock of today.
    with suppress(OSError, Refused):
        config.remember(name, dict(notes))


def _is_as_it_was_stopped(name: str, at: device.Device) -> bool:
    here = _connections(at)
    notes = config.remembered(name) if here else {}
    if not notes:
        return False
    leg = meta.examine(at.node, search=False)
    return leg.exists and notes.get(leg.leg_uuid) == [leg.seq, here]


def _connections(at: device.Device) -> list[str]:
    """All that a device's iSCSI disks are reached by; each one anew has another port here. []: it
    has none, or one isn't known."""
    found = []
    for disk in sorted(set(device.iscsi_disks(at.disk()))):
        session = next((p for p in disk.resolve().parents if p.name.startswith("session")), disk)
        ports = {f"{port.parent.name} {_word(port)}"
                 for port in session.glob("connection*/iscsi_connection/*/local_port")}  # fmt: skip
        if not ports or any(port.endswith(" ") for port in ports):
            return []
        found += sorted(ports)
    return found


def settle(name: str, leg: str, at: device.Device) -> None:
    """No command that the target had begun, of any session, is left when this returns. Of a device
    that is no iSCSI LUN, nor lies on one, nothing is known (lockstep(8), LATE WRITES)."""
    if _is_as_it_was_stopped(name, at):
        return
    paths: dict[str, list[Path]] = {}
    for disk in sorted(set(device.iscsi_disks(at.disk()))):
        paths.setdefault(_word(disk / "device/wwid") or disk.name, []).append(disk)
    for disks in paths.values():
        # One LUN by several sessions: by any of them the whole LUN is reset.
        running = [disk for disk in disks if _word(disk / "device/state") == "running"]
        with ExitStack() as quiet:
            for disk in running:
                quiet.enter_context(_one_command(name, disk))
            whys = [_reset(disk) for disk in running]
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


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Whoever ends this command waits for what has to be put right again."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_command(name: str, disk: Path) -> Iterator[None]:
    """Others may use the LUN, too: another volume on it. LIO gives no answer to a command that a
    reset ends, and its session's window for commands stays smaller by it for good: after a few
    resets of a busy LUN nothing would get through any more. So only one is under way then. Another
    mirror's leg may be such a volume, and be started, too: it waits."""
    depth = disk / "device/queue_depth"
    end = time.monotonic() + _QUIET_S
    lun = (disk / "device").resolve().name
    with config.alone(lun, f"{name}: /dev/{disk.name}") as note, _undisturbed():
        before = note.read() or _word(depth)
        _put(note, before)
        try:
            with suppress(OSError):
                depth.write_text("1")
            while sum(map(int, _word(disk / "inflight").split())) > 1 and time.monotonic() < end:
                time.sleep(0.01)
            yield
        finally:
            with suppress(OSError):
                depth.write_text(before)
            _put(note, "")


def _put(note: IO[str], text: str) -> None:
    note.seek(0)
    note.truncate()
    note.write(text)
    note.flush()


def _reset(disk: Path) -> str:
    """Why not; "": everything that was there has ended."""
    try:
        fd = os.open(f"/dev/{disk.name.replace('!', '/')}", os.O_RDONLY | os.O_NONBLOCK)
        try:
            _ask(fd)
        finally:
            os.close(fd)
    except OSError as err:
        return "not in time" if err.errno == errno.EIO else str(err.strerror)
    return ""


def _ask(fd: int) -> None:
    """Not while the kernel resets another LUN of the session."""
    end = time.monotonic() + _RECOVERY_S
    while True:
        try:
            fcntl.ioctl(fd, _SG_SCSI_RESET, _LUN_ONLY)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(0.05)
