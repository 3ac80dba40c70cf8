# SPDX-License-Identifier: GPL-2.0-only
"""A remote leg that answers BUSY: a DCD without room, as its log or its data disk hangs. SCSI tries
again, so a while of it fails no leg; it lasts, and `remote_timeout` gives the leg up.

    mirror_busy.py [PART...]

log: of an NVRAM that forgets; passed: of one that keeps its content, so that the DCD goes past it,
and isn't busy for long; ring: the data disk; impatient: the host's SCSI layer tries again for six
seconds only (the control: the leg fails).
"""

from __future__ import annotations

import time
from pathlib import Path

from dcdlab import SEGMENT, Box
from locklab import base, blk, dm, lio, mirror, ram
from locklab.iscsi import Session
from locklab.wire import Wire
from mirrorlab import FIELDS, Beside
from probelab import SOON

PARTS = ("log", "ring", "passed")
MIB = 16
SIZE = 128  # sectors of a write
BUSY_S, TIMEOUT_S = 1, 10


class World:
    def __init__(self, nvram: str = "lab") -> None:
        self.box = Box(data_mib=MIB, log_mib=3, nvram=nvram, nvram_bytes=4096 + 8 * SEGMENT)
        store = self.box.open(f"busy_after_ms={BUSY_S * 1000}")
        self._target, self._session = lio.Target(store), Session()
        self.remote = self._session.login()
        self.local = ram.Ram("local", MIB)
        self.mirror = mirror.Mirror(self.local.node, self.remote, "nosync", "remote_timeout",
                                    TIMEOUT_S * 1000, "rejoin", 1)  # fmt: skip
        self._writes: list[Beside] = []
        self._round = 0

    def word(self, field: str) -> int:
        return int(self.mirror.status().rest[FIELDS.index(field)])

    def begin(self, count: int) -> float:
        """So many writes at once; gives when."""
        self._round += 1
        for n in range(count):
            self._writes.append(Beside(lambda n=n: self._write(n)))  # type: ignore[misc]
        return time.monotonic()

    def _write(self, n: int) -> None:
        with blk.Disk(self.mirror.node) as disk:
            disk.write(n * SIZE, blk.pattern(f"{self._round} {n}", SIZE))

    def end(self) -> None:
        for one in self._writes:
            one.result()
        self._writes.clear()

    def good(self, count: int) -> None:
        """Both legs have what was written last, and are alike."""
        with blk.Disk(self.mirror.node, write=False) as disk:
            for n in range(count):
                want = blk.pattern(f"{self._round} {n}", SIZE)
                base.expect(disk.read(n * SIZE, SIZE) == want, f"write {n}")
        blk.same(self.local.node, self.remote)

    def close(self) -> None:
        self.mirror.remove()
        self._session.close()
        self._target.remove()
        self.box.close()
        self.box.away()
        self.local.remove()


def both(name: str, count: int, *, impatient: bool = False) -> None:
    """`name`: the disk that hangs; `count`: writes that there is no room for."""
    world = World("dram:battery" if name == "log" else "lab")
    base.step(f"{name}: BUSY for less than remote_timeout")
    if impatient:
        base.put(Path("/sys/block") / Path(world.remote).name / "device/timeout", 1)
    dm.suspend(name)
    began = world.begin(count)
    base.until(lambda: world.box.count("busy") >= 3, "answers BUSY")
    time.sleep(max(0.0, began + TIMEOUT_S * 0.8 - time.monotonic()))
    health = world.mirror.status().health
    dm.resume(name)
    base.equal(health, "AA", "the legs, meanwhile")
    world.end()
    print(f"  {world.box.count('busy')} answers BUSY; all written after "
          f"{time.monotonic() - began:.1f} s", flush=True)  # fmt: skip
    base.equal(world.mirror.status().health, "AA", "the legs")
    base.equal((world.word("alone"), world.word("late")), (0, 0), "writes without the leg")
    world.good(count)
    base.step(f"{name}: it lasts")
    dm.suspend(name)
    began = world.begin(count)
    world.end()
    took = time.monotonic() - began
    print(f"  all written after {took:.1f} s: {world.mirror.status()}", flush=True)
    base.expect(took < TIMEOUT_S + SOON, f"the writes took {took:.1f} s")
    base.equal(world.mirror.status().health, "AD", "the legs")
    dm.resume(name)
    world.mirror.in_sync()
    world.good(count)
    world.close()


def log() -> None:
    both("log", 24)


def ring() -> None:
    both("data", 96)


def passed() -> None:
    base.step("a log is gone past")
    world = World()
    dm.suspend("log")
    for _ in range(4):
        began = world.begin(24)
        world.end()
        took = time.monotonic() - began
        print(f"  all written after {took:.1f} s", flush=True)
        base.expect(took < TIMEOUT_S, f"the writes took {took:.1f} s")
        base.equal(world.mirror.status().health, "AA", "the legs")
    dm.resume("log")
    world.box.says("log ok,", "the log to be used again")
    world.good(24)
    world.close()


def impatient() -> None:
    both("log", 24, impatient=True)


Wire("lan")
for part in base.words(1, (*PARTS, "impatient")) or PARTS:
    globals()[part]()
base.step("done")
