# SPDX-License-Identifier: GPL-2.0-only
"""More writes than the data disk can take: the log fills, goes round, and writes slow down.

None fails, none hangs, and no single one waits for the whole log to be emptied.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from dcdlab import SEGMENT, Box
from locklab import base, blk, dm

WRITERS = 16
BLOCK = 8  # sectors
LOG_MIB = 3 if base.CHECKED else 9
ROUNDS = 3  # how often the ring is filled
LONGEST_S = 1.0  # of any write; emptying the whole log takes longer


class Writer(threading.Thread):
    """Random blocks of its own part of the disk, one after the other; knows what it wrote."""

    def __init__(self, node: str, number: int, count: int, share: int) -> None:
        super().__init__()
        self._node, self._number, self._count, self._share = node, number, count, share
        self.wrote: dict[int, str] = {}
        self.times: list[float] = []
        self.error: OSError | None = None

    def run(self) -> None:
        rng = random.Random(f"pressure {base.SEED} {self._number}")
        with blk.Disk(self._node) as disk:
            for n in range(self._count):
                at = self._number * self._share + rng.randrange(self._share // BLOCK) * BLOCK
                tag = f"{self._number} {n}"
                begin = time.monotonic()
                try:
                    disk.write(at, blk.pattern(tag, BLOCK))
                except OSError as err:
                    self.error = err
                    return
                self.times.append(time.monotonic() - begin)
                self.wrote[at] = tag


def burst(node: str, count: int) -> list[Writer]:
    with blk.Disk(node, write=False) as disk:
        share = disk.sectors // WRITERS // BLOCK * BLOCK
    writers = [Writer(node, n, count, share) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(3600)
        base.expect(not writer.is_alive(), "a writer hangs")
        base.expect(writer.error is None, f"a write failed: {writer.error}")
    return writers


def check(disk: blk.Disk, writers: list[Writer], what: str) -> None:
    for writer in writers:
        for at, tag in writer.wrote.items():
            base.expect(disk.read(at, BLOCK) == blk.pattern(tag, BLOCK), f"{what}: {tag!r} at {at}")
    print(f"  {what}: every write is there", flush=True)


def discard() -> None:
    """A record for each few ranges that the log has of it: they take little of the log, however
    long the ranges are. Writes that come meanwhile wait behind it."""
    base.step("a discard of all that a full log has, and a write behind it")
    box = Box(
        data_mib=64, data_model="spindle", data_options={"write_cache": "off", "spread": "on"},
        log_mib=LOG_MIB, nvram_bytes=4096 + 8 * SEGMENT,
    )  # fmt: skip
    segments = ((LOG_MIB << 20) - (1 << 20)) // SEGMENT
    with box.disk() as disk:
        burst(disk.node, 2 * segments * (112 // BLOCK) // WRITERS)
        live = box.count("live")
        # Some are kept for bad places of the data disk.
        base.expect(live > segments * 6 // 10, f"{live} segments of {segments}: no pressure")
        took: list[float] = []
        whole = threading.Thread(
            target=lambda: took.append(blk.timed(lambda: disk.discard(0, disk.sectors)))
        )
        whole.start()
        base.until(lambda: box.count("discards") > 0, "the discard to come")
        behind = blk.timed(lambda: disk.write(0, blk.pattern("behind it", BLOCK)))
        whole.join(3600)
        print(
            f"  {live} of {segments} segments in use: the discard took {took[0] * 1e3:.1f} ms, "
            f"a write behind it {behind * 1e3:.1f} ms",
            flush=True,
        )
        base.expect(max(*took, behind) < 0.1, "slowed as writes of that length would be")
        base.expect(disk.read(8, 2048) == bytes(2048 * 512), "it reads as zeroes")
        box.destaged()
    box.away()


def sectors(disk: blk.Disk, n: int, work: Callable[[int], object]) -> None:
    """Of the first half of the disk, each by itself; no two are neighbours."""
    for i in range(n):
        work(i * 7919 % n * 2 * (disk.sectors // 4 // n))


def together(works: Sequence[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3600)


def dense() -> None:
    """A discard is an entry for each few ranges that the log has there. The data disk hangs, so
    each entry, and each write, is admitted a while after the one before it."""
    base.step("writes beside discards of many entries, several at once as initiators do it")
    box = Box(data_mib=64, log_mib=9, nvram_bytes=4096 + 8 * SEGMENT)
    times: list[float] = []
    with box.disk() as disk:
        dm.suspend(box.data.name)
        sectors(disk, 5400, lambda at: disk.write(at, blk.pattern(str(at), 1)))
        part, behind = disk.sectors // 2 // 4, disk.sectors // 2

        def some_writes(n: int) -> None:
            for i in range(4):
                data = blk.pattern(f"beside {n} {i}", 8)
                times.append(blk.timed(partial(disk.write, behind + 8 * n, data)))

        discards = [partial(disk.discard, n * part, part) for n in range(4)]
        writes = [partial(some_writes, n) for n in range(4)]
        took = blk.timed(lambda: together([*discards, *writes]))
        print(
            f"  {box.count('live')} segments in use, the discards took {took:.2f} s, the longest "
            f"of {len(times)} writes beside them {max(times) * 1e3:.0f} ms",
            flush=True,
        )
        dm.resume(box.data.name)
        base.expect(max(times) < took / 4, "writes wait behind discards")
        base.expect(disk.read(0, 2048) == bytes(2048 * 512), "it reads as zeroes")
        base.equal(disk.read(behind, 8), blk.pattern("beside 0 3", 8), "a write beside them")
        box.destaged()
    box.away()


def learnt() -> None:
    """Segments full of discards have no payload: that says nothing of how much fits in one."""
    base.step("discards alone, until the log is fuller than writes may have it")
    box = Box(data_mib=64, log_mib=9, nvram_bytes=4096 + 8 * SEGMENT, settings="destage_low=5")
    box.data.slow(1)
    times: list[float] = []
    with box.disk() as disk:
        sectors(disk, 1500, lambda at: times.append(blk.timed(lambda: disk.discard(at, 1))))
        print(f"  longest {max(times) * 1e3:.1f} ms, all {sum(times):.2f} s", flush=True)
        base.expect(max(times) < 0.01, "paced as if a segment took few of them")
        box.destaged()
    box.away()


def zeroes() -> None:
    """How fast the data disk takes zeroes says nothing of how fast it takes writes."""
    base.step("writes with a small index, before and after the zeroes of a discard were destaged")
    box = Box(
        data_mib=256, data_model="spindle", data_options={"write_cache": "off", "spread": "on"},
        log_mib=33, nvram_bytes=4096 + 8 * SEGMENT, settings="index_bytes=65536",
    )  # fmt: skip
    longest = []
    with box.disk() as disk:
        for what in ("to learn", "before", "after"):
            if what == "after":
                disk.discard(0, disk.sectors)
                box.destaged()
            longest.append(max(t for w in burst(disk.node, 200) for t in w.times))
            box.destaged()
    print("  longest: " + ", ".join(f"{t * 1e3:.1f} ms" for t in longest), flush=True)
    base.expect(longest[2] < 1.5 * longest[1], "paced by the speed of zeroes")
    box.away()


def main() -> None:
    base.step(f"{WRITERS} writers on a spindle, {ROUNDS} times the log")
    box = Box(
        data_mib=64, data_model="spindle", data_options={"write_cache": "off", "spread": "on"},
        log_mib=LOG_MIB, nvram_bytes=4096 + 8 * SEGMENT,
    )  # fmt: skip
    segments = ((LOG_MIB << 20) - (1 << 20)) // SEGMENT
    count = ROUNDS * segments * (112 // BLOCK) // WRITERS
    with box.disk() as disk:
        easy = [t for w in burst(disk.node, 8) for t in w.times]
        box.destaged()
        begin = time.monotonic()
        writers = burst(disk.node, count)
        took = time.monotonic() - begin
        times = sorted(t for w in writers for t in w.times)
        print(f"  unloaded: longest {max(easy) * 1e3:.1f} ms", flush=True)
        print(
            f"  {len(times)} writes in {took:.1f} s: median {times[len(times) // 2] * 1e3:.1f} ms, "
            f"99% {times[len(times) * 99 // 100] * 1e3:.1f} ms, longest {times[-1] * 1e3:.1f} ms",
            flush=True,
        )
        print("  " + box.info().splitlines()[-1], flush=True)
        base.expect(box.count("segments") > (ROUNDS - 1) * segments, "the ring went round")
        base.expect(box.count("throttled") > 0, "writes were slowed down")
        base.expect(sum(times) / len(times) > 10 * sum(easy) / len(easy), "they got slower")
        base.expect(times[-1] < LONGEST_S, f"a write waited {times[-1]:.2f} s")
        base.equal(box.count("write_errors"), 0, "failed writes")
        check(disk, writers, "under pressure")
        box.destaged()
        again = [t for w in burst(disk.node, 8) for t in w.times]
        base.expect(max(again) <= 2 * max(easy) + 0.001, f"slow afterwards: {max(again):.4f} s")
    box.away()
    base.step("done")


discard()
dense()
if not base.CHECKED:  # there they take long, and only times are compared
    learnt()
    zeroes()
main()
