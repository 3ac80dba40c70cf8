# SPDX-License-Identifier: GPL-2.0-only
"""A kernel of the sim lab in QEMU, with two emulated CPUs: for what User Mode Linux hasn't got.

The same guest and the same channels as uml.py's: the kernel's console is the first serial line,
the others are consoles of virtio, hvc1 to hvc3. The folders are 9p shares of virtio, whose tags
the guest mounts. Time is the host's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from uml import CHANNELS, Uml, end_with_us

sys.path.append(str(Path(__file__).resolve().parents[1] / "vm"))

import qemu

TAGS = ("root", "guest", "tree", "out")


def accelerator(cpus: int) -> list[str]:
    """TCG with a thread for each CPU. (KVM doesn't run such a kernel everywhere, and isn't asked
    for: what KCSAN finds is decided by how long it watches.)"""
    return ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", qemu.TCG_CPU, "-smp", str(cpus)]


def _channels(state: Path) -> list[str]:
    words = ["-serial", f"file:{state / CHANNELS[0]}", "-device", "virtio-serial-pci"]
    for number, name in enumerate(CHANNELS):
        where = state / ("unused" if number == 0 else name)
        words += ["-chardev", f"file,id=ch{number},path={where},append=on"]
        words += ["-device", f"virtconsole,chardev=ch{number},nr={number}"]
    return words


def _shares(folders: Sequence[Path]) -> list[str]:
    words = []
    for tag, path in zip(TAGS, folders, strict=True):
        read_only = "" if tag == "out" else ",readonly=on"
        words += [
            "-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{read_only}",
            "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
        ]  # fmt: skip
    return words


@dataclass
class Emulated(Uml):
    """`linux` is a bzImage."""

    memory: str = "2G"
    cpus: int = 2

    def _run(self, state: Path, writers: list[FileIO], readers: dict[str, FileIO]) -> int:
        words = [
            *qemu.system(), "-machine", "q35", *accelerator(self.cpus), "-m", self.memory,
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none",
            "-kernel", str(self.linux), "-append", " ".join(self.cmdline),
            *_channels(state), *_shares(self.folders),
        ]  # fmt: skip
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=writers[0],
            stderr=writers[0],
            env=qemu.environment(),
            start_new_session=True,
            preexec_fn=end_with_us,
        ) as process:
            return self.until_gone(process, readers, state)
