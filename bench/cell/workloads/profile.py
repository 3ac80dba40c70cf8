# SPDX-License-Identifier: GPL-2.0-only
"""Where the CPU's time goes under one fio job: all of this host sampled by perf meanwhile.

Parameters: fio's own, and `hz`, samples a second. stacks.folded has each call chain with its number
of samples, outermost first ("fio;do_syscall_64;...;memcpy 12"): what flame graph programs read.
The result's `profile` has the shares by class (cell/samples.py).

By a timer (cpu-clock): an emulated CPU has no counters. So a stretch with interrupts off is sampled
at its end. fio's own start isn't in it: the job switches the sampling on and off.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cell import samples
from cell.order import Absent
from cell.workloads import fio
from locklab import base

PROGRAM = "perf"


def run(node: str, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    if os.environ.get("LAB") != "vm":
        raise Absent("in simulated time a CPU takes none: --lab vm")
    if shutil.which(PROGRAM) is None:
        raise Absent(f"{PROGRAM}: not installed")
    options = dict(params)
    hz = str(options.pop("hz", 499))
    data = base.OUT / "perf.data"
    control, answers = base.OUT / "perf.control", base.OUT / "perf.answers"
    for fifo in (control, answers):
        os.mkfifo(fifo)
    # Open at both ends, so that nobody waits for one who isn't there.
    orders, acks = os.open(control, os.O_RDWR), os.open(answers, os.O_RDWR | os.O_NONBLOCK)
    recorder = subprocess.Popen(
        [PROGRAM, "record", "--quiet", "--all-cpus", "--call-graph", "fp", "--event", "cpu-clock",
         "--freq", hz, "--mmap-pages", "1024", "--delay", "-1",
         "--control", f"fifo:{control},{answers}", "--output", str(data)],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        os.write(orders, b"ping\n")
        base.until(lambda: _said(acks) or recorder.poll() is not None, f"{PROGRAM} to be ready")
        found = fio.run(node, options | {
            "exec_prerun": f"sh -c 'echo enable >{control}'",
            "exec_postrun": f"sh -c 'echo stop >{control}'",
        }, seed)
    except BaseException:
        recorder.kill()
        raise
    finally:
        said = recorder.communicate()[1]
        for fd in (orders, acks):
            os.close(fd)
        control.unlink()
        answers.unlink()
    base.equal(recorder.returncode, 0, f"{PROGRAM} record: {said}")
    stacks = _stacks(data)
    data.unlink()
    base.expect(stacks, f"{PROGRAM} took no sample")
    lines = [f"{';'.join(stack)} {count}\n" for stack, count in sorted(stacks.items())]
    (base.OUT / samples.FILE).write_text("".join(lines), encoding="utf-8")
    return found | {"profile": samples.told(stacks)}


def _said(fd: int) -> bytes:
    with contextlib.suppress(BlockingIOError):
        return os.read(fd, 64)
    return b""


def _stacks(data: Path) -> samples.Stacks:
    words = [PROGRAM, "script", "--input", str(data), "--fields", "comm,ip"]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          errors="replace") as child:  # fmt: skip
        assert child.stdout
        with Path("/proc/kallsyms").open() as kallsyms, Path("/proc/modules").open() as modules:
            symbols = samples.Symbols(kallsyms, modules)
        stacks = samples.folded(child.stdout, symbols)
    base.equal(child.returncode, 0, f"{PROGRAM} script: rc")
    return stacks
