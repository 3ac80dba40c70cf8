# SPDX-License-Identifier: GPL-2.0-only
"""`create`, `replace`, `wipe`: what writes metadata, so what may destroy something.

The rules. A device in use is never touched, --force or not. A device that would be overwritten and
carries a signature is refused without --force. The local leg's content is kept, all but the tail
that the metadata needs: with a signature on it that is refused without --keep-data or
--force-local, and always if a file system is known to reach into the tail. A word about one leg
says nothing about the other. Then the person is asked.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

from . import ask, assembly, config, device, digests, dm, late, legs, meta, show, table
from .errors import Failed, Refused
from .table import LOCAL, REMOTE


@dataclass(frozen=True)
class Found:
    """A device and all that speaks against overwriting it."""

    at: device.Device
    signs: list[device.Sign]
    mirror: meta.Leg
    data: bool

    def carries(self) -> str:
        """In words; "" if nothing is found."""
        found = [str(sign) for sign in self.signs]
        if self.mirror.exists:
            found.append(f"the {self.mirror.leg} leg of the lockstep mirror {self.mirror.name!r}")
        elif self.mirror.kind == "grown":
            found.append(f"metadata of a lockstep mirror ({self.mirror.reason})")
        elif self.mirror.ours:
            found.append(f"damaged metadata of a lockstep mirror ({self.mirror.reason})")
        return ", ".join(found)

    def told(self) -> str:
        if text := self.carries():
            return text
        if self.data:
            return "no signature, but data: its first or its last MiB isn't all zero"
        return "nothing: no signature, and its first and last MiB are zero"


def inspect(given: str, *, search: bool = True, besides: str = "") -> Found:
    """Looks at a device; refuses one in use, by whatever path, whatever it carries. `besides`: the
    mirror that may have it."""
    at = device.look(given)
    used = device.uses(at, besides=besides)
    if used:
        raise Refused(f"{given} is in use: {'; '.join(used)}. Nothing was changed")
    if device.read_only(at):
        raise Refused(f"{given} is read-only")
    leg = meta.examine(at.node, search=search)
    if leg.kind == "absent":
        raise Failed(f"{given}: {leg.reason}")
    refuse_running(at, leg, besides=besides)
    if leg.warning:
        print(f"Warning: {given}: {leg.warning}.", file=sys.stderr)
    return Found(at, device.signs(at), replace(leg, raw={}), device.has_data(at))


def still(one: Found, *, besides: str = "") -> None:
    """Refuses if the device isn't any more what was shown."""
    seen = replace(one, mirror=replace(one.mirror, warning=""))
    if inspect(one.at.given, search=one.mirror.kind == "grown", besides=besides) != seen:
        raise Refused(
            f"{one.at.given} has changed since it was shown: another device, another size, or"
            " other content. Nothing was written. Look at it again"
        )


def confirmed(question: str, *found: Found, given: bool, besides: str = "") -> None:
    """Returns if the answer is yes, and the devices are still what was shown: a person thinks for
    as long as it takes, and meanwhile a name may come to mean another disk."""
    ask.permission(question, given=given)
    for one in found:
        still(one, besides=besides)


def refuse_content(found: Found, *, force: bool) -> None:
    """Of a device that is to be overwritten."""
    carries = found.carries()
    if found.data and not carries:
        carries = "data that no signature names: its first or its last MiB isn't all zero"
    if carries and not force:
        raise Refused(
            f"{found.at.given} carries {carries}. It would be overwritten, all of it. If nobody"
            f" needs that, say --force"
        )


def refuse_tail(
    found: Found, data_len: int, *, force: bool, keep: bool, leg: str = LOCAL
) -> None:
    """Of the device whose content is kept, all but its tail."""
    what = found.at.given
    word = "--force-local" if leg == LOCAL else "--force"
    rest = ", and copied to the remote leg" if leg == LOCAL else ""
    for sign in found.signs:
        if sign.end is not None and sign.end > data_len:
            raise Refused(
                f"{what} carries {sign} that ends at sector {sign.end}, and the metadata begins at"
                f" {data_len}: shrink it by {sign.end - data_len} sectors of 512 bytes first. If"
                f" nobody needs it: wipefs --all {what}"
            )
    if force:
        return
    for sign in found.signs:
        if sign.end is None:
            raise Refused(
                f"{what} carries {sign}, and how far that reaches isn't known. All from sector"
                f" {data_len} on ({show.size(found.at.sectors - data_len)}) would be overwritten,"
                f" the rest is kept{rest}. If that is right, say {word}"
            )
    if not found.signs and not found.mirror.ours and device.has_tail(found.at, data_len):
        raise Refused(
            f"{what} carries data at its end that no signature names, and all from sector"
            f" {data_len} on ({show.size(found.at.sectors - data_len)}) would be overwritten. If"
            f" nobody needs that, say {word}"
        )
    if found.mirror.ours:
        raise Refused(
            f"{what} carries {found.carries()}. That would be overwritten, and the other leg of"
            f" that mirror couldn't join this one any more. If that is right, say {word}"
        )
    if found.signs and not keep:
        raise Refused(
            f"{what} carries {found.carries()}. That is kept{rest}; if you want that, say"
            f" --keep-data. If nobody needs it, say {word}"
        )


def refuse_name(name: str) -> None:
    if config.path(name).exists():
        raise Refused(
            f"there is a mirror {name} already: {config.path(name)}. Take another name, or remove"
            " that file if the mirror is no more"
        )
    if dm.exists(name):
        raise Refused(f"there is a device {dm.node(name)} already: take another name")


def create(args: argparse.Namespace) -> None:
    config.check_new_name(args.name)
    options = digests.checked(table.check_options(chosen_options(args)))
    refuse_name(args.name)
    pair = {LOCAL: inspect(args.local), REMOTE: inspect(args.remote)}
    if pair[LOCAL].at.number == pair[REMOTE].at.number:
        raise Refused(f"{args.local} and {args.remote} are the same device")
    refuse_swapped(pair, args)
    # Each leg is judged below, by its own word.
    force = any(leg.mirror.ours for leg in pair.values())
    how = meta.How(args.name, args.region_size, args.assume_clean)
    plan = meta.create(pair[LOCAL].at.node, pair[REMOTE].at.node, how, dry=True, force=force)
    hint_direction(pair, args)
    keep = args.keep_data
    refuse_tail(pair[LOCAL], plan.data_len, force=args.force_local, keep=keep)
    if args.assume_clean:
        refuse_tail(pair[REMOTE], plan.data_len, force=args.force, keep=keep, leg=REMOTE)
    else:
        refuse_content(pair[REMOTE], force=args.force)
    announce(pair, plan, args.name, clean=args.assume_clean)
    confirmed(f"Create the mirror {args.name}?", *pair.values(), given=args.yes)
    refuse_name(args.name)
    for leg, found in pair.items():
        late.take(args.name, leg, found.at)
        still(found)
    made = meta.create(pair[LOCAL].at.node, pair[REMOTE].at.node, how, force=force)
    try:
        kept = keep_config(args, made.uuid, {leg: found.at for leg, found in pair.items()}, options)
    except (Failed, Refused) as err:
        raise type(err)(
            f"the metadata of {args.name} are written, but {err}\nWhen that is mended:"
            f" lockstep assemble {args.name} --local {args.local} --remote {args.remote},"
            " then set its options"
        ) from err
    if args.no_start:
        print(f"{args.name}: created. Start it: lockstep assemble {args.name}")
        return
    try:
        assembly.start(kept, {leg: found.at.node for leg, found in pair.items()}, run=False)
    except (Failed, Refused) as err:
        raise type(err)(
            f"{args.name} is created, but doesn't start: {err}\n"
            f"When that is mended: lockstep assemble {args.name}"
        ) from err


def refuse_swapped(pair: dict[str, Found], args: argparse.Namespace) -> None:
    """Two blank disks look alike, and a mirror whose legs are exchanged reads over the wire, and
    goes on without this host's disk when that wire is slow."""
    local, remote = pair[LOCAL].at, pair[REMOTE].at
    if args.swapped or not device.over_a_network(local) or device.over_a_network(remote):
        return
    raise Refused(
        f"LOCAL comes first, and {local.given} is reached over a network, which {remote.given}"
        f" isn't: lockstep create {args.name} {remote.given} {local.given} ... If it is meant so,"
        " say --swapped"
    )


def hint_direction(pair: dict[str, Found], args: argparse.Namespace) -> None:
    """The usual mistake: the data is on the leg that would be overwritten."""
    local, remote = pair[LOCAL], pair[REMOTE]
    filled = bool(remote.carries()) or remote.data
    if args.assume_clean or not filled or local.carries() or local.data:
        return
    text = (
        f"{remote.at.given} carries {remote.told()}. {local.at.given} carries nothing, but the"
        " remote leg is overwritten with the content of the local one"
    )
    if not args.force:
        raise Refused(
            f"{text}. If {remote.at.given} has the data, copy it to {local.at.given} first; if"
            " nobody needs it, say --force"
        )
    print(f"Warning: {text}.", file=sys.stderr)


def announce(pair: dict[str, Found], plan: meta.Made, name: str, *, clean: bool) -> None:
    local, remote = pair[LOCAL], pair[REMOTE]
    tail = show.size(local.at.sectors - plan.data_len)
    rows = [
        (leg, found.at.given, show.size(found.at.sectors), found.told())
        for leg, found in pair.items()
    ]
    lines = [
        f"mirror {name}: {show.size(plan.data_len)} ({plan.data_len} sectors),"
        f" regions of {show.size(plan.region_size)}",
        show.columns(rows),
        f"{local.at.given} IS KEPT, all but its last {tail}, where the metadata goes.",
    ]
    if clean:
        lines.append(
            f"{remote.at.given} is taken for identical without being read (--assume-clean), and is"
            " kept but for its tail. If it isn't, reads return one leg's data or the other's."
        )
    else:
        lines.append(f"{remote.at.given} IS OVERWRITTEN, all of it, with a copy of that.")
    print("\n".join(lines), file=sys.stderr)


def chosen_options(args: argparse.Namespace) -> dict[str, object]:
    return {name: getattr(args, name) for name in table.OPTIONS if getattr(args, name) is not None}


def keep_config(
    args: argparse.Namespace, uuid: str, pair: dict[str, device.Device], options: dict[str, str]
) -> config.Config:
    names = {}
    for leg, at in pair.items():
        names[leg], stable = device.stable_name(at)
        if not stable:
            print(
                f"Warning: no name of {names[leg]} is known that stays the same after a reboot;"
                f" see {config.path(args.name)}",
                file=sys.stderr,
            )
    target, portal = device.iscsi(pair[REMOTE]) or ("", "")
    kept = config.Config(
        name=args.name, local=names[LOCAL], remote=names[REMOTE], uuid=uuid,
        target=target, portal=portal, options=options,
    )  # fmt: skip
    config.save(kept)
    return kept


def replace_leg(args: argparse.Namespace) -> None:
    """Another disk for a leg: it is filled from the other leg, as a whole."""
    kept = config.load(args.name)
    leg = args.leg
    running = dm.exists(args.name)
    source = source_node(kept, leg, running=running)
    # The dead leg's own device: the mirror still has it.
    mirror = args.name if running else ""
    found = inspect(args.device, besides=mirror)
    if found.at.number == device.look(source).number:
        raise Refused(f"{args.device} is the {table.other(leg)} leg")
    refuse_source(kept, leg, source, found)
    refuse_content(found, force=args.force)
    force = args.force or found.mirror.ours
    plan = meta.join(source, leg, found.at.node, dry=True, force=force, in_use=running)
    assembly.check_set(kept, plan.uuid)
    if not running:
        refuse_guess(kept, leg, lost=args.lost)
    rows = [
        (table.other(leg), source, "kept: the source"),
        (leg, args.device, f"{show.size(found.at.sectors)}; carries {found.told()}"),
    ]
    print(show.columns(rows), file=sys.stderr)
    print(
        f"{args.device} IS OVERWRITTEN, all of it, with a copy of {source}"
        f" ({show.size(plan.data_len)}).",
        file=sys.stderr,
    )
    confirmed(f"Make it the {leg} leg of {args.name}?", found, given=args.yes, besides=mirror)
    if (
        config.load(args.name) != kept
        or dm.exists(args.name) != running
        or source_node(kept, leg, running=running) != source
    ):
        raise Refused(f"{args.name} has changed meanwhile. Nothing was written")
    if not running:
        refuse_guess(kept, leg, lost=args.lost)
    late.take(args.name, leg, found.at)
    gone = running and legs.let_go(args.name, leg, found.at)
    try:
        if gone:
            still(found)
        meta.join(source, leg, found.at.node, force=force)
    except (Failed, Refused) as err:
        then = f"The {leg} leg has no device now. Give it back: lockstep re-add {args.name} {leg}"
        raise type(err)(f"{err}\n{then}" if gone else str(err)) from err
    keep_replaced(kept, leg, found.at, running=running)
    then = "and is filled"
    if not running:
        then = f"and is filled when the mirror runs: lockstep assemble {args.name}"
    print(f"{args.name}: {args.device} is the {leg} leg now, {then}")


def keep_replaced(kept: config.Config, leg: str, at: device.Device, *, running: bool) -> None:
    """The metadata are there: to do it all again would be another leg."""
    stable, _ = device.stable_name(at)
    kept = kept.with_device(leg, stable)
    if leg == REMOTE:
        target, portal = device.iscsi(at) or ("", "")
        kept = replace(kept, target=target, portal=portal)
    try:
        config.change(kept)
        if running:
            legs.exchange(kept, leg, at)
    except (Failed, Refused) as err:
        then = f"put {stable} into {config.path(kept.name)} as the {leg} leg"
        if running:
            then = f"lockstep re-add {kept.name} {leg} --device {at.given}"
        raise type(err)(
            f"{at.given} is made the {leg} leg, but {err}\nWhen that is mended: {then}. Not"
            " `replace` again"
        ) from err


def refuse_source(kept: config.Config, leg: str, source: str, found: Found) -> None:
    """By another number it may be the very disk that is to be kept."""
    if not found.mirror.exists:
        return
    rest = table.other(leg)
    seen = meta.examine(device.look(source).node, search=False)
    same = found.mirror.leg_uuid != "" and found.mirror.leg_uuid == seen.leg_uuid
    if not seen.exists:  # It can't be asked.
        same = bool(kept.uuid) and (found.mirror.uuid, found.mirror.leg) == (kept.uuid, rest)
    if same:
        raise Refused(
            f"{found.at.given} carries the superblock of the {rest} leg, which {kept.name} is to"
            f" be filled from ({source}): it is that disk by another path, or a copy of it. It"
            f" isn't overwritten, --force or not. Take another disk for the {leg} leg; if the"
            f" {rest} leg's device is gone: lockstep re-add {kept.name} {rest} --device"
            f" {found.at.given}"
        )


# Refusals because of a leg that can't say what it has.
_SPEECHLESS = ("blank", "bad", "foreign", "wrong-leg")


def refuse_guess(kept: config.Config, leg: str, *, lost: bool) -> None:
    """A stopped mirror's legs don't know of each other: the one that is to be replaced may be the
    one that went on alone. It is asked; `lost`: somebody said that what only it has may be lost."""
    rest, node = table.other(leg), kept.devices()[leg]
    why = f"the {leg} leg {node} isn't there"
    if node != table.ABSENT and device.present(node):
        nodes = {leg: node, rest: kept.devices()[rest]}
        verdict = meta.verdict(*(device.look(nodes[one]).node for one in table.LEGS))
        if verdict.good and verdict.join and verdict.source == leg:
            raise Refused(
                f"{kept.name}: the {leg} leg {node} has writes that the {rest} leg lacks:"
                f" {verdict.text} Let it be resynced first: lockstep assemble {kept.name}. Then:"
                f" lockstep fail {kept.name} {leg}, and replace it"
            )
        if verdict.good or (verdict.word == "outdated" and verdict.leg == leg):
            return
        if verdict.word not in _SPEECHLESS or (verdict.word != "foreign" and verdict.leg != leg):
            raise Refused(assembly.refusal(kept, verdict))
        why = f"the {leg} leg {node} can't be asked: {verdict.text}"
    if lost:
        print(f"{why}. What only it has IS LOST.", file=sys.stderr)
        return
    raise Refused(
        f"{kept.name}: {why}, so nobody knows whether it went on alone and has writes that the"
        f" {rest} leg lacks. Bring it and try again. If what only it has may be lost, say --lost"
    )


def source_node(kept: config.Config, leg: str, *, running: bool) -> str:
    """The leg that stays. A running mirror's other leg has to be alive."""
    if not running:
        return kept.devices()[table.other(leg)]
    now = assembly.status_of(kept.name)
    rest = table.other(leg)
    if now.health[leg] == "A" and now.health[rest] != "A":
        first = f"lockstep re-add {kept.name} {rest}, or replace that one, and wait"
        if now.health[rest] == "a":
            first = f"wait (lockstep status {kept.name})"
        raise Refused(
            f"the {leg} leg of {kept.name} is the only one that has everything, for the {rest} leg"
            f" isn't in sync: {first} until it is. Then: lockstep fail {kept.name} {leg}, and"
            f" replace it. If the same disk is another device now: lockstep re-add {kept.name}"
            f" {leg} --device DEVICE"
        )
    if now.health[leg] in ("A", "a"):
        raise Refused(
            f"the {leg} leg of {kept.name} is alive: take it out first:"
            f" lockstep fail {kept.name} {leg}"
        )
    if now.health[rest] != "A":
        raise Refused(
            f"the {rest} leg of {kept.name} isn't in sync, so there is nothing to fill a new disk"
            " from"
        )
    return device.by_number(table.Table.parse(dm.table(kept.name)).devices[rest])


def refuse_running(at: device.Device, leg: meta.Leg, *, besides: str) -> None:
    """By another path, whose number nobody uses, it may be the leg of a mirror that runs."""
    for name in dm.names() if leg.exists else []:
        there = None if name == besides else dm.info(name)
        if there is None or there.uuid not in ("", dm.UUID_PREFIX + leg.uuid):
            continue
        number = table.Table.parse(dm.table(name)).devices[leg.leg]
        if number == table.ABSENT:
            continue
        seen = meta.examine(device.by_number(number), search=False)
        # One that can't be asked may be it.
        same = seen.leg_uuid == leg.leg_uuid if seen.exists else there.uuid != ""
        if same:
            raise Refused(
                f"{at.given} carries the superblock of the {leg.leg} leg of {name}, which"
                f" is in use as {number}: it is that disk by another path, or a copy of it."
                f" Nothing was changed. If that leg is to go: lockstep fail {name} {leg.leg}, and"
                " replace it. A copy is wiped while the mirror is stopped, or on another host"
            )


def wipe(args: argparse.Namespace) -> None:
    """A device that was a leg is none any more. Its data stays."""
    found = inspect(args.device)
    if not found.mirror.ours:
        raise Refused(f"{args.device} is no leg of a mirror: {found.mirror.reason}")
    why = []
    if found.mirror.kind == "grown":
        why.append(
            "What would be cleared lies where its end was once, and may be in use for data by now."
            " If no mirror needs it, say --force"
        )
    if found.mirror.bypassed:
        why.append(
            "It is the disk below a DCD, whose log may hold acknowledged writes that it lacks: dcd"
            " retire first. Only if that log is destroyed, or NVRAM was retired without it, say"
            " --force"
        )
    if found.mirror.left:
        why.append(
            "It says that its DCD's log isn't to be used any more; is that forgotten, that log may"
            " be written over newer data here, should it come back. lockstep replace and create"
            " keep it, with --force, a wipe doesn't. Only if that log was retired or formatted, or"
            " is destroyed, say --force"
        )
    if why and not args.force:
        raise Refused(f"{args.device} carries {found.carries()}. {'. '.join(why)}")
    print(
        f"{args.device} carries {found.carries()}. Its data stays; that it belongs to the mirror,"
        " and what the other leg may have missed, is forgotten.",
        file=sys.stderr,
    )
    confirmed(f"Wipe the metadata of {args.device}?", found, given=args.yes)
    meta.wipe(found.at.node, force=args.force)
    print(f"{args.device}: the metadata is gone")
