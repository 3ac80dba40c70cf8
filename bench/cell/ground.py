# SPDX-License-Identifier: GPL-2.0-only
"""A file system to work in, on a host with as little memory as the papers' hosts had.

What a write costs that isn't synchronous depends on how much unwritten data the host may keep. The
papers' hosts (Linux 2.4: bdflush) began to write at 30 % of the memory and made writers wait at
60 %. Here the kernel is told these limits in bytes; the lab's own memory plays no part then.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from locklab import base, fs

_VM = Path("/proc/sys/vm")
_BACKGROUND, _LIMIT = 0.3, 0.6


@contextlib.contextmanager
def memory(mib: int) -> Iterator[None]:
    """Writers are held as on a host with so much memory."""
    names = ("dirty_background_bytes", "dirty_bytes", "dirty_background_ratio", "dirty_ratio")
    before = {name: (_VM / name).read_text().strip() for name in names}
    base.put(_VM / "dirty_bytes", int(_LIMIT * (mib << 20)))
    base.put(_VM / "dirty_background_bytes", int(_BACKGROUND * (mib << 20)))
    try:
        yield
    finally:
        for name, value in before.items():  # of bytes and ratio only one is in force, never 0
            if value != "0":
                base.put(_VM / name, value)


@contextlib.contextmanager
def made(node: str, ram_mib: int, options: str = "", kind: str = "ext4") -> Iterator[Path]:
    """A new file system on the device; it is checked when the work is over."""
    fs.make(kind, node)
    with memory(ram_mib):
        where = fs.mount(kind, node, "/mnt/work", options=options)
        os.sync()
        try:
            yield where
        finally:
            os.chdir("/")
            fs.umount(where)
    fs.clean(kind, node, "after the work")
