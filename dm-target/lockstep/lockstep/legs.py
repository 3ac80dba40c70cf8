# SPDX-License-Identifier: GPL-2.0-only
"""A running mirror's legs: `fail`, `re-add`, `unblock`, `fail-held`, `resync`."""

from __future__ import annotations

import argparse
from contextlib import suppress

from . import assembly, config, device, digests, dm, grow, late, meta, table
from .errors import Failed, Refused
from .status import Status
from .table import ABSENT

_DEAD = ("D", ABSENT)


def fail(args: argparse.Namespace) -> None:
    """At once, whoever is at work on the mirror: that may be one who reads a leg that hangs. What
    that one has begun may give the leg back, so when it is done the leg is looked at again."""
    _fail(args)
    try:
        with config.locked(args.name):
            if dm.exists(args.name) and not _is_told(args):
                dm.message(args.name, f"fail {args.leg}")
    except Failed as err:
        raise Failed(
            f"{args.name}: the {args.leg} leg was given up, but another command is at work on the"
            f" mirror, and may give it back. See lockstep status {args.name} when that has ended"
        ) from err


def _is_told(args: argparse.Namespace) -> bool:
    now = assembly.status_of(args.name)
    return now.health[args.leg] in _DEAD and now.reasons.get(args.leg) == "told"


def _fail(args: argparse.Namespace) -> None:
    dm.running(args.name)
    now = assembly.status_of(args.name)
    if now.health[args.leg] in _DEAD:
        if now.reasons.get(args.leg) != "told":
            dm.message(args.name, f"fail {args.leg}")
        print(f"{args.name}: the {args.leg} leg is dead already, and stays so: lockstep re-add")
        return
    rest = table.other(args.leg)
    if now.health[rest] != "A":
        raise Refused(
            f"{args.name}: the {rest} leg isn't in sync, so without the {args.leg} leg the mirror"
            " can't go on: reads and writes would fail"
        )
    dm.message(args.name, f"fail {args.leg}")
    print(f"{args.name}: the {args.leg} leg gets no I/O any more")


def re_add(args: argparse.Namespace) -> None:
    """A dead leg is back, maybe under another device number. What is on it decides whether the
    kernel takes it; nothing is written here."""
    dm.running(args.name)
    leg = _missing_leg(args)
    kept = config.load(args.name)
    node = args.device or kept.devices()[leg]
    if node == ABSENT:
        raise Refused(
            f"{args.name}: {config.path(args.name)} names no {leg} leg: say --device DEV; a new"
            f" disk becomes the leg by: lockstep replace {args.name} {leg} DEVICE"
        )
    if kept.target and leg == table.REMOTE and not args.device and not device.present(node):
        # To a site that is down this takes minutes, and others may have to unblock the mirror.
        with config.unlocked():
            device.log_in(kept.target, kept.portal)
            digests.wait(kept.options)
        dm.running(args.name)
        leg = _missing_leg(args)
    at = device.look(node)
    if attach(kept, leg, at):
        print(f"{args.name}: the {leg} leg is {node} ({at.kernel}) from now on")
    if args.device:
        stable, _ = device.stable_name(at)
        config.change(kept.with_device(leg, stable))
    then = assembly.status_of(args.name)
    if then.health[leg] in _DEAD:
        print(f"{args.name}: {node} is looked at; what comes of it: lockstep status {args.name}")
    else:
        stale = then.stale[leg]
        missed = f"; {stale} of {then.regions} regions are copied to it" if stale else ""
        print(f"{args.name}: the {leg} leg is back{missed}")


def _missing_leg(args: argparse.Namespace) -> str:
    """The one that is meant."""
    kept = config.load(args.name)
    seen = assembly.status_of(args.name)
    asked = [args.leg] if args.leg else list(table.LEGS)
    with config.unlocked():
        gone = [
            leg for leg in asked if is_lost(kept, leg, args.device or kept.devices()[leg], seen)
        ]
    now = assembly.status_of(args.name)
    missing = [leg for leg in table.LEGS if leg in gone or now.health[leg] in _DEAD]
    leg: str | None = args.leg or (missing[0] if len(missing) == 1 else None)
    if leg is None:
        what = "both legs are dead or their devices gone: name one" if missing else "no leg is dead"
        raise Refused(f"{args.name}: {what}")
    if leg not in missing:
        raise Refused(f"{args.name}: the {leg} leg isn't dead, nor is its device gone")
    return leg


def is_lost(kept: config.Config, leg: str, node: str, seen: Status) -> bool:
    """The kernel doesn't call a leg dead without which nothing is left, whatever becomes of its
    device. So: the device of the table is gone, or only fails, and the leg's name leads to
    another one, or nowhere yet. While I/O waits for it nobody can take it away. It is asked, and
    may take its time: not for under the lock."""
    number = table.Table.parse(dm.table(kept.name)).devices[leg]
    if seen.health[leg] in _DEAD or leg in seen.silent or number == ABSENT:
        return False
    with suppress(Failed):
        if device.look(node).number == number:
            return False
    return not device.answers(number)


def attach(kept: config.Config, leg: str, at: device.Device, *, search: bool = True) -> bool:
    """Gives the device to a running mirror. True: by a new table; False: the table has it already,
    and the kernel was told to look at it. `search`: look for metadata of when the device was
    smaller, if there are none; that takes half a minute, and nobody needs it who tries again."""
    now = table.Table.parse(dm.table(kept.name))
    if now.devices[leg] == at.number:
        try:
            dm.message(kept.name, f"recover {leg}")
        except Failed:
            # It knows more of the way out than the kernel does.
            late.check(kept.name, leg, at)
            _judge(kept, leg, at, now, search=search)
            raise
        return False
    if at.number == now.devices[table.other(leg)]:
        raise Refused(f"{at.given} is the {table.other(leg)} leg")
    used = device.uses(at)
    if used:
        raise Refused(f"{at.given} is in use: {'; '.join(used)}")
    late.check(kept.name, leg, at)
    _settle(kept, leg, at, now)
    _judge(kept, leg, at, now, search=search)
    exchange(kept, leg, at)
    return True


def _settle(kept: config.Config, leg: str, at: device.Device, now: table.Table) -> None:
    """Without the lock: others may have to unblock the mirror while the target is asked."""
    if not any(True for _ in device.iscsi_disks(at.disk())):
        return
    with config.unlocked():
        late.settle(kept.name, leg, at)
    _unchanged(kept, at, now)


def _judge(
    kept: config.Config, leg: str, at: device.Device, now: table.Table, *, search: bool
) -> None:
    """Refuses what the kernel would refuse, before it has to do that with the device suspended."""
    state = assembly.status_of(kept.name)
    lost = state.health[leg] not in _DEAD
    other = table.other(leg)
    rest = now.devices[other]
    # The mirror runs without it; or it is a target, which decides nothing, and can't be asked.
    if lost and (
        state.health[other] in _DEAD or (state.health[other] == "a" and not device.answers(rest))
    ):
        if state.standing == "alone":
            _refuse_copy(kept, leg, at, rest)
        rest = ABSENT
    nodes = {leg: at.node, other: rest if rest == ABSENT else device.by_number(rest)}
    verdict = meta.verdict(nodes[table.LOCAL], nodes[table.REMOTE])
    if verdict.uuid and kept.uuid and verdict.uuid != kept.uuid:
        raise Refused(
            f"{at.given} is a leg of another mirror, whose set is {verdict.uuid}: that of"
            f" {kept.name} is {kept.uuid}. Look at it: lockstep examine {at.given}"
        )
    grown = ""
    if not verdict.good and verdict.leg == leg:
        grown = _grown(kept, at, now, search=search)
    if grow.move(kept, leg, at.node, verdict, grown=bool(grown)):
        verdict = meta.verdict(nodes[table.LOCAL], nodes[table.REMOTE])
    if not verdict.good:
        way = f"Look at it: lockstep examine {at.given}. {_way(kept, leg, at, verdict)}"
        if grown:
            way = f"{at.given}: {grown}. Don't replace it"
        raise Refused(f"{at.given} can't be the {leg} leg of {kept.name}: {verdict.text} {way}")
    # Of one that is lost the kernel knows what it had.
    if verdict.join and verdict.source == leg and not lost:
        raise Refused(
            f"{at.given} went on without this mirror: {verdict.text} Nothing of it may be"
            f" overwritten by guess: lockstep stop {kept.name}, then lockstep assemble"
            f" {kept.name} says what to decide"
        )
    if verdict.unmarked:
        meta.mark(*(at.node if one == leg else ABSENT for one in table.LEGS))


def _way(kept: config.Config, leg: str, at: device.Device, verdict: meta.Verdict) -> str:
    """What to do with a device that can't be the leg. Whoever overwrites one of this mirror's own
    legs may lose what only that has."""
    anew = (
        "To make it the leg, losing what is on it:"
        f" lockstep replace {kept.name} {leg} {at.given}"
    )
    if verdict.word == "blank" and verdict.leg == leg:
        return anew
    seen = meta.examine(at.node, given=at.given, search=False)
    rest = table.other(leg)
    ours = seen.exists and bool(kept.uuid) and seen.uuid == kept.uuid
    if ours and seen.leg == rest:
        return (
            f"It is the {rest} leg of this mirror, or was: don't overwrite it. If the {rest} leg's"
            f" device is gone: lockstep re-add {kept.name} {rest} --device {at.given}"
        )
    if ours and verdict.word != "outdated":
        return (
            f"It is a leg of this mirror: don't overwrite it. lockstep stop {kept.name}, then"
            f" lockstep assemble {kept.name}, says what to decide"
        )
    return anew


def _refuse_copy(kept: config.Config, leg: str, at: device.Device, rest: str) -> None:
    """Of a leg that has gone on alone, from before that. The kernel would refuse it, and couldn't
    go on with the table before: neither leg of that can be read."""
    seen = meta.examine(at.node, given=at.given, search=False)
    if not seen.exists or seen.state == "alone":
        return
    # Who has lost a leg that was being filled needn't say that it goes on alone.
    if rest != ABSENT:
        filled = meta.examine(device.by_number(rest), search=False)
        if filled.exists and filled.state in ("new", "target"):
            return
    raise Refused(
        f"{at.given} can't be the {leg} leg of {kept.name}: that has gone on alone, and what is"
        f" here is from before ({seen.state}): a copy or a snapshot, maybe. Bring the disk itself:"
        f" lockstep examine {at.given}"
    )


def _grown(kept: config.Config, at: device.Device, now: table.Table, *, search: bool) -> str:
    """Why it is one that has grown; "" if it isn't. Without the lock: others may have to unblock
    the mirror meanwhile."""
    with config.unlocked():
        seen = meta.examine(at.node, given=at.given, search=search)
    _unchanged(kept, at, now)
    return seen.reason if seen.kind == "grown" else ""


def _unchanged(kept: config.Config, at: device.Device, now: table.Table) -> None:
    """After a while without the lock."""
    if (
        config.load(kept.name) != kept
        or device.look(at.given) != at
        or table.Table.parse(dm.table(kept.name)) != now
    ):
        raise Failed(f"{kept.name} has changed meanwhile. Nothing was written. Try again")


def exchange(kept: config.Config, leg: str, at: device.Device) -> None:
    """A new table with another device. What messages have changed since the old one was loaded is
    not in it, but in the configuration."""
    now = table.Table.parse(dm.table(kept.name))
    dm.reload(kept.name, now.with_device(leg, at.number).with_options(kept.options).line())
    digests.remark(kept.name, kept.options)


def let_go(name: str, leg: str, at: device.Device) -> bool:
    """A dead leg's device is taken out of the table, so that it can be written. False: it isn't in
    there."""
    now = table.Table.parse(dm.table(name))
    if now.devices[leg] != at.number:
        return False
    dm.reload(name, now.with_device(leg, ABSENT).line())
    return True


def unblock(args: argparse.Namespace) -> None:
    _held(args.name)
    dm.message(args.name, "unblock")
    print(f"{args.name}: the held writes go on, on one leg alone")


def fail_held(args: argparse.Namespace) -> None:
    _held(args.name)
    dm.message(args.name, "fail_held")
    print(f"{args.name}: the held writes have failed")


def _held(name: str) -> None:
    dm.running(name)
    now = assembly.status_of(name)
    if now.standing != "blocked":
        raise Refused(f"{name}: no writes are held: the mirror is {now.standing}")


def resync(args: argparse.Namespace) -> None:
    dm.running(args.name)
    if not args.full:
        raise Refused(
            f"{args.name}: what is stale is copied without being told (lockstep status). With"
            " --full everything is copied again from the local leg, whatever the map says"
        )
    dm.message(args.name, "resync")
    now = assembly.status_of(args.name)
    print(f"{args.name}: {sum(now.stale.values())} of {now.regions} regions to be copied")
