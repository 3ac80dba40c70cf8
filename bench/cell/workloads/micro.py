# SPDX-License-Identifier: GPL-2.0-only
"""The remote-mirroring paper's micro-benchmark (its tables 2 and 3): random writes to a file.

Blocks of 4 KiB at random places of a file, one after another, on a host with 256 MB of memory.
`mode`: sync (O_DSYNC, which is what O_SYNC did before Linux 2.6.33) or async. The paper's
ASYNC+Flush is async's `elapsed_s` and `left_behind_s` together: the same calls, another clock.
`count` writes; `file_mib`, which the paper doesn't tell, is written beforehand, outside the time.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cell import ground, times

BLOCK = 4096
MODES = ("sync", "async")


def _blocks(params: Mapping[str, Any]) -> int:
    return int(params.get("file_mib", 256)) << 20 >> 12


@contextlib.contextmanager
def ready(node: str, params: Mapping[str, Any], seed: int) -> Iterator[Path]:
    """The file, written from end to end."""
    noise = random.Random(seed).randbytes(1 << 20)
    with ground.made(node, int(params.get("ram_mib", 256))) as where:
        path = where / "file"
        with path.open("wb") as file:
            for _ in range(_blocks(params) >> 8):
                file.write(noise)
            os.fsync(file.fileno())
        yield path


def run(path: Path, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    mode, count = str(params["mode"]), int(params["count"])
    if mode not in MODES:
        raise ValueError(f"mode {mode!r}; there are: {', '.join(MODES)}")
    blocks = _blocks(params)
    rng = random.Random(seed)
    noise = rng.randbytes(1 << 20)
    fd = os.open(path, os.O_WRONLY | (os.O_DSYNC if mode == "sync" else 0))
    taken = []
    began = time.monotonic_ns()
    for number in range(count):
        at = rng.randrange(len(noise) - BLOCK)
        data = number.to_bytes(8, "little") + noise[at + 8 : at + BLOCK]
        issued = time.monotonic_ns()
        if os.pwrite(fd, data, rng.randrange(blocks) * BLOCK) != BLOCK:
            raise OSError(f"{path}: short write")
        taken.append(time.monotonic_ns() - issued)
    seconds = (time.monotonic_ns() - began) / 1e9
    # What async leaves behind; how long it still takes is the paper's truncation effect.
    os.fsync(fd)
    left = (time.monotonic_ns() - began) / 1e9 - seconds
    os.close(fd)
    return {"write": times.told(taken, count * BLOCK, seconds), "elapsed_s": seconds,
            "left_behind_s": left}  # fmt: skip
