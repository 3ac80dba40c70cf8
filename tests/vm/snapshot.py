# SPDX-License-Identifier: GPL-2.0-only
"""Both hosts as they are after a clean boot, to come back to within seconds.

  KEY/HOST/memory       QEMU's migration stream: RAM and devices
  KEY/HOST/root.qcow2   the root disk, over the image
  KEY/HOST/nvdimm.raw   the NVDIMM with its namespace (the stream leaves it out)

The data disks are blank when it is taken and when it is loaded, so the guests hold no stale cache
of them. KEY is made of all that the memory depends on; a folder with that name is complete.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import qemu
from machine import Machine

CAPABILITIES = [{"capability": "x-ignore-shared", "state": True}]


class Snapshot:
    def __init__(self, folder: Path, machines: Iterable[Machine], disk_mib: int) -> None:
        self._machines = list(machines)
        key = hashlib.sha256(f"{disk_mib}".encode())
        for machine in self._machines:
            key.update(machine.identity().encode())
        self._top = folder
        self._folder = folder / key.hexdigest()[:12]

    @property
    def exists(self) -> bool:
        return self._folder.is_dir()

    def drop(self) -> None:
        """This one and all others: their key won't come back."""
        shutil.rmtree(self._top, ignore_errors=True)

    def take(self) -> None:
        """Ends the machines, which run and are idle, and keeps what they were."""
        self.drop()
        scratch = self._folder.with_suffix(".tmp")
        for machine in self._machines:
            place = scratch / machine.host.name
            place.mkdir(parents=True)
            with machine.qmp() as control:
                control.run("stop")
                control.run("migrate-set-capabilities", capabilities=CAPABILITIES)
                control.run("migrate", uri=f"file:{place / 'memory'}")
                control.until_migrated()
            machine.kill()
            machine.root.rename(place / "root.qcow2")
            if machine.host.nvdimm_mib:
                _copy(machine.nvdimm, place / "nvdimm.raw")
        scratch.rename(self._folder)

    def load(self, names: Iterable[str], disk_mib: int) -> None:
        """These machines, which don't run, go on from the snapshot with blank disks."""
        chosen = [machine for machine in self._machines if machine.host.name in names]
        for machine in chosen:
            place = self._folder / machine.host.name
            qemu.overlay(place / "root.qcow2", machine.root, "qcow2")
            if machine.host.nvdimm_mib:
                _copy(place / "nvdimm.raw", machine.nvdimm)
            for disk in machine.disks:
                disk.blank(disk_mib)
            machine.start(incoming=True)
            with machine.qmp() as control:
                control.run("migrate-set-capabilities", capabilities=CAPABILITIES)
                control.run("migrate-incoming", uri=f"file:{place / 'memory'}")
        for machine in chosen:
            with machine.qmp() as control:
                control.until_status("paused")
                control.run("cont")


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    subprocess.run(["cp", "--sparse=always", "--reflink=auto", source, target], check=True)
