# SPDX-License-Identifier: GPL-2.0-only
"""What a piece of work cost: packets and bytes on the wire, SCSI commands, requests of disks.

A snapshot before and one after, and their difference. Everything is counted by the kernel where
it passes, by nothing that is under test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from . import lio

_STAT = ("reads", "read_merges", "read_sectors", "read_ms", "writes", "write_merges",
         "write_sectors", "write_ms", "in_flight", "busy_ms", "queue_ms", "discards",
         "discard_merges", "discard_sectors", "discard_ms", "flushes", "flush_ms")  # fmt: skip
_KEPT = ("reads", "read_sectors", "writes", "write_sectors", "discards", "flushes")


class Counted(Protocol):
    """A wire, or whatever else counts."""

    def counters(self) -> dict[str, int]: ...


def disk(node: str) -> dict[str, int]:
    """Requests that a block device has completed, and their sectors.

    Of a request-based device (sd) flushes are the empty ones; of a bio-based one (dm, in memory)
    the kernel counts an empty flush as a write of no sectors.
    """
    name = Path(node).resolve().name
    if node.startswith("/dev/mapper/"):
        number = Path(node).stat().st_rdev
        name = Path(f"/sys/dev/block/{number >> 8 & 0xFFF}:{number & 0xFF | number >> 12 & 0xFFF00}"
                    ).resolve().name  # fmt: skip
    words = Path(f"/sys/class/block/{name}/stat").read_text().split()
    told = dict(zip(_STAT, map(int, words), strict=False))
    return {key: told[key] for key in _KEPT}


def commands(store: lio.Backstore) -> dict[str, int]:
    """SCSI commands that a backstore has been given, of any kind, as LIO counts them."""
    return {"scsi_commands": int((store.path / "statistics/scsi_lu/num_cmds").read_text())}


def snapshot(
    link: Counted | None = None, store: lio.Backstore | None = None,
    disks: Mapping[str, str] | None = None,
) -> dict[str, int]:  # fmt: skip
    """All counters in one flat table: the wire's, LIO's, and NAME_writes and so on of each disk."""
    found: dict[str, int] = {}
    if link is not None:
        found |= link.counters()
    if store is not None:
        found |= commands(store)
    for name, node in (disks or {}).items():
        found |= {f"{name}_{key}": value for key, value in disk(node).items()}
    return found


def spent(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {key: value - before[key] for key, value in after.items()}


def line(used: Mapping[str, int], writes: int) -> str:
    """A wire's and a target's share, in all and for each write."""
    parts: Iterable[tuple[str, str]] = (
        ("to_mirror_packets", "packets to the mirror"), ("to_primary_packets", "back"),
        ("to_mirror_bytes", "bytes to the mirror"), ("to_primary_bytes", "back"),
        ("scsi_commands", "SCSI commands"),
    )  # fmt: skip
    return ", ".join(f"{used[key]} {what} ({used[key] / max(writes, 1):.2f} a write)"
                     for key, what in parts if key in used)  # fmt: skip
