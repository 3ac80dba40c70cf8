# SPDX-License-Identifier: GPL-2.0-only
"""What in a kernel's console counts as a splat, and whether a run's splats were expected.

The rule is blktests': a test that passed has still failed if the kernel complained meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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


def find(lines: Sequence[str]) -> list[str]:
    """The first lines of all kernel reports among the console's lines since the guest was up.

    A console without that line (the guest died on its way) is searched from its start.
    """
    up = next((n for n, line in enumerate(lines) if _UP.search(line)), 0)
    return [
        line.rstrip() for line in lines[up:] if _REPORT.search(line) and not _HARMLESS.search(line)
    ]


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
