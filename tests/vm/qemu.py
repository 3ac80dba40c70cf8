# SPDX-License-Identifier: GPL-2.0-only
"""QEMU out of the cached Debian 13 chroot, run on the host by the chroot's own loader: no root, no
mounts, the same QEMU on every host. And which accelerator it can use here."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

import cached
from laberror import LabError

PROBE_S = 60.0
# A CPU that TCG can play without warnings.
TCG_CPU = "EPYC,-fxsr-opt,-misalignsse,-osvw,-topoext,-nrip-save,-xsavec"


@functools.cache
def _chroot() -> Path:
    return cached.entry("tools")


def program(name: str) -> list[str]:
    """The words that start a program of the chroot."""
    root = _chroot()
    return [
        str(root / "lib64/ld-linux-x86-64.so.2"),
        "--library-path",
        str(root / "usr/lib/x86_64-linux-gnu"),
        "--argv0",
        name,
        str(root / "usr/bin" / name),
    ]


def environment() -> dict[str, str]:
    """QEMU's modules come from the chroot too, never from a QEMU of the host."""
    modules = _chroot() / "usr/lib/x86_64-linux-gnu/qemu"
    return {**os.environ, "QEMU_MODULE_DIR": str(modules)}


def system() -> list[str]:
    """The words that start the system emulator; the caller adds the machine."""
    share = _chroot() / "usr/share"
    folders = ["-L", str(share / "seabios"), "-L", str(share / "qemu")]
    return [*program("qemu-system-x86_64"), *folders]


def overlay(backing: Path, image: Path, backing_format: str = "raw") -> None:
    """A new qcow2 image that holds what is written over `backing`."""
    image.unlink(missing_ok=True)
    words = ["create", "-q", "-f", "qcow2", "-b", str(backing.resolve()), "-F", backing_format]
    done = subprocess.run(
        [*program("qemu-img"), *words, str(image)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LabError(f"{image}: qemu-img can't make it: {done.stderr.strip()}")


def accel_args(accel: str) -> list[str]:
    if accel == "kvm":
        return ["-accel", "kvm", "-cpu", "host", "-smp", "2"]
    return ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", TCG_CPU, "-smp", "1"]


def cpu() -> str:
    """What kind of CPU this host has."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    words = ("vendor_id", "cpu family", "model", "stepping", "flags")
    return "\n".join(line for line in text.splitlines() if line.startswith(words))


def accelerator(image: Path, memo: Path) -> str:
    """kvm or tcg. That /dev/kvm is there proves nothing: a guest kernel has to come up under
    it. The answer is kept in `memo` until the host boots again. LAB_ACCEL overrides."""
    wanted = os.environ.get("LAB_ACCEL")
    if wanted:
        if wanted not in ("kvm", "tcg"):
            raise LabError(f"LAB_ACCEL={wanted}: there are kvm and tcg")
        return wanted
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    question = f"{boot} {image.name} {os.access('/dev/kvm', os.R_OK | os.W_OK)}"
    if memo.exists():
        asked, _, answer = memo.read_text(encoding="utf-8").strip().rpartition(" ")
        if asked == question and answer in ("kvm", "tcg"):
            return answer
    answer = "kvm" if os.access("/dev/kvm", os.R_OK | os.W_OK) and works("kvm", image) else "tcg"
    memo.write_text(f"{question} {answer}\n", encoding="utf-8")
    return answer


def works(accel: str, image: Path) -> bool:
    """Whether the image's kernel gets as far as its first program."""
    with tempfile.TemporaryDirectory() as scratch:
        console = Path(scratch) / "console"
        words = [
            *system(), "-machine", "q35", *accel_args(accel), "-m", "512M", "-nodefaults",
            "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", str(image / "vmlinuz"), "-initrd", str(image / "initrd"),
            "-append", "console=ttyS0 panic=-1 lab.probe",
            "-serial", f"file:{console}",
        ]  # fmt: skip
        try:
            subprocess.run(
                words, env=environment(), timeout=PROBE_S, capture_output=True, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return console.exists() and b"lab-init: probe passed" in console.read_bytes()
