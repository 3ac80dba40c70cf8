# SPDX-License-Identifier: GPL-2.0-only
"""The remote leg hangs: writes stop waiting for it after remote_timeout, and what is still out
there does no harm whenever it comes back.

The hang is perfect: the device below the leg is suspended, so what is sent to it stays in it until
it is resumed, and then is done, or fails if its table has been exchanged for one of errors.
"""

import errno
import sys
import time
from collections.abc import Callable

from locklab import base, blk, dm, mirror, ram
from mirrorlab import MIB, SECTORS, Background, Beside, Leg, Pair

REGION = 64
TIMEOUT_MS = 2000


def wake_failing(leg: Leg) -> None:
    dm.load(leg.name, f"0 {leg.disk.sectors} error")
    dm.resume(leg.name)


def pair(*options: object, cache_mib: int = 0, zeroes: bool = False) -> Pair:
    return Pair("nosync", "region_size", REGION, "remote_timeout", TIMEOUT_MS, *options,
                cache_mib=cache_mib, zeroes=zeroes)  # fmt: skip


def in_time(what: str, seconds: float) -> None:
    least, most = TIMEOUT_MS / 1000, TIMEOUT_MS / 1000 * 9 / 8  # as watch.h says
    base.expect(least <= seconds, f"{what}: {seconds:.6f} s, timeout {least} s")
    base.soon(seconds, most, what)
    print(f"  {what}: acknowledged after {seconds:.6f} s", flush=True)


def bounded(what: str, work: Callable[[blk.Disk], object]) -> None:
    base.step(f"{what} hangs: bounded; the next isn't sent there; comes back late")
    legs = pair(cache_mib=2, zeroes=what == "zeroing")
    with blk.Disk(legs.mirror.node) as disk:
        disk.write(0, blk.pattern("before", 64))
        time.sleep(3 * TIMEOUT_MS / 1000)
        base.equal(legs.mirror.status().health, "AA", "an idle leg is no hung leg")
        legs.remote.hang()
        log = base.KernelLog()
        in_time(what, blk.timed(lambda: work(disk)))
        legs.mirror.wait("AD")
        base.expect(any("has not answered for" in line for line in log.new()), "no line in the log")
        base.equal(legs.count("abandoned"), 1, "abandoned")
        base.equal(legs.count("zeroes"), int(what == "zeroing"), "zeroings")
        base.equal(legs.mirror.status().remote_errors, 1, "errors of the remote leg")
        newer = blk.pattern("newer", 64)
        base.soon(blk.timed(lambda: disk.write(0, newer)), 0.1, "the next write")
        base.soon(blk.timed(disk.flush), 0.1, "the next flush")

        with base.refused("recover while it drains", errno.EBUSY, kernel="hasn't answered all"):
            legs.mirror.message("recover")
        base.equal(legs.mirror.status().health, "AD", "health")
        legs.remote.wake()
        legs.recovers()
        base.equal(disk.read(0, 64), newer, "what was acknowledged")
    legs.same()
    legs.close()


def late_error() -> None:
    base.step("the answer of an abandoned write is an error: nobody's any more")
    legs = pair()
    with blk.Disk(legs.mirror.node) as disk:
        legs.remote.hang()
        data = blk.pattern("late", 8)
        in_time("write", blk.timed(lambda: disk.write(64, data)))
        wake_failing(legs.remote)
        base.until(lambda: errors_only(legs), "the leg drained")
        base.equal(legs.mirror.status().remote_errors, 2, "errors of the remote leg: hang, answer")
        base.equal(legs.count("late"), 1, "late errors")
        base.equal(disk.read(64, 8), data, "what was acknowledged")
        legs.remote.well()
        legs.recovers()
    legs.same()
    legs.close()


def errors_only(legs: Pair) -> bool:
    """Drained: recover fails for another reason."""
    try:
        legs.mirror.message("recover")
    except OSError as err:
        return err.errno == errno.EIO
    raise base.Wrong("recover on a leg of errors was accepted")


def already_dead() -> None:
    base.step("one write fails while others hang: they stop waiting, too")
    legs = pair()
    with blk.Disk(legs.mirror.node) as disk:
        legs.remote.slow(60_000)
        start = time.monotonic()

        def write(i: int) -> Callable[[], object]:
            return lambda: disk.write(i * 8, blk.pattern(f"{i}", 8))

        slow = [Beside(write(i)) for i in range(4)]
        base.until(lambda: legs.count("writes") == 4, "four writes")
        legs.mirror.message("fail remote")
        for one in slow:
            one.result()
        base.soon(time.monotonic() - start, 1, "fail by hand, which waits for nobody,")
        base.equal(legs.count("abandoned"), 4, "abandoned")
        base.equal(legs.mirror.status().remote_errors, 0, "errors: none was seen")
        recovers_slowly = Beside(lambda: legs.recovers())
        legs.remote.well()  # waits for what is delayed
        recovers_slowly.result()
    legs.same()
    legs.close()


def zeroes_written() -> None:
    base.step("the remote leg has lost its write-zeroes, and is slow: that is no hang")
    legs = pair(zeroes=True)
    few = ram.Ram("few", MIB, latency_us=1_000_000, queue_depth=1)
    with blk.Disk(legs.mirror.node) as disk:
        legs.remote.table(f"0 {few.sectors} linear {few.node} 0")
        disk.write(2048, blk.pattern("before", 8))
        seconds = blk.timed(lambda: disk.zero(0, 4 << 11))
        base.equal(legs.count("zeroes"), 1, "zeroings")
        base.equal(legs.mirror.status().health, "AA", "health")
        base.expect(seconds > 2 * TIMEOUT_MS / 1000, f"that was fast: {seconds:.3f} s")
    blk.same(legs.local.disk.node, few.node)
    legs.close()
    few.remove()


def large_timeouts() -> None:
    base.step("never, by message; then a timeout again, which counts at once")
    legs = pair()
    with blk.Disk(legs.mirror.node) as disk:
        legs.mirror.message("remote_timeout 0")
        legs.remote.hang()
        write = Beside(lambda: disk.write(0, bytes(4096)))
        time.sleep(100)
        base.expect(not write.done, "a write didn't wait for the remote leg")
        base.equal(legs.mirror.status().health, "AA", "health")
        start = time.monotonic()
        legs.mirror.message("remote_timeout 5000")
        write.result()
        base.soon(time.monotonic() - start, 0.1, "a write that has hung for longer already")
        for word in ("-1", "86400001", "soon"):
            with base.refused(f"remote_timeout {word}", errno.EINVAL, kernel="remote_timeout"):
                legs.mirror.message(f"remote_timeout {word}")
        legs.remote.wake()
        legs.recovers()
    legs.same()
    legs.close()


def nobody_stands_in() -> None:
    base.step("the local leg is dead: the remote leg isn't given up, and the log tells")
    legs = pair()
    with blk.Disk(legs.mirror.node) as disk:
        legs.mirror.message("fail local")
        legs.remote.hang()
        log = base.KernelLog()
        write = Beside(lambda: disk.write(0, blk.pattern("alone", 8)))
        time.sleep(5 * TIMEOUT_MS / 1000)
        base.expect(not write.done, "a write was acknowledged by nobody")
        told = [line for line in log.new() if "can't stand in" in line]
        base.equal(len(told), 1, f"lines in the log {told}")
        legs.remote.wake()
        write.result()
        legs.recovers()
        base.equal(disk.read(0, 8), blk.pattern("alone", 8), "what was acknowledged")
    legs.same()
    legs.close()


def not_told_yet() -> None:
    base.step("the remote leg hangs, for less than its timeout: the other one can't be failed")
    legs = pair()
    with blk.Disk(legs.mirror.node) as disk:
        legs.remote.hang()
        write = Beside(lambda: disk.write(0, blk.pattern("told", 8)))
        time.sleep(TIMEOUT_MS / 2000)
        try:
            with base.refused("failing the leg that works", errno.EBUSY, kernel="doesn't answer"):
                legs.mirror.message("fail local")
        except base.Wrong:
            legs.remote.wake()
            raise
        write.result()
        base.equal(legs.mirror.status().health, "AD", "health")
        legs.remote.wake()
        legs.recovers()
    legs.same()
    legs.close()


def policy_error() -> None:
    base.step("policy error: what hangs fails with EIO, in time")
    legs = pair("policy", "error")
    with blk.Disk(legs.mirror.node) as disk:
        legs.remote.hang()
        start = time.monotonic()
        try:
            disk.write(0, bytes(4096))
        except OSError as err:
            base.equal(err.errno, errno.EIO, "the error")
        else:
            raise base.Wrong("a write that only one leg has was acknowledged")
        in_time("the error", time.monotonic() - start)
        legs.remote.wake()
        legs.recovers()
    legs.same()
    legs.close()


def removed() -> None:
    base.step("removed while abandoned writes are out: at once; the leg stays in use, and says why")
    legs = pair()
    with blk.Disk(legs.mirror.node) as disk:
        legs.remote.hang()
        in_time("write", blk.timed(lambda: disk.write(0, bytes(4096))))
    log = base.KernelLog()
    seconds = blk.timed(legs.mirror.remove)
    base.soon(seconds, 0.1, "remove")
    time.sleep(25)
    told = [line for line in log.new() if "has not answered all that was sent to it" in line]
    base.equal(len(told), 1, f"lines in the log in 25 s {told}")
    base.equal(dm.opens("lremote"), 1, "openers of the remote leg: the mirror that lingers")
    legs.remote.wake()
    base.until(lambda: dm.opens("lremote") == 0, "no openers of the remote leg")
    legs.local.close()
    legs.remote.close()


def reloaded() -> None:
    base.step("reloaded with abandoned writes out: serves at once, recovers when they are back")
    legs = pair()
    node = legs.mirror.node
    with blk.Disk(node) as disk:
        legs.remote.hang()
        in_time("write", blk.timed(lambda: disk.write(0, blk.pattern("old", 8))))
    dm.load("mirror", mirror.table(legs.local.node, legs.remote.node, "nosync", "region_size",
            REGION, "remote_timeout", TIMEOUT_MS))  # fmt: skip
    dm.suspend("mirror")
    seconds = blk.timed(lambda: dm.resume("mirror"))
    base.soon(seconds, 0.1, "the end of the old table")
    base.until(lambda: legs.mirror.status().action == "waiting", "the new table")
    with blk.Disk(node) as disk:
        newer = blk.pattern("newer", 8)
        base.soon(blk.timed(lambda: disk.write(0, newer)), 0.1, "a write to the new table")
        with base.refused("recover: the old table's write is out", errno.EBUSY,
                          kernel="hasn't answered all"):  # fmt: skip
            legs.mirror.message("recover")
        legs.remote.wake()
        legs.recovers()
        base.equal(disk.read(0, 8), newer, "what was acknowledged")
    legs.same()
    legs.close()


def under_load() -> None:
    base.step("a load of overlapping writes while the remote leg hangs again and again")
    legs = pair(cache_mib=1)
    load = Background("verify", legs.mirror.node, span=SECTORS // 8, depth=32)
    for turn in range(2 if base.CHECKED else 6):
        before = legs.count("writes")
        base.until(lambda: legs.count("writes") > before + 200, "200 writes")  # noqa: B023
        legs.remote.hang()
        legs.mirror.wait("AD")
        before = legs.count("writes")
        base.until(lambda: legs.count("writes") > before + 200, "200 writes")  # noqa: B023
        (Leg.wake, wake_failing)[turn % 2](legs.remote)
        if turn % 2:
            base.until(lambda: errors_only(legs), "the leg drained")
            legs.remote.well()
        legs.recovers()
    _, _, _, bad_writes, bad_reads = load.stop()
    base.equal((bad_writes, bad_reads), (0, 0), "failed writes, failed reads")
    print(f"  {legs.count('abandoned')} abandoned", flush=True)
    base.until(lambda: legs.mirror.status().health == "AA", "in sync")
    legs.same()
    legs.close()


def probed() -> None:
    base.step("a dead leg hangs when it is tried again: recover, suspend, reload don't wait for it")
    legs = pair("rejoin", 0)
    with blk.Disk(legs.mirror.node) as disk:
        disk.write(0, blk.pattern("before", 8))
        legs.remote.gone()
        disk.write(0, blk.pattern("missed", 8))
        legs.mirror.wait("AD")
        legs.remote.well()
        legs.remote.hang()

        def recover() -> None:
            with base.refused("recover of a leg that hangs", errno.ETIMEDOUT, kernel="stays dead"):
                legs.mirror.message("recover")

        seconds = blk.timed(recover)
        base.expect(seconds > 9.9, "recover took 10 s")
        base.soon(seconds, 11.5, "recover")
        base.equal(legs.word("why"), "unreadable", "why")
        with base.refused("recover with the probe still out there", errno.EBUSY):
            legs.mirror.message("recover")
        dm.load("mirror", mirror.table(legs.local.node, legs.remote.node, "nosync",
                                       "region_size", REGION, "rejoin", 1))  # fmt: skip
        dm.suspend("mirror")
        resume = Beside(lambda: dm.resume("mirror"))  # to the end of the old table
        time.sleep(0.1)
        seconds = blk.timed(lambda: disk.write(64, blk.pattern("goes on", 8)))
        base.soon(seconds, 0.1, "a write")
        legs.remote.wake()
        resume.result()
        legs.mirror.in_sync()

        base.step("the same by itself: a suspend doesn't wait for the probe")
        legs.remote.gone()
        disk.write(0, blk.pattern("missed", 8))
        legs.mirror.wait("AD")
        legs.remote.well()
        legs.remote.hang()
        time.sleep(3)

        def pause() -> None:
            dm.suspend("mirror")
            dm.resume("mirror")

        seconds = blk.timed(pause)
        base.soon(seconds, 0.5, "suspend and resume")
        legs.remote.wake()
        legs.mirror.in_sync()
    legs.same()
    legs.close()


def no_requests_left() -> None:
    base.step("what was held is sent again to a leg that hangs with all its requests taken")
    legs = pair("policy", "block")
    few = ram.Ram("few", MIB, latency_us=4_000_000, queue_depth=1)
    legs.mirror.message("fail remote")
    legs.remote.table(f"0 {few.sectors} linear {few.node} 0")
    with blk.Disk(legs.mirror.node) as disk:
        writes = [
            Beside(lambda n=n: disk.write(n * REGION, blk.pattern(f"held {n}", 8)))  # type: ignore[misc]
            for n in range(8)
        ]
        base.until(lambda: legs.count("held") == 8, "all are held")
        back = Beside(lambda: legs.mirror.message("recover"))
        legs.mirror.wait("AA")
        began = time.monotonic()
        legs.mirror.message("policy degrade")
        for write in writes:
            write.result()
        took = time.monotonic() - began
        base.soon(took, TIMEOUT_MS / 1000 * 9 / 8, "the last of them")
        back.result()
        legs.mirror.wait("AD")
        legs.remote.well()
        legs.recovers()
        for n in range(8):
            base.equal(disk.read(n * REGION, 8), blk.pattern(f"held {n}", 8), f"held {n}")
    legs.same()
    legs.close()
    few.remove()


def read_again(sectors: int) -> None:
    base.step(f"a read of {sectors} sectors fails on the local leg, and hangs on the remote one")
    legs = pair("policy", "degrade")
    with blk.Disk(legs.mirror.node) as disk:
        data = blk.pattern("read", sectors)
        disk.write(64, data)
        legs.local.bad_reads(64, 64)
        base.equal(disk.read(64, sectors), data, "read from the remote leg")
        base.until(lambda: legs.count("repaired") == 1, "repaired")
        legs.local.bad_reads(64, 64 + sectors - 1)

        def read() -> None:
            legs.remote.hang()  # with what a repair may have there
            with base.refused("the read", errno.EIO):
                disk.read(64, sectors)

        in_time("the error of the read", blk.timed(read))
        legs.mirror.wait("AD")
        base.equal(legs.word("why"), "timeout", "why")
        start = time.monotonic()
        dm.suspend("mirror")
        dm.resume("mirror")
        base.soon(time.monotonic() - start, 0.5, "suspend, which doesn't wait for the read,")
        legs.local.well()
        base.equal(disk.read(64, sectors), data, "read from the local leg")
        legs.remote.wake()
        legs.recovers()
    legs.same()
    legs.close()


def reads_only() -> None:
    base.step("the remote leg is read only, and hangs: nobody stands in, and the log tells")
    legs = pair()
    with blk.Disk(legs.mirror.node) as disk:
        legs.mirror.message("fail local")
        legs.remote.hang()
        log = base.KernelLog()
        read = Beside(lambda: disk.read(0, 8))
        time.sleep(5 * TIMEOUT_MS / 1000)
        base.expect(not read.done, "a read from nowhere")
        told = [line for line in log.new() if "can't stand in" in line]
        base.equal(len(told), 1, f"lines in the log {told}")
        legs.remote.wake()
        read.result()
        legs.recovers()
    legs.same()
    legs.close()


def full_queue() -> None:
    base.step("the remote leg hangs with its queue full: nobody waits for room in it")
    local = ram.Ram("llocaldisk", 8)
    remote = ram.Ram("lremotedisk", 8, latency_us=4_000_000, queue_depth=4)
    legs = mirror.Mirror(local.node, remote.node, "nosync", "region_size", REGION,
                         "remote_timeout", TIMEOUT_MS, "coalesce", 1)  # fmt: skip
    with blk.Disk(legs.node) as disk:

        def write(i: int) -> Callable[[], object]:
            return lambda: disk.write(i * 8, blk.pattern(f"{i}", 8))

        writes = [Beside(write(i)) for i in range(12)]
        flushes = [Beside(disk.flush) for _ in range(2)]
        start = time.monotonic()
        for one in writes + flushes:
            one.result()
        in_time("12 writes and 2 flushes", time.monotonic() - start)
        legs.wait("AD")
        start = time.monotonic()
        for i in range(12, 24):
            write(i)()
        disk.flush()
        base.soon(time.monotonic() - start, 0.1, "the next")

        def back() -> bool:
            try:
                legs.message("recover")
            except OSError:
                return False
            return True

        legs.message("remote_timeout 0")  # it stays as slow as that
        base.until(back, "recover accepted")
        legs.in_sync()
    legs.remove()
    blk.same(local.node, remote.node)
    local.remove()
    remote.remove()


def compared() -> None:
    """The target of a resync hangs while it is read to be compared: the read is abandoned, and
    what it was to be written with is not sent in its place."""
    legs = Pair("sync", "region_size", 1024, "resync_compare", "on", "resync_jobs", 1,
                "resync_pace", "full", "remote_timeout", TIMEOUT_MS,
                latency_us=(20, 2000))  # fmt: skip
    time.sleep(0.05)
    legs.remote.hang()
    legs.mirror.wait("AD", seconds=30)
    legs.remote.wake()
    legs.mirror.in_sync()
    legs.same()
    legs.close()


def one_stuck(which: str) -> None:
    base.step(f"one request hangs on the {which} leg, all beside it are answered")
    legs = pair("local_timeout", TIMEOUT_MS)
    leg = legs.remote if which == "remote" else legs.local
    device = leg.disk.node
    leg.table(f"0 64 delay {device} 0 300000\n64 {leg.disk.sectors - 64} linear {device} 64")
    with blk.Disk(legs.mirror.node) as disk:
        took: list[float] = []
        data = blk.pattern("stuck", 8)
        stuck = Beside(lambda: took.append(blk.timed(lambda: disk.write(0, data))))
        while not stuck.done:
            disk.write(128, blk.pattern("other", 8))
            time.sleep(0.1)
            base.expect(legs.mirror.status().health == "AA" or stuck.done, "given up too early")
        in_time("the one that hangs", took[0])
        legs.mirror.wait("AD" if which == "remote" else "DA")
        base.equal(legs.word("why"), "timeout", "why")
        leg.well()  # waits for what is delayed
        legs.recovers()
        base.equal(disk.read(0, 8), data, "what was acknowledged")
    legs.same()
    legs.close()


def local_hangs() -> None:
    base.step("the local leg hangs: with local_timeout it is given up, without it isn't")
    legs = pair("local_timeout", TIMEOUT_MS)
    with blk.Disk(legs.mirror.node) as disk:
        disk.write(0, blk.pattern("before", 8))
        legs.local.hang()
        in_time("write", blk.timed(lambda: disk.write(0, blk.pattern("hung", 8))))
        legs.mirror.wait("DA")
        base.equal(legs.mirror.status().local_errors, 1, "errors of the local leg")
        base.equal(disk.read(0, 8), blk.pattern("hung", 8), "what was acknowledged")
        legs.local.wake()
        legs.recovers()
        legs.mirror.message("local_timeout 0")
        base.expect("local_timeout" not in dm.table("mirror"), "the table names its default")
        legs.local.hang()
        write = Beside(lambda: disk.write(0, blk.pattern("waits", 8)))
        time.sleep(60)
        base.expect(not write.done, "a write didn't wait for the local leg")
        base.equal(legs.mirror.status().health, "AA", "health")
        legs.local.wake()
        write.result()
        for word in ("-1", "86400001", "soon"):
            with base.refused(f"local_timeout {word}", errno.EINVAL, kernel="local_timeout"):
                legs.mirror.message(f"local_timeout {word}")
    legs.same()
    legs.close()


SCENES: dict[str, Callable[[], None]] = {
    "write": lambda: bounded("write", lambda disk: disk.write(0, blk.pattern("hung", 8))),
    "large": lambda: bounded("large write", lambda disk: disk.write(3, blk.pattern("hung", 60))),
    "fua": lambda: bounded("FUA write",
                           lambda disk: disk.write(0, blk.pattern("hung", 8), fua=True)),
    "flush": lambda: bounded("flush", lambda disk: disk.flush()),
    "zeroing": lambda: bounded("zeroing", lambda disk: disk.zero(0, 8)),
    "zeroes_written": zeroes_written,
    "late_error": late_error,
    "already_dead": already_dead,
    "large_timeouts": large_timeouts,
    "nobody_stands_in": nobody_stands_in,
    "not_told_yet": not_told_yet,
    "policy_error": policy_error,
    "removed": removed,
    "reloaded": reloaded,
    "probed": probed,
    "compared": compared,
    "read_again": lambda: read_again(8),
    "read_again_large": lambda: read_again(600),
    "reads_only": reads_only,
    "one_stuck": lambda: one_stuck("remote"),
    "one_stuck_local": lambda: one_stuck("local"),
    "local_hangs": local_hangs,
    "full_queue": full_queue,
    "no_requests_left": no_requests_left,
    "under_load": under_load,
}  # fmt: skip

for scene in sys.argv[1:] or SCENES:
    SCENES[scene]()
