# SPDX-License-Identifier: GPL-2.0-only
"""A write that waits for room stops nothing but writes: not its submitter, so reads go on. An UNMAP
that waits doesn't stop its initiator's session. A read that waits for its disk stops no write.
"""

import threading
from collections.abc import Callable

from dcdlab import SEGMENT, Box, Model
from locklab import base, blk, dm, lio
from locklab.iscsi import Session
from locklab.wire import Wire

SIZE = 112  # sectors of a write that fills a segment


class Writes(threading.Thread):
    """Segment after segment, from the disk's beginning on, until the last is taken or one fails."""

    def __init__(self, node: str, model: Model, count: int) -> None:
        super().__init__()
        self._node, self._model, self._count = node, model, count
        self.done = 0
        self.error: OSError | None = None

    def run(self) -> None:
        with blk.Disk(self._node) as disk:
            for n in range(self._count):
                data = blk.pattern(f"segment {n}", SIZE)
                try:
                    disk.write(n * SIZE, data)
                except OSError as err:
                    self.error = err
                    return
                self._model.put(n * SIZE, data)
                self.done = n + 1


def waiting(count: int) -> None:
    base.step(f"{count} writers wait for a log disk that hangs, reads from memory go on")
    box = Box(nvram="lab", nvram_bytes=4096 + 8 * SEGMENT)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        disk.write(8000, blk.pattern("before", SIZE))
        model.put(8000, blk.pattern("before", SIZE))
        dm.suspend(box.log.name)
        first = Writes(disk.node, model, 30)
        first.start()
        base.until(lambda: box.count("waits_for_room") > 0, "a write to wait for room")
        others = [Writes(disk.node, Model(64 * SIZE), 1) for _ in range(count - 1)]
        for other in others:  # the first write again, with the same bytes
            other.start()
        base.expect(0 < first.done < 8, f"{first.done} writes taken")
        took = blk.timed(lambda: check(disk, model, first.done))
        base.expect(took < 1, f"reads took {took:.3f} s")
        base.expect(not any(other.done for other in others), "who comes later waits behind")
        base.expect(first.done < 8, "and it still waits")
        dm.resume(box.log.name)
        for writes in (first, *others):
            writes.join(600)
            base.expect(not writes.is_alive() and writes.error is None, f"{writes.error}")
        model.check(disk, "in the end")
    with box.disk() as disk:
        model.check(disk, "reopened")
    box.away()


def check(disk: blk.Disk, model: Model, segments: int) -> None:
    for n in range(segments):
        want = model.bytes[n * SIZE * 512 : (n + 1) * SIZE * 512]
        base.expect(disk.read(n * SIZE, SIZE) == want, f"segment {n}")


class Call(threading.Thread):
    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._work()
        except (OSError, base.Wrong) as err:
            self.error = err

    def ends(self, seconds: float) -> bool:
        self.join(seconds)
        return not self.is_alive() and self.error is None


def unmap() -> None:
    base.step("an UNMAP waits for room, and reads of its session go on")
    box = Box(nvram="lab", nvram_bytes=4096 + 8 * SEGMENT)
    model = Model(box.data.sectors)
    store = box.open()
    wire, target, session = Wire("lan"), lio.Target(store), Session()
    node = session.login()
    dm.suspend(box.log.name)
    first = Writes(node, model, 30)
    first.start()
    base.until(lambda: box.count("waits_for_room") > 0, "a write to wait for room")
    with blk.Disk(node) as disk:
        gone = Call(lambda: disk.discard(0, 8))
        gone.start()
        base.until(lambda: box.count("discards") > 0, "the UNMAP to come")
        read = Call(lambda: check(disk, model, first.done))
        read.start()
        answered = read.ends(5)
        base.expect(gone.is_alive(), "the UNMAP waits")
        dm.resume(box.log.name)
        base.expect(answered, f"the reads wait behind the UNMAP {read.error or ''}")
        first.join(600)
        base.expect(gone.ends(600) and first.done == 30, f"{gone.error} {first.error}")
        model.put(0, bytes(8 * 512))
        model.check(disk, "in the end")
    session.close()
    target.remove()
    wire.close()
    box.close()
    box.away()


def slow_reader() -> None:
    base.step("a read of the log takes half a minute, writes go on")
    box = Box(nvram="lab", nvram_bytes=4096 + 8 * SEGMENT, log_mib=8)
    before = blk.pattern("before", 8)
    read: list[bytes] = []
    with box.disk() as disk:
        disk.write(8000, before)
        writes = Writes(disk.node, Model(64 * SIZE), 12)
        writes.run()
        base.equal(writes.done, 12, "writes, so that the first is in the log only")
        box.log.slow_reads(30_000)
        reader = threading.Thread(target=lambda: read.append(disk.read(8000, 8)))
        reader.start()
        base.until(lambda: box.count("log_pieces") > 0, "the read to be at the log")
        writes = Writes(disk.node, Model(64 * SIZE), 40)
        took = blk.timed(writes.run)
        base.equal(writes.done, 40, "writes beside it")
        base.expect(reader.is_alive() and took < 5, f"they took {took:.1f} s")
        reader.join(600)
        base.expect(read == [before], "and the read is right")
        box.log.heal()
    box.away()


waiting(1)
waiting(6)
unmap()
slow_reader()
base.step("done")
