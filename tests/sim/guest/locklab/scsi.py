# SPDX-License-Identifier: GPL-2.0-only
"""SCSI commands of any kind to a disk (SG_IO), and what they answer, sense and all."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from dataclasses import dataclass

_SG_IO, _SG_SCSI_RESET = 0x2285, 0x2284
_DEVICE, _NO_ESCALATION = 1, 0x100
_NONE, _TO, _FROM = -1, -2, -3
CHECK_CONDITION = 2
BUSY = 8
ILLEGAL_REQUEST, ABORTED_COMMAND = 5, 11
TIMED_OUT = 3  # what the host says


class _Header(ctypes.Structure):
    _fields_ = (
        ("interface_id", ctypes.c_int), ("direction", ctypes.c_int),
        ("cmd_len", ctypes.c_ubyte), ("sense_max", ctypes.c_ubyte),
        ("iovecs", ctypes.c_ushort), ("length", ctypes.c_uint),
        ("data", ctypes.c_void_p), ("cmd", ctypes.c_void_p), ("sense", ctypes.c_void_p),
        ("timeout", ctypes.c_uint), ("flags", ctypes.c_uint), ("pack_id", ctypes.c_int),
        ("user", ctypes.c_void_p), ("status", ctypes.c_ubyte), ("masked", ctypes.c_ubyte),
        ("msg", ctypes.c_ubyte), ("sense_len", ctypes.c_ubyte), ("host", ctypes.c_ushort),
        ("driver", ctypes.c_ushort), ("resid", ctypes.c_int), ("duration", ctypes.c_uint),
        ("info", ctypes.c_uint),
    )  # fmt: skip


@dataclass(frozen=True)
class Answer:
    status: int
    host: int
    key: int
    asc: int
    ascq: int
    data: bytes
    sense: bytes

    @property
    def good(self) -> bool:
        return not self.status and not self.host

    @property
    def why(self) -> tuple[int, int, int]:
        return self.key, self.asc, self.ascq


class Lun:
    def __init__(self, node: str) -> None:
        self._fd = os.open(node, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Lun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """LOGICAL UNIT RESET, and nothing else if that fails."""
        fcntl.ioctl(self._fd, _SG_SCSI_RESET, struct.pack("i", _DEVICE | _NO_ESCALATION))

    def command(
        self, cdb: bytes, out: bytes = b"", expect: int = 0, *, timeout_ms: int = 60000
    ) -> Answer:
        """@out is sent with it; or up to @expect bytes are received."""
        size = len(out) or expect
        # From the beginning of a page on: LIO's core takes that for granted in COMPARE AND WRITE.
        data = (ctypes.c_char * size).from_buffer(mmap.mmap(-1, size)) if size else None
        if data and out:
            data.raw = out
        sense, cmd = ctypes.create_string_buffer(64), ctypes.create_string_buffer(cdb, len(cdb))
        header = _Header(
            interface_id=ord("S"), direction=_TO if out else _FROM if expect else _NONE,
            cmd_len=len(cdb), sense_max=64, length=size,
            data=ctypes.addressof(data) if data else None, cmd=ctypes.addressof(cmd),
            sense=ctypes.addressof(sense), timeout=timeout_ms,
        )  # fmt: skip
        fcntl.ioctl(self._fd, _SG_IO, header)
        told = sense.raw
        fixed = told[0] & 0x7F in (0x70, 0x71)
        key, asc, ascq = (told[2] & 15, told[12], told[13]) if fixed else (told[1] & 15, *told[2:4])
        got = data.raw[: expect - header.resid] if data and expect else b""
        return Answer(header.status, header.host, key, asc, ascq, got, told)


def write_scattered(
    ranges: list[tuple[int, int]], *, offset: int | None = None, length: int | None = None,
    flags: int = 0, block: int = 512,
) -> tuple[bytes, bytes]:  # fmt: skip
    """CDB and what comes before the data, of ranges (LBA, blocks), in blocks of @block bytes.

    @offset, @length: other LOGICAL BLOCK DATA OFFSET and BUFFER TRANSFER LENGTH than the right.
    """
    listed = bytes(32) + b"".join(struct.pack(">QI20x", *r) for r in ranges)
    blocks = -(-len(listed) // block) if offset is None else offset
    if length is None:
        length = blocks + sum(count for _, count in ranges)
    cdb = struct.pack(">BBBxHxxHIxx", 0x9F, 0x12, flags, blocks, len(ranges), length)
    return cdb, listed.ljust(-(-len(listed) // block) * block, b"\0")
