# SPDX-License-Identifier: GPL-2.0-only
"""Which worlds of life_model.py are the same: the numbers of generations, values, epochs and disks
mean nothing."""

from __future__ import annotations

from collections.abc import Callable

from life_model import JUNK, Disk, World, disks_of


def canonical(w: World) -> World:
    """The same world with its generations, values and epochs counted from 1, so that worlds that
    differ only in these are one."""
    return _rename_values(_rename_generations(_rename_epochs(_rename_uuids(w))))


def _map_disks(w: World, change: Callable[[Disk], Disk]) -> World:
    return w._replace(
        disks=(change(w.disks[0]), change(w.disks[1])),
        drawer=(w.drawer[0], change(w.drawer[1])) if w.drawer else None,
    )


def _rename_uuids(w: World) -> World:
    """0, for a leg's first disk, stays: it stands for another number on each leg."""
    used = {d.sb.uuid for d in disks_of(w)} | {d.sb.adopted for d in disks_of(w)}
    names = {u: i for i, u in enumerate(sorted(u for u in used if u >= 10), 10)}

    def one(d: Disk) -> Disk:
        s = d.sb
        return d._replace(sb=s._replace(
            uuid=names.get(s.uuid, s.uuid), adopted=names.get(s.adopted, s.adopted)
        ))  # fmt: skip

    return _map_disks(w, one)


def _rename_epochs(w: World) -> World:
    def one(d: Disk) -> Disk:
        # Only whether the map is the one that counts, or the next, matters.
        by = d.sb.epochs - 2
        epoch = 0 if not d.sb.epoch else 2 if d.sb.epoch == d.sb.epochs else 1
        counts = d.sb.epoch and d.map_epoch == d.sb.epoch
        at = epoch if counts else 3 if d.map_epoch > d.sb.epochs else 0
        assert d.map_epoch - by <= 3
        sb = d.sb._replace(epoch=epoch, epochs=2)
        return d._replace(sb=sb, map_epoch=at, bits=d.bits if at else 0)

    return _map_disks(w, one)


def _rename_generations(w: World) -> World:
    used = {g for d in disks_of(w) for g in (d.sb.cur, d.sb.base, *d.sb.history)} - {0}
    names = {g: i for i, g in enumerate(sorted(used), 1)} | {0: 0}

    def one(d: Disk) -> Disk:
        s = d.sb
        return d._replace(sb=s._replace(
            cur=names[s.cur], base=names[s.base], history=tuple(names[g] for g in s.history)
        ))  # fmt: skip

    return _map_disks(w, one)


def _rename_values(w: World) -> World:
    over = dict(w.over)
    used = {v for d in disks_of(w) for v in d.data} | {v for m in w.must for v in m}
    if w.run and w.run.write:
        used.add(w.run.write[1])
    used -= {JUNK}
    names = {v: i for i, v in enumerate(sorted(used))} | {JUNK: JUNK}
    pairs = []
    for value in sorted(used):
        below: int | None = value
        while below is not None:
            below = over.get(below)
            if below in used:
                pairs.append((names[value], names[below]))
                break
    run = w.run
    if run and run.write:
        run = run._replace(write=(run.write[0], names[run.write[1]], *run.write[2:]))
    w = _map_disks(w, lambda d: d._replace(data=tuple(names[v] for v in d.data)))
    must = tuple(frozenset(names[v] for v in m) for m in w.must)
    return w._replace(must=must, over=tuple(pairs), run=run)
