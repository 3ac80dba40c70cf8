# SPDX-License-Identifier: GPL-2.0-only
"""What the metadata cost, within bounds that would show a map written for every write."""

from __future__ import annotations

import json
from typing import Any

from labrun import lab

MIB = 2 << 10  # regions of 1 MiB, that all fit into the activity log


def cost(depth: int, writes: int) -> dict[str, Any]:
    """Uniform random writes over 2 GiB; the scenario itself compares two counts of the pages."""
    run = lab("bench_metadata.py", str(MIB), "0", "stream", str(depth), str(writes))
    assert run.rc == 0, run.text
    found: dict[str, Any] = json.loads(run.stdout)
    assert found["counters"]["writes"] == writes
    # A batch's writes may reach the leg as one, or one of them in another's place.
    assert writes * 0.9 < found["data_writes"] <= writes
    return found


def test_a_region_is_marked_once_and_marks_share_pages() -> None:
    writes = 20_000
    found = cost(64, writes)
    own = found["counters"]
    # So many random writes leave some regions untouched; none is idle long enough to be cleaned.
    assert found["regions"] * 0.8 < own["dirty"] <= found["regions"]
    assert own["cleaned"] == 0
    # A write waits if it is its region's first, or came while that one waited.
    assert own["dirty"] <= own["marked"] < own["dirty"] * 1.1
    assert 0 < own["map_writes"] < own["dirty"] / 2
    assert found["tail_pages"] == {"local": own["map_writes"], "remote": 0}
