# SPDX-License-Identifier: GPL-2.0-only
"""What the mirror site's LUN stands on: its data disk, plain or behind one of several write caches.

An entry of CACHES makes everything from the disks up to LIO's backstore. All have the same data
disk; every log or cache disk is the same disk, too, and not stretched: what is sequential on it is
so on the platter. What an acknowledged write of each is on:

    none          the data disk (iblock)
    dcd           NVRAM (immediate report)
    dcd-complete  the log disk (report after complete): the DCD without NVRAM
    writecache    dm-writecache's cache disk, but not the metadata that tell where on it
    bcache        bcache's cache disk (writeback mode), but not the journal that tells where on it
    writeboost    dm-writeboost's buffer in memory

So of the last three an acknowledged write may be lost in a power cut, until a flush or by FUA.
Their LUNs say so (WCE=1), and lockstep sends each write with FUA then: on a mirror of ours all six
are durable, and the three pay for it. `remote_cache trust` in its options keeps it from that; md,
dm-mirror and DRBD send no FUA of their own: what they acknowledge on these three isn't durable.
DURABLE are those that need no FUA; tests/sim/scenarios/cell_durable.py cuts the power of each.

The granule of dm-writecache and bcache is 4096 bytes, their default; `cache_options = "block 512"`
lets them take smaller writes.

dm-writeboost is no part of Linux: bench/peers/dm-writeboost makes its module of Debian's package,
with a patch for the lab's kernel. It knows no other granule than 4096 bytes (a smaller write is
merged in memory), and is used as its own readme does (writeback_threshold 70).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cell.disks import disk
from cell.order import Absent, BadOrder, Stack
from locklab import base, dm, lio, media

DCD_TOOL = "/lockstep/build/bin/dcd"
DURABLE = ("none", "dcd", "dcd-complete")
_PMEM = "/dev/pmem0"
_WRITECACHE = "cached"
_WRITEBOOST = "boosted"
_WRITEBOOST_MODULE = Path("/lockstep/build/peers/uml-plain/dm-writeboost.ko")
_BCACHE = Path("/sys/fs/bcache")
_BCACHE_NODE = Path("/dev/bcache0")
_BCACHE_DEVICE = Path("/sys/block/bcache0/bcache")
# Without NVRAM each group of writes takes a whole segment of the log's ring.
_SMALL_SEGMENT = 65536


@dataclass(frozen=True)
class Site:
    """The mirror site below its iSCSI target."""

    store: lio.Backstore
    disks: Mapping[str, str] = field(default_factory=dict)  # by what they are for, to be counted
    told: Callable[[], dict[str, int]] = dict  # the cache's own counters

    @contextlib.contextmanager
    def look(self) -> Iterator[str]:
        """A node with the LUN's content, with what is still in the cache."""
        with lio.look(self.store) as node:
            yield node


Cache = Callable[[Stack], contextlib.AbstractContextManager[Site]]


@contextlib.contextmanager
def none(stack: Stack) -> Iterator[Site]:
    """LIO's own backstore on the data disk."""
    data = disk(stack, "mdata", stack.mib, site=media.MIRROR_SITE)
    store = lio.iblock("leg", data)
    yield Site(store, {"data": data})
    store.remove()


@contextlib.contextmanager
def dcd(stack: Stack) -> Iterator[Site]:
    """NVRAM, log disk, data disk; answers from the NVRAM. Options are keys of its `control`."""
    nvram = media.nvram("mnvram", stack.nvram_mib << 10, site=media.MIRROR_SITE)
    with _dcd(stack, nvram, "lab:mnvram") as site:
        yield site


@contextlib.contextmanager
def dcd_pmem(stack: Stack) -> Iterator[Site]:
    """The same on persistent memory, as much of it: what the VM lab's mirror site has. An earlier
    cell's NVRAM is still there."""
    layout = ("--nvram-bytes", str(stack.nvram_mib << 20), "--force")
    with _dcd(stack, _PMEM, f"pmem:{_PMEM}", *layout) as site:
        yield site


@contextlib.contextmanager
def dcd_complete(stack: Stack) -> Iterator[Site]:
    """Log disk and data disk; answers when the log has it. Options as above."""
    with _dcd(stack, "none", "none", "--segment-bytes", str(_SMALL_SEGMENT)) as site:
        yield site


@contextlib.contextmanager
def _dcd(stack: Stack, nvram: str, control: str, *layout: str) -> Iterator[Site]:
    data, log = _disks(stack)
    base.run(DCD_TOOL, "format", "--data", data, "--log", log, "--nvram", nvram, *layout)
    store = lio.dcd("leg", data, log, control, *stack.cache_options.split())

    def told() -> dict[str, int]:
        return {key: int(n) for key, n in re.findall(r"\b([a-z_]+) (\d+)\b", store.info())}

    yield Site(store, {"data": data, "log": log}, told)
    store.remove()


@contextlib.contextmanager
def writecache(stack: Stack) -> Iterator[Site]:
    data, cache = _disks(stack)
    # It formats only a cache disk that begins with zeroes.
    table = f"0 {stack.mib << 11} writecache s {data} {cache} {_granule(stack)} 0"
    node = dm.create(_WRITECACHE, table)
    store = lio.iblock("leg", node)

    def told() -> dict[str, int]:
        words = [int(word) for word in dm.status(_WRITECACHE).split()[:4]]
        return dict(zip(("error", "blocks", "free", "writing_back"), words, strict=True))

    yield Site(store, {"data": data, "log": cache}, told)
    store.remove()
    dm.remove(_WRITECACHE)


@contextlib.contextmanager
def bcache(stack: Stack) -> Iterator[Site]:
    if not _BCACHE.is_dir():
        raise Absent("bcache: this kernel has none")
    data, cache = _disks(dataclasses.replace(stack, mib=stack.mib + 1))  # its superblock
    base.run("make-bcache", "--writeback", "--block", str(_granule(stack)), "--bucket", "64k",
             "-B", data, "-C", cache)  # fmt: skip
    with bcache_on(data, cache) as node:
        store = lio.iblock("leg", node)

        def told() -> dict[str, int]:
            available = (_BCACHE_DEVICE / "cache/cache_available_percent").read_text()
            return {"available_percent": int(available)}

        yield Site(store, {"data": data, "log": cache}, told)
        store.remove()


@contextlib.contextmanager
def bcache_on(data: str, cache: str) -> Iterator[str]:
    """The node of a bcache that make-bcache has made. It takes what is sequential, too, and doesn't
    go round a cache disk that is slow to answer: its thresholds for both are made for SSDs."""
    for disk_node in (cache, data):
        base.put(_BCACHE / "register", disk_node)
    base.until(lambda: base.opens(_BCACHE_NODE), f"{_BCACHE_NODE} to open")
    cache_set = (_BCACHE_DEVICE / "cache").resolve()
    base.put(_BCACHE_DEVICE / "sequential_cutoff", 0)
    for way in ("read", "write"):
        base.put(cache_set / f"congested_{way}_threshold_us", 0)
    yield str(_BCACHE_NODE)
    base.put(_BCACHE_DEVICE / "stop", 1)
    base.put(cache_set / "stop", 1)
    for disk_node in (cache, data):
        base.until(lambda: _free(disk_node), f"{disk_node} free of bcache")  # noqa: B023


def _free(node: str) -> bool:
    """Has nobody a claim on it?"""
    try:
        os.close(os.open(node, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def writeboost(stack: Stack) -> Iterator[Site]:
    if stack.cache_options:
        raise BadOrder(f"stack: cache_options of writeboost are {stack.cache_options!r}, want none")
    data, cache = _disks(stack)
    with writeboost_on(stack.mib, data, cache) as node:
        store = lio.iblock("leg", node)

        def told() -> dict[str, int]:
            words = [int(word) for word in dm.status(_WRITEBOOST).split()[:7]]
            return {"segments": words[3], "written_back": words[5], "dirty": words[6]}

        yield Site(store, {"data": data, "log": cache}, told)
        store.remove()


@contextlib.contextmanager
def writeboost_on(mib: int, data: str, cache: str) -> Iterator[str]:
    """The node of a writeboost; it formats only a cache disk that begins with zeroes."""
    if not _WRITEBOOST_MODULE.exists():
        raise Absent("dm-writeboost isn't built: bench/peers/dm-writeboost makes it")
    if not Path("/sys/module/dm_writeboost").exists():
        base.insmod(_WRITEBOOST_MODULE)
    table = f"0 {mib << 11} writeboost {data} {cache} 2 writeback_threshold 70"
    yield dm.create(_WRITEBOOST, table)
    dm.remove(_WRITEBOOST)


def _disks(stack: Stack) -> tuple[str, str]:
    """Data disk and log or cache disk."""
    return (
        disk(stack, "mdata", stack.mib, site=media.MIRROR_SITE),
        disk(stack, "mlog", stack.log_mib, site=media.MIRROR_SITE, stretched=False),
    )


def _granule(stack: Stack) -> int:
    words = stack.cache_options.split()
    if not words:
        return 4096
    if len(words) != 2 or words[0] != "block" or words[1] not in ("512", "4096"):
        raise BadOrder(
            f"stack: cache_options of {stack.cache} are {stack.cache_options!r}, "
            'want "block 512" or "block 4096"'
        )
    return int(words[1])


CACHES: dict[str, Cache] = {
    "none": none,
    "dcd": dcd,
    "dcd-complete": dcd_complete,
    "writecache": writecache,
    "bcache": bcache,
    "writeboost": writeboost,
}
