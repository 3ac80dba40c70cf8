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

KALLSYMS = """\
ffffffff81000000 T memcpy
ffffffff81001000 t tcp_v4_rcv
ffffffff81002000 t handle_softirqs
ffffffff81003000 T asm_common_interrupt
ffffffff81004000 T do_idle
ffffffff81005000 t pv_native_safe_halt
ffffffff81006000 T entry_SYSCALL_64_after_hwframe
ffffffff81007000 t schedule
ffffffff81008000 T tcp_sendmsg
ffffffff81009000 D jiffies
ffffffffc0001010 t init_sd\t[sd_mod]
ffffffffc0001000 t media_map\t[dm_media]
ffffffffc0003000 t iscsi_sw_tcp_pdu_xmit\t[iscsi_tcp]
"""
MODULES = """\
sd_mod 4096 0 - Live 0xffffffffc0000000
dm_media 4096 0 - Live 0xffffffffc0001000
iscsi_tcp 4096 0 - Live 0xffffffffc0003000
"""
SAID = """\
fio
\tffffffff81000080
\tffffffffc0001040
\tffffffff81006010
\t    7f12ab34cd56
\t    5612ab34cd56

kworker/0:1H-iscsi_q_2
\tffffffff81009010
\tffffffff81009000
\tffffffffc0003010

swapper
\tffffffff81001010
\tffffffff81002010
\tffffffff81003010
\tffffffff81005010
\tffffffff81004010

swapper
\tffffffff81005010
\tffffffff81004010

perf-exec
\tffffffff81007010

postgres
\t    7f12ab34cd56

"""


def stacks() -> samples.Stacks:
    symbols = samples.Symbols(KALLSYMS.splitlines(), MODULES.splitlines())
    return samples.folded(SAID.splitlines(keepends=True), symbols)


def test_samples_are_folded_from_the_outside_in() -> None:
    found = stacks()
    assert found["fio", "entry_SYSCALL_64_after_hwframe", "media_map [dm_media]", "memcpy"] == 1
    # Data have no code, and a caller's address may be the next function's first.
    assert ("kworker-iscsi_q_2", "iscsi_sw_tcp_pdu_xmit [iscsi_tcp]", "tcp_sendmsg",
            "tcp_sendmsg") in found  # fmt: skip
    assert sum(found.values()) == 5  # perf's own isn't the work


def test_what_a_module_had_at_its_start_is_not_what_is_there_now() -> None:
    symbols = samples.Symbols(KALLSYMS.splitlines(), MODULES.splitlines())
    assert symbols.name(0xFFFFFFFFC0001020) == "media_map [dm_media]"
    assert symbols.name(0) == "[unknown]"


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


def test_the_table_tells_the_spread_of_several_runs() -> None:
    chains: list[samples.Stacks] = [{("fio", "memcpy"): copies, ("fio", "tcp_ack"): 10 - copies}
                                    for copies in (2, 5, 4)]  # fmt: skip
    rows: list[Row] = [{"cell": "ours", "result": {"profile": samples.told(one)}}
                       for one in chains]  # fmt: skip
    head, lines = tables.cpu(rows)
    assert head[1:] == ("ours",)
    found = {line[0]: line[1] for line in lines}
    assert found["copies"] == "40.0 (20.0-50.0)"
    assert found["samples"] == "30"
