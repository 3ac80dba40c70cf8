# SPDX-License-Identifier: GPL-2.0-only
"""Several sessions write at a time, also to the same places; power cuts in between: args [ROUNDS].

Each session has a thread of its own in the target. With dcd.test_fill_us they are
slow between reserving a place and publishing it, so that they overtake each other.
"""

import random
import sys
import threading
import time
from pathlib import Path

from dcdlab import SEGMENT, SITE, Box
from locklab import base, blk, lio, media, wire
from locklab.iscsi import Session

SESSIONS = 3
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 2 if base.CHECKED else 6
WRITES = 40  # of each writer
OWN = 512  # sectors that are one writer's
SHARED = range(4000, 4400)
PORTALS = [f"{wire.mirror_ip(n)}:{lio.PORT}" for n in range(SESSIONS)]
PARAMETER = Path("/sys/module/dcd/parameters/test_fill_us")


class Writer(threading.Thread):
    """Writes its own places and the shared ones through one session."""

    def __init__(self, node: str, number: int, name: str, cut: threading.Event) -> None:
        super().__init__()
        self._node, self._number, self._name, self._cut = node, number, name, cut
        self.sure: dict[int, str] = {}  # sector: what was acknowledged before the cut
        self.maybe: dict[int, set[str]] = {}  # later ones
        self.failed = 0

    def run(self) -> None:
        rng = random.Random(f"{base.SEED} {self._name}")
        with blk.Disk(self._node) as disk:
            for n in range(WRITES):
                count = rng.choice((1, 3, 8, 8, 40, 112, 200))
                own = rng.random() < 0.6
                first, size = (self._number * OWN, OWN) if own else (SHARED[0], len(SHARED))
                at = first + rng.randrange(size - count)
                tag = f"{self._name} {n}"
                if own:
                    for sector in range(at, at + count):
                        self.maybe.setdefault(sector, set()).add(f"{tag} {sector - at}")
                try:
                    disk.write(at, sectors(tag, count))
                except OSError:
                    self.failed += 1
                    continue
                if own and not self._cut.is_set():
                    for sector in range(at, at + count):
                        self.sure[sector] = f"{tag} {sector - at}"
                        self.maybe[sector].clear()


def sectors(tag: str, count: int) -> bytes:
    """Each sector says whose it is."""
    return b"".join(f"{tag} {n}".encode().ljust(512, b".") for n in range(count))


def told(data: bytes) -> str:
    return data.rstrip(b"\0.").decode()


class Site:
    """The DCD as a target, and who uses it."""

    def __init__(self) -> None:
        self.box = Box(nvram="lab", nvram_bytes=4096 + 8 * SEGMENT)
        self.wires = [wire.Wire(number=n) for n in range(SESSIONS)]
        self.session = Session(PORTALS)

    def round(self, number: int, cut: bool) -> int:
        """Returns how many entries were published together with others."""
        box = self.box
        store = box.open()
        target = lio.Target(store, portals=PORTALS)
        nodes = [self.session.login_by(portal) for portal in PORTALS]
        cutting = threading.Event()
        writers = [
            Writer(nodes[n % SESSIONS], n, f"{number} {n}", cutting) for n in range(2 * SESSIONS)
        ]
        with blk.Disk(nodes[0], write=False) as disk:
            before = disk.read(0, SHARED[-1] + 1)
        for writer in writers:
            writer.start()
        if cut:
            base.until(lambda: box.count("writes") > 20 + 15 * number, "writes")
            cutting.set()
            media.cut(SITE, base.SEED + number)
        for writer in writers:
            writer.join(600)
            base.expect(not writer.is_alive(), "a writer hangs")
            base.expect(cut or not writer.failed, "a write failed")
        together = box.count("published_together")
        if not cut:
            with blk.Disk(nodes[0], write=False) as disk:
                image = disk.read(0, SHARED[-1] + 1)
            media.cut(SITE, base.SEED + number)
        self.session.logout()
        target.remove()
        box.close()
        box.power_on()
        with box.disk() as disk:
            after = disk.read(0, SHARED[-1] + 1)
            if cut:
                self.check_own(before, after, writers)
            else:
                base.expect(image == after, "the NVRAM's order is not the index's")
            box.destaged()
            base.expect(disk.read(0, SHARED[-1] + 1) == after, "from the data disk")
        return together

    def check_own(self, before: bytes, after: bytes, writers: list[Writer]) -> None:
        for writer in writers:
            for sector, later in writer.maybe.items():
                old = told(before[sector * 512 : sector * 512 + 512])
                may = {writer.sure.get(sector, old)} | later
                found = told(after[sector * 512 : sector * 512 + 512])
                base.expect(found in may, f"sector {sector}: {found!r}, may be {sorted(may)}")


def outlives() -> None:
    base.step("an engine outlives the thread that is in it, though its write has been answered")
    before = PARAMETER.read_text()
    box = Box()
    with box.disk() as disk:
        for n in range(60):
            disk.write(n, sectors(f"{n}", 1))
        PARAMETER.write_text("2000000")  # now the thread sleeps for half a second
        disk.write(0, sectors("the last", 1))
        answered = time.monotonic()
        PARAMETER.write_text(before)
    base.expect(time.monotonic() - answered > 0.4, "it was closed under the thread")
    box.away()


def main() -> None:
    outlives()
    site = Site()
    together = 0
    for number in range(ROUNDS):
        cut = number % 2 == 1
        base.step(f"round {number}: {'a cut under load' if cut else 'a cut at rest'}")
        together += site.round(number, cut)
    print(f"  {together} entries were published together with others", flush=True)
    if int(PARAMETER.read_text()):
        base.expect(together >= 10, "the writers did not overtake each other")
    site.session.close()
    base.step("done")


main()
