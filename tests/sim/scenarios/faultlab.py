# SPDX-License-Identifier: GPL-2.0-only
"""Requests that fail at random: the kernel's fail_make_request, of the disks that are marked."""

from pathlib import Path

from locklab import base

FAULT = Path("/sys/kernel/debug/fail_make_request")


def faults(percent: int) -> None:
    for key, value in (("verbose", 0), ("times", -1), ("interval", 1), ("probability", percent)):
        base.put(FAULT / key, value)


def mark(node: str, on: bool) -> None:
    name = Path(node).resolve().name
    for block in Path("/sys/block").iterdir():
        if (block / "dm/name").exists() and (block / "dm/name").read_text().strip() == name:
            base.put(block / "make-it-fail", int(on))
            return
    raise base.Wrong(f"no block device {name}")
