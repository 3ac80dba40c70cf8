# SPDX-License-Identifier: GPL-2.0-only
"""perf's samples: folded, classed, counted, drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from cell import samples
from report import flames
from runner import tables
from runner.results import Row

SAID = """\
fio
\tffffffff81f1c0a0 memcpy ([kernel.kallsyms])
\tffffffffc0a1b0c0 media_map ([kernel.kallsyms])
\tffffffff8200012b entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t    7f12ab34cd56 syscall (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t    5612ab34cd56 [unknown] (/usr/bin/fio)

kworker/0:1H-iscsi_q_2
\tffffffff81c0a0b0 _raw_spin_lock_bh ([kernel.kallsyms])
\tffffffff81c0a0b0 tcp_sendmsg ([kernel.kallsyms])
\tffffffffc0a1b0c0 iscsi_sw_tcp_pdu_xmit ([kernel.kallsyms])

swapper
\tffffffff81c0a0b0 tcp_v4_rcv ([kernel.kallsyms])
\tffffffff81c0a0b0 handle_softirqs ([kernel.kallsyms])
\tffffffff81c0a0b0 asm_common_interrupt ([kernel.kallsyms])
\tffffffff81c0a0b0 pv_native_safe_halt ([kernel.kallsyms])
\tffffffff81c0a0b0 do_idle ([kernel.kallsyms])

swapper
\tffffffff81c0a0b0 pv_native_safe_halt ([kernel.kallsyms])
\tffffffff81c0a0b0 do_idle ([kernel.kallsyms])

perf-exec
\tffffffff81c0a0b0 schedule ([kernel.kallsyms])

postgres
\t    7f12ab34cd56 [unknown] (/usr/lib/postgresql/17/bin/postgres)

"""
KALLSYMS = """\
ffffffff81f1c0a0 T memcpy
ffffffff81f1c0b0 t tcp_v4_rcv
ffffffffc0a1b0c0 t media_map\t[dm_media]
ffffffffc0a1b0d0 t iscsi_sw_tcp_pdu_xmit\t[iscsi_tcp]
ffffffffc0a1b0e0 t tcp_v4_rcv\t[some_module]
"""


def stacks() -> samples.Stacks:
    return samples.folded(SAID.splitlines(keepends=True), samples.modules(KALLSYMS.splitlines()))


def test_samples_are_folded_from_the_outside_in() -> None:
    found = stacks()
    assert found["fio", "entry_SYSCALL_64_after_hwframe", "media_map [dm_media]", "memcpy"] == 1
    assert ("kworker-iscsi_q_2", "iscsi_sw_tcp_pdu_xmit [iscsi_tcp]", "tcp_sendmsg",
            "_raw_spin_lock_bh") in found  # fmt: skip
    assert sum(found.values()) == 5  # perf's own isn't the work


def test_a_folded_file_is_read_back() -> None:
    found = stacks()
    lines = [f"{';'.join(stack)} {count}\n" for stack, count in found.items()]
    assert samples.read(lines) == found


@pytest.mark.parametrize(("chain", "kind"), [
    ("fio;entry_SYSCALL_64;lockstep_map [dm_lockstep];memcpy_orig", "copies"),
    ("fio;lockstep_map [dm_lockstep];_raw_spin_lock", "mirror: lockstep"),
    ("md0_raid1;raid1d [raid1];md_check_recovery [md_mod]", "mirror: md"),
    ("fio;dm_submit_bio [dm_mod];kmem_cache_alloc", "device mapper"),
    ("w;iscsi_xmitworker [libiscsi];sock_sendmsg;tcp_sendmsg;copy_page_from_iter", "copies"),
    ("w;tcp_write_xmit;dev_hard_start_xmit;start_xmit [virtio_net]", "network driver, sending"),
    ("w;tcp_write_xmit;__qdisc_run;netem_dequeue [sch_netem]", "netem (the lab's wire)"),
    ("ksoftirqd;net_rx_action;virtnet_poll [virtio_net];detach_buf_split [virtio_ring]",
     "interrupts"),
    ("swapper;do_idle;asm_common_interrupt;common_interrupt;vring_interrupt [virtio_ring]",
     "interrupts"),
    ("swapper;cpu_startup_entry;do_idle;default_idle", "idle"),
    ("w;scsi_queue_rq [scsi_mod]", "SCSI"),
    ("fio;io_submit_one;blkdev_direct_IO", "block layer and direct I/O"),
    ("fio;(program)", "programs"),
    ("x;something_else", "other"),
])  # fmt: skip
def test_a_sample_is_of_its_innermost_functions_class(chain: str, kind: str) -> None:
    assert samples.class_of(tuple(chain.split(";"))) == kind
    assert kind in samples.CLASSES


def test_shares_are_of_all_and_of_the_busy_time() -> None:
    got = samples.told(stacks())
    assert got["samples"] == 5
    assert got["percent"]["idle"] == 20.0
    assert got["percent"]["copies"] == got["percent"]["programs"] == 20.0
    assert sum(got["percent"].values()) == pytest.approx(100)
    assert sum(got["percent_of_busy"].values()) == pytest.approx(100)
    assert "idle" not in got["percent_of_busy"]
    assert got["in_interrupts_percent"] == 20.0
    assert got["in_interrupts_percent_of_busy"] == pytest.approx(25)


def test_a_flame_graph_has_each_chain_in_its_width(tmp_path: Path) -> None:
    picture = tmp_path / "flames.svg"
    chains: samples.Stacks = {("fio", "a<b"): 3, ("fio", "c"): 1, ("swapper", "do_idle"): 4}
    assert flames.draw({"md & co": chains}, picture)
    svg = ElementTree.parse(picture).getroot()
    space = "{http://www.w3.org/2000/svg}"
    widths = {
        str(group.findtext(f"{space}title")): float(group.find(f"{space}rect").attrib["width"])  # type: ignore[union-attr]
        for group in svg.iter(f"{space}g")
    }
    assert widths["all: 8 samples, 100.00 %"] == pytest.approx(flames.WIDTH, abs=1)
    assert widths["a<b: 3 samples, 37.50 %"] == pytest.approx(flames.WIDTH * 3 / 8, abs=1)
    assert "md & co: 8 samples" in [one.text for one in svg.iter(f"{space}text")]
    assert not flames.draw({}, picture)


def test_the_table_has_a_column_a_cell_and_idle_beside_it() -> None:
    rows: list[Row] = [{"cell": "ours", "result": {"profile": samples.told(stacks())}},
                       {"cell": "gap", "absent": "no perf"}]  # fmt: skip
    head, lines = tables.cpu(rows)
    assert head == ("% of the CPU's busy time", "ours")
    found = {line[0]: line[1] for line in lines}
    assert found["copies"] == found["in interrupts and softirqs, of any class"] == "25.0"
    assert (found["idle, of all the time"], found["samples"]) == ("20.0", "5")
    assert tables.cpu([{"cell": "no profile", "result": {}}])[1] == []
