# SPDX-License-Identifier: GPL-2.0-only
"""Device-mapper devices by ioctl, without a process for each call.

The crash scenarios make and remove some ten devices a power cut, and a fork is
the dearest thing under UML.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_HEADER_SIZE = 312
_SPEC = struct.Struct("=QQiI16s")
_BUFFER = 16384

_CREATE, _REMOVE, _SUSPEND = 3, 4, 6
_LOAD, _STATUS, _MESSAGE = 9, 12, 14

_F_SUSPEND, _F_STATUS_TABLE, _F_NOFLUSH = 1 << 1, 1 << 4, 1 << 11


def _header(name: str, flags: int, size: int, targets: int, event: int = 0) -> bytes:
    head = struct.pack(
        "=3I7IQ128s129s7s", 4, 0, 0, size, _HEADER_SIZE, targets, 0, flags, event, 0, 0,
        name.encode(), b"", b"",
    )  # fmt: skip
    assert len(head) == _HEADER_SIZE
    return head


class DmError(OSError):
    """What was asked of which device, beside the errno."""


class Dm:
    """The control device, kept open."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/mapper/control", os.O_RDWR | os.O_CLOEXEC)

    def _call(
        self, what: int, name: str, payload: bytes = b"", flags: int = 0, targets: int = 0
    ) -> tuple[bytes, int]:
        """The answer's data and the device number."""
        size = max(_BUFFER, _HEADER_SIZE + len(payload))
        buf = bytearray(_header(name, flags, size, targets) + payload)
        buf.extend(bytes(size - len(buf)))
        request = (3 << 30) | (_HEADER_SIZE << 16) | (0xFD << 8) | what
        try:
            fcntl.ioctl(self._fd, request, buf)
        except OSError as e:
            words = {
                _CREATE: "create", _REMOVE: "remove", _SUSPEND: "resume or suspend",
                _LOAD: "load a table for", _STATUS: "ask the status of", _MESSAGE: "message",
            }  # fmt: skip
            raise DmError(e.errno, f"dm: can't {words[what]} {name}: {e.strerror}") from e
        (dev,) = struct.unpack_from("=Q", buf, 40)
        end, start = struct.unpack_from("=II", buf, 12)
        return bytes(buf[start:end]), dev

    def create(self, name: str, table: str) -> str:
        """Makes a device of one target, "START LENGTH TYPE PARAMETERS"; returns its node."""
        start, length, kind, params = table.split(None, 3)
        _, dev = self._call(_CREATE, name)
        try:
            text = params.encode() + b"\0"
            text += bytes(-len(text) % 8)
            spec = _SPEC.pack(int(start), int(length), 0, _SPEC.size + len(text), kind.encode())
            self._call(_LOAD, name, spec + text, targets=1)
            self._call(_SUSPEND, name)
        except OSError:
            self._call(_REMOVE, name)
            raise
        minor = (dev & 0xFF) | ((dev >> 12) & 0xFFF00)
        return f"/dev/dm-{minor}"

    def remove(self, name: str) -> None:
        self._call(_REMOVE, name)

    def suspend(self, name: str, flush: bool = True) -> None:
        self._call(_SUSPEND, name, flags=_F_SUSPEND | (0 if flush else _F_NOFLUSH))

    def resume(self, name: str) -> None:
        self._call(_SUSPEND, name)

    def message(self, name: str, text: str) -> None:
        self._call(_MESSAGE, name, struct.pack("=Q", 0) + text.encode() + b"\0")

    def status(self, name: str, table: bool = False) -> str:
        """The first target's status line, without start, length and type."""
        data, _ = self._call(_STATUS, name, flags=_F_STATUS_TABLE if table else 0)
        return data[_SPEC.size :].split(b"\0", 1)[0].decode()


@contextmanager
def device(dm: Dm, name: str, table: str) -> Iterator[str]:
    """A device for the length of a block."""
    node = dm.create(name, table)
    try:
        yield node
    finally:
        dm.remove(name)
