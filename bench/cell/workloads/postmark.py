# SPDX-License-Identifier: GPL-2.0-only
"""PostMark (Debian's package) on ext4, as in the remote-mirroring paper's figure 2.

`files` and `transactions` (the paper: 10,000 and 100,000; sizes are PostMark's own 500 to 10,000
bytes, which make the paper's 700 MB), `write_percent` (50 or 30: the share of appends among reads
and appends), `mount` (options of the file system; "sync" has every write on both legs before it
returns), `ram_mib` (the paper's hosts had 512 MB).

A transaction is a pair: create or delete, and read or append. CPU time costs nothing in the sim
lab, so what is seen is disks and wire alone.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from cell import ground
from cell.order import Absent
from locklab import base

PROGRAM = "postmark"
_BYTES = {"": 1, "kilo": 1 << 10, "mega": 1 << 20, "giga": 1 << 30}


def ready(node: str, params: Mapping[str, Any], seed: int) -> AbstractContextManager[Path]:
    return ground.made(node, int(params.get("ram_mib", 512)), str(params.get("mount", "")))


def run(where: Path, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    if shutil.which(PROGRAM) is None:
        raise Absent(f"{PROGRAM}: not installed")
    files, transactions = int(params["files"]), int(params["transactions"])
    writes = int(params.get("write_percent", 50))
    if writes % 10 or not 0 <= writes <= 100:
        raise ValueError(f"write_percent {writes}: PostMark knows tenths only")
    orders = (
        f"set location {where}", f"set number {files}", f"set transactions {transactions}",
        f"set seed {seed}", f"set bias read {10 - writes // 10}", "set subdirectories 10",
        "run", "quit",
    )  # fmt: skip
    began = time.monotonic()
    said = base.run(PROGRAM, stdin="\n".join(orders) + "\n")
    seconds = time.monotonic() - began
    os.sync()
    return told(said) | {"elapsed_s": seconds, "left_behind_s": time.monotonic() - began - seconds}


def told(said: str) -> dict[str, Any]:
    """PostMark's report; its own clock has whole seconds only, so its times aren't used."""
    numbers = {}
    for name, pattern in (
        ("created", r"(\d+) created"), ("read", r"(\d+) read"), ("appended", r"(\d+) appended"),
        ("deleted", r"(\d+) deleted"),
    ):  # fmt: skip
        found = re.search(pattern, said)
        if not found:
            raise base.Wrong(f"{PROGRAM} doesn't tell how many it has {name}: {said}")
        numbers[name] = int(found[1])
    moved = {
        word: round(float(value) * _BYTES[unit])
        for value, unit, word in re.findall(r"([\d.]+) (kilo|mega|giga|)bytes (read|written)", said)
    }
    if set(moved) != {"read", "written"}:
        raise base.Wrong(f"{PROGRAM} doesn't tell its bytes: {said}")
    return {
        "transaction": {"count": numbers["read"] + numbers["appended"],
                        "bytes": moved["read"] + moved["written"]},
        "files": numbers, "bytes_read": moved["read"], "bytes_written": moved["written"],
    }  # fmt: skip
