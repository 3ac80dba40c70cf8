# SPDX-License-Identifier: GPL-2.0-only
"""Device mapper by ioctl: what dmsetup does, without a process for each call."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from . import base

_HEADER = struct.Struct("=3I7IQ128s129s7s")
_SPEC = struct.Struct("=QQiI16s")
_BUFFER = 16384
_LIBC = ctypes.CDLL(None, use_errno=True)
_OPENS_AT, _FLAGS_AT, _EVENT_AT, _DEV_AT = 24, 28, 32, 40

_CREATE, _REMOVE, _RENAME, _SUSPEND, _STATUS, _WAIT, _LOAD, _CLEAR = 3, 4, 5, 6, 7, 8, 9, 10
_TABLE_STATUS, _MESSAGE = 12, 14
_READONLY, _SUSPENDED, _ASK_TABLE, _NOFLUSH = 1 << 0, 1 << 1, 1 << 4, 1 << 11
_INACTIVE = 1 << 12
_WORDS = {
    _CREATE: "create", _REMOVE: "remove", _RENAME: "rename", _SUSPEND: "suspend or resume",
    _STATUS: "look at", _WAIT: "wait for", _LOAD: "load a table into", _CLEAR: "clear the table of",
    _MESSAGE: "send a message to", _TABLE_STATUS: "ask the status of",
}  # fmt: skip

# What each ioctl is done in; faults.py puts failing allocations here.
around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext


@dataclass(frozen=True)
class _Answer:
    data: bytes
    event: int
    dev: int
    flags: int
    opens: int


def create(name: str, table: str, *, readonly: bool = False) -> str:
    """A new active device; returns its node, /dev/mapper/NAME. Nothing is left on an error."""
    dev = _call(_CREATE, name).dev
    try:
        load(name, table, readonly=readonly)
        resume(name)
    except OSError:
        _call(_REMOVE, name)
        raise
    node = Path("/dev/mapper") / name
    number = os.makedev(dev >> 8 & 0xFFF, dev & 0xFF | dev >> 12 & 0xFFF00)
    # Where there is udev it makes one meanwhile, too: ours takes its place, whoever is first.
    new = node.with_name(f".{name}.new")
    os.mknod(new, 0o600 | stat.S_IFBLK, number)
    new.replace(node)
    return str(node)


def load(name: str, table: str, *, readonly: bool = False) -> None:
    """Loads lines `START LENGTH TARGET ARGUMENTS` into the inactive slot."""
    payload = b""
    lines = table.strip().splitlines()
    for line in lines:
        start, length, kind, *rest = line.split(None, 3)
        text = (rest[0] if rest else "").encode() + b"\0"
        text += bytes(-len(text) % 8)
        size = _SPEC.size + len(text)
        payload += _SPEC.pack(int(start), int(length), 0, size, kind.encode()) + text
    _call(_LOAD, name, payload, _READONLY if readonly else 0, len(lines))


def clear(name: str) -> None:
    _call(_CLEAR, name)


def suspend(name: str, *, flush: bool = True) -> None:
    _call(_SUSPEND, name, flags=_SUSPENDED | (0 if flush else _NOFLUSH))


def resume(name: str) -> None:
    _call(_SUSPEND, name)


def reload(name: str, table: str) -> None:
    """The new table in the old one's place, as `dmsetup reload` and `resume` do."""
    load(name, table)
    suspend(name)
    resume(name)


def remove(name: str) -> None:
    _call(_REMOVE, name)
    with contextlib.suppress(FileNotFoundError):
        (Path("/dev/mapper") / name).unlink()


def rename(name: str, to: str) -> str:
    """As `dmsetup rename`; returns the new node."""
    _call(_RENAME, name, to.encode() + b"\0")
    node = Path("/dev/mapper") / name
    return str(node.replace(node.with_name(to)))


def message(name: str, text: str) -> None:
    _call(_MESSAGE, name, struct.pack("=Q", 0) + text.encode() + b"\0")


def status(name: str, *, inactive: bool = False) -> str:
    """The first target's status, without start, length and target. `inactive`: of the table that
    is loaded and not in use yet."""
    return _text(_call(_TABLE_STATUS, name, flags=_INACTIVE if inactive else 0))


def table(name: str) -> str:
    """The first target's arguments as the kernel tells them."""
    return _text(_call(_TABLE_STATUS, name, flags=_ASK_TABLE))


def event(name: str) -> int:
    """The number of the last event."""
    return _call(_STATUS, name).event


def wait(name: str, after: int) -> int:
    """Blocks until an event with a number above `after`; returns the number."""
    return _call(_WAIT, name, event=after).event


def exists(name: str) -> bool:
    try:
        _call(_STATUS, name)
    except OSError:
        return False
    return True


def suspended(name: str) -> bool:
    return bool(_call(_STATUS, name).flags & _SUSPENDED)


def opens(name: str) -> int:
    """How many openers the device has: tables on it, file systems, programs."""
    return _call(_STATUS, name).opens


def sectors(node: str) -> int:
    """Size of any block device, in sectors of 512 bytes."""
    fd = os.open(node, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.lseek(fd, 0, os.SEEK_END) >> 9
    finally:
        os.close(fd)


def _text(answer: _Answer) -> str:
    return answer.data[_SPEC.size :].split(b"\0", 1)[0].decode()


def _control() -> int:
    path = Path("/dev/mapper/control")
    if not path.exists():
        base.made(path.parent)
        words = Path("/proc/misc").read_text().split()  # minor and name by turns
        minor = int(words[words.index("device-mapper") - 1])
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(10, minor))
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def _call(
    what: int, name: str, payload: bytes = b"", flags: int = 0, targets: int = 0, event: int = 0
) -> _Answer:
    size = max(_BUFFER, _HEADER.size + len(payload))
    head = _HEADER.pack(
        4, 0, 0, size, _HEADER.size, targets, 0, flags, event, 0, 0, name.encode(), b"", b""
    )
    buffer = bytearray(head + payload)
    buffer.extend(bytes(size - len(buffer)))
    control = _control()
    # Not fcntl.ioctl: with a large buffer that keeps Python's lock, and a wait would stop all.
    request = ctypes.c_ulong(3 << 30 | _HEADER.size << 16 | 0xFD << 8 | what)
    memory = (ctypes.c_char * size).from_buffer(buffer)
    try:
        with around():
            result = _LIBC.ioctl(control, request, memory)
        if result < 0:
            err = ctypes.get_errno()
            raise OSError(err, f"dm: can't {_WORDS[what]} {name}: {os.strerror(err)}")
    finally:
        os.close(control)
    end, start = struct.unpack_from("=II", buffer, 12)
    (number,) = struct.unpack_from("=I", buffer, _EVENT_AT)
    (dev,) = struct.unpack_from("=Q", buffer, _DEV_AT)
    (said,) = struct.unpack_from("=I", buffer, _FLAGS_AT)
    (openers,) = struct.unpack_from("=i", buffer, _OPENS_AT)
    return _Answer(bytes(buffer[start:end]), number, dev, said, openers)
