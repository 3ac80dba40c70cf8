# SPDX-License-Identifier: GPL-2.0-only
"""fio for what it is best at; each start costs seconds of wall time, so put many jobs in one.

With the clock that it is told to use here its output is the seed's function like anybody else's;
at its start it also measures the host's TSC, but nothing comes of that.
"""

from __future__ import annotations

import json
from typing import Any

from . import base


def run(node: str, *jobs: dict[str, object], seed: int = base.SEED) -> list[dict[str, Any]]:
    """Runs the jobs one after another; their results as fio's JSON has them."""
    common: dict[str, object] = {
        "filename": node, "direct": 1, "ioengine": "libaio", "thread": 1, "bs": "4k",
        "clocksource": "clock_gettime", "randseed": seed, "randrepeat": 1, "norandommap": 1,
        "allow_mounted_write": 0,
    }  # fmt: skip
    lines = ["[global]", *(f"{key}={value}" for key, value in common.items())]
    for number, job in enumerate(jobs):
        lines += [f"[job{number}]", *(["stonewall"] if number else [])]
        lines += [f"{key}={value}" for key, value in job.items()]
    file = base.OUT / "jobs.fio"
    file.write_text("\n".join(lines) + "\n")
    said = base.run("fio", "--output-format=json", str(file))
    found: list[dict[str, Any]] = json.loads(said[said.index("{") :])["jobs"]
    for job_result in found:
        base.equal(job_result["error"], 0, f"fio {job_result['jobname']}: error")
    return found


def line(result: dict[str, Any], way: str = "write") -> str:
    """Count and latencies (microseconds) of one job in one line."""
    side = result[way]
    lat, parts = side["clat_ns"], side["clat_ns"].get("percentile", {})
    p99 = parts.get("99.000000", 0) / 1e3
    return (
        f"{side['total_ios']} {way}s, clat us mean {lat['mean'] / 1e3:.3f} "
        f"min {lat['min'] / 1e3:.3f} p99 {p99:.3f} max {lat['max'] / 1e3:.3f}"
    )
