# SPDX-License-Identifier: GPL-2.0-only
"""The mirror without memory: every allocation of its administration fails once, and under a load
all those that can't wait.

With the argument `leaks`, and booted with slab_debug=U, only the administration, and then a look
for slab objects that leaked. Pages that leaked show in a count on the plain kernel.
"""

import collections
import contextlib
import errno
import time
from collections.abc import Callable
from pathlib import Path

from locklab import base, blk, dm, faults, mirror, pair
from mirrorlab import MIB, SECTORS, Background, Pair, load

TABLE = "0 {} lockstep {} {} 5 sync region_size 64 resync_jobs 4"
SMALL = 2 if base.CHECKED else MIB  # a leg that is resynced again and again
REFERENCES = Path("/sys/module/dm_lockstep/refcnt")
STAYS = Path("/sys/module/dm_lockstep/parameters/test_message_stays")


def each(what: str, work: Callable[[], object], after: Callable[[bool], None]) -> int:
    """Does `work` again and again, its first, second, ... allocation failing, until it has none
    left to fail; `after` is told whether it succeeded. Returns how many allocations there are."""
    nth = faults.Nth()
    number = 0
    ends: collections.Counter[str] = collections.Counter()
    while True:
        number += 1
        with nth.failing(number):
            try:
                work()
            except OSError as err:
                base.expect(nth.hit, f"{what}, allocation {number}: {err}, but none failed")
                ends[errno.errorcode[err.errno or 0]] += 1
            else:
                ends["done"] += nth.hit
        after(not nth.hit)
        if not nth.hit:
            break
    nth.close()
    print(f"  {what}: {number - 1} allocations failed, one each time: {dict(ends)}", flush=True)
    odd = set(ends) - {"done", "ENOMEM"}
    base.expect(not odd, f"{what}: errors other than ENOMEM: {odd}")
    return number - 1


def free_pages() -> int:
    base.put(Path("/proc/sys/vm/drop_caches"), 3)
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("nr_free_pages "):
            return int(line.split()[1])
    raise base.Wrong("no nr_free_pages in /proc/vmstat")


def table_load() -> None:
    base.step("a table is loaded, each allocation failing once: refused, and nothing is left")
    legs = Pair("nosync")
    legs.mirror.remove()
    table = TABLE.format(SECTORS, legs.local.node, legs.remote.node)
    dm.create("mirror", f"0 {SECTORS} zero")
    log = base.KernelLog()
    reasons: collections.Counter[str] = collections.Counter()

    def attempt() -> None:
        dm.load("mirror", table)
        dm.clear("mirror")

    def nothing_left(done: bool) -> None:
        base.equal((dm.opens("llocal"), dm.opens("lremote")), (0, 0), "openers of the legs")
        base.equal(REFERENCES.read_text().strip(), "0", "references to the module")
        for line in log.new():
            if "lockstep: " in line and "(-ENOMEM)" in line:
                reasons[line.split("lockstep: ")[-1]] += 1

    if not base.CHECKED:  # the first time around fills caches
        each("load", attempt, nothing_left)
    before = free_pages()
    failed = each("load", attempt, nothing_left)
    lost = before - free_pages()
    print(f"  reasons: {dict(reasons)}; free pages: {-lost:+}", flush=True)
    base.expect(reasons["Out of memory (-ENOMEM)"], "never out of memory in the target itself")
    if not base.CHECKED:  # there the sanitizer keeps freed memory for a while
        base.expect(lost < failed, f"{lost} pages are gone after {failed} failed loads")
    dm.remove("mirror")
    legs.mirror = mirror.Mirror(legs.local.node, legs.remote.node)
    legs.close()


def administration() -> None:
    base.step("resume, status, messages and suspend, each allocation failing once")
    base.put(STAYS, 1)  # it is this thread's allocations that fail, not a worker's
    legs = Pair("nosync", "region_size", 64)
    table = TABLE.format(SECTORS, legs.local.node, legs.remote.node)

    def reload() -> None:
        dm.load("mirror", table)
        dm.suspend("mirror")
        try:
            dm.resume("mirror")
        finally:
            # the administrator's second attempt, which fails no more
            around, dm.around = dm.around, contextlib.nullcontext
            dm.resume("mirror")
            dm.around = around

    def works(_done: bool) -> None:
        with blk.Disk(legs.mirror.node) as disk:
            disk.write(8, blk.pattern("after", 8))
            base.equal(disk.read(8, 8), blk.pattern("after", 8), "what was written")
        base.equal(legs.mirror.status().health, "AA", "health")

    each("reload", reload, works)

    def recovered(done: bool) -> None:
        base.expect(legs.mirror.status().remote in ("DaA" if not done else "aA"), "remote leg")
        legs.mirror.message("recover")
        legs.mirror.in_sync()
        legs.mirror.message("fail remote")

    legs.mirror.message("fail remote")
    log = base.KernelLog()
    each("recover", lambda: legs.mirror.message("recover"), recovered)
    lines = log.new()
    base.expect(not any("no memory to probe a leg" in line for line in lines),
                f"the reserve should have done: {lines}")  # fmt: skip
    legs.mirror.message("recover")
    legs.mirror.in_sync()
    for what, work in (
        ("status", lambda: dm.status("mirror")),
        ("table", lambda: dm.table("mirror")),
        ("message resync", lambda: legs.mirror.message("resync")),
        ("message counters_reset", lambda: legs.mirror.message("counters_reset")),
    ):
        each(what, work, lambda _done: None)
    legs.mirror.in_sync()
    works(True)
    base.put(STAYS, 0)
    legs.same()
    legs.close()


def pressure(what: str, shortage: contextlib.AbstractContextManager[None]) -> None:
    base.step(f"{what}: a load of many writes in flight, flushes, a resync, large writes")
    count, turns, depth = (200, 3, 64) if base.CHECKED else (3000, 8, 128)
    legs = Pair("nosync", "region_size", 64, latency_us=(200, 1000), mib=SMALL)
    half = SMALL << 10
    before = legs.mirror.status()
    with shortage:
        background = Background("verify", legs.mirror.node, span=half, depth=depth)
        with blk.Disk(legs.mirror.node) as disk:
            for turn in range(turns):
                data = blk.pattern(f"large {turn}", 1200)
                disk.write(half + 7 * turn, data)
                disk.flush()
                base.expect(disk.read(half + 7 * turn, 1200) == data, "what a large write left")
                if turn == turns // 2:
                    legs.mirror.message("fail remote")
                    disk.write(half, data)
                    legs.mirror.message("recover")
        base.until(lambda: legs.count("writes") > count, f"{count} writes")
        legs.mirror.in_sync()
        _, _, flushes, bad_writes, bad_reads = background.stop()
    base.equal((bad_writes, bad_reads), (0, 0), "failed writes and reads")
    base.expect(flushes, "the load flushed nothing")
    status = legs.mirror.status()
    base.equal(
        (status.local_errors, status.remote_errors), (before.local_errors, before.remote_errors),
        "errors of the legs",
    )  # fmt: skip
    base.expect(legs.count("punted"), "no write had to wait for memory: nothing was tried")
    print(f"  {legs.count('writes')} writes, {legs.count('punted')} waited for memory", flush=True)
    legs.same()
    legs.close()


def over_the_wire() -> None:
    base.step("both sites are short of memory: packets are lost, not writes")
    with pair.pair("iblock", "lan") as both:
        device = pair.mirrored(both)
        device.in_sync()
        # LIO frees a command twice when it has no memory for a list of its own.
        with faults.no_memory(every=3, but="lio_"):
            done = load("verify", device.node, 300, span=4096, depth=32)
        try:
            base.until(both.session.up, "the session", 30)
        except base.Wrong:  # the kernel had no memory to tell iscsid that it had died
            both.session.restart_daemon()
            base.until(both.session.up, "the session, with a new iscsid")
        device.message("recover")
        device.in_sync()
        base.equal(done[3:], (0, 0), "failed writes and reads")
        status = device.status()
        print(f"  errors of the remote leg: {status.remote_errors}", flush=True)
        device.remove()
        blk.same(both.local.node, both.remote)


def errors(legs: Pair) -> int:
    status = legs.mirror.status()
    return status.local_errors + status.remote_errors


def requests_fail() -> None:
    base.step("requests to the legs fail as they are sent: given up, recovered, never wrong")
    legs = Pair("nosync", "region_size", 64, latency_us=(50, 200), mib=SMALL)
    background = Background("verify", legs.mirror.node, span=SMALL << 11, depth=16)
    for names, every in ((("lremotedisk",), 13), (("llocaldisk",), 13),
                        (("llocaldisk", "lremotedisk"), 17)):  # fmt: skip
        seen = errors(legs)
        with faults.failing_requests(*names, every=every):
            while errors(legs) == seen:
                time.sleep(0.001)
            with contextlib.suppress(OSError):  # the probe may be hit as well
                legs.mirror.message("recover")
        legs.mirror.message("recover")
        with contextlib.suppress(OSError):  # the local leg may be the one that is resynced
            legs.mirror.message("resync")
        legs.mirror.in_sync()
    _, _, _, bad_writes, bad_reads = background.stop()
    print(f"  {bad_writes} writes and {bad_reads} reads failed on both legs", flush=True)
    load("verify", legs.mirror.node, 100, span=SMALL << 11)
    legs.same()
    legs.close()


def mirrors_slabs() -> list[str]:
    """Less what the module made when it was loaded, and what a CPU keeps for the next caller."""
    kept = ("_module_init+", "__radix_tree_preload+")
    return [one for one in faults.slabs_of("dm_lockstep") if not any(k in one for k in kept)]


if base.words(1, ["leaks"]):
    legs = Pair("nosync")
    base.expect(mirrors_slabs(), "a running mirror has objects")
    legs.close()
    table_load()
    administration()
    base.step("what leaked")
    left = mirrors_slabs()
    base.expect(not left, "slab objects of the mirror after its end:\n" + "\n".join(left))
else:
    table_load()
    administration()
    pressure("no free memory", faults.no_memory())
    pressure("every pool down to its reserve", faults.empty_pools())
    requests_fail()
    over_the_wire()
