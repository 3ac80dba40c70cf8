# SPDX-License-Identifier: GPL-2.0-only
"""A result's figures by name, as the papers tell them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def skipped_percent(result: Mapping[str, Any]) -> float:
    skipped = float(result["writes_skipped"])
    return 100 * skipped / (float(result["write"]["count"]) + skipped)


def batches_within_half_second_percent(result: Mapping[str, Any]) -> float:
    return 100 * float(result["batch"]["within_half_second"]) / float(result["batch"]["count"])


def packets(result: Mapping[str, Any]) -> float:
    return float(result["cost"]["to_mirror_packets"]) + float(result["cost"]["to_primary_packets"])


def bytes_sent(result: Mapping[str, Any]) -> float:
    return float(result["cost"]["to_mirror_bytes"]) + float(result["cost"]["to_primary_bytes"])


def packets_of(size_class: str) -> Callable[[Mapping[str, Any]], float]:
    """In both directions, of a class of locklab/account.py."""
    keys = [f"{way}_packets_{size_class}" for way in ("to_mirror", "to_primary")]
    return lambda result: sum(float(result["cost"][key]) for key in keys)


def scsi_writes(result: Mapping[str, Any]) -> float:
    return float(result["cost"]["scsi_write"]) + float(result["cost"]["scsi_write_scattered"])


NAMED: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "skipped_percent": skipped_percent,
    "batches_within_half_second_percent": batches_within_half_second_percent,
    "flushed_s": lambda result: result["elapsed_s"] + result["left_behind_s"],
    "packets": packets,
    **{f"packets_{name}": packets_of(name) for name in ("64", "127", "255", "511", "1023", "more")},
    "scsi_writes": scsi_writes,
    "bytes": bytes_sent,
    "bytes_a_packet": lambda result: bytes_sent(result) / packets(result),
}


def value(result: Mapping[str, Any], name: str) -> float | None:
    """Of a name above, or of a path like write.mean_ns; _ms is a time of _ns. None: no such one."""
    try:
        if name in NAMED:
            return NAMED[name](result)
        at: Any = result
        scale = 1.0
        for part in name.split("."):
            if part.endswith("_ms") and part not in at:
                part, scale = part.removesuffix("_ms") + "_ns", 1e-6
            at = at[part]
        return float(at) * scale
    except (KeyError, TypeError, ZeroDivisionError):
        return None
