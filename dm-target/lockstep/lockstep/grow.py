# SPDX-License-Identifier: GPL-2.0-only
"""`grow`: the legs' devices have become larger. Their metadata move to the new ends, in whatever
state the mirror is; then, if both legs are there, it gets the new room."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace

from . import ask, assembly, config, device, dm, late, meta, show, table
from .errors import Failed, Refused
from .report import summary
from .table import ABSENT, LEGS

Devices = Mapping[str, device.Device]


def grow(args: argparse.Namespace) -> None:
    kept = config.load(args.name)
    if dm.exists(args.name):
        _running(kept, args)
    else:
        _stopped(kept, args)


def _ask(name: str, found: Devices, what: str, *, given: bool) -> None:
    rows = [(leg, at.given, show.size(at.sectors)) for leg, at in found.items()]
    print(show.columns(rows), file=sys.stderr)
    print(
        f"{name}: {what} Its metadata move to the end of the devices; what lies there is"
        " overwritten.",
        file=sys.stderr,
    )
    ask.permission(f"Grow the mirror {name}?", given=given)


# --- while it runs ---


def _in_use(name: str) -> dict[str, device.Device]:
    """The devices of the running mirror, whatever the configuration calls them."""
    numbers = table.Table.parse(dm.table(name)).devices
    return {
        leg: device.look(device.by_number(number))
        for leg, number in numbers.items()
        if number != ABSENT
    }


def _running(kept: config.Config, args: argparse.Namespace) -> None:
    name = kept.name
    dm.running(name)
    found = _in_use(name)
    length = table.Table.parse(dm.table(name)).length
    _ask(name, found, f"it has {show.size(length)}, and gets what both devices have room for.",
         given=args.yes)  # fmt: skip
    if _in_use(name) != found:
        raise Refused(assembly.CHANGED.format(name=name))
    dm.message(name, "grow")
    now = assembly.status_of(name)
    if any(health not in "Aa" for health in now.health.values()):
        raise Failed(
            f"{name}: {summary(now)}. The metadata of the leg that is there are at the end of its"
            " device now; the mirror itself grows when both legs are there: lockstep grow"
            f" {name} then"
        )
    room = min(meta.examine(at.node).room for at in found.values())
    if room <= length:
        raise Refused(
            f"{name}: there is nothing to grow: it has {show.size(length)} already, all that the"
            " smaller device has room for"
        )
    old = table.Table.parse(dm.table(name))
    dm.reload(name, replace(old, length=room).with_options(kept.options).line())
    print(
        f"{name}: {show.size(room)} ({room} sectors), it had {show.size(length)}. The new room is"
        " resynced (lockstep status). Now grow the file system on it: xfs_growfs, resize2fs"
    )


# --- while it doesn't ---


def _idle(kept: config.Config, wait: float | None) -> dict[str, device.Device]:
    """The legs that are there, which nobody uses."""
    nodes = assembly.find_legs(kept, kept.wait if wait is None else wait)
    if not nodes:
        raise Failed(f"{kept.name}: neither leg is there: {kept.local}, {kept.remote}")
    return assembly.unused(kept.name, nodes)


def _stopped(kept: config.Config, args: argparse.Namespace) -> None:
    name = kept.name
    found = _idle(kept, args.wait)
    nodes = [found[leg].node if leg in found else ABSENT for leg in LEGS]
    plan = meta.grow(*nodes, dry=True)
    assembly.check_set(kept, plan.uuid)
    legs = [meta.examine(at.node) for at in found.values()]
    moves = any(leg.kind == "grown" for leg in legs)
    if not moves and all(leg.data_len == plan.data_len for leg in legs):
        raise Refused(
            f"{name}: there is nothing to grow: it has {show.size(plan.data_len)} already, all"
            " that the smaller device has room for"
        )
    size = f"{show.size(plan.data_len)} ({plan.data_len} sectors)"
    _ask(name, found, f"it will have {size}.", given=args.yes)
    if (
        config.load(name) != kept
        or dm.exists(name)
        or _idle(kept, args.wait) != found
        or meta.grow(*nodes, dry=True) != plan
    ):
        raise Refused(assembly.CHANGED.format(name=name))
    for leg, at in found.items():
        late.take(name, leg, at)
    if meta.grow(*nodes, dry=True) != plan:
        raise Refused(assembly.CHANGED.format(name=name))
    meta.grow(*nodes)
    print(
        f"{name}: {size}. Start it (lockstep assemble {name}): new room is resynced. Then grow the"
        " file system on it"
    )
    if not _both_equal(nodes, plan.data_len):
        print(
            f"{name}: it grows when both legs are there and run: lockstep assemble {name}, then"
            f" lockstep grow {name}"
        )


def _both_equal(nodes: list[str], data_len: int) -> bool:
    """Is that all there is room for?"""
    if ABSENT in nodes:
        return False
    return min(meta.examine(node).room for node in nodes) == data_len


# --- for who gives a running mirror a leg ---


def move(
    kept: config.Config, leg: str, node: str, verdict: meta.Verdict, *, grown: bool
) -> bool:
    """A leg whose verdict is "blank" may have grown; of the set that the configuration names there
    is no doubt. `grown`: a search has found so. True: it has been moved, and is to be judged
    again."""
    if verdict.word != "blank":
        return False
    if verdict.leg != leg:
        # The one that runs: the kernel knows where its metadata are.
        dm.message(kept.name, "grow")
        return True
    if not grown:
        return False
    nodes = [node if one == leg else ABSENT for one in LEGS]
    if not kept.uuid or meta.grow(*nodes, dry=True).uuid != kept.uuid:
        return False
    meta.grow(*nodes)
    return True
