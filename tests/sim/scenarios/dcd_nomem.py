# SPDX-License-Identifier: GPL-2.0-only
"""Memory that can't be had: each allocation of opening fails once, then many of those at work.

What fails says so and leaves nothing behind, what was acknowledged is there. (What is left behind
shows in a trace: kmemleak's scan panics in User Mode Linux.)
"""

import contextlib
import errno
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

from dcdlab import Box, Model, digest, filled
from locklab import base, blk, lio

DEBUG = Path("/sys/kernel/debug")
STRIDE = 23 if base.CHECKED else 1
WRITES = 120 if base.CHECKED else 400
TRACING = Path("/sys/kernel/tracing")


def faults(percent: int) -> None:
    """Of every kind of allocation, also such as may sleep; in the threads that are marked."""
    for name in ("failslab", "fail_page_alloc"):
        for key, value in (("verbose", 0), ("ignore-gfp-wait", "N"), ("task-filter", "Y"),
                           ("times", -1), ("interval", 1), ("probability", percent)):  # fmt: skip
            base.put(DEBUG / name / key, value)
    base.put(DEBUG / "fail_page_alloc/min-order", 0)


def nth_fails(path: Path, text: str, nth: int) -> tuple[bool, OSError | None]:
    """Writes the file; the nth allocation of that fails. Was there one, and what came of it."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    switch = os.open("/proc/thread-self/fail-nth", os.O_RDWR | os.O_CLOEXEC)
    error = None
    data, number = text.encode(), str(nth).encode()
    try:
        os.write(switch, number)
        try:
            os.write(fd, data)
        except OSError as err:
            error = err
        left = int(os.pread(switch, 16, 0).decode().strip("\0\n"))
        if left:
            os.write(switch, b"0")
    finally:
        os.close(switch)
        os.close(fd)
    return not left, error


@contextlib.contextmanager
def nothing_kept() -> Iterator[None]:
    """What the DCD's modules allocate meanwhile is freed, each piece of it."""
    base.put(TRACING / "buffer_size_kb", 65536)
    for event in ("kmalloc", "kfree"):
        base.put(TRACING / f"events/kmem/{event}/enable", 1)
    yield
    time.sleep(5)  # what waits for its grace period
    for event in ("kmalloc", "kfree"):
        base.put(TRACING / f"events/kmem/{event}/enable", 0)
    ours = re.compile(r" kmalloc: call_site=(\S+ \[(?:target_core_)?dcd\]) ptr=(\S+)")
    kept: dict[str, str] = {}
    count = 0
    for line in (TRACING / "trace").read_text().splitlines():
        if found := ours.search(line):
            kept[found[2]] = found[1]
            count += 1
        elif found := re.search(r" kfree: call_site=.* ptr=(\S+)", line):
            kept.pop(found[1], None)
    base.put(TRACING / "trace", "")
    print(f"  {count} pieces of memory were taken", flush=True)
    base.expect(count > 10, "the trace shows nothing")
    base.expect(not kept, f"not freed: {sorted(kept.values())}")
    mapped = Path("/proc/vmallocinfo").read_text().splitlines()
    base.expect(
        not any("[dcd]" in line and "vmalloc" in line for line in mapped), f"left behind: {mapped}"
    )


def enable(path: Path, box: Box, model: Model, look: bool) -> int:
    """Each allocation fails once; how often that was an error."""
    refused = 0
    for nth in range(1, 5000, STRIDE):
        base.put(path / "control", box.control())
        was, error = nth_fails(path / "enable", "1", nth)
        if error is not None:
            refused += 1
            base.expect(was and error.errno == errno.ENOMEM, f"enable, allocation {nth}: {error}")
        elif look:  # it could do without, or there was none
            with lio.look(_Store(path)) as node, blk.Disk(node) as disk:
                base.expect(disk.read(0, 100) == model.bytes[: 100 * blk.SECTOR], "recovered data")
        path.rmdir()
        path.mkdir()
        if not was:
            break
    return refused


def opening(nvram: str) -> None:
    base.step(f"{nvram}: each allocation of control and enable fails once")
    box = Box(nvram=nvram)
    model = Model(box.data.sectors)
    with box.disk_until_cut() if nvram == "lab" else box.disk() as disk:
        box.data.fail_writes()
        filled(disk, model, 0, 560, "in the log")
        disk.zero(100, 50)
        model.put(100, bytes(50 * blk.SECTOR))
        box.log.fail_writes() if nvram == "lab" else None
        filled(disk, model, 300, 400, "the last ones")
    box.data.fail_writes()
    before = digest(box.data.node)
    path = base.made(base.made(Path("/sys/kernel/config/target/core/dcd_0")) / "d")
    injected = 0
    for nth in range(1, 1000, STRIDE):
        settings = (path / "info").read_text()
        was, error = nth_fails(path / "control", box.control(), nth)
        if error is not None:
            base.expect(was and error.errno == errno.ENOMEM, f"control, allocation {nth}: {error}")
            base.equal((path / "info").read_text(), settings, "the settings after a failure")
        injected += was
        if not was:
            break
    base.expect(injected, "control allocates nothing?")
    refused = enable(path, box, model, look=True)
    print(f"  {refused} allocations are needed", flush=True)
    base.expect(refused, "none was needed: was anything injected?")
    with nothing_kept():
        enable(path, box, model, look=False)
        path.rmdir()
    base.equal(digest(box.data.node), before, "the data disk")
    box.data.heal()
    with box.disk() as disk:
        model.check(disk, "after all that")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


class _Store(lio.Backstore):
    """One that is there."""

    def __init__(self, path: Path) -> None:
        self.path = path


def workers() -> Iterator[Path]:
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text().startswith("kworker/u") or "target" in comm.read_text():
                yield comm.parent / "make-it-fail"


def mark(on: bool) -> None:
    for path in workers():
        with contextlib.suppress(OSError):  # it may have ended
            base.put(path, int(on))


def at_work(nvram: str) -> None:
    base.step(f"{nvram}: one allocation in twenty fails while it works")
    rng = random.Random(f"nomem {base.SEED} {nvram}")
    box = Box(nvram=nvram)
    model = Model(box.data.sectors)
    failed = 0
    with box.disk() as disk:
        filled(disk, model, 0, 64, "before")
        for n in range(WRITES):
            if n % 10 == 0:  # the workers change
                mark(True)
                faults(5)
            first, count = rng.randrange(4000), rng.randint(1, 64)
            kind = rng.choices(("write", "zero", "discard", "read", "flush"), (5, 1, 1, 2, 1))[0]
            data = blk.pattern(f"{n}", count) if kind == "write" else bytes(count * blk.SECTOR)
            try:
                if kind == "write":
                    disk.write(first, data)
                elif kind == "zero":
                    disk.zero(first, count)
                elif kind == "discard":
                    disk.discard(first, count)
                elif kind == "flush":
                    disk.flush()
                else:
                    want = model.bytes[first * blk.SECTOR : (first + count) * blk.SECTOR]
                    base.expect(disk.read(first, count) == want, f"read {n} at {first}")
            except OSError:
                failed += 1
                faults(0)
                box.says("log ok", "the log to work again")
                if kind in ("write", "zero", "discard"):  # nothing, all or some sectors of it
                    now = disk.read(first, count)
                    for i in range(count):
                        at = (first + i) * blk.SECTOR
                        old, sector = model.bytes[at : at + 512], now[i * 512 : i * 512 + 512]
                        base.expect(sector in (bytes(old), data[i * 512 : i * 512 + 512]),
                                    f"sector {first + i} after a failed {kind}")  # fmt: skip
                    model.put(first, now)
                faults(5)
            else:
                if kind in ("write", "zero", "discard"):
                    model.put(first, data)
            if rng.random() < 0.02:  # destage has its turn
                with contextlib.suppress(base.Wrong):
                    base.until(lambda: box.count("live") == 0, "destage", 3)
        faults(0)
        mark(False)
        nomem = box.count("nomem")
        # The disks' drivers get no memory either, which is an I/O error.
        disks = sum(box.count(f"{name}_errors") for name in ("log_write", "log_read", "data"))
        print(
            f"  {failed} of {WRITES} failed; inside: {nomem} times no memory, {disks} disk errors",
            flush=True,
        )
        base.expect(nomem, "the engine always got its memory: nothing was tested")
        base.expect(failed < WRITES // 2, "most failed: little was tested")
        box.says("log ok", "the log to work again")
        model.check(disk, "with memory again")
        box.destaged()
        model.check(disk, "from the data disk")
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


faults(0)
opening("dram:battery")
opening("lab")
at_work("dram:battery")
at_work("none")
at_work("lab")
base.step("done")
