# SPDX-License-Identifier: GPL-2.0-only
"""The disks of both sites become the papers' spindle (15,000 rpm), for the demo only.

Under emulation a virtual disk's own speed means nothing. So bench/media's model is put over each in
real time, its write cache off: an answer means that the data are on the platter. A unit does it at
every boot, before the target and the mirror start.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FILES = Path(__file__).resolve().parent / "files"
MODULE_DIR = "/usr/local/lib/lab-spindles"


@dataclass(frozen=True)
class Spindle:
    """Part of a disk, as a disk of its own: /dev/mapper/NAME."""

    name: str
    device: str
    first_mib: int
    mib: int

    @property
    def node(self) -> str:
        return f"/dev/mapper/{self.name}"


def table(spindles: list[Spindle]) -> str:
    """The text of /etc/lab-spindles."""
    return "".join(f"{s.name} {s.device} {s.first_mib} {s.mib}\n" for s in spindles)
