# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's fault injection: allocations and requests that fail, and what is left of them.

Everything is off again when a `with` block ends, also by an error. Of the failures nothing but what
they cause is seen: the kernel's own announcements are switched off.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from . import base, dm

_DEBUG = Path("/sys/kernel/debug")
_ALLOCATIONS = ("failslab", "fail_page_alloc")
_SLAB = Path("/sys/kernel/slab")


@contextlib.contextmanager
def _attribute(name: str, **settings: object) -> Iterator[None]:
    """One fault attribute, in force within the block; probability comes last and goes first."""
    where = _DEBUG / name
    base.put(where / "verbose", 0)
    for key, value in settings.items():
        base.put(where / key.replace("_", "-"), value)
    base.put(where / "times", -1)
    base.put(where / "probability", 100)
    try:
        yield
    finally:
        base.put(where / "probability", 0)


@contextlib.contextmanager
def no_memory(every: int = 1, but: str = "") -> Iterator[None]:
    """Of the allocations that may not wait for memory, pages and slab objects, each
    `every`th fails, whoever makes them. That is what a kernel without free memory does: those
    that may wait do get some, later. Slabs whose names begin with `but` have memory (boot with
    slab_nomerge then, or others are in them).
    """
    for slab in _SLAB.iterdir() if but else ():
        base.put(slab / "failslab", int(not slab.name.startswith(but)))
    with (
        _attribute(
            "failslab", ignore_gfp_wait="Y", interval=every, cache_filter="NY"[bool(but)]
        ),
        _attribute("fail_page_alloc", ignore_gfp_wait="Y", min_order=0, interval=every),
    ):
        yield


@contextlib.contextmanager
def empty_pools(every: int = 1) -> Iterator[None]:
    """Each `every`th allocation from any memory pool has to be served from its reserve."""
    with _attribute("fail_mempool_alloc", interval=every):
        yield


@contextlib.contextmanager
def failing_requests(*disks: str, every: int) -> Iterator[None]:
    """Each `every`th request to one of these disks (names as in /sys/block) fails as it is sent."""
    for disk in disks:
        base.put(Path("/sys/block") / disk / "make-it-fail", 1)
    try:
        with _attribute("fail_make_request", interval=every):
            yield
    finally:
        for disk in disks:
            base.put(Path("/sys/block") / disk / "make-it-fail", 0)


class Nth:
    """Of the allocations within one dm ioctl, the nth fails; the ioctl is all that is hit."""

    def __init__(self) -> None:
        self._fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR | os.O_CLOEXEC)
        for name in _ALLOCATIONS:
            base.put(_DEBUG / name / "verbose", 0)
            base.put(_DEBUG / name / "ignore-gfp-wait", "N")
        base.put(_DEBUG / "fail_page_alloc/min-order", 0)

    @contextlib.contextmanager
    def failing(self, number: int) -> Iterator[None]:
        """Within the block, for every dm ioctl. `hit` tells afterwards whether one was reached."""
        self.hit = False
        dm.around = lambda: self._armed(number)
        try:
            yield
        finally:
            dm.around = contextlib.nullcontext

    @contextlib.contextmanager
    def _armed(self, number: int) -> Iterator[None]:
        os.pwrite(self._fd, str(number).encode(), 0)
        try:
            yield
        finally:
            left = int(os.pread(self._fd, 32, 0))
            os.pwrite(self._fd, b"0", 0)
            self.hit = self.hit or left == 0

    def close(self) -> None:
        os.close(self._fd)


def slabs_of(module: str) -> list[str]:
    """The slab objects still there that were made by the module or what it called: for each place
    the count and the stack. Boot with slab_debug=U. (kmemleak would know more kinds of memory, but
    its scan ends this kernel: it reads a page of the kernel's data that isn't mapped.)
    """
    base.put(Path("/proc/sys/vm/drop_caches"), 3)
    found, caches = [], 0
    for traces in sorted((_DEBUG / "slab").glob("*/alloc_traces")):
        caches += 1
        # Entries, with an empty line after each: count, function, ...; then the stack.
        entries = traces.read_text().split("\n\n")
        found += [f"{traces.parent.name}: {e.strip()}" for e in entries if f"[{module}]" in e]
    base.expect(caches, "no alloc_traces in /sys/kernel/debug/slab: boot with slab_debug=U")
    return found
