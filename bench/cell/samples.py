# SPDX-License-Identifier: GPL-2.0-only
"""Call chains of perf's samples: folded, and sorted into the classes of the iSCSI paper's figures.

A chain is a tuple from the outside in: the thread's name, then functions, those of a module as
"name [module]". A sample belongs to the class of its innermost function that has one: a copy inside
TCP is a copy, a lock or an allocation belongs to who asked for it.

Interrupts are told twice. The class is what the paper's profiler shows as that: entry and exit of
interrupts and softirqs, and the network driver's receiving part. `in_interrupts` is whatever ran in
an interrupt or a softirq: TCP's receiving side and the end of a SCSI command are in it, and in
their classes, too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

FILE = "stacks.folded"
Stack = tuple[str, ...]
Stacks = Mapping[Stack, int]

IDLE, USER, OTHER = "idle", "programs", "other"
IN_PROGRAM = "(program)"
# perf's own, and the lab's way in: no part of the work.
_NOT_THE_WORK = re.compile(r"perf|sshd")
_HEAD = re.compile(r"^(\S.*?)\s*$")
_FRAME = re.compile(r"^\s+([0-9a-f]+)$")
_KERNEL = 0xFFFF_8000_0000_0000  # from here on

# In this order; a name is a function's, a module's in brackets.
_CLASSES = {
    name: re.compile(pattern)
    for name, pattern in {
        IDLE: r"(do_idle|cpu_startup_entry|cpuidle_\w+|default_idle\w*|pv_native_safe_halt"
              r"|native_safe_halt|arch_cpu_idle|acpi_\w*idle\w*)$",
        "copies": r"(__|_)?(memcpy|memmove|memset|copy_(from|to|user|page|folio|mc)|rep_(movs|stos)"
                  r"|clear_page|skb_copy|skb_store|copy_user|csum_and_copy|copyin|copyout)",
        "checksums": r"\w*(crc32|csum|checksum|crc_pcl)",
        "network driver, sending": r"(start_xmit|virtnet_\w*xmit|virtqueue_(add|kick|notify)"
                                   r"|vp_notify|xmit_skb|free_old_xmit|__free_old_xmit)",
        "interrupts": r"(asm_|__)?(common_interrupt|sysvec_|irq_|__?handle_irq|handle_(edge|irq|"
                      r"fasteoi|softirqs)|__do_softirq|do_softirq|run_ksoftirqd|net_rx_action|napi_"
                      r"|__napi|virtnet_|vring_|virtqueue_|receive_buf|page_to_skb|try_fill_recv"
                      r"|apic_|hrtimer_|__hrtimer|tick_|run_timer|\w*\[virtio)",
        "lab's packet counters": r"(packet_rcv|tpacket_rcv|run_filter|__bpf_prog|bpf_prog)",
        "netem (the lab's wire)": r"\w+ \[sch_",
        "iSCSI": r"(\w+ \[(lib)?iscsi|\w+ \[scsi_transport_iscsi)",
        "SCSI": r"(\w+ \[(scsi|sd)_mod|scsi_|sd_)",
        "lab's disk model": r"\w+ \[dm_media",
        "mirror: lockstep": r"\w+ \[dm_lockstep",
        "mirror: md": r"\w+ \[(md_mod|raid1)",
        "mirror: dm-mirror, DRBD": r"\w+ \[(dm_mirror|dm_region_hash|dm_log|drbd)",
        "device mapper": r"\w+ \[dm_",
        "TCP/IP and sockets": r"(__|_)?(tcp_|ip_|ip6?t_|inet_|sk_|sock_|skb_|alloc_skb|kfree_skb|"
                              r"consume_skb|dev_|netif_|qdisc_|sch_|fib_|neigh_|net_|eth_|nf_|"
                              r"release_sock|lock_sock|bh_lock_sock|pfifo|kernel_sendmsg|sendmsg|"
                              r"__sys_send|gro_|__netif|rt_|ipv4_|dst_|validate_xmit)",
        "block layer and direct I/O": r"(__|_)?(blk_|blkdev|bio_|bdev|submit_bio|block_|elv_|dd_|"
                                      r"disk_|part_|aio_|io_submit|do_io_|lookup_ioctx|read_events|"
                                      r"bvec_|iov_iter|iomap|rq_|sbitmap|blkcg|mq_|kyber|wbt)",
        "scheduler": r"(__|_)?(schedule|try_to_wake|wake_|ttwu|pick_|enqueue_|dequeue_|update_("
                     r"curr|load|rq|cfs)|finish_task|context_switch|sched_|queue_work|queue_delayed|"
                     r"process_(one_)?work|process_scheduled|worker_|kthread|switch_|pollwake|"
                     r"reweight|place_entity|set_next|put_prev|prepare_task|io_schedule)",
        "system calls": r"(entry_SYSCALL|do_syscall|x64_sys|__x64_sys|syscall_|__do_sys|__se_sys|"
                        r"exit_to_user|ret_from_fork)",
    }.items()
}  # fmt: skip
_INTERRUPTED = re.compile(r"(asm_common_interrupt|asm_sysvec_|handle_softirqs|__do_softirq)")
CLASSES = (*_CLASSES, USER, OTHER)


class Symbols:
    """Names of the kernel's addresses, by /proc/kallsyms and /proc/modules.

    Not by perf: it takes a symbol of a module's start (sd_mod's init_sd) for whatever was loaded
    into that memory since, and tells no modules.
    """

    def __init__(self, kallsyms: Iterable[str], modules: Iterable[str]) -> None:
        loaded = {}
        for line in modules:
            words = line.split()
            start = int(words[5], 16)
            loaded[words[0]] = range(start, start + int(words[1]))
        found = []
        for line in kallsyms:
            address, kind, symbol, *module = line.split()
            name = module[0].strip("[]") if module else ""
            if kind not in "tTwW" or int(address, 16) not in loaded.get(name, range(2**64)):
                continue
            found.append((int(address, 16), f"{symbol} [{name}]" if name else symbol))
        self._starts = [start for start, _ in sorted(found)]
        self._names = [name for _, name in sorted(found)]

    def name(self, address: int) -> str:
        at = bisect_right(self._starts, address) - 1
        return self._names[at] if at >= 0 else "[unknown]"


def folded(lines: Iterable[str], symbols: Symbols) -> Stacks:
    """Of `perf script --fields comm,ip`. Frames of programs are left out: they have no symbols,
    and without frame pointers most of them never were there."""
    found: Counter[Stack] = Counter()
    thread, frames, sampled = "", list[str](), False
    for line in (*lines, ""):
        if frame := _FRAME.match(line):
            address = int(frame[1], 16)
            if address >= _KERNEL:
                # A caller's is where it goes on; its last call may be the end of it.
                frames.append(symbols.name(address - 1 if sampled else address))
            sampled = True
        elif head := _HEAD.match(line):
            thread = head[1]
        else:
            if sampled and not _NOT_THE_WORK.match(thread):
                found[_thread(thread), *(reversed(frames) if frames else (IN_PROGRAM,))] += 1
            thread, frames, sampled = "", [], False
    return found


def read(lines: Iterable[str]) -> Stacks:
    """A folded file."""
    parts = (line.rstrip("\n").rpartition(" ") for line in lines)
    return {tuple(chain.split(";")): int(count) for chain, _, count in parts}


def _thread(comm: str) -> str:
    """Kernel threads of a kind are one: kworker/0:1H-kblockd is kworker-kblockd."""
    return re.sub(r"/[^-]*", "", comm).replace(";", ":")


def told(stacks: Stacks) -> dict[str, Any]:
    """Percent of the CPU's time, idle included; and of the time in which it wasn't idle."""
    total = sum(stacks.values())
    by_class: Counter[str] = Counter()
    in_interrupts = 0
    for stack, count in stacks.items():
        kind = class_of(stack)
        by_class[kind] += count
        if kind != IDLE and any(_INTERRUPTED.match(frame) for frame in stack):
            in_interrupts += count
    busy = total - by_class[IDLE]
    return {
        "samples": total,
        "percent": {kind: 100 * by_class[kind] / total for kind in CLASSES if by_class[kind]},
        "percent_of_busy": {kind: 100 * by_class[kind] / busy for kind in CLASSES
                            if by_class[kind] and kind != IDLE},
        "in_interrupts_percent": 100 * in_interrupts / total,
        "in_interrupts_percent_of_busy": 100 * in_interrupts / busy if busy else 0.0,
    }  # fmt: skip


def class_of(stack: Stack) -> str:
    for frame in reversed(stack[1:]):
        if frame == IN_PROGRAM:
            return USER
        if kind := _class_of(frame):
            return kind
    return OTHER


@cache
def _class_of(frame: str) -> str | None:
    return next((kind for kind, pattern in _CLASSES.items() if pattern.match(frame)), None)
