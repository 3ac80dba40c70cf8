# SPDX-License-Identifier: GPL-2.0-only
"""In the sim lab: a DCD is opened on a log that is full of 4 KiB writes at random places.

args: GIB MODEL SEGMENT_KIB. The log is written as the engine would have done it, but for the
payload, which is all zeroes and takes no memory. Prints what recovery told as JSON.
"""

from __future__ import annotations

import ctypes
import json
import re
import struct
import sys
import time
from pathlib import Path

from locklab import base, blk, dm, lio, media

TOOL = "/lockstep/build/bin/dcd"
FORMAT = Path("/lockstep/target-plugin/dcd-format.h").read_text(encoding="ascii")
BLOCK = 4096
SECTORS = 8  # of a write
STEP = 16  # sectors from the beginning of one to that of the next
SUPER = struct.Struct("<QII16s16sQQQQQIIQQI396x")
HEADER = struct.Struct("<QII16s16sQQQIII172x")
ENTRY = struct.Struct("<QQQQIIIHHII8x")

_library = ctypes.CDLL("libext2fs.so.2")
_crc = _library.ext2fs_crc32c_le
_crc.argtypes = (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)
_crc.restype = ctypes.c_uint32


def crc(data: bytes, start: int = 0xFFFFFFFF) -> int:
    return int(_crc(start, data, len(data)))


def number(name: str) -> int:
    found = re.search(rf"{name}\s+(0x[0-9a-f]+)ULL", FORMAT)
    assert found, name
    return int(found[1], 16)


class Zeroes:
    """The crc of what so many zero bytes follow, from the crc before them: that is linear."""

    def __init__(self, count: int) -> None:
        zeroes = bytes(count)
        self._bits = [crc(zeroes, 1 << bit) for bit in range(32)]

    def after(self, start: int) -> int:
        result = 0
        for bit, value in enumerate(self._bits):
            if start >> bit & 1:
                result ^= value
        return result


MAGIC = number("DCD_SEGMENT_MAGIC")


def place(n: int, places: int) -> int:
    """Another one for each n below @places, a power of two."""
    return n * 2654435761 % places


def fill(log: str, places: int) -> tuple[int, int]:
    """All of the ring, from the superblock's tail on; returns segments and entries."""
    with blk.Disk(log) as disk:
        both = [SUPER.unpack(disk.read(at, 1)) for at in (0, 8)]
        best = max(both, key=lambda one: one[6])
        uuid, epoch = best[4], best[5]
        segments, size, table, tail, applied = best[9:14]
        each = min(table // ENTRY.size, (size - BLOCK - table) // (SECTORS * 512))
        tail_zeroes = Zeroes(each * SECTORS * 512)
        payload = crc(bytes(SECTORS * 512))
        used = BLOCK + table + each * SECTORS * 512
        features = bytes(16)
        entry = applied + 1
        for sequence in range(tail, tail + segments - 1):
            first, rows = entry, []
            for n in range(each):
                words = [entry, epoch, place(entry, places) * STEP, 0, SECTORS, SECTORS,
                         (BLOCK + table) // 512 + n * SECTORS, 1, 0, payload]  # fmt: skip
                rows.append(ENTRY.pack(*words, crc(ENTRY.pack(*words, 0))))
                entry += 1
            body = b"".join(rows).ljust(table, b"\0")
            head = [MAGIC, 1, 0, features, uuid, epoch, sequence, first, each, used,
                    tail_zeroes.after(crc(body))]  # fmt: skip
            head[2] = crc(HEADER.pack(*head))
            at = (1 << 20) + sequence % segments * size
            disk.write(at // 512, HEADER.pack(*head).ljust(BLOCK, b"\0") + body)
    return segments - 1, entry - applied - 1


def nodes() -> int:
    """Bytes of maple tree nodes in the whole kernel."""
    found = re.search(r"^maple_node +(\d+) +\d+ +(\d+)", Path("/proc/slabinfo").read_text(), re.M)
    assert found
    return int(found[1]) * int(found[2])


def main() -> None:
    gib, model, kib = float(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    places = 1 << (int(gib * 1024 * 256) * 2 - 1).bit_length()
    data = media.disk("data", places * STEP >> 11, "null")
    media.disk("log", int(gib * 1024), "null")
    base.run(TOOL, "format", "--data", data, "--log", "/dev/mapper/log", "--nvram", "none",
             "--segment-bytes", str(kib << 10))  # fmt: skip
    segments, entries = fill("/dev/mapper/log", places)
    if model != "null":  # written as fast as it goes, read as from that disk
        dm.remove("log")
        media.disk("log", int(gib * 1024), model)
    before, began = nodes(), time.monotonic()
    store = lio.dcd("d", data, "/dev/mapper/log", "dram:battery", "nvram_bytes=16777216",
                    f"index_bytes={1 << 40}")  # fmt: skip
    seconds, memory = time.monotonic() - began, nodes() - before  # before it is destaged
    found = {name: int(n) for name, n in re.findall(r"\b([a-z_]+) (\d+)\b", store.info())}
    base.equal(found["recovered_segments"], segments, "segments")
    base.equal(found["recovered_entries"], entries, "entries")
    print(json.dumps({
        "gib": gib, "model": model, "segment_kib": kib, "segments": segments, "entries": entries,
        "bytes": found["recovery_bytes"], "recovery_s": found["recovery_us"] / 1e6,
        "open_s": seconds, "index_memory": memory,
    }), flush=True)  # fmt: skip
    store.remove()


main()
