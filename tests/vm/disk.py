# SPDX-License-Identifier: GPL-2.0-only
"""A host's virtual disk with a volatile write cache.

  NAME.raw     what is durable
  NAME.qcow2   what the guest wrote over it since it was started, flushed or not
  NAME.log     the order of these writes and flushes (QEMU's blklogwrites)

QEMU itself loses nothing when it is killed, so the cache is made afterwards: a power cut applies
to NAME.raw what the log says is durable, and drops the overlay. A host starts with fresh() disks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import qemu
import writelog

MIB = 1 << 20


class Disk:
    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.durable = folder / f"{name}.raw"
        self.overlay = folder / f"{name}.qcow2"
        self.log = folder / f"{name}.log"

    def blank(self, mib: int) -> None:
        """All zeroes. The host must not be running."""
        self.durable.unlink(missing_ok=True)
        with self.durable.open("wb") as file:
            os.truncate(file.fileno(), mib * MIB)
        self.fresh()

    def fresh(self) -> None:
        """Nothing written since the start. The host must not be running."""
        self.log.write_bytes(b"")
        qemu.overlay(self.durable, self.overlay)

    def cut(self, seed: int, keep: str) -> writelog.Outcome:
        """What the power cut left becomes the disk; `keep` as in writelog.cut()."""
        outcome = writelog.cut(self.log, self.durable, f"{seed} {self.name}", keep)
        self.fresh()
        return outcome

    def blockdev(self) -> dict[str, Any]:
        # no-flush only keeps the host's own disk out of it: what QEMU wrote, the host's page cache
        # has, whatever becomes of QEMU.
        host_file = {"driver": "file", "cache": {"no-flush": True}}
        return {
            "driver": "blklogwrites",
            "node-name": self.name,
            "log-sector-size": 512,
            "log-append": False,
            "file": {"driver": "qcow2", "file": {**host_file, "filename": str(self.overlay)}},
            "log": {**host_file, "filename": str(self.log)},
        }

    def thread(self) -> dict[str, Any]:
        """The disk's own thread, with one worker: so the log has no gaps when QEMU is killed."""
        return {"qom-type": "iothread", "id": f"io-{self.name}", "thread-pool-max": 1}

    def device(self) -> dict[str, Any]:
        return {
            "driver": "virtio-blk-pci",
            "id": f"disk-{self.name}",
            "drive": self.name,
            "serial": self.name,
            "iothread": f"io-{self.name}",
        }
