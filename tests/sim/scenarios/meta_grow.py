# SPDX-License-Identifier: GPL-2.0-only
"""A mirror gets longer while it is used. The devices grow, the metadata move to their new ends
(message grow), a longer table comes; the host crashes after each durable step of it.

For each picture of both legs: they are assembled as an administrator would (`lockstep-meta grow`
where nothing is found at the end); all that was acknowledged is there, both legs are alike and in
sync, and no superblock is left but at the ends.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sys
import time
from collections.abc import Callable

from locklab import base, blk, dm, mirror, ram
from mirrorlab import FIELDS
from statelab import (
    ALONE,
    LOCAL,
    META,
    REMOTE,
    SYNC,
    TARGET,
    Beside,
    History,
    Versions,
    Writers,
    content,
    create,
    meta,
    refusal,
    sector,
    super_of,
)

SMALL, LARGE = 1 << 11, 2 << 11  # sectors of a leg's device, before and after
TAIL = 56  # of them metadata
CUT_SHORT = {"no slot": 16, "a slot": 8}  # of the last sectors none can be written
MAGIC = (0x31474C504554534C).to_bytes(8, "little")


class Leg:
    """A disk of which the first half is seen, until it grows. All but the old data may be slow."""

    def __init__(self, name: str) -> None:
        self.disk = ram.Ram(f"{name}disk", 2)
        self.name = name
        self.sectors = SMALL
        self.node = dm.create(name, self._table("linear"))

    def _table(self, rest: str) -> str:
        data = SMALL - TAIL
        node = self.disk.node
        kind = {
            "linear": f"linear {node} {data}",
            "slow": f"delay {node} {data} 0 {node} {data} 10",
            "error": "error",
            "nowrite": f"flakey {node} {data} 0 3600 1 error_writes",
        }.get(rest)
        if rest in CUT_SHORT:
            bad = self.sectors - CUT_SHORT[rest]
            rest = f"flakey {node} {bad} 0 3600 1 error_writes"
            return f"0 {bad} linear {node} 0\n{bad} {self.sectors - bad} {rest}"
        return f"0 {data} linear {node} 0\n{data} {self.sectors - data} {kind}"

    def set(self, rest: str) -> None:
        dm.load(self.name, self._table(rest))
        dm.suspend(self.name, flush=False)
        dm.resume(self.name)

    def grow(self, rest: str = "linear") -> None:
        self.sectors = LARGE
        self.set(rest)

    def image(self) -> bytes:
        with blk.Disk(self.disk.node, write=False) as disk:
            return disk.read(0, LARGE)

    def close(self) -> None:
        dm.remove(self.name)
        self.disk.remove()


class Pair:
    def __init__(self, *options: object) -> None:
        self.legs = {LOCAL: Leg("llocal"), REMOTE: Leg("lremote")}
        self.nodes = [leg.node for leg in self.legs.values()]
        create(*self.nodes, "--assume-clean")
        self.options = options or ("remote_timeout", 2000, "rejoin", 1)
        self.sectors = self.old = super_of(self.nodes[0]).data_sectors
        # Of the length that it will have; nothing is written beyond before.
        self.history = History(LARGE - TAIL)
        self.versions = Versions()
        self.node = dm.create("mirror", self.table())

    def table(self, sectors: int | None = None) -> str:
        return mirror.table(*self.nodes, *self.options, sectors=sectors or self.sectors)

    def status(self) -> mirror.Status:
        return mirror.parse(dm.status("mirror"))

    def word(self, field: str) -> str:
        return self.status().rest[FIELDS.index(field)]

    def put(self, at: int, count: int = 8) -> None:
        version = self.versions.next()
        self.history.issue(at, count, version)
        with blk.Disk(self.node) as disk:
            disk.write(at, b"".join(sector(version, at + n) for n in range(count)))
        self.history.ack(at, count, version, False)

    def room(self) -> int:
        """What the administrator is told."""
        return min(int(leg["map_start"]) for leg in json.loads(meta("examine", *self.nodes)))

    def longer(self, sectors: int) -> None:
        dm.load("mirror", self.table(sectors))
        dm.suspend("mirror")
        dm.resume("mirror")
        self.sectors = sectors

    def in_sync(self) -> None:
        def there() -> bool:
            now = self.status()
            return (now.health, now.action) == ("AA", "idle")

        base.until(there, "in sync")

    def check(self, what: str) -> None:
        check(self.history, content(self.node, self.sectors), what)

    def good_end(self, what: str) -> None:
        self.in_sync()
        self.check(what)
        dm.remove("mirror")
        ended(self.nodes, self.sectors, self.history, what)
        for leg in self.legs.values():
            leg.close()


def check(history: History, data: bytes, what: str) -> None:
    """As far as there are data. What nobody has written yet in the new room is anything."""
    fork = history.fork()
    fork.sectors = len(data) // 512
    known = bytearray(data)
    for at in range(SMALL - TAIL, fork.sectors):
        raw = data[at * 512 : (at + 1) * 512]
        if not history.acked[at] and raw not in [sector(v, at) for v in history.issued[at]]:
            known[at * 512 : (at + 1) * 512] = bytes(512)
    fork.check(bytes(known), what)


def ended(nodes: list[str], sectors: int, history: History, what: str) -> None:
    for node in nodes:
        found = super_of(node)
        base.equal((found.state, found.active, found.data_sectors), (SYNC, False, sectors),
                   f"{what}: {node}")  # fmt: skip
        with blk.Disk(node, write=False) as disk:
            base.expect(MAGIC not in disk.read(0, disk.sectors - 16),
                        f"{what}: {node} has a second superblock")  # fmt: skip
        check(history, content(node, sectors), f"{what}: {node}")
    one, two = (content(node, sectors) for node in nodes)
    base.expect(one == two, f"{what}: the legs differ")


# --- the way it goes ---


def plain(*options: object) -> None:
    base.step(f"it gets longer, {options or 'as usual'}")
    pair = Pair(*options)
    pair.put(0)
    pair.put(1000)
    for leg in pair.legs.values():
        leg.grow()
    dm.message("mirror", "grow")
    most = pair.room()
    base.equal(most, LARGE - TAIL, "what there is room for")
    base.equal(super_of(pair.nodes[0]).data_sectors, pair.old, "the length so far")
    with base.refused("too long", errno.ENOSPC, kernel=f"has room for {most} sectors"):
        dm.load("mirror", pair.table(most + 8))
    with base.refused("shorter", errno.EINVAL, kernel="can't be made smaller"):
        dm.load("mirror", pair.table(pair.old - 8))
    pair.longer(most)
    pair.put(most - 8)
    pair.put(pair.old - 4)
    pair.in_sync()
    with base.refused("shorter again", errno.EINVAL, kernel="can't be made smaller"):
        dm.load("mirror", pair.table(pair.old))
    dm.message("mirror", "grow")  # nothing to do
    pair.good_end("longer")


def loaded() -> None:
    base.step("with writers all the while")
    pair = Pair()
    history = History(pair.old)
    writers = Writers(pair.node, history, pair.versions, seed="grow", writers=4)

    def busy() -> None:
        seen = writers.acked
        base.until(lambda: writers.acked > seen + 50, "more writes")

    busy()
    for leg in pair.legs.values():
        leg.grow()
    busy()
    dm.message("mirror", "grow")
    busy()
    pair.longer(pair.room())
    busy()
    writers.stop()
    base.equal(writers.errors, set(), "errors")
    for name in ("acked", "stable", "issued"):
        getattr(pair.history, name)[: pair.old] = getattr(history, name)
    pair.put(pair.sectors - 8)
    pair.good_end("under load")


def only_moved() -> None:
    base.step("moved, but not longer: as if the devices had always been so large")
    pair = Pair()
    for leg in pair.legs.values():
        leg.grow()
    pair.put(64)
    dm.message("mirror", "grow")
    pair.put(128)
    dm.reload("mirror", pair.table())
    dm.message("mirror", "fail remote")
    pair.put(256)
    dm.message("mirror", "recover")
    pair.in_sync()
    dm.remove("mirror")
    pair.node = dm.create("mirror", pair.table())
    pair.good_end("moved")


def one_larger_already() -> None:
    base.step("only the local device had to grow, and by degrees")
    pair = Pair()
    pair.legs[LOCAL].grow()
    dm.message("mirror", "grow")
    base.equal(pair.room(), pair.old, "the remote leg has no room")
    with base.refused("longer", errno.ENOSPC, kernel="the remote leg"):
        dm.load("mirror", pair.table(pair.old + 16))
    pair.legs[REMOTE].grow()
    dm.message("mirror", "grow")
    for sectors in (pair.old + 8, pair.old + 200, pair.room()):
        pair.longer(sectors)
        pair.put(sectors - 8)
    pair.good_end("by degrees")


def refused() -> None:
    base.step("what can't be is refused, and changes nothing")
    pair = Pair()
    leg = pair.legs[LOCAL]
    leg.sectors = SMALL + 8
    leg.set("linear")
    with base.refused("by too little", errno.ENOSPC, kernel="grown by too little"):
        dm.message("mirror", "grow")
    leg.sectors = SMALL - 8
    leg.set("linear")
    with base.refused("shrunk", errno.ENOSPC, kernel="has become smaller"):
        dm.message("mirror", "grow")
    for leg in pair.legs.values():
        leg.grow()
    with base.refused("longer, not moved", errno.ENOSPC, kernel="dmsetup message NAME 0 grow"):
        dm.load("mirror", pair.table(LARGE - TAIL))
    dm.message("mirror", "fail remote")
    dm.message("mirror", "grow")
    base.equal(super_of(pair.nodes[0]).state, ALONE, "the leg that is alive has moved")
    with base.refused("longer with one leg", errno.EBUSY, kernel="has lost a leg"):
        dm.load("mirror", pair.table(LARGE - TAIL))
    dm.remove("mirror")
    base.expect("neither" not in refusal("verdict", *pair.nodes), "the other one is found later")
    base.step("with one leg it is assembled; the other one has its metadata moved by hand")
    pair.node = dm.create("mirror", mirror.table(pair.nodes[0], "-", sectors=pair.sectors))
    pair.put(8)
    dm.remove("mirror")
    meta("grow", *pair.nodes)
    pair.node = dm.create("mirror", pair.table())
    pair.good_end("degraded and grown")


def in_a_resync() -> None:
    base.step("while a resync is under way: it goes on, and the new room with it")
    pair = Pair("rejoin", 1, "resync_rate", 100, "resync_pace", "full")
    for leg in pair.legs.values():
        leg.grow()
    dm.message("mirror", "fail remote")
    for at in range(0, 1024, 64):
        pair.put(at)
    dm.message("mirror", "recover")
    dm.message("mirror", "grow")
    base.equal(super_of(pair.nodes[1]).state, TARGET, "it is under way")
    pair.longer(pair.room())
    base.expect(int(pair.word("stale_remote")) > 20, "the old and the new regions are stale")
    dm.message("mirror", "resync_rate 0")
    pair.good_end("in a resync")


def a_leg_fails(leg: str, when: str) -> None:
    base.step(f"the {leg} leg fails: {when}")
    pair = Pair("rejoin", 0)
    for one in pair.legs.values():
        one.grow()
    pair.put(0)
    if when in ("moving", *CUT_SHORT):
        pair.legs[leg].set("nowrite" if when == "moving" else when)
        with base.refused("grow", errno.EIO, kernel=f"the {leg} leg's metadata"):
            dm.message("mirror", "grow")
        pair.put(8)
        base.expect("D" in pair.status().health, "it is given up")
        pair.legs[leg].set("linear")
        dm.message("mirror", "recover")
        pair.in_sync()
        dm.message("mirror", "grow")
        pair.longer(pair.room())
        pair.good_end(when)
        return
    dm.message("mirror", "grow")
    most = pair.room()
    dm.load("mirror", pair.table(most))
    if when == "before the table":
        dm.message("mirror", f"fail {leg}")
    dm.suspend("mirror")
    if when == "with the table":
        pair.legs[leg].set("nowrite")
    dm.resume("mirror")
    pair.sectors = most
    base.expect("D" in pair.status().health, "it is given up")
    pair.put(most - 8)
    pair.put(16)
    pair.legs[leg].set("linear")
    base.step("it is back, and gets the length by joining")
    dm.message("mirror", "recover")
    pair.good_end(when)


def home_moves_meanwhile() -> None:
    """The local leg fails while it is moved, so the remote one keeps the map before its own turn:
    it isn't given an empty one."""
    base.step("the home moves while the legs are moved")
    pair = Pair("rejoin", 0)
    for leg in pair.legs.values():
        leg.grow()
    for at in range(0, pair.old - 8, 128):
        pair.put(at)
    pair.legs[LOCAL].set("nowrite")
    pair.legs[REMOTE].set("slow")

    def grow() -> None:
        with contextlib.suppress(OSError):
            dm.message("mirror", "grow")

    Beside(grow).result()
    base.until(lambda: pair.word("standing") == "alone", "alone")
    base.until(lambda: dirty_on(pair.nodes[1]) == int(pair.word("dirty")),
               "on the only leg is dirty what is in core", 10)  # fmt: skip
    dm.remove("mirror")
    for leg in pair.legs.values():
        leg.close()


def dirty_on(node: str) -> int:
    told: list[dict[str, object]] = json.loads(meta("examine", node))
    return int(str(told[0]["dirty_regions"]))


def loaded_before() -> None:
    """A table is loaded, then the metadata move, then it is resumed."""
    base.step("a table from before the move")
    pair = Pair()
    for leg in pair.legs.values():
        leg.grow()
    pair.put(0)
    dm.load("mirror", pair.table())
    dm.message("mirror", "grow")
    dm.suspend("mirror")
    dm.resume("mirror")
    pair.put(8)
    pair.good_end("loaded before")


def core() -> None:
    base.step("without metadata: the longer table's word is about the new room")
    pair = Pair()
    dm.remove("mirror")
    disks = [leg.disk.node for leg in pair.legs.values()]
    for word, stale in (("nosync", 0), ("sync", 1)):
        dm.create("mirror", mirror.table(*disks, "nosync", sectors=SMALL))
        dm.load("mirror", mirror.table(*disks, word, "resync_rate", 1, sectors=LARGE))
        dm.suspend("mirror")
        dm.resume("mirror")
        base.equal(int(pair.word("stale_remote")), stale, "stale regions of 1 MiB")
        with base.refused("shorter", errno.EINVAL, kernel="can't be made smaller"):
            dm.load("mirror", mirror.table(*disks, "nosync", sectors=SMALL))
        dm.remove("mirror")
    for leg in pair.legs.values():
        leg.close()


# --- a crash after each step ---


class Film:
    """Both legs, whole, one for each change of their metadata at the old and the new end."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._seen: list[bytes] = []
        self.frames: list[tuple[list[bytes], History]] = []

    def look(self) -> None:
        history = self._pair.history.fork()
        images = [leg.image() for leg in self._pair.legs.values()]
        old, new = (SMALL - TAIL) * 512, (LARGE - TAIL) * 512
        seen = [image[old : SMALL * 512] + image[new:] for image in images]
        if seen != self._seen:
            self._seen = seen
            self.frames.append((images, history))

    def until(self, true: Callable[[], object], what: str) -> None:
        end = time.monotonic() + 120
        while not true():
            self.look()
            time.sleep(0.003)
            base.expect(time.monotonic() < end, f"waited in vain for: {what}")
        self.look()

    def run(self, work: Callable[[], object], what: str) -> None:
        beside = Beside(work)
        self.until(lambda: beside.done, what)
        beside.result()


def judge(film: Film) -> None:
    disks = [ram.Ram(f"x{name}", 2) for name in (LOCAL, REMOTE)]
    nodes = [disk.node for disk in disks]
    lengths: dict[int, int] = {}
    for number, (images, history) in enumerate(film.frames):
        for node, image in zip(nodes, images, strict=True):
            with blk.Disk(node) as disk:
                disk.write(0, image)
        what = f"picture {number}"
        said = json.loads(base.run(META, "verdict", *nodes, check=False))
        if said["verdict"] != "ok":
            base.expect(said["verdict"] in ("blank", "bad"), f"{what}: {said}")
            meta("grow", *nodes)
            said = json.loads(meta("verdict", *nodes))
        sectors = int(said["data_len"])
        lengths[sectors] = lengths.get(sectors, 0) + 1
        dm.create("copy", mirror.table(*nodes, sectors=sectors))
        check(history, content("/dev/mapper/copy", sectors), what)

        def there() -> bool:
            now = mirror.parse(dm.status("copy"))
            return (now.health, now.action) == ("AA", "idle")

        base.until(there, f"{what}: in sync")
        dm.remove("copy")
        ended(nodes, sectors, history, what)
    print(f"  {len(film.frames)} pictures, lengths {lengths}", flush=True)
    base.expect(len(film.frames) > 12 and len(lengths) == 2, "too few steps were seen")
    for gone in disks:
        gone.remove()


def crash() -> None:
    base.step("the host crashes after each step, under load")
    pair = Pair("rejoin", 1)
    film = Film(pair)
    pair.put(0)
    pair.put(512)
    for leg in pair.legs.values():
        leg.grow("slow")
    film.look()
    film.run(lambda: pair.put(64), "a write")
    film.run(lambda: dm.message("mirror", "grow"), "grow")
    film.run(lambda: pair.put(640), "a write")
    most = pair.room()
    film.run(lambda: pair.longer(most), "the longer table")
    film.run(lambda: pair.put(most - 8), "a write")
    film.run(lambda: pair.put(pair.old), "a write")
    film.until(lambda: (pair.status().health, pair.status().action) == ("AA", "idle"), "in sync")
    for leg in pair.legs.values():
        leg.set("linear")
    pair.good_end("crash")
    judge(film)


SCENES: dict[str, Callable[[], None]] = {
    "plain": plain,
    "block": lambda: plain("policy", "block"),
    "loaded": loaded,
    "only_moved": only_moved,
    "one_larger_already": one_larger_already,
    "refused": refused,
    "in_a_resync": in_a_resync,
    **{
        f"{leg} {when}": lambda leg=leg, when=when: a_leg_fails(leg, when)  # type: ignore[misc]
        for leg in (LOCAL, REMOTE)
        for when in ("moving", *CUT_SHORT, "before the table", "with the table")
    },
    "home_moves_meanwhile": home_moves_meanwhile,
    "loaded_before": loaded_before,
    "core": core,
    "crash": crash,
}

for name in sys.argv[1:] or SCENES:
    SCENES[name]()
base.step("done")
