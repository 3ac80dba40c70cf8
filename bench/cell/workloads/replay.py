# SPDX-License-Identifier: GPL-2.0-only
"""A trace replayed at its own times by build/bin/replay, as the remote-mirroring paper does.

Parameters: `file` (a replay file; the runner makes it of the experiment's `trace`), `slots` (the
paper's 16 threads), `batch` (writes that a slot collects and issues together), `grace` (seconds
that the last requests may take). series.csv has a line for each SERIES_S seconds, requests.csv one
for each request; with `series_s`, for a trace too long for that, there is only the first, with so
many seconds a line.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locklab import base

PROGRAM = str(Path(__file__).resolve().parents[3] / "build/bin/replay")
SERIES_S = 2


def run(node: str, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    width = str(params.get("series_s", SERIES_S))
    log = ["--series", str(base.OUT / "series.csv"), "--series-seconds", width]
    if "series_s" not in params:
        log += ["--log", str(base.OUT / "requests.csv")]
    words = [PROGRAM, "--slots", str(params.get("slots", 16)),
             "--batch", str(params.get("batch", 1)), "--grace", str(params.get("grace", 900)),
             "--seed", str(seed), *log, str(params["file"]), node]  # fmt: skip
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode:
        raise base.Wrong(f"{' '.join(words)}: rc {done.returncode}: {done.stdout}{done.stderr}")
    said: dict[str, Any] = json.loads(done.stdout)
    return told(said) | {"elapsed_s": seconds}


def told(said: dict[str, Any]) -> dict[str, Any]:
    """The replayer's answer in the shape of all workloads."""
    found: dict[str, Any] = {}
    for kind, key in (("write", "writes"), ("read", "reads")):
        side = dict(said.pop(key))
        found[kind] = side.pop("response")
        found |= {f"{kind}s_{name}": value for name, value in side.items()}
    batches = said.pop("batches")
    if said["batch"] > 1:
        found["batch"] = batches
    del said["batch"]
    return found | said
