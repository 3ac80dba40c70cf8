# SPDX-License-Identifier: GPL-2.0-only
"""Of each cache of the bench: does an acknowledged write survive the mirror site's power cut?

Each write goes to one LUN of it and is acknowledged; then the site loses its power at once, and the
same disks are put together again. The bench says of dm-writecache, bcache and dm-writeboost that it
takes FUA, and of the others that it doesn't: both are shown. The DCD is cut far more often in
cut_mirror.py. dm-writeboost may be missing: it is no part of Linux (bench/peers).
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))

from cell import caches
from cell.disks import disk
from cell.order import Absent, Stack
from locklab import base, blk, dm, lio, media

MIB = 16
LOG_MIB = 64  # bcache's least
WRITES = 40
BLOCK = 8  # sectors


def there(node: str) -> int:
    """How many of the writes are."""
    with blk.Disk(node, write=False) as one:
        return sum(one.read(place(n), BLOCK) == blk.pattern(f"write {n}", BLOCK)
                   for n in range(WRITES))  # fmt: skip


def place(number: int) -> int:
    """Apart from each other, and not in order."""
    return (number * 7 % WRITES) * 5 * BLOCK


@contextlib.contextmanager
def again(stack: Stack) -> Iterator[str]:
    """The disks after power-on, and the cache on them, which formats nothing."""
    mib = MIB + (stack.cache == "bcache")  # as caches.py has it
    data = disk(stack, "mdata", mib, site=media.MIRROR_SITE)
    if stack.cache == "none":
        yield data
    else:
        log = disk(stack, "mlog", stack.log_mib, site=media.MIRROR_SITE)
        if stack.cache == "bcache":
            with caches.bcache_on(data, log) as node:
                yield node
        elif stack.cache == "writeboost":
            with caches.writeboost_on(MIB, data, log) as node:
                yield node
        elif stack.cache == "writecache":
            yield dm.create("cached", f"0 {MIB << 11} writecache s {data} {log} 4096 0")
            dm.remove("cached")
        else:
            nvram = "none"
            if stack.cache == "dcd":
                media.nvram("mnvram", stack.nvram_mib << 10, site=media.MIRROR_SITE)
                nvram = "lab:mnvram"
            store = lio.dcd("leg", data, log, nvram)
            with lio.look(store) as node:
                yield node
            store.remove()
        dm.remove("mlog")
        if stack.cache == "dcd":
            dm.remove("mnvram")
    dm.remove("mdata")


def survivors(cache: str, *, fua: bool) -> int:
    """So many of the writes are there after the cut."""
    stack = Stack(cache=cache, mib=MIB, log_mib=LOG_MIB, nvram_mib=4)
    with caches.CACHES[cache](stack) as site, site.look() as node:
        volatile = "back" in Path(f"/sys/block/{Path(node).name}/queue/write_cache").read_text()
        base.equal(volatile, cache not in caches.DURABLE, f"{cache}: the LUN says WCE=1")
        with blk.Disk(node) as one:
            for number in range(WRITES):
                data = blk.pattern(f"write {number}", BLOCK)
                one.write(place(number), data, fua=fua)
        media.cut(media.MIRROR_SITE, base.SEED)
    for name in ("mdata", "mlog", "mnvram"):
        if dm.exists(name):
            dm.remove(name)
    with again(stack) as node:
        found = there(node)
    for name in ("mdata", "mlog", "mnvram"):
        media.forget(name)
    print(f"  {cache}, {'FUA' if fua else 'plain'}: {found} of {WRITES} are there", flush=True)
    return found


for cache in sys.argv[1:] or caches.CACHES:
    base.step(cache)
    try:
        base.equal(survivors(cache, fua=True), WRITES, f"{cache}: writes with FUA that survived")
    except Absent as err:
        print(f"  not there: {err}")
        continue
    left = survivors(cache, fua=False)
    if cache in caches.DURABLE:
        base.equal(left, WRITES, f"{cache}: acknowledged writes that survived")
    else:
        base.expect(left < WRITES, f"{cache}: all {WRITES} survived, so nothing was shown")
