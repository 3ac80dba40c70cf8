# SPDX-License-Identifier: GPL-2.0-only
"""What nothing could beat, to be printed beside each result. All times in nanoseconds.

In a cell's row, of its writes at random places (of a trace: of their mean size):

- pipe: a FIFO of the wire's speed and round trip that carries the trace's written bytes, with no
  protocol, and skips nothing. Who skips can be faster than it; who sends fewer bytes, too.
- spindle_write_ns: one write at a random place of the modelled disk, alone: command, average seek,
  half a turn, transfer. With many waiting an elevator gets below it.
- log_write_ns: one sequential write to the log disk: command, half a turn, transfer.
- wire_write_ns: the round trip, and the bytes at the wire's speed.

alone_ns() has what one request of another kind takes, by way of all that it can't go round.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import wires
from cell.order import LOCAL, NOWHERE, Stack
from traces import spc

# bench/media/media-model.h: the published data of the papers' disk.
COMMAND_NS = 100_000
SEEK_NS = {"read": 3_600_000, "write": 4_200_000}
HALF_TURN_NS = 2_000_000
BYTES_A_SECOND = 60e6  # in the middle of the disk


@dataclass(frozen=True)
class Kind:
    """Of requests: one of them is under way at a time."""

    op: str  # read or write
    pattern: str  # random, sequential, identical
    size: float


def kind(workload: str, params: Mapping[str, Any], name: str) -> Kind | None:
    """Of a result's requests of that name; none if they are no disk's (a transaction, a write into
    the page cache) or no one size's (a trace)."""
    if workload == "blocks":
        pattern, op, size = name.split("_")
        return Kind(op, pattern, size_of(size))
    if workload in ("fio", "profile"):
        pattern = "random" if str(params["rw"]).startswith("rand") else "sequential"
        return Kind(name, pattern, size_of(params.get("bs", "4k")))
    if workload == "micro" and params["mode"] == "sync":
        return Kind(name, "random", size_of("4k"))
    return None


def size_of(size: object) -> int:
    """As fio writes it: 4k, 1m, 512."""
    found = re.fullmatch(r"(\d+)([kKmM]?)", str(size))
    return int(found[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20}[found[2].lower()] if found else 4096


def alone_ns(stack: Stack, one: Kind) -> float | None:
    """Of a LUN: the wire, and behind it what the answer needs; of a mirror's write the slower leg,
    of its read the local one. None: nothing of it takes time."""
    far = max(_wire_ns(stack, one) + _behind_ns(stack, one), _turn_ns(stack, one))
    if stack.software == "none":
        return far or None
    near = _disk_ns(stack, one)
    return (near if one.op == "read" else max(near, far)) or None


def _turn_ns(stack: Stack, one: Kind) -> float:
    """A place comes by once a turn; what is written there again waits for it, wherever that is."""
    waits = stack.media == "spindle" and (stack.software != "none" or stack.cache == "none")
    return 2 * HALF_TURN_NS if waits and (one.op, one.pattern) == ("write", "identical") else 0.0


def _disk_ns(stack: Stack, one: Kind) -> float:
    """What is in sequence may be in the disk's buffer, or be under its head just then."""
    if stack.media != "spindle":
        return 0.0
    transfer = one.size / BYTES_A_SECOND * 1e9
    if one.pattern == "random":
        return COMMAND_NS + SEEK_NS[one.op] + HALF_TURN_NS + transfer
    return COMMAND_NS + (transfer if one.op == "write" else 0)


def _behind_ns(stack: Stack, one: Kind) -> float:
    if stack.remote == NOWHERE:
        return 0.0
    if stack.cache == "none":
        return _disk_ns(stack, one)
    if stack.cache == "dcd-complete" and one.op == "write" and stack.media == "spindle":
        return _log_ns(one.size)
    return 0.0


def _log_ns(size: float) -> float:
    return COMMAND_NS + HALF_TURN_NS + size / BYTES_A_SECOND * 1e9


def _wire_ns(stack: Stack, one: Kind) -> float:
    if stack.remote in (LOCAL, NOWHERE):
        return 0.0
    wire = wires.load(stack.remote)
    bits = _bits(wire.to_mirror if one.op == "write" else wire.to_primary)
    return 1000 * wire.rtt_us + (one.size * 8 / bits * 1e9 if bits else 0)


def _bits(way: wires.Direction) -> int | None:
    """A second; at its best, if it varies."""
    return way.vary_bit[1] if way.vary_bit else way.rate_bit


def of(
    stack: Stack, write_bytes: float, requests: Iterable[spc.Request] | None = None
) -> dict[str, Any]:
    """For writes of that mean size; requests: the trace that is replayed, if one is."""
    found: dict[str, Any] = {}
    one = Kind("write", "random", write_bytes)
    if stack.media == "spindle":
        if stack.software != "none" or stack.cache == "none":  # a disk itself has to answer
            found["spindle_write_ns"] = round(_disk_ns(stack, one))
        found["log_write_ns"] = round(_log_ns(write_bytes))
    if stack.remote in (LOCAL, NOWHERE):
        return found
    found["wire_write_ns"] = round(_wire_ns(stack, one))
    wire = wires.load(stack.remote)
    bits = _bits(wire.to_mirror)
    if bits and requests is not None:
        pipe = spc.ideal_pipe(requests, bits, wire.rtt_us / 1e6)
        found["pipe"] = {
            "mean_ns": round(pipe.mean * 1e9), "p50_ns": round(pipe.p50 * 1e9),
            "p99_ns": round(pipe.p99 * 1e9), "max_ns": round(pipe.longest * 1e9),
        }  # fmt: skip
    return found
