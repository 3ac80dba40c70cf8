# SPDX-License-Identifier: GPL-2.0-only
"""Packets by size class and SCSI commands by type, counted by the kernel, as in the STICS paper.

The classes are those of its table 3: frames of at most 64 bytes, to 127, 255, 511, 1023, and larger
ones, with their Ethernet headers. A packet socket with a filter for each class and direction counts
what passes the wire's near end; nobody reads from it, so it costs next to nothing.

Commands (its table 6) are counted where the target begins with them: a tracing instance for each
type, of which only the counters are read.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from pathlib import Path

_CLASSES = (0, 65, 128, 256, 512, 1024)  # from so many bytes on
_NAMES = ("64", "127", "255", "511", "1023", "more")
_ETH_P_ALL = 3
_SO_ATTACH_FILTER, _SOL_PACKET, _PACKET_STATISTICS = 26, 263, 6
_LD_LEN, _LDB_ABS, _JGE, _JEQ, _RET = 0x80, 0x30, 0x35, 0x15, 0x06
_PKTTYPE = 0xFFFFF000 + 4  # SKF_AD_OFF + SKF_AD_PKTTYPE
_OUTGOING = 4

# By operation code; a READ or WRITE of any length is one.
_COMMANDS = {
    "read": (0x08, 0x28, 0x88, 0xA8), "write": (0x0A, 0x2A, 0x8A, 0xAA),
    "write_scattered": (0x9F,), "synchronize_cache": (0x35, 0x91), "unmap": (0x42,),
    "write_same": (0x41, 0x93), "inquiry": (0x12,), "test_unit_ready": (0x00,),
    "report_luns": (0xA0,), "reservation": (0x5E, 0x5F), "mode_sense": (0x1A, 0x5A),
    "read_capacity": (0x25, 0x9E),
}  # fmt: skip
_TRACING = Path("/sys/kernel/tracing")


def _filtered(device: str, low: int, high: int | None, outgoing: bool) -> socket.socket:
    """A socket that takes frames of low <= length < high in one direction."""
    # A jump is counted from the next instruction. The last one takes nothing.
    code = [
        (_LD_LEN, 0, 0, 0),
        (_JGE, 0, 4, low),
        (_JGE, 3, 0, high if high is not None else 0xFFFFFFFF),
        (_LDB_ABS, 0, 0, _PKTTYPE),
        (_JEQ, 0 if outgoing else 1, 1 if outgoing else 0, _OUTGOING),
        (_RET, 0, 0, 1),
        (_RET, 0, 0, 0),
    ]
    program = b"".join(struct.pack("HBBI", *one) for one in code)
    room = ctypes.create_string_buffer(program)
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)  # the least that there is
    sock.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(code), ctypes.addressof(room))
    )
    sock.bind((device, _ETH_P_ALL))
    return sock


class Packets:
    """From now on, at that network device."""

    def __init__(self, device: str) -> None:
        self._seen: dict[str, int] = {}
        self._socks: dict[str, socket.socket] = {}
        for way in ("to_mirror", "to_primary"):
            for low, high, name in zip(_CLASSES, (*_CLASSES[1:], None), _NAMES, strict=True):
                key = f"{way}_packets_{name}"
                self._socks[key] = _filtered(device, low, high, way == "to_mirror")
                self._seen[key] = 0

    def counters(self) -> dict[str, int]:
        for key, sock in self._socks.items():
            # Those that found no room are in the first number, too. Reading sets both to zero.
            packets, _ = struct.unpack("II", sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
            self._seen[key] += packets
        return dict(self._seen)

    def close(self) -> None:
        for sock in self._socks.values():
            sock.close()


class Commands:
    """From now on, at all targets of this kernel."""

    def __init__(self) -> None:
        self._places: dict[str, Path] = {}
        for name, codes in {**_COMMANDS, "all": ()}.items():
            place = _TRACING / "instances" / f"scsi_{name}"
            place.mkdir(exist_ok=True)
            (place / "buffer_size_kb").write_text("4")  # nobody reads it
            event = place / "events/target/target_sequencer_start"
            if codes:
                words = " || ".join(f"opcode == {code}" for code in codes)
                (event / "filter").write_text(words)
            (event / "enable").write_text("1")
            self._places[name] = place

    def counters(self) -> dict[str, int]:
        found = {f"scsi_{name}": _events(place) for name, place in self._places.items()}
        known = sum(value for key, value in found.items() if key != "scsi_all")
        found["scsi_other"] = found["scsi_all"] - known
        return found

    def close(self) -> None:
        for place in self._places.values():
            (place / "events/target/target_sequencer_start/enable").write_text("0")
            place.rmdir()


def _events(place: Path) -> int:
    """All that an instance has seen: what is in its buffer, what was pushed out, what was lost."""
    seen = 0
    for stats in place.glob("per_cpu/cpu*/stats"):
        told = dict(line.split(": ", 1) for line in stats.read_text().splitlines())
        seen += sum(int(told[key]) for key in ("entries", "overrun", "dropped events"))
    return seen
