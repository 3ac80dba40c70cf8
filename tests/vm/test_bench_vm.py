# SPDX-License-Identifier: GPL-2.0-only
"""bench/run --lab vm: cells on the two hosts, and what is left of them afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cell.order import Order, Stack
from runner import vm
from runner.experiment import Cell
from vmlab import Lab

SMALL = Stack(mib=64, log_mib=64, nvram_mib=4, remote="lan")
CELLS = [
    Cell("fio", "md", Order("fio", replace(SMALL, software="md"),
                            {"rw": "randwrite", "iodepth": 4, "number_ios": 100}), 900),
    Cell("replay", "lockstep", Order("replay", replace(SMALL, cache="dcd"),
                                     {"trace": "financial-1-slice", "records": 60, "slots": 16}),
         900),
]  # fmt: skip
# Nothing that a cell made, but for what the distribution has.
NOTHING_LEFT = """
dmsetup ls | grep -v 'No devices' && exit 1
cat /proc/mdstat | grep '^md' && exit 2
ls /sys/class/iscsi_session/session* 2>/dev/null && exit 3
ls -d /sys/kernel/config/target/iscsi/iqn* 2>/dev/null && exit 4
tc qdisc show dev link0 | grep netem && exit 5
grep . /sys/kernel/debug/lockstep-media/list && exit 6
exit 0
"""


@pytest.mark.long
def test_a_cell_runs_on_both_hosts_and_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    hosts = vm.Vm(lab)
    found = {}
    for cell in CELLS:
        row = found[cell.name] = hosts(cell, tmp_path)
        assert "result" in row, row
        assert row["limits"] == {}
        cost, writes = row["result"]["cost"], row["result"]["write"]["count"]
        assert writes > 0
        assert 0 < cost["local_writes"] <= writes  # a mirror may merge what is in a batch
        assert cost["to_mirror_bytes"] > 512 * cost["local_write_sectors"]
        # The wire: 0.1 ms there, 0.1 ms back.
        assert row["result"]["write"]["min_ns"] > 200_000
    md = found["md"]["result"]
    assert md["cost"]["local_writes"] == md["cost"]["scsi_write"] == md["write"]["count"] == 100
    assert found["lockstep"]["result"]["legs_differ_at"] is None
    assert found["lockstep"]["result"]["cost"]["cache_writes"] > 0
    requests = tmp_path / "replay" / "lockstep-seed-1" / "requests.csv"
    assert len(requests.read_text(encoding="ascii").splitlines()) == 61
    for name in lab.hosts:
        lab.ssh(name, NOTHING_LEFT)
    assert hosts.versions()["kernel"] == lab.release
    assert "dm-lockstep.ko" in hosts.versions()
