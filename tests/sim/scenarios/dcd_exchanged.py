# SPDX-License-Identifier: GPL-2.0-only
"""Seeded lives of a DCD whose devices are exchanged while it is closed: its data disk, its log or
its NVRAM is as it was at an earlier time, or a blank one, and then the right one again. The sizes,
blocks, settings, and whether there is an NVRAM are drawn, too. The log fails and heals; whole runs
of discards go beside writes; the power is cut.

Args: how many lives, and the first seed.

What is promised:
  - Its own devices are never refused, and every byte is right: behind a close, and behind a cut.
  - With another one it is refused, by the module and by `dcd`, and the data disk stays as it is; or
    every byte is right with that one, too.
  - No write takes longer than 5 s, and the log isn't written to for ever when nobody writes.

What isn't asked, as dcd(8) says that it can't be known: an older log without an NVRAM, an older
log and an older NVRAM together, an older NVRAM where the log has failed or wasn't written to since,
and an older data disk that differs in few of the blocks that were brought there since, as when
nearly all of those were zeroes, or where all of them was there when it was copied: so that is done
only when nothing is in the log.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from dcdlab import (
    RING_START,
    SEGMENT,
    Box,
    Disk,
    Model,
    digest,
    format_log,
    image,
    put_image,
    some_write,
)
from locklab import base, blk, lio

LONGEST_S = 5
WEIGHTS = {
    "some": 8, "pieces": 3, "all_zero": 1, "dies": 1, "heals": 2, "waits": 3, "copies": 2,
}  # fmt: skip


def heads(log: bytes) -> bytes:
    """What it says that it has: the superblocks, and the header of each segment."""
    places = range(RING_START, len(log) - SEGMENT + 1, SEGMENT)
    return log[: 2 * 4096] + b"".join(log[at : at + blk.SECTOR] for at in places)


class Life:
    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        nvram = rng.choice(("lab", "lab", "none"))
        self.block = rng.choice((1, 1, 8))
        model = rng.choice(("null", "ssd", "spindle"))
        low = rng.choice((0, 5, 30))
        self.box = Box(
            data_mib=rng.choice((4, 16)), data_model=model,
            data_options={"block": str(self.block * blk.SECTOR)},
            nvram=nvram, nvram_bytes=4096 + rng.choice((2, 4, 16)) * SEGMENT,
            log_mib=rng.choice((2, 3, 5, 9)),
            settings=f"destage_idle_ms={rng.choice((20, 500, 3_600_000))},destage_low={low},"
            f"destage_high={rng.choice((low + 1, 60, 99))}",
        )  # fmt: skip
        if rng.random() < 0.5:  # A log with the times of a disk.
            self.box.log.remove()
            self.box.log = Disk("log", self.box.log_mib, rng.choice(("ssd", "spindle")))
            format_log(self.box.data.node, self.box.log.node, self.box.view, "--force")
        self.model = Model(self.box.data.sectors)
        # What was on each of them at earlier times.
        self.earlier: dict[str, list[bytes]] = {"data": [], "log": [], "nvram": []}
        self.log_then: dict[bytes, bytes] = {}  # of an NVRAM's content
        self.dead = False
        self.zeroed = False  # nearly all, and nothing was brought to the data disk since
        self.done = [f"{nvram} {model} {self.block} {self.box.log_mib} {self.box.settings}"]

    # While it is open.

    def timed(self, work: Callable[[], None]) -> None:
        took = blk.timed(work)
        base.expect(took < LONGEST_S, f"a write took {took:.1f} s")

    def some(self, disk: blk.Disk) -> None:
        within = self.rng.choice((640, 4000, 0))
        for n in range(self.rng.randrange(1, 30)):
            tag = f"{len(self.done)} {n}"
            self.timed(lambda tag=tag: some_write(  # type: ignore[misc]
                disk, self.model, self.rng, tag, within=within, block=self.block
            ))  # fmt: skip

    def pieces(self, disk: blk.Disk) -> None:
        """As fstrim does it, with a small write now and then."""
        self.zeroed = True
        self.earlier["data"].clear()
        step = 8 * self.rng.choice((2, 4, 16))
        zero = self.rng.choice((disk.zero, disk.discard))
        for at in range(0, disk.sectors - step, step):
            if self.rng.random() < 0.02:
                data = blk.pattern(f"{len(self.done)} {at}", 8)
                self.timed(lambda at=at, data=data: disk.write(at, data))  # type: ignore[misc]
                self.model.put(at, data)
            else:
                self.timed(lambda at=at: zero(at, step - 8))  # type: ignore[misc]
                self.model.put(at, bytes((step - 8) * blk.SECTOR))

    def all_zero(self, disk: blk.Disk) -> None:
        self.zeroed = True
        self.earlier["data"].clear()
        self.timed(lambda: disk.zero(0, disk.sectors))
        self.model.put(0, bytes(disk.sectors * blk.SECTOR))

    def dies(self, _: blk.Disk) -> None:
        if self.box.nvram == "lab":
            self.box.log.fail_writes()
            self.dead = True
            self.earlier["nvram"].clear()

    def heals(self, _: blk.Disk) -> None:
        self.box.log.heal()
        self.dead = False

    def waits(self, _: blk.Disk) -> None:
        if self.rng.random() < 0.5:
            time.sleep(self.rng.choice((0.1, 2)))
            return
        self.box.set("destage_idle_ms=100")
        if not self.dead:
            self.box.destaged()
            self.zeroed = self.zeroed and self.done[-2] != "some"
            before = self.box.count("segments")
            time.sleep(20)
            base.expect(self.box.count("segments") - before < 5, "the idle log is written to")

    def copies(self, _: blk.Disk) -> None:
        if self.box.count("live") == 0 and " 0 in use" in self.box.info():
            self.copy(empty=True)

    def copy(self, *, empty: bool) -> None:
        for name, node in self.nodes().items():
            if name != "data" or empty:
                self.earlier[name].append(image(node))
        if "nvram" in self.nodes():
            self.log_then[self.earlier["nvram"][-1]] = heads(image(self.box.log.node))

    # And in between.

    def nodes(self) -> dict[str, str]:
        box = self.box
        nodes = {"data": box.data.node, "log": box.log.node, "nvram": box.view}
        return {name: node for name, node in nodes.items() if node != "none"}

    def exchange(self) -> None:
        """One of them is another one for an opening."""
        node_of = self.nodes()
        if "nvram" not in node_of:
            del node_of["log"]
        if self.zeroed:
            del node_of["data"]
        if not node_of:
            return
        name = self.rng.choice(list(node_of))
        own = {one: image(node) for one, node in self.nodes().items()}
        other = self.rng.choice([*self.earlier[name], bytes(len(own[name]))])
        if other == own[name]:
            return
        if name == "nvram" and self.log_then.get(other) == heads(own["log"]):
            return
        self.done.append(f"another {name}")
        put_image(node_of[name], other)
        before = digest(self.box.data.node)
        code, said = self.box.tool("check")
        if code in (1, 4):
            base.expect(self.box.tool("recover")[0], f"dcd recover, though it is {said['reason']}")
            base.expect(self.box.tool("retire")[0], f"dcd retire, though it is {said['reason']}")
        try:
            store = self.box.open()
        except OSError:
            base.equal(digest(self.box.data.node), before, "the data disk, with a refused set")
            for one, content in own.items():
                put_image(self.nodes()[one], content)
            return
        self.done.append("taken")
        with lio.look(store) as node, blk.Disk(node) as disk:
            self.model.check(disk, f"with another {name}, taken")
        self.box.close()
        base.expect(code not in (1, 4), f"dcd check says {said}, the module took it")

    def open(self) -> None:
        cut = self.rng.random() < 0.5
        with self.box.disk_until_cut() if cut else self.box.disk() as disk:
            self.model.check(disk, "opened")
            for _ in range(self.rng.randrange(1, 7)):
                (what,) = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
                self.done.append(what)
                getattr(self, what)(disk)
            if self.box.nvram == "none":
                disk.flush()
            self.done.append("cut" if cut else "closed")
        self.heals(disk)

    def live(self) -> None:
        for _ in range(5):
            self.open()
            self.copy(empty=self.box.tool("check")[1]["state"] != "live")
            if self.rng.random() < 0.7:
                self.exchange()
            if self.rng.random() < 0.2:
                self.done.append("recover")
                base.equal(self.box.tool("recover")[0], 0, "dcd recover")
        with self.box.disk() as disk:
            self.model.check(disk, "at the end")
        self.box.away()


count, first = (int(word) for word in sys.argv[1:])
for seed in range(first, first + count):
    life = Life(seed)
    try:
        life.live()
    except (base.Wrong, OSError) as err:
        raise base.Wrong(f"life {seed}: {', '.join(life.done)}: {err}") from err
print(f"{count} lives passed", flush=True)
