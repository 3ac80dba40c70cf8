# SPDX-License-Identifier: GPL-2.0-only
"""`events`, `verify`, `monitor`: what goes on while a mirror runs. Nothing here polls: dm wakes us
when the state of any mapped device changes."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from . import assembly, config, device, digests, dm, legs, show, status, table
from .errors import DONE, FAILED, Failed, Refused, Usage
from .report import summary
from .status import Status
from .table import LEGS

_ALIVE = ("A", "a")
Change = tuple[str, str | None, str | None]


def events(args: argparse.Namespace) -> int:
    for name in args.names:
        _must_be_known(name)
    return follow(args.names, lambda name, what, now: tell(name, what, now, args.json))


def _must_be_known(name: str) -> None:
    if name not in config.names() and not dm.exists(name):
        raise Refused(f"there is no mirror {name}, neither running nor in {config.FOLDER}")


def follow(names: list[str], on: Callable[[str, Change, Status | None], None]) -> int:
    """Calls back for each change of a mirror's state, first for those that run already."""
    known: dict[str, Status] | None = None
    with dm.events() as event:
        while True:
            event.arm()
            now = {
                name: status.parse(line)
                for name, line in sorted(dm.lines("status").items())
                if not names or name in names
            }
            for name in sorted({*(known or {}), *now}):
                if known is None:
                    on(name, ("mirror", None, "running"), now[name])
                    continue
                for what in changes(known.get(name), now.get(name)):
                    on(name, what, now.get(name))
            known = now
            event.sleep()


def changes(before: Status | None, after: Status | None) -> Iterator[Change]:
    """What, from what, to what."""
    if before is None or after is None:
        if before is not after:
            yield "mirror", _runs(before), _runs(after)
        return
    old, new = _facts(before), _facts(after)
    for what, value in new.items():
        if old[what] != value:
            yield what, old[what], value


def _runs(now: Status | None) -> str:
    return "running" if now else "stopped"


def _facts(now: Status) -> dict[str, str]:
    facts = {f"{leg} leg": status.HEALTH.get(now.health[leg], now.health[leg]) for leg in LEGS}
    facts["standing"] = now.standing
    facts["doesn't answer"] = ", ".join(f"{leg} leg" for leg in now.silent) or "none"
    facts |= {f"{leg} leg reason": now.reasons.get(leg, "none") for leg in LEGS}
    facts["action"] = now.action
    facts["policy"] = now.policy
    facts["out of sync"] = str(now.out_of_sync)
    return facts


def tell(name: str, change: Change, now: Status | None, as_json: bool) -> None:
    what, old, new = change
    at = time.time()
    if as_json:
        line: dict[str, Any] = {
            "time": round(at, 3), "mirror": name, "what": what, "from": old, "to": new,
            "status": now.json() if now else None,
        }  # fmt: skip
        print(json.dumps(line), flush=True)
        return
    moment = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(at))
    text = f"{what}: {new}" if old is None else f"{what}: {old} -> {new}"
    print(f"{moment} {name} {text}" + (f" ({summary(now)})" if now else ""), flush=True)


# --- verify ---


def verify(args: argparse.Namespace) -> int:
    if args.wait and args.what != "start":
        raise Usage("--wait is for `verify start`")
    if args.json and args.what != "status":
        raise Usage("--json is for `verify status`")
    if args.check and args.what != "start":
        raise Usage("--check is for `verify start`")
    dm.running(args.name)
    if args.what == "status":
        return _verify_status(args)
    now = assembly.status_of(args.name)
    if args.what == "stop":
        dm.message(args.name, "verify stop")
        print(f"{args.name}: verify {'is stopped' if now.verifying else 'does not run'}")
        return DONE
    if now.verifying:
        # Maybe one of the other kind: that would neither copy what this is to copy, nor leave as it
        # is what this is to leave.
        raise Refused(
            f"{args.name}: verify runs already, and the kernel doesn't tell whether it only checks."
            f" See lockstep verify status {args.name}; wait for its end, or: lockstep verify stop"
            f" {args.name}"
        )
    if not now.whole:
        raise Failed(f"{args.name}: only legs in sync can be compared: {summary(now)}")
    dm.message(args.name, "verify check" if args.check else "verify start")
    print(f"{args.name}: verify runs", flush=True)
    return _wait_verified(args.name) if args.wait else DONE


def _verify_status(args: argparse.Namespace) -> int:
    now = assembly.status_of(args.name)
    told = now.json()["verify"]
    if args.json:
        print(show.as_json({args.name: told}))
    elif now.verifying and now.verify:
        done, of = now.verify
        print(f"{args.name}: {show.bar(done, of)} {show.percent(done, of)}, {_found(now)}")
    elif now.verify:
        print(f"{args.name}: everything was compared: {_found(now)}")
    else:
        seen = f"; {_found(now)} before that" if now.out_of_sync else ""
        print(f"{args.name}: not compared to the end since the mirror came up{seen}")
    return DONE if now.verify and not now.out_of_sync else FAILED


def _wait_verified(name: str) -> int:
    with dm.events() as event:
        while True:
            event.arm()
            now = assembly.status_of(name)
            if not now.verifying:
                break
            event.sleep()
    # One that was stopped is gone without a word.
    whole = now.verify is not None
    how = "everything was compared" if whole else "verify was stopped before its end"
    print(f"{name}: {how}: {_found(now)}")
    return DONE if whole and not now.out_of_sync else FAILED


def _found(now: Status) -> str:
    if not now.out_of_sync:
        return "no sector differed"
    return (
        f"{now.out_of_sync} sectors differed, or couldn't be read from a leg"
        " (their places are in the kernel's log)"
    )


# --- monitor ---


def monitor(args: argparse.Namespace) -> int:
    """The kernel itself takes a leg back that answers again under its old device number. A LUN of
    a new session has a new one: that is what this is for. It outlives a stop of the mirror, so that
    one that is started again, by whomever, has its monitor."""
    _must_be_known(args.name)
    with dm.events() as event:
        known: Status | None = None
        first = True
        complaints: dict[str, str] = {}
        searched: set[device.Device] = set()
        while True:
            event.arm()
            line = dm.lines("status").get(args.name)
            now = status.parse(line) if line else None
            if first:
                tell(args.name, ("mirror", None, _runs(now)), now, False)
            else:
                for change in changes(known, now):
                    tell(args.name, change, now, False)
            known, first = now, False
            if now is None:
                event.sleep()
                continue
            looked_after = [leg for leg in LEGS if _may_need(leg, now)]
            for leg in looked_after:
                complaint = ""
                try:
                    _give_back(args.name, leg, now, searched)
                except (Failed, Refused) as err:
                    complaint = f"lockstep: {args.name}: {leg} leg: {err}"
                # Once, not every time: it is told again when something else was the matter.
                if complaint and complaint != complaints.get(leg):
                    print(complaint, file=sys.stderr, flush=True)
                complaints[leg] = complaint
            # Behind that: what it sends to the old device of a leg is waited for before a new one.
            _resume(args.name, now)
            event.sleep(args.interval if looked_after else None)


def _resume(name: str, seen: Status) -> None:
    """A new table couldn't be started, nor the one before, as a leg was away for longer than
    `dm.reload` tries: the device is suspended with all its I/O, and nobody else looks after it."""
    if seen.standing != "starting":
        return
    with suppress(Failed, Refused), config.locked(name):
        there = dm.info(name)
        if there and there.suspended and assembly.status_of(name).standing == "starting":
            dm.resume(name)
            print(f"{name}: it was suspended, and goes on", flush=True)


def _told(leg: str, now: Status) -> bool:
    """By `lockstep fail`: until `re-add` the leg stays where it is, and nobody logs in to it."""
    return now.reasons.get(leg) == "told"


def _may_need(leg: str, now: Status) -> bool:
    """It is dead, or nobody stands in for it, so that the kernel can't call it dead."""
    return now.health[leg] not in _ALIVE or now.health[table.other(leg)] != "A"


def _is_new(name: str, leg: str, at: device.Device) -> bool:
    return table.Table.parse(dm.table(name)).devices[leg] != at.number


def _give_back(name: str, leg: str, seen: Status, searched: set[device.Device]) -> None:
    """`searched`: devices that have been looked at for metadata of when they were smaller. That
    takes half a minute, and a slow wire, so it is done once."""
    if _told(leg, seen):
        return
    kept = config.load(name)
    node = kept.devices()[leg]
    if leg == table.REMOTE and kept.target and not device.present(node):
        # Without the lock: to a site that is down this takes minutes.
        device.log_in(kept.target, kept.portal)
    if not device.present(node) or not _is_new(name, leg, device.look(node)):
        return
    before = dm.table(name)
    if seen.health[leg] in _ALIVE and not legs.is_lost(kept, leg, node, seen):
        return
    if leg == table.REMOTE:
        digests.wait(kept.options)
    with config.locked(name):
        at = device.look(node)
        if not dm.exists(name) or dm.table(name) != before or config.load(name) != kept:
            return
        now = assembly.status_of(name)
        if now.health[leg] != seen.health[leg] or _told(leg, now) or leg in now.silent:
            return
        if _is_new(name, leg, at):
            search = at not in searched
            searched.add(at)
            legs.attach(kept, leg, at, search=search)
            print(f"{name}: the {leg} leg is {node} ({at.kernel}) from now on", flush=True)
