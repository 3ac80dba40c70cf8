# SPDX-License-Identifier: GPL-2.0-only
"""`assemble`, `stop`, `resolve`: two devices become a running mirror, and the other way round."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from . import ask, config, device, digests, dm, late, meta, show, status, table, unit
from .errors import DONE, Failed, Refused, Usage
from .table import ABSENT, LEGS, LOCAL, REMOTE

_PAUSE_S = 0.2
# What a login may take, and a leg to be read, whatever --wait says.
_LOGIN_S = _LOOK_S = 5.0
# As long as dmsetup tries to remove a device.
_HELD_S = 5.0
CHANGED = "{name}: its legs have changed since they were shown. Nothing was written. Try again"


def assemble(args: argparse.Namespace) -> int:
    if args.all:
        if args.name or args.local or args.remote or args.stay:
            raise Usage("--all takes no name, no devices and no --stay")
        return _assemble_all(args)
    if not args.name:
        raise Usage("which mirror? Give its name, or --all")
    if args.stay:
        return _assemble_and_stay(args)
    with config.locked(args.name):
        _assemble(_configured(args), args)
    unit.started(args.name)
    return DONE


def _assemble_and_stay(args: argparse.Namespace) -> int:
    """Told to end at any moment, it leaves no mirror behind, or says that it does."""
    try:
        with unit.told():
            with config.locked(args.name):
                _assemble(_configured(args), args)
            unit.stay(args.name)
    except unit.ToldToStop:
        with config.locked(args.name):
            _stop(args.name, all_of_them=False)
    return DONE


def _assemble_all(args: argparse.Namespace) -> int:
    """Each by itself; the worst decides."""
    code = DONE
    for name in config.names():
        try:
            with config.locked(name):
                _assemble(config.load(name), args)
            unit.started(name)
        except (Failed, Refused) as err:
            print(f"lockstep: {name}: {err}", file=sys.stderr)
            code = max(code, err.code)
    return code


def _configured(args: argparse.Namespace) -> config.Config:
    """From the file; from the command line if there is none (a host that takes the legs over)."""
    if not (args.local or args.remote):
        return config.load(args.name)
    if not (args.local and args.remote):
        raise Usage("--local and --remote belong together; - is a leg that isn't there")
    config.check_name(args.name)
    if config.path(args.name).exists():
        raise Refused(f"{config.path(args.name)} names the devices of {args.name}: change it there")
    names = {leg: getattr(args, leg) for leg in LEGS}
    portal = ("", "")
    for leg, given in names.items():
        if given == ABSENT:
            continue
        at = device.look(given)
        names[leg], _ = device.stable_name(at)
        if leg == REMOTE:
            portal = device.iscsi(at) or portal
    return config.Config(args.name, names[LOCAL], names[REMOTE], "", *portal)


def _assemble(kept: config.Config, args: argparse.Namespace) -> None:
    if dm.exists(kept.name):
        dm.running(kept.name)
        print(f"{kept.name} runs already")
        return
    wait = kept.wait if args.wait is None else args.wait
    nodes = find_legs(kept, wait)
    # It wasn't locked while it waited.
    if dm.exists(kept.name):
        print(f"{kept.name} runs already")
        return
    if config.path(kept.name).exists() and config.load(kept.name) != kept:
        raise Refused(f"{config.path(kept.name)} has changed meanwhile. Try again")
    if args.log_lost:
        _give_log_up(kept, nodes, given=args.yes)
    if REMOTE in nodes:
        digests.wait(kept.options, min(wait, digests.PATIENCE_S))
    uuid = start(
        kept, nodes, run=args.run or kept.start_alone, yes=args.yes or kept.start_alone,
        unasked=not (args.run or args.yes),
    )  # fmt: skip
    if config.path(kept.name).exists():
        return
    try:
        config.save(replace(kept, uuid=uuid))
    except Failed as err:
        raise Failed(f"{kept.name} runs, but {err}. Its next start needs the same words") from err


def find_legs(kept: config.Config, wait: float) -> dict[str, str]:
    """The nodes of the legs, as many as appear in time, and can be read: a disk that is away for a
    moment, or dead, may have its name yet, and one that hangs holds nobody. It waits for all that
    there are, and without the lock: who needs the mirror meanwhile, with one leg or two, doesn't
    wait for that."""
    named = {leg: node for leg, node in kept.devices().items() if node != ABSENT}
    with config.unlocked():
        return _await(kept, named, wait)


class _Look(threading.Thread):
    """Whether a leg can be read. Nobody waits for the end of it: a disk may take minutes."""

    def __init__(self, node: str) -> None:
        super().__init__(daemon=True)
        self.node = node
        self.good = False
        self.error: Failed | None = None
        self.start()

    def run(self) -> None:
        if not device.present(self.node):
            return
        try:
            at = device.look(self.node)
        except (Failed, Refused):  # It has gone since.
            return
        try:
            self.good = not meta.examine(at.node, search=False).unread
        except Failed as err:
            self.error = err


def _await(kept: config.Config, named: Mapping[str, str], wait: float) -> dict[str, str]:
    until = time.monotonic() + wait
    trouble = ""
    if kept.target and not device.present(kept.remote):
        try:
            device.log_in(kept.target, kept.portal, max(wait, _LOGIN_S))
        except (Failed, Refused) as err:
            trouble = str(err)
    looks = {leg: _Look(node) for leg, node in named.items()}
    while True:
        for look in looks.values():
            look.join(_PAUSE_S)
            if look.error:
                raise look.error
        nodes = {leg: look.node for leg, look in looks.items() if look.good}
        nodes = {leg: node for leg, node in nodes.items() if device.present(node)}
        late_s = time.monotonic() - until
        busy = any(look.is_alive() for look in looks.values())
        if len(nodes) == len(named) or late_s >= (_LOOK_S if busy else 0):
            break
        time.sleep(_PAUSE_S)
        for leg, look in looks.items():
            # One may have ended meanwhile, and be good.
            if not look.is_alive() and not (look.good and device.present(look.node)):
                looks[leg] = _Look(look.node)
    if trouble and REMOTE not in nodes:
        print(f"lockstep: {kept.name}: {trouble}", file=sys.stderr)
    return nodes


def unused(name: str, nodes: Mapping[str, str]) -> dict[str, device.Device]:
    """The legs' devices; refuses if anybody uses one."""
    found = {leg: device.look(node) for leg, node in nodes.items()}
    for at in found.values():
        used = device.uses(at)
        if used:
            error = Failed if used == [device.HELD] else Refused
            raise error(f"{name}: {at.given} is in use: {'; '.join(used)}")
    return found


def start(
    kept: config.Config, nodes: Mapping[str, str], *,
    run: bool, yes: bool = False, unasked: bool = False,
) -> str:  # fmt: skip
    """The verdict first; then a table. Refuses with what is wrong and what resolves it. Returns the
    mirror's uuid. `run`: with one leg, if the other isn't there; `yes`: even if nobody knows
    whether the other one went on alone. `unasked`: both are by start_alone, so not if that one is
    there and can't be read: a disk that is ill for a while may have everything."""
    if not nodes:
        raise Failed(f"{kept.name}: neither leg is there to be read: {kept.local}, {kept.remote}")
    found = unused(kept.name, nodes)
    for leg in list(found):
        _take(kept, leg, found, run=run)
    missing = [leg for leg in LEGS if leg not in found]
    verdict = meta.verdict(*(found[leg].node if leg in found else ABSENT for leg in LEGS))
    _refuse(kept, verdict)
    _refuse_name(kept, verdict)
    _refuse_second(kept, verdict.uuid)
    if missing and not run:
        leg = missing[0]
        raise Failed(
            f"{kept.name}: {_absent(kept, leg, nodes)}. {_alone(kept, leg, verdict)}"
        )
    if missing and verdict.guess:
        if unasked and (missing[0] in nodes or device.present(kept.devices()[missing[0]])):
            raise Failed(
                f"{kept.name}: {_absent(kept, missing[0], nodes)}, and start_alone is for one that"
                f" isn't there. {_alone(kept, missing[0], verdict)}"
            )
        _warn(kept, missing[0], verdict, found, given=yes)
    legs = {leg: found[leg].number if leg in found else ABSENT for leg in LEGS}
    line = table.Table(verdict.data_len, legs, dict(kept.options)).line()
    if verdict.unmarked:
        meta.mark(*(found[leg].node if leg in found else ABSENT for leg in LEGS))
    dm.load_module()
    dm.create(kept.name, verdict.uuid, line)
    digests.remark(kept.name, kept.options)
    print(f"{kept.name}: {verdict.text}")
    if missing and kept.options.get("policy") in ("block", "error"):
        print(
            f"{kept.name}: by its policy ({kept.options['policy']}) writes are held or fail until"
            f" the {missing[0]} leg is there. To go on alone: lockstep unblock {kept.name}, or"
            f" lockstep set {kept.name} policy=degrade"
        )
    return verdict.uuid


def _take(kept: config.Config, leg: str, found: dict[str, device.Device], *, run: bool) -> None:
    """Before anything on it is believed: nothing that was sent to it earlier may still arrive. A
    leg of which that isn't sure is left out if the mirror may start without it."""
    try:
        late.take(kept.name, leg, found[leg])
    except Failed as err:
        if not run or len(found) == 1:
            raise
        print(f"lockstep: {err}", file=sys.stderr)
        del found[leg]


def _alone(kept: config.Config, leg: str, verdict: meta.Verdict) -> str:
    """What starting without that leg means. Who follows a hint mustn't lose anything by it."""
    rest = table.other(leg)
    text = (
        f"With --run the mirror starts on the {rest} leg alone, and what is written then is on one"
        " site only until the other leg is back"
    )
    if not verdict.guess:
        return text
    return (
        f"Wait for it, if you can. Did the {leg} leg go on alone meanwhile, on this host or another"
        " one? Then it has acknowledged writes that are missing here, and starting without it"
        f" makes a split brain. Only if you know that it did not: {text[0].lower()}{text[1:]}"
    )


def _warn(
    kept: config.Config,
    leg: str,
    verdict: meta.Verdict,
    found: Mapping[str, device.Device],
    *,
    given: bool,
) -> None:
    """Before the start: after it both legs may have writes that the other lacks."""
    rest = table.other(leg)
    print(
        f"{kept.name}: without the {leg} leg {kept.devices()[leg]}. If that went on alone, on this"
        " host or another one, it has acknowledged writes that are missing here, and starting"
        " without it makes a SPLIT BRAIN: what one side wrote will be lost.",
        file=sys.stderr,
        flush=True,
    )
    ask.permission(f"Start {kept.name} on the {rest} leg alone?", given=given)
    now = unused(kept.name, {one: at.given for one, at in found.items()})
    nodes = [now[one].node if one in now else ABSENT for one in LEGS]
    if now != found or meta.verdict(*nodes) != verdict or dm.exists(kept.name):
        raise Refused(CHANGED.format(name=kept.name))


def _give_log_up(kept: config.Config, nodes: Mapping[str, str], *, given: bool) -> None:
    """A leg's disk without its DCD, whose log is lost (--log-lost)."""
    found = unused(kept.name, nodes)
    legs = [
        (leg, at) for leg, at in found.items() if meta.examine(at.node, search=False).bypassed
    ]
    if not legs:
        raise Refused(
            f"{kept.name}: none of its legs here is a disk without its DCD's log: --log-lost isn't"
            " needed. Nothing was changed"
        )
    for leg, at in legs:
        print(
            f"{kept.name}: the {leg} leg {at.given} lacks what the DCD's log still has. WHAT ONLY"
            " THE LOG HAS IS LOST, and that DCD won't use this disk any more.",
            file=sys.stderr,
            flush=True,
        )
        ask.permission(f"Go on without the log of {at.given}?", given=given)
        if unused(kept.name, nodes) != found:
            raise Refused(CHANGED.format(name=kept.name))
        meta.leave_log(at.node)


def _absent(kept: config.Config, leg: str, seen: Mapping[str, str]) -> str:
    """Why there is no such leg. `seen`: the nodes of those that could be read at first."""
    node = kept.devices()[leg]
    if node == ABSENT:
        return f"it has no {leg} leg on this host ({config.path(kept.name)} says {ABSENT})"
    if leg in seen:
        return f"the {leg} leg {node} is left out, as earlier writes may still reach it"
    if device.present(node):
        return f"the {leg} leg {node} can't be read: I/O error, or no answer"
    return f"the {leg} leg {node} isn't there"


def check_set(kept: config.Config, uuid: str) -> None:
    """The legs are those of this mirror, and not what a name in the file happens to mean now."""
    if uuid and kept.uuid and uuid != kept.uuid:
        raise Refused(
            f"{kept.name}: {kept.local} and {kept.remote} belong to another mirror: their set is"
            f" {uuid}, {config.path(kept.name)} says {kept.uuid}. Correct the devices there"
        )


def _refuse(kept: config.Config, verdict: meta.Verdict) -> None:
    check_set(kept, verdict.uuid)
    if not verdict.good:
        raise (Failed if verdict.unread else Refused)(refusal(kept, verdict))


def refusal(kept: config.Config, verdict: meta.Verdict) -> str:
    """What is wrong, and the way out."""
    lines = [f"{kept.name}: {verdict.text}"]
    if any(verdict.histories.values()):
        lines.append(history_table(verdict.histories))
    lines.append(_way_out(kept, verdict))
    return "\n".join(line for line in lines if line)


def _refuse_second(kept: config.Config, uuid: str) -> None:
    """One set under two names would be started twice, and its legs would part."""
    for name in config.names():
        if name == kept.name:
            continue
        try:
            taken = config.load(name).uuid == uuid
        except (Failed, Refused):
            continue  # It can't be started either.
        if taken and uuid:
            raise Refused(
                f"{kept.name}: these legs are the mirror {name} on this host: lockstep assemble"
                f" {name}. If {name} is no more, remove {config.path(name)}"
            )


def _refuse_name(kept: config.Config, verdict: meta.Verdict) -> None:
    """Devices that nobody has called this mirror yet: a slip of the hand would start another one.
    A file with the set's uuid is a word about it."""
    if kept.uuid or verdict.name in ("", kept.name):
        return
    raise Refused(
        f"{kept.name}: these legs are a mirror that is called {verdict.name}: lockstep assemble"
        f" {verdict.name} --local DEV --remote DEV. If it is to be {kept.name} on this host, write"
        f" {config.path(kept.name)} first: local, remote, and uuid = \"{verdict.uuid}\""
    )


# Refusals that one of the two commands ends: both legs carry writes, or may.
_DECISIONS = ("split-brain", "outdated", "unrelated", "both")


def _way_out(kept: config.Config, verdict: meta.Verdict) -> str:
    """Which command resolves it."""
    if verdict.word in _DECISIONS:
        return (
            "Decide which leg's content to keep; what was written only on the other is lost:\n"
            f"  lockstep resolve {kept.name} --keep local\n"
            f"  lockstep resolve {kept.name} --keep remote"
        )
    if verdict.word in ("blank", "bad", "foreign") and verdict.leg in LEGS:
        return _another_disk(kept, verdict.leg)
    if verdict.word == "bypassed" and verdict.leg in LEGS:
        node = kept.devices()[verdict.leg]
        return (
            f"Free {node} of its LUN, then: dcd retire --data {node} --log LOG --nvram NVRAM\n"
            "Only if that log is lost, and what only it has may be lost, too: add --log-lost to"
            " `lockstep assemble`"
        )
    if verdict.word == "incomplete" and verdict.leg in LEGS:
        return _mixture(kept, verdict.leg)
    if verdict.word == "swapped":
        return f"Exchange `local` and `remote` in {config.path(kept.name)}"
    return f"Look at both: lockstep examine {kept.local} {kept.remote}"


def _mixture(kept: config.Config, leg: str) -> str:
    """Of a leg that was being resynced. What it missed stands in the map of the other one only, so
    nothing here can say how much that is, nor where: no word takes it for a mirror's leg."""
    node = kept.devices()[leg]
    if meta.examine(device.look(node).node, given=node, search=False).state != "target":
        return f"Look at both: lockstep examine {kept.local} {kept.remote}"
    return (
        f"Only if that leg is lost for good: {node} is current where it was resynced, and has what"
        " was there before where it wasn't, and only the lost leg's map, or the kernel's log of its"
        " host, could tell how much that is and where. To salvage what it has:\n"
        f"  lockstep wipe {node}\n"
        "It is a plain disk then. Check all that is on it, restore what is old or damaged, and make"
        " a new mirror of it: lockstep create"
    )


def _another_disk(kept: config.Config, leg: str) -> str:
    """Of a leg that shows no good metadata. One that has grown shows none, and it may be the one
    that has all writes: replacing it is the last thing to think of."""
    node = kept.devices()[leg]
    seen = meta.examine(device.look(node).node, given=node)
    if seen.kind == "grown":
        way = f"lockstep grow {kept.name}"
        if not config.path(kept.name).exists():  # a take-over
            operands = " ".join(node if one == leg else ABSENT for one in LEGS)
            way = f"lockstep-meta grow {operands}, then this again"
        return f"{node}: {seen.reason}: {way}. Don't replace it"
    return (
        f"If {node} has grown since the mirror ran: lockstep grow {kept.name}\n"
        f"If it is another disk now, and nobody needs its content nor what the {leg} leg had:\n"
        f"  lockstep replace {kept.name} {leg} {node} --lost"
    )


def history_table(histories: Mapping[str, list[meta.Generation]]) -> str:
    """Both side by side, the newest first; generations that both have are marked."""
    common = set.intersection(*({one.id for one in histories[leg]} for leg in LEGS))
    rows = [("leg", "generation", "since", "why", "")]
    for leg in LEGS:
        rows += [
            (leg, f"{one.count} ({one.id})", show.moment(one.time), one.reason,
             "both have it" if one.id in common else "")
            for one in histories[leg]
        ]  # fmt: skip
    return show.columns(rows)


def stop(args: argparse.Namespace) -> int:
    if args.all == bool(args.name):
        raise Usage("which mirror? Give its name, or --all")
    code = DONE
    for name in dm.names() if args.all else [args.name]:
        try:
            with config.locked(name):
                _stop(name, all_of_them=args.all)
        except (Failed, Refused) as err:
            if not args.all:
                raise
            print(f"lockstep: {name}: {err}", file=sys.stderr)
            code = max(code, err.code)
    return code


def _stop(name: str, *, all_of_them: bool) -> None:
    there = dm.info(name)
    if there is None:
        if not all_of_them and name not in config.names():
            raise Refused(f"there is no mirror {name}, neither running nor in {config.FOLDER}")
        print(f"{name} doesn't run")
        return
    dm.running(name)
    _wait_until_free(there)
    alive = _alive(name)
    dm.remove(name)
    late.stopped(name, alive)
    print(f"{name}: stopped")


def _wait_until_free(there: dm.Info | None) -> None:
    """udev looks at a device that was just written to, and holds it for a moment."""
    ends = time.monotonic() + _HELD_S
    while there and there.opens:
        who = device.uses(device.look(dm.node(there.name)))
        if set(who) - {device.HELD} or time.monotonic() >= ends:
            raise Failed(
                f"{dm.node(there.name)} is in use: {'; '.join(who) or 'a program has it open'}."
                " End that first (umount, or the program)"
            )
        time.sleep(_PAUSE_S)
        there = dm.info(there.name)


def _alive(name: str) -> list[device.Device]:
    """The legs that the running mirror has in use, as far as its file says where they are."""
    with suppress(Failed, Refused):
        nodes = config.load(name).devices()
        health = status_of(name).health
        return [device.look(nodes[leg]) for leg in LEGS
                if health[leg] in "Aa" and device.present(nodes[leg])]  # fmt: skip
    return []


def _both_idle(kept: config.Config, wait: float | None) -> dict[str, device.Device]:
    """Both legs of a stopped mirror, which nobody uses."""
    if dm.exists(kept.name):
        raise Refused(f"{kept.name} runs: lockstep stop {kept.name}")
    nodes = find_legs(kept, kept.wait if wait is None else wait)
    for leg in LEGS:
        if leg not in nodes:
            raise Failed(f"{kept.name}: {_absent(kept, leg, nodes)}. This needs both legs")
    return unused(kept.name, nodes)


def resolve(args: argparse.Namespace) -> None:
    """The end of a split brain: the leg that isn't kept becomes a new disk, to be filled."""
    kept = config.load(args.name)
    found = _both_idle(kept, args.wait)
    verdict = meta.verdict(found[LOCAL].node, found[REMOTE].node)
    if verdict.good:
        raise Refused(
            f"{kept.name}: nothing to resolve: {verdict.text} Start it: lockstep assemble"
            f" {kept.name}"
        )
    check_set(kept, verdict.uuid)
    if verdict.word not in _DECISIONS:
        raise Refused(f"{refusal(kept, verdict)}\nThis is nothing that resolve can mend")
    lost = table.other(args.keep)
    print(f"{kept.name}: {verdict.text}", file=sys.stderr)
    if verdict.histories:
        print(history_table(verdict.histories), file=sys.stderr)
    print(
        f"KEPT: the {args.keep} leg {found[args.keep].given}.\n"
        f"OVERWRITTEN: the {lost} leg {found[lost].given}; what was written only there is lost.",
        file=sys.stderr,
    )
    ask.permission(f"Keep the {args.keep} leg of {kept.name}?", given=args.yes)
    if (
        config.load(args.name) != kept
        or _both_idle(kept, args.wait) != found
        or meta.verdict(found[LOCAL].node, found[REMOTE].node) != verdict
    ):
        raise Refused(CHANGED.format(name=kept.name))
    for leg in LEGS:
        late.take(kept.name, leg, found[leg])
    if meta.verdict(found[LOCAL].node, found[REMOTE].node) != verdict:
        raise Refused(CHANGED.format(name=kept.name))
    meta.resolve(args.keep, found[LOCAL].node, found[REMOTE].node)
    print(
        f"{kept.name}: the {args.keep} leg is kept. The other is filled from it when the mirror"
        f" runs: lockstep assemble {kept.name}"
    )


def status_of(name: str) -> status.Status:
    return status.parse(dm.status(name))
