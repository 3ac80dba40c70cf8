# SPDX-License-Identifier: GPL-2.0-only
"""Modelled disks and NVRAM (bench/media): service times, volatile caches, power cuts."""

from __future__ import annotations

from pathlib import Path

from . import base, dm

CONTROL = Path("/sys/kernel/debug/lockstep-media")
PRIMARY_SITE, MIRROR_SITE = 1, 2


def disk(
    name: str, mib: int, model: str = "spindle", *, site: int = 0, backing: str = "ram",
    **options: object,
) -> str:  # fmt: skip
    """A modelled disk /dev/mapper/NAME. Its content belongs to the name: see forget()."""
    words = [f"site {site}", *(f"{key} {value}" for key, value in options.items())]
    return dm.create(
        name, f"0 {mib << 11} media {name} {backing} {model} {2 * len(words)} {' '.join(words)}"
    )


def nvram(name: str, kib: int, *, site: int = 0) -> str:
    """NVRAM for a DCD (`nvram=lab:NAME`); the node shows its bytes, for `dcd format`."""
    return dm.create(name, f"0 {kib * 2} labnvram {name} 2 site {site}")


def cut(site: int, seed: int) -> None:
    """The site loses its power now: what is durable, and by seed a part of the rest, stays."""
    base.put(CONTROL / "cut", f"{site} {seed}")


def forget(name: str) -> None:
    """The next disk or NVRAM of that name is a new one. Nothing to do if there was none."""
    if any(line.split()[0] == name for line in (CONTROL / "list").read_text().splitlines()):
        base.put(CONTROL / "forget", name)
