# SPDX-License-Identifier: GPL-2.0-only
"""Reads of a leg that hangs: they are answered from the other one, and nothing of theirs arrives
later. (bounce.h)

    state_reads.py [PART...]
"""

import errno
import mmap
import os
import time
from collections.abc import Callable

from locklab import base, blk, dm
from statelab import Beside, sector
from statelegs import Pair

TIMEOUT_MS = 1000
IN_TIME = TIMEOUT_MS / 1000 * 9 / 8 + 0.5  # as watch.h says, and what else is done
OPTIONS = ("remote_timeout", TIMEOUT_MS, "local_timeout", TIMEOUT_MS, "rejoin", 1)


class Read:
    """One read into memory that stays, so that what arrives late can be seen."""

    def __init__(self, node: str, at: int, sectors: int) -> None:
        self.memory = mmap.mmap(-1, sectors * 512)
        self.begun = time.monotonic()
        self.took = 0.0
        self._fd = os.open(node, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        self._at = at
        self.work = Beside(self._read)

    def _read(self) -> None:
        got = os.preadv(self._fd, [self.memory], self._at * 512)
        self.took = time.monotonic() - self.begun
        base.equal(got, len(self.memory), "bytes read")

    def result(self, seconds: float) -> bytes:
        self.work.result(seconds)
        return self.memory[:]

    def close(self) -> None:
        os.close(self._fd)


def sectors(version: int, at: int, count: int) -> bytes:
    return b"".join(sector(version, at + n) for n in range(count))


def scribble(pair: Pair, at: int, count: int) -> bytes:
    """The local medium itself has something else there, so that one sees who has answered."""
    other = sectors(999, at, count)
    with blk.Disk(pair.local.disk.node) as disk:
        disk.write(at, other)
    return other


def answered(count: int) -> None:
    base.step(f"a read of {count} sectors is out on the local leg, which hangs")
    pair = Pair(*OPTIONS)
    pair.put(0, count)
    right = sectors(1, 0, count)
    other = scribble(pair, 0, count)
    read = Read(pair.node, 0, count)
    base.equal(read.result(1), other, "the local leg is the one that is read")
    read.close()
    pair.local.hang()
    read = Read(pair.node, 0, count)
    base.equal(read.result(IN_TIME), right, "the answer")
    print(f"  answered after {read.took:.3f} s", flush=True)
    pair.wait("DA", "alone")
    base.expect(pair.count("reads_abandoned") > 0, "no read was abandoned")
    base.expect(pair.count("failovers") > 0, "no read was answered by the other leg")
    base.equal(pair.word("repaired"), "0", "places repaired")
    base.equal(pair.word("read_errors_local"), "0", "errors of a leg that has said nothing")
    pair.local.wake()
    time.sleep(0.1)
    base.equal(read.memory[:], right, "what the caller has, when the late answer has come")
    read.close()
    pair.in_sync()
    with blk.Disk(pair.local.disk.node) as disk:
        disk.write(0, right)
    pair.good_end("a read that was late")
    pair.close()


def suspended(how: str) -> None:
    base.step(f"{how} while reads are out on the local leg, which hangs")
    pair = Pair(*OPTIONS)
    pair.put(0, 16)
    pair.local.hang()
    reads = [Read(pair.node, 8 * n, 8) for n in range(2)]
    time.sleep(0.1)
    if how == "reload":
        work = Beside(lambda: dm.reload(pair.name, pair.table()))
    else:
        work = Beside(lambda: dm.suspend(pair.name))
    work.result(2 * IN_TIME)
    if how == "suspend":
        dm.resume(pair.name)
    for n, read in enumerate(reads):
        base.equal(read.result(0.5), sectors(1, 8 * n, 8), "the answer")
        read.close()
    pair.wait("DA", "alone")
    pair.put(640)
    pair.local.wake()
    pair.good_end("a suspend behind reads")
    pair.close()


def removed() -> None:
    base.step("removed with an abandoned read out: what is left of the mirror waits for it")
    pair = Pair(*OPTIONS)
    pair.put(0)
    pair.local.hang()
    read = Read(pair.node, 0, 8)
    base.equal(read.result(IN_TIME), sectors(1, 0, 8), "the answer")
    read.close()
    work = Beside(pair.stop)
    work.result(IN_TIME)
    pair.start()
    pair.wait("DA", "alone")
    base.equal(pair.word("why"), "draining", "why")
    pair.local.wake()
    pair.good_end("removed")
    pair.close()


def queue() -> None:
    base.step("a crowd of reads waits for room: those that were never sent, too, are answered")
    pair = Pair(*OPTIONS, "memory_kib", 1024)
    for at in range(0, 1024, 256):
        pair.put(at, 256)
    pair.local.hang()
    reads = [Read(pair.node, n % 4 * 256, 256) for n in range(24)]
    for n, read in enumerate(reads):
        base.equal(read.result(2 * IN_TIME), sectors(1 + n % 4, n % 4 * 256, 256), "the answer")
        read.close()
    abandoned = pair.count("reads_abandoned")
    base.expect(8 <= abandoned <= 9, f"{abandoned} reads were on their way")
    pair.local.wake()
    pair.good_end("a crowd")
    pair.close()


def on_remote(count: int) -> Pair:
    """So many sectors are written, and the local leg is out: reads go to the remote one."""
    pair = Pair(*OPTIONS)
    pair.put(0, count)
    pair.message("fail local")
    pair.put(640)
    return pair


def reads_hang(pair: Pair) -> None:
    """Those of the remote leg's first 64 sectors; the others, and its metadata, don't."""
    disk, end = pair.remote.disk, pair.remote.disk.sectors
    dm.reload(pair.remote.name, f"0 64 delay {disk.node} 0 600000\n"
                                f"64 {end - 64} linear {disk.node} 64")  # fmt: skip


def remote() -> None:
    base.step("one read of the remote leg hangs, and the local leg becomes in sync meanwhile")
    pair = on_remote(64)
    reads_hang(pair)
    read = Read(pair.node, 8, 8)
    pair.message("recover local")
    base.equal(read.result(2 * IN_TIME), sectors(1, 8, 16)[:4096], "the answer")
    read.close()
    pair.wait("AD", "alone")
    base.equal(pair.count("reads_abandoned"), 1, "reads abandoned")
    Beside(pair.remote.well).result(700)  # it waits for what is delayed
    pair.good_end("a read of the remote leg")
    pair.close()


def of_remote(pair: Pair, count: int, part: int = 64) -> list[Read]:
    """Reads that only the remote leg can answer: so many that most are parked (read-window.h)."""
    before = pair.count("parked")
    reads = [Read(pair.node, 0, part) for _ in range(count)]
    base.until(lambda: pair.count("parked") - before > count / 2, "most to be parked")
    return reads


def all_answered(reads: list[Read], seconds: float) -> None:
    for read in reads:
        base.equal(read.result(seconds), sectors(1, 0, len(read.memory) // 512), "the answer")
        read.close()


def parked() -> None:
    base.step("a crowd reads the remote leg, which hangs, and the local one becomes in sync")
    pair = on_remote(64)
    reads_hang(pair)
    reads = of_remote(pair, 24)
    pair.message("recover local")
    all_answered(reads, 2 * IN_TIME)
    pair.wait("AD", "alone")
    base.equal(pair.count("reads_abandoned"), len(reads), "reads abandoned")
    Beside(pair.remote.well).result(700)  # it waits for what is delayed
    pair.good_end("a crowd of the remote leg's")
    pair.close()


def parked_slow(how: str) -> None:
    base.step(f"{how} while reads of the remote leg are parked: they end in their turn")
    pair = on_remote(256)
    pair.remote.set(data="lag:200")
    reads = of_remote(pair, 12, 256)
    if how == "suspend":
        Beside(lambda: dm.suspend(pair.name)).result(10)
        dm.resume(pair.name)
    elif how == "reload":
        Beside(lambda: dm.reload(pair.name, pair.table())).result(10)
    all_answered(reads, 10)
    pair.remote.well()
    pair.message("recover local")
    pair.good_end(how)
    pair.close()


def parked_gone() -> None:
    base.step("the only leg fails while its reads are parked: each has an error, and none waits")
    pair = on_remote(256)
    pair.remote.set(data="lag:200")
    reads = of_remote(pair, 12, 256)
    # dm-delay holds nothing while it is exchanged.
    time.sleep(0.1)
    pair.remote.gone()
    failed = 0
    for read in reads:
        try:
            read.result(5)
        except OSError as err:
            base.equal(err.errno, errno.EIO, "its error")
            failed += 1
        read.close()
    print(f"  {failed} of {len(reads)} have an error", flush=True)
    base.expect(failed, "none has an error")
    pair.remote.well()
    pair.message("recover local")
    pair.good_end("gone")
    pair.close()


def large() -> None:
    base.step("a read that is larger than one piece, whole and from both legs")
    pair = Pair(*OPTIONS)
    for at in range(0, 1536, 256):
        pair.put(at, 256)
    want = b"".join(sectors(1 + n, 256 * n, 256) for n in range(6))
    read = Read(pair.node, 0, 1536)
    base.equal(read.result(1), want, "all of it")
    read.close()
    pair.local.hang()
    read = Read(pair.node, 0, 1536)
    base.equal(read.result(2 * IN_TIME), want, "all of it, from the other leg")
    read.close()
    pair.local.wake()
    pair.good_end("a large read")
    pair.close()


PARTS: dict[str, Callable[[], None]] = {
    "answered": lambda: answered(8),
    "answered_whole": lambda: answered(256),
    "large": large,
    "suspend": lambda: suspended("suspend"),
    "reload": lambda: suspended("reload"),
    "removed": removed,
    "queue": queue,
    "remote": remote,
    "parked": parked,
    "parked_slow": lambda: parked_slow("nothing"),
    "parked_suspend": lambda: parked_slow("suspend"),
    "parked_reload": lambda: parked_slow("reload"),
    "parked_gone": parked_gone,
}
for part in base.words(1, PARTS) or PARTS:
    PARTS[part]()
base.step("done")
