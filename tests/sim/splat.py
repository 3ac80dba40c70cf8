# SPDX-License-Identifier: GPL-2.0-only
"""What in a kernel's console counts as a splat, and whether a run's splats were expected.

The rule is blktests': a test that passed has still failed if the kernel complained meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

# Each of these starts a report of the kernel about itself. Lines of user programs can't match by
# accident: they go to ttys of their own, not to the console.
_REPORT = re.compile(
    r"""
      \bBUG:                                # KASAN, sleeping in atomic, workqueue lockup, ...
    | \bWARNING:                            # WARN_ON, lockdep's reports
    | \bINFO:\ (task|rcu|possible|trying|inconsistent|lockdep|NMI)
    | \bOops\b
    | \bkernel\ panic\b | \bKernel\ panic\b
    | general\ protection
    | possible\ (circular|recursive)\ locking | possible\ irq\ lock\ inversion
    | inconsistent\ lock\ state | suspicious\ RCU | bad\ unlock\ balance | held\ lock\ freed
    | lock\ held\ when\ returning | still\ held
    | \bUBSAN:
    | \bODEBUG:
    | kmemleak:\ \d+\ new
    | \blist_(add|del)\ corruption
    | refcount_t:
    | Modules\ with\ overridden | sysfs:\ cannot\ create\ duplicate
    | \bSegfault\ with\ no\ mm | unable\ to\ handle\ kernel
    | detected\ stall | soft\ lockup | hung_task: | Out\ of\ memory: | invoked\ oom-killer
    """,
    re.VERBOSE,
)

# Lines that look like a report and are none.
_HARMLESS = re.compile(r"lockdep: |Lock dependency validator|DEBUG_LOCKS_WARN_ON is off")


# The init's word (guest/init) before it loads a module of ours. What the kernel reports before that
# is about itself. User Mode Linux, checked, always has such a report: adding its consoles, regular
# files, to the host's epoll fails, and the C library allocates memory for that message with
# interrupts off.
_UP = re.compile(r"\blab: the guest is up$")


@dataclass(frozen=True)
class Known:
    """A report that is the kernel's own fault: its first line, and what its other lines have."""

    first: str
    rest: tuple[str, ...]

    def is_(self, report: Sequence[str]) -> bool:
        text = "\n".join(report[1:])
        return (
            self.first in report[0]
            and all(part in text for part in self.rest)
            and not _OURS.search(text)
        )


# What a stack trace says of code of our modules, and of none else.
_OURS = re.compile(r"\[(dcd|target_core_dcd|dm_lockstep|dm_media|lab_nvram|lab_splat)\]")

# Of each data race KCSAN tells both sides; the kernel has many that do no harm.
_RACE = "BUG: KCSAN: "
_SIDE = re.compile(r"(read|write|read-write|assert no \w+) .*by (task|interrupt)")

# With two CPUs the kernel has faults of its own, seen without any module of ours.
_KNOWN = (
    # LIO takes both locks from the timer of a lost session, too.
    Known("possible irq lock inversion", ("session_lock", "tpg_state_lock", "time2retain")),
    # User Mode Linux walks an address space that isn't locked when an aio ring is given back.
    Known("suspicious RCU usage", ("lib/maple_tree.c", "flush_tlb_mm", "tlb_finish_mmu")),
)


def find(lines: Sequence[str]) -> list[str]:
    """The first lines of all kernel reports among the console's lines since the guest was up.

    A console without that line (the guest died on its way) is searched from its start. Reports
    that are known to be the kernel's own are left out, and so are races without code of ours.
    """
    up = next((n for n, line in enumerate(lines) if _UP.search(line)), 0)
    starts = [
        n for n in range(up, len(lines))
        if _REPORT.search(lines[n]) and not _HARMLESS.search(lines[n])
    ]  # fmt: skip
    found = []
    for start, end in pairwise([*starts, len(lines)]):
        report = [line.rstrip() for line in lines[start:end]]
        if any(known.is_(report) for known in _KNOWN):
            continue
        if _RACE not in report[0] or _OURS.search("\n".join(_race(report))):
            found.append(report[0])
    return found


def _race(report: Sequence[str]) -> Iterator[str]:
    """Who races: the first line, and of each side the function and its caller, as a list or bit is
    its caller's. Those further up only came to where others race."""
    yield report[0]
    for n, line in enumerate(report):
        if _SIDE.match(line):
            yield from report[n + 1 : n + 3]


def judge(splats: Sequence[str], expected: Sequence[str] | None) -> list[str]:
    """Complaints about a run: [] is good.

    `expected` is None for a run that must be clean; else a list of substrings: every splat must
    contain one of them, and each must have been seen.
    """
    if expected is None:
        return [f"kernel splat: {line}" for line in splats]
    complaints = [
        f"kernel splat other than the expected: {line}"
        for line in splats
        if not any(text in line for text in expected)
    ]
    complaints += [
        f"expected a kernel splat with {text!r}, none came"
        for text in expected
        if not any(text in line for line in splats)
    ]
    return complaints
