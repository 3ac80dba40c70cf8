# SPDX-License-Identifier: GPL-2.0-only
"""Plain disks in memory (null_blk, memory backed): no service time unless asked for."""

from __future__ import annotations

from pathlib import Path

from . import base

_CONFIG = Path("/sys/kernel/config/nullb")


class Ram:
    """A disk /dev/NAME; zeroes at first, gone with remove(). It takes queue_depth requests, and who
    has one more waits in its submission."""

    def __init__(
        self, name: str, mib: int, *, latency_us: int = 0, cache_mib: int = 0, discard: bool = True,
        queue_depth: int = 64,
    ) -> None:  # fmt: skip
        self.name, self.node = name, f"/dev/{name}"
        self.sectors = mib << 11
        self._dir = base.made(_CONFIG / name)
        settings = {
            "memory_backed": 1,
            "size": mib,
            "discard": int(discard),
            "cache_size": cache_mib,
            "irqmode": 2 if latency_us else 0,
            "hw_queue_depth": queue_depth,
            "completion_nsec": latency_us * 1000,
            "power": 1,
        }
        for key, value in settings.items():
            base.put(self._dir / key, value)
        base.until(Path(self.node).exists, self.node)

    def bad(self, first: int, last: int) -> None:
        """I/O to these sectors (inclusive) fails from now on."""
        base.put(self._dir / "badblocks", f"+{first}-{last}")

    def good(self, first: int, last: int) -> None:
        base.put(self._dir / "badblocks", f"-{first}-{last}")

    def remove(self) -> None:
        base.put(self._dir / "power", 0)
        self._dir.rmdir()
