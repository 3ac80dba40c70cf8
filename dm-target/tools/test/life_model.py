# SPDX-License-Identifier: GPL-2.0-only
"""A small world in which a mirror lives: two disks, a host, and the truth.

What the superblocks become and what is decided from them is the real code
(driver.py). The rest, the mirror that follows the orders of life.h, is modelled
here in steps, each of which is one durable write or one thing that is seen. At
any step the host may crash, a leg may be lost (the write in flight on it done or
not), come back, be used by somebody else meanwhile, be replaced by a new disk,
or the replaced one may be put back.

The truth: every block holds a value that knows which value it was written over.
`must` are the values that somebody was promised: acknowledged, or read while no
write to the block was in flight. A disk is complete if each block has, for each
such value, that value or one written over it. The rules:

  1  a source that is accepted together with the other leg is complete
  2  beyond what is resynced, the legs are equal
  3  a leg is accepted alone only if it is as it was at one point in time
  4  nothing is refused that is safe: with both legs there, unless each may have
     gone on alone, or a disk was put back; alone, unless it was being resynced
  5  what a running mirror takes for equal on both legs is equal

Blocks 0 and 1 are in region 0, block 2 is in region 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from driver import ALONE, NEW, SYNC, Driver, Super, Verdict

BLOCKS = 3
REGION = (0, 0, 1)
ALL = 3  # both regions, a bit for each
JUNK = -1  # a value that was written over nothing of this mirror


class Wrong(AssertionError):
    """A rule is broken."""


class Disk(NamedTuple):
    sb: Super
    map_epoch: int  # of the sectors in the map
    bits: int  # those regions
    data: tuple[int, ...]
    torn: bool = False  # half of it is newer than the other half
    synced: bool = False  # a resync onto it was completed, or it never needed one

    def map(self) -> int:
        """The regions that its map says."""
        return self.bits if self.sb.epoch and self.sb.epoch == self.map_epoch else 0


class Step(NamedTuple):
    """Something durable to do. What it means when it is done is in Model.finished()."""

    what: str
    leg: int


class Running(NamedTuple):
    """A mirror that runs. `other` is what the leg beside the source is: S in sync, J about to be
    a target, T a target, D dead."""

    source: int
    other: str
    homes: frozenset[int]  # whose maps are written
    dirty: int = 0  # regions whose bit is set, in memory and in those maps
    stale: int = 0  # of them, those to be copied
    add: int = 0  # to be set before a leg joins
    served: bool = False  # I/O is let in
    may_miss: bool = False  # a write that the other leg misses may be acknowledged
    maybe_sync: bool = False  # the target's last step was begun
    fresh: int = -1  # the leg whose new map isn't named by its superblock yet
    write: tuple[int, int, frozenset[int], frozenset[int]] | None = None
    todo: tuple[Step, ...] = ()


class World(NamedTuple):
    disks: tuple[Disk, Disk]
    lost: tuple[bool, bool]
    must: tuple[frozenset[int], ...]
    over: tuple[tuple[int, int], ...]  # value, the one it was written over
    went: tuple[bool, bool] = (False, False)  # may have gone on alone since they were joined
    run: Running | None = None
    drawer: tuple[int, Disk] | None = None
    tampered: bool = False


Change = tuple[str, World]


def put(pair: tuple[Disk, Disk], leg: int, disk: Disk) -> tuple[Disk, Disk]:
    return (disk, pair[1]) if leg == 0 else (pair[0], disk)


def flag(pair: tuple[bool, bool], leg: int, value: bool) -> tuple[bool, bool]:
    return (value, pair[1]) if leg == 0 else (pair[0], value)


def disks_of(w: World) -> list[Disk]:
    return [*w.disks, *([w.drawer[1]] if w.drawer else [])]


def satisfies(w: World, value: int, promised: int) -> bool:
    over = dict(w.over)
    while value != promised:
        if value not in over:
            return False
        value = over[value]
    return True


def complete(w: World, disk: Disk) -> bool:
    return all(
        satisfies(w, disk.data[block], value) for block in range(BLOCKS) for value in w.must[block]
    )


def consent(w: World, *disks: Disk) -> World:
    """The administrator goes on with these disks: what only others have is given up."""
    kept = tuple(
        frozenset(v for v in w.must[block] if any(satisfies(w, d.data[block], v) for d in disks))
        for block in range(BLOCKS)
    )
    return w._replace(must=kept)


def promise(w: World, block: int, value: int) -> World:
    """Values that this one was written over are promised with it."""
    rest = {v for v in w.must[block] if not satisfies(w, value, v)}
    must = list(w.must)
    must[block] = frozenset(rest | {value})
    return w._replace(must=tuple(must))


def new_value(w: World, over: int) -> tuple[World, int]:
    value = 1 + max((v for pair in w.over for v in pair), default=0)
    value = max([value, *(1 + v for d in disks_of(w) for v in d.data)])
    return w._replace(over=(*w.over, (value, over))), value


def new_uuid(w: World) -> int:
    return 1 + max(d.sb.uuid or 9 for d in disks_of(w))


def new_generation(w: World) -> int:
    return 1 + max(g for d in disks_of(w) for g in (d.sb.cur, d.sb.base, *d.sb.history))


class Model:
    """The transitions. `faults` are wrong orders, to see that they are found."""

    def __init__(self, driver: Driver, faults: frozenset[str] = frozenset()) -> None:
        self.driver = driver
        self.faults = faults
        self.accepted = 0
        self.refused = 0

    # superblocks and maps

    def sb(self, w: World, leg: int, *events: str) -> World:
        """A durable update of a leg's superblock."""
        disk = w.disks[leg]
        s = disk.sb
        for name in events:
            number = new_generation(w) if name in ("go_alone", "adopt") else 0
            s = self.driver.event(name, s, w.disks[1 - leg].sb, number)
        return w._replace(disks=put(w.disks, leg, disk._replace(sb=s)))

    def write_map(self, w: World, leg: int, bits: int, *, fresh: bool) -> World:
        disk = w.disks[leg]
        epoch = disk.sb.epochs + 1 if fresh else disk.sb.epoch
        assert epoch, "a map that no superblock can name"
        return w._replace(disks=put(w.disks, leg, disk._replace(map_epoch=epoch, bits=bits)))

    def write_data(self, w: World, leg: int, block: int, value: int) -> World:
        disk = w.disks[leg]
        data = (*disk.data[:block], value, *disk.data[block + 1 :])
        return w._replace(disks=put(w.disks, leg, disk._replace(data=data)))

    # verdicts

    def judge(self, w: World, local: bool, remote: bool) -> Verdict:
        legs = (w.disks[0].sb if local else "absent", w.disks[1].sb if remote else "absent")
        v = self.driver.verdict(*legs)
        if v.good:
            self.accepted += 1
            self.check_accepted(w, v)
        else:
            self.refused += 1
            self.check_refused(w, v, local, remote)
        return v

    def check_accepted(self, w: World, v: Verdict) -> None:
        source = w.disks[v.source]
        if source.torn:
            raise Wrong(f"rule 3: a leg that isn't consistent is the source: {v}")
        if v.alone:
            return
        if not complete(w, source):
            raise Wrong(f"rule 1: the source lacks what was promised: {v}")
        scope = ALL if v.full else w.disks[0].map() | w.disks[1].map()
        for block in range(BLOCKS):
            same = w.disks[0].data[block] == w.disks[1].data[block]
            if not same and not scope & 1 << REGION[block]:
                raise Wrong(f"rule 2: block {block} differs and isn't resynced: {v}")

    def check_refused(self, w: World, v: Verdict, local: bool, remote: bool) -> None:
        if w.tampered:
            return
        if local and remote:
            if not all(w.went) and any(complete(w, d) and not d.torn for d in w.disks):
                raise Wrong(f"rule 4: refused, though nothing diverged: {v}")
        elif w.disks[0 if local else 1].synced:
            raise Wrong(f"rule 4: refused alone, though it was in sync: {v}")

    # a mirror comes up

    def assemble(self, w: World, local: bool, remote: bool) -> World | None:
        v = self.judge(w, local, remote)
        if not v.good:
            return None
        source = w.disks[v.source]
        if v.alone:
            w = w._replace(went=flag(w.went, v.source, True))
            run = Running(v.source, "D", frozenset({v.source}), dirty=source.map())
            w = self.part(w._replace(run=run))
            if "lazy_alone" in self.faults and w.run:
                w = w._replace(run=w.run._replace(served=True))
            return w
        scope = ALL if v.full else w.disks[0].map() | w.disks[1].map()
        run = Running(v.source, "S", frozenset({v.source}), dirty=source.map(), add=scope)
        todo: list[Step] = []
        if not source.sb.epoch:
            todo += [Step("map_ahead", v.source), Step("new_map", v.source)]
            run = run._replace(homes=frozenset())
        if v.join or scope:
            run, more = self.joining(run, 1 - v.source, full=v.full)
            todo += more
        run = run._replace(todo=tuple(todo), served=not todo)
        if "lazy_join" in self.faults:
            run = run._replace(served=True)
        if "no_target_when_equal" in self.faults and not v.join:
            run = run._replace(other="T", dirty=scope, stale=scope, todo=(), served=True)
        return w._replace(run=run)

    def joining(self, run: Running, leg: int, *, full: bool) -> tuple[Running, list[Step]]:
        adopt = [Step("adopt", run.source)] if full and "no_adopt" not in self.faults else []
        cover, join = [Step("map", run.source)], [Step("join", leg)]
        forget = [Step("forget_base", run.source)]
        if "join_before_map" in self.faults:
            cover, join = join, cover
        return run._replace(other="J"), [*adopt, *cover, *join, *forget]

    def part(self, w: World) -> World:
        """The source goes on without the other leg, which may be SYNC."""
        run = w.run
        assert run
        source = w.disks[run.source]
        if source.sb.state == ALONE and source.sb.epoch:
            return w._replace(run=run._replace(may_miss=True, served=True, todo=()))
        todo = []
        if run.source not in run.homes or not source.sb.epoch:
            if "home_without_map" not in self.faults:
                todo.append(Step("map_ahead", run.source))
            todo.append(Step("alone_new_map", run.source))
            run = run._replace(homes=frozenset())
        else:
            todo.append(Step("alone", run.source))
        early = "early_ack" in self.faults
        return w._replace(
            went=flag(w.went, run.source, True),
            run=run._replace(todo=tuple(todo), may_miss=early),
        )

    # what goes wrong

    def lose(self, w: World, leg: int) -> World:
        """The running mirror gives a leg up."""
        run = w.run
        w = w._replace(lost=flag(w.lost, leg, True))
        if run is None:
            return w
        source, other = run.source, 1 - run.source
        if run.other == "D" or (leg == source and run.other != "S"):
            # A dead other leg is dead already; without a source there is no mirror.
            return w if leg == other else w._replace(run=None)
        was, survivor = run.other, 1 - leg
        run = run._replace(source=survivor, other="D", stale=0, add=0, todo=(), fresh=-1)
        w = w._replace(run=run)
        if was == "T" and not run.maybe_sync:
            # It is a target on its disk, so it can't be taken for in sync.
            run = run._replace(may_miss=True, served=True, homes=frozenset({survivor}))
            return w._replace(run=run)
        if w.disks[survivor].sb.state == ALONE and was == "J" and w.disks[survivor].sb.epoch:
            run = run._replace(may_miss=True, served=True, homes=frozenset({survivor}))
            return w._replace(run=run)
        if was == "J" and run.may_miss:
            return w  # it was a target on its disk before
        return self.part(w)

    # one step of the mirror

    def step(self, w: World) -> Iterator[Change]:
        """The first thing to do: done, or its leg is lost with it done or not."""
        run = w.run
        assert run and run.todo
        step, rest = run.todo[0], run.todo[1:]
        begun = run
        if step == Step("in_sync", 1 - run.source):
            begun = run._replace(maybe_sync=True)
        before = w._replace(run=begun)
        done = self.perform(before, step)
        yield f"{step.what} {step.leg}", self.finished(done, step, rest)
        yield f"{step.what} {step.leg} fails", self.lose(before, step.leg)
        yield f"{step.what} {step.leg} fails, was done", self.lose(done, step.leg)

    def perform(self, w: World, step: Step) -> World:
        run = w.run
        assert run
        match step.what:
            case "map" | "map_ahead":
                bits = run.dirty | run.add
                return self.write_map(w, step.leg, bits, fresh=step.what == "map_ahead")
            case "alone":
                return self.sb(w, step.leg, "go_alone")
            case "alone_new_map":
                return self.sb(w, step.leg, "new_map", "go_alone")
            case "join":
                disk = w.disks[step.leg]
                w = w._replace(disks=put(w.disks, step.leg, disk._replace(synced=False)))
                return self.sb(w, step.leg, "join")
            case _:
                return self.sb(w, step.leg, step.what)

    def finished(self, w: World, step: Step, rest: tuple[Step, ...]) -> World:
        run = w.run
        assert run
        run = run._replace(todo=rest)
        match step.what:
            case "map":
                run = run._replace(dirty=run.dirty | run.add, add=0)
            case "map_ahead":
                run = run._replace(fresh=step.leg)
            case "new_map":
                run = run._replace(fresh=-1, homes=frozenset({step.leg}))
            case "alone" | "alone_new_map":
                homes = frozenset({step.leg})
                run = run._replace(may_miss=True, fresh=-1, served=True, homes=homes)
            case "join":
                w = w._replace(went=(False, False))
                run = run._replace(other="T", stale=run.dirty, may_miss=False)
            case "in_sync" if step.leg != run.source or self.target_first(rest):
                disk = w.disks[step.leg]
                w = w._replace(disks=put(w.disks, step.leg, disk._replace(synced=True)))
        if not rest:
            run = run._replace(served=True)
            if step.what == "in_sync":
                run = run._replace(other="S", maybe_sync=False, source=0)
        return w._replace(run=run)

    def target_first(self, rest: tuple[Step, ...]) -> bool:
        return "target_first" in self.faults and bool(rest)

    # everything that may happen

    def changes(self, w: World) -> Iterator[Change]:
        for leg in (0, 1):
            if w.lost[leg]:
                yield f"leg {leg} is back", w._replace(lost=flag(w.lost, leg, False))
        if w.run is None:
            yield from self.at_rest(w)
        else:
            yield "crash", w._replace(run=None)
            yield from self.while_running(w, w.run)
        yield from self.somebody_else(w)

    def at_rest(self, w: World) -> Iterator[Change]:
        for local, remote in ((True, True), (True, False), (False, True)):
            if (local and w.lost[0]) or (remote and w.lost[1]):
                continue
            after = self.assemble(w, local, remote)
            if after:
                yield f"assemble {'L' * local}{'R' * remote}", after
            elif local and remote:
                yield from self.resolve(w)
        if w.drawer:
            leg, old = w.drawer
            after = w._replace(
                disks=put(w.disks, leg, old), drawer=(leg, w.disks[leg]), tampered=True
            )
            if old.sb.state == NEW:  # it is there to be filled, as when it was made
                after = consent(after, w.disks[1 - leg])
            after = consent(after, *(d for d in after.disks if d.sb.state != NEW))
            yield f"the old disk {leg} is put back", after

    def resolve(self, w: World) -> Iterator[Change]:
        for keep in (0, 1):
            if w.disks[keep].sb.state not in (SYNC, ALONE):
                continue
            after = consent(self.sb(w, 1 - keep, "give_up"), w.disks[keep])
            other = after.disks[1 - keep]._replace(synced=False, torn=True)
            disks = put(after.disks, 1 - keep, other)
            yield f"resolve, keep {keep}", after._replace(disks=disks, went=(False, False))

    def somebody_else(self, w: World) -> Iterator[Change]:
        """What happens to a leg that a running mirror doesn't use."""
        for leg in (0, 1):
            idle = w.run is None or (w.run.other == "D" and w.run.source != leg)
            source = w.disks[1 - leg]
            if idle and source.sb.state in (SYNC, ALONE) and w.drawer is None:
                yield f"leg {leg} is replaced", self.replace(w, leg)
            if w.run is None or not idle or not w.lost[leg]:
                continue
            v = self.judge(w, leg == 0, leg == 1)
            if v.good:
                yield f"another host writes on leg {leg}", self.take_over(w, leg)

    def replace(self, w: World, leg: int) -> World:
        old = w.disks[leg]
        w = consent(w, w.disks[1 - leg])
        sb = Super(leg, NEW, 0, epoch=0, epochs=0, uuid=new_uuid(w))
        sb = self.driver.event("create_new", sb, w.disks[1 - leg].sb)
        disk = Disk(sb, sb.epoch, 0, (JUNK,) * BLOCKS, torn=True)
        return w._replace(
            disks=put(w.disks, leg, disk), drawer=(leg, old), went=flag(w.went, leg, False)
        )

    def take_over(self, w: World, leg: int) -> World:
        disk = w.disks[leg]
        bits = disk.map()
        w = self.sb(w, leg, *([] if disk.sb.epoch else ["new_map"]), "go_alone")
        w, value = new_value(w, disk.data[0])
        w = self.write_map(w, leg, bits | 1, fresh=False)
        w = promise(self.write_data(w, leg, 0, value), 0, value)
        return w._replace(went=flag(w.went, leg, True))

    def while_running(self, w: World, run: Running) -> Iterator[Change]:
        other = 1 - run.source
        if run.other != "D":
            yield f"leg {other} is lost", self.lose(w, other)
        yield f"leg {run.source} is lost", self.lose(w, run.source)
        if run.todo:
            yield from self.step(w)
        if not run.served:
            return
        if run.write is None:
            yield from self.begin_write(w, run)
        else:
            yield from self.go_on_writing(w, run, run.write)
        yield from self.read(w, run)
        if run.other == "D" and not w.lost[other] and run.write is None:
            yield from self.rejoin(w, run)
        if run.other == "T" and not run.todo:
            yield from self.resync(w, run)
        if run.other in "ST" and not run.todo and run.dirty & ~run.stale and run.write is None:
            yield "clean bits are cleared", self.mark(w, run, run.dirty & run.stale)

    def mark(self, w: World, run: Running, dirty: int) -> World:
        for leg in run.homes:
            w = self.write_map(w, leg, dirty, fresh=False)
        if run.fresh >= 0:
            w = self.write_map(w, run.fresh, dirty, fresh=True)
        return w._replace(run=run._replace(dirty=dirty))

    def begin_write(self, w: World, run: Running) -> Iterator[Change]:
        for block in range(BLOCKS):
            bit = 1 << REGION[block]
            if not run.dirty & bit and not run.homes:
                continue  # no superblock names a map yet that could take the mark
            marked = self.mark(w, run, run.dirty | bit) if not run.dirty & bit else w
            assert marked.run
            after, value = new_value(marked, marked.disks[run.source].data[block])
            sent = {run.source} | ({1 - run.source} if run.other in "ST" else set())
            write = (block, value, frozenset(sent), frozenset[int]())
            yield f"write {block}", after._replace(run=marked.run._replace(write=write))

    def go_on_writing(
        self, w: World, run: Running, write: tuple[int, int, frozenset[int], frozenset[int]]
    ) -> Iterator[Change]:
        block, value, sent, landed = write
        alive = {run.source} | ({1 - run.source} if run.other in "ST" else set())
        for leg in sent & alive - landed:
            after = self.write_data(w, leg, block, value)
            if leg != run.source and run.stale:
                disk = after.disks[leg]._replace(torn=True)
                after = after._replace(disks=put(after.disks, leg, disk))
            done = run._replace(write=(block, value, sent, landed | {leg}))
            yield f"write lands on {leg}", after._replace(run=done)
        everywhere = run.other in "ST" and landed >= {0, 1}
        if everywhere or (landed >= sent & alive and run.may_miss and run.other in "DJ"):
            after = promise(w, block, value)
            yield "acknowledge", after._replace(run=run._replace(write=None))

    def read(self, w: World, run: Running) -> Iterator[Change]:
        for block in range(BLOCKS):
            if run.write and run.write[0] == block:
                continue
            mine, other = (w.disks[leg].data[block] for leg in (run.source, 1 - run.source))
            covered = run.stale & 1 << REGION[block]
            if run.other in "ST" and not covered and mine != other:
                raise Wrong(f"rule 5: block {block} is taken for equal")
            after = promise(w, block, mine)
            if after.must != w.must:
                yield f"read {block}", after

    def rejoin(self, w: World, run: Running) -> Iterator[Change]:
        leg = 1 - run.source
        v = self.judge(w, True, True)
        ahead = v.good and v.join and v.source != run.source
        if not v.good or (ahead and "join_what_is_ahead" not in self.faults):
            return  # it stays dead
        full = v.full
        covers = 0 if "forget_targets_map" in self.faults else w.disks[leg].map()
        run = run._replace(add=ALL if full else covers)
        run, todo = self.joining(run, leg, full=full)
        if run.source not in run.homes:
            todo = [Step("map_ahead", run.source), Step("new_map", run.source), *todo]
        yield f"leg {leg} rejoins", w._replace(run=run._replace(todo=tuple(todo)))

    def resync(self, w: World, run: Running) -> Iterator[Change]:
        target = 1 - run.source
        for region in (0, 1):
            bit = 1 << region
            busy = run.write is not None and REGION[run.write[0]] == region
            if not run.stale & bit or busy:
                continue
            after = w
            for block in range(BLOCKS):
                if REGION[block] == region:
                    after = self.write_data(after, target, block, w.disks[run.source].data[block])
            stale = run.stale & ~bit
            disk = after.disks[target]._replace(torn=bool(stale))
            done = run._replace(stale=stale)
            yield (
                f"region {region} is copied",
                after._replace(disks=put(after.disks, target, disk), run=done),
            )
        if run.stale or run.write:
            return
        todo: list[Step] = []
        if target == 0:
            todo += [Step("map_ahead", 0), Step("new_map", 0)]
            if "home_without_map" in self.faults:
                del todo[0]
        ends = [Step("in_sync", run.source), Step("in_sync", target)]
        if "target_first" in self.faults:
            ends.reverse()
        disk = w.disks[target]._replace(torn=False)
        w = w._replace(disks=put(w.disks, target, disk))
        yield "resync is complete", w._replace(run=run._replace(todo=(*todo, *ends)))


def created(driver: Driver, *, clean: bool) -> World:
    """As lockstep-meta create leaves two disks."""

    def disk(leg: int) -> Disk:
        blank = Super(leg, 0, 0, epoch=0, epochs=0)
        if leg == 0 or clean:
            sb = driver.event("create_sync", blank, blank, 1)
            return Disk(sb, sb.epoch, 0, (0,) * BLOCKS, synced=True)
        sb = driver.event("create_new", blank, disk(0).sb)
        return Disk(sb, sb.epoch, 0, (JUNK,) * BLOCKS, torn=True)

    return World((disk(0), disk(1)), (False, False), (frozenset({0}),) * BLOCKS, ())
