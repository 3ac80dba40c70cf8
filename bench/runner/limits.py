# SPDX-License-Identifier: GPL-2.0-only
"""What nothing could beat, to be printed beside each result. All times in nanoseconds.

- pipe: a FIFO of the wire's speed and round trip that carries the trace's written bytes, with no
  protocol, and skips nothing. Who skips can be faster than it; who sends fewer bytes, too.
- spindle_write_ns: one write of that size at a random place of the modelled disk, alone: command,
  average seek, half a turn, transfer. With many waiting an elevator gets below it.
- log_write_ns: one sequential write to the log disk: command, half a turn, transfer. Report after
  complete can't be faster for a single write.
- wire_write_ns: the round trip, and the bytes at the wire's speed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import wires
from cell.order import LOCAL, NOWHERE, Stack
from traces import spc

# bench/media/media-model.h: the published data of the papers' disk.
COMMAND_NS = 100_000
WRITE_SEEK_NS = 4_200_000
HALF_TURN_NS = 2_000_000
BYTES_A_SECOND = 60e6  # in the middle of the disk


def of(
    stack: Stack, write_bytes: float, requests: Iterable[spc.Request] | None = None
) -> dict[str, Any]:
    """For writes of that mean size; requests: the trace that is replayed, if one is."""
    found: dict[str, Any] = {}
    if stack.media == "spindle":
        transfer = write_bytes / BYTES_A_SECOND * 1e9
        if stack.software != "none" or stack.cache == "none":  # a disk itself has to answer
            found["spindle_write_ns"] = round(COMMAND_NS + WRITE_SEEK_NS + HALF_TURN_NS + transfer)
        found["log_write_ns"] = round(COMMAND_NS + HALF_TURN_NS + transfer)
    if stack.remote in (LOCAL, NOWHERE):
        return found
    wire = wires.load(stack.remote)
    rtt_ns = 1000 * (wire.to_mirror.delay_us + wire.to_primary.delay_us)
    bits = wire.to_mirror.rate_bit
    found["wire_write_ns"] = rtt_ns + (round(write_bytes * 8 / bits * 1e9) if bits else 0)
    if bits and requests is not None:
        pipe = spc.ideal_pipe(requests, bits, rtt_ns / 1e9)
        found["pipe"] = {
            "mean_ns": round(pipe.mean * 1e9), "p50_ns": round(pipe.p50 * 1e9),
            "p99_ns": round(pipe.p99 * 1e9), "max_ns": round(pipe.longest * 1e9),
        }  # fmt: skip
    return found
