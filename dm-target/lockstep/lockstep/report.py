# SPDX-License-Identifier: GPL-2.0-only
"""`status` and `examine`: what there is, for people and as JSON."""

from __future__ import annotations

import argparse
from typing import Any

from . import config, device, dm, meta, show, status, table
from .errors import Failed, Refused
from .status import Status
from .table import ABSENT, LEGS


def show_status(args: argparse.Namespace) -> int:
    """The worst mirror's exit code."""
    running = dm.lines("status")
    tables = dm.lines("table")
    configured = config.names()
    wanted = args.names or sorted({*running, *configured})
    code, told, texts = status.OK, {}, []
    for name in wanted:
        if name in running and name in tables:
            now = status.parse(running[name])
            head = _head(name)
            worst = status.UNUSABLE if head["suspended"] else now.code
            code = max(code, worst)
            told[name] = {**head, **now.json(), "exit_code": worst}
            _add_devices(told[name], tables[name])
            text = text_of(name, now, tables[name], counters=args.counters)
            if head["suspended"]:
                text = f"{name}: SUSPENDED: all I/O waits (dmsetup resume {name})\n{text}"
            texts.append(text)
        elif name in configured:
            code = max(code, status.UNUSABLE)
            told[name] = {"name": name, "running": False, "exit_code": status.UNUSABLE}
            texts.append(f"{name}: doesn't run (lockstep assemble {name})")
        else:
            raise Refused(f"there is no mirror {name}, neither running nor in {config.FOLDER}")
    if args.json:
        print(show.as_json(told))
    else:
        print("\n".join(texts) if texts else "there is no mirror here")
    return code


def _head(name: str) -> dict[str, Any]:
    there = dm.info(name)
    if there is None:
        raise Failed(f"{name} vanished meanwhile")
    return {
        "name": name,
        "running": True,
        "uuid": there.uuid.removeprefix(dm.UUID_PREFIX),
        "open": there.opens,
        "suspended": there.suspended,
        "device": dm.node(name),
    }


def _add_devices(told: dict[str, Any], line: str) -> None:
    now = table.Table.parse(line)
    for leg in LEGS:
        told["legs"][leg]["device"] = _device_name(now.devices[leg])
    told["options"] = dict(now.options)


def _device_name(number: str) -> str | None:
    return None if number == table.ABSENT else device.by_number(number)


# What holds a resync back, and the word that changes it.
_HOLDS = {
    "application": "it leaves the application its latency; faster: lockstep set {name}"
    " resync_least=KIB_PER_S, or resync_pace=full",
    "rate": "it is as fast as it may be; faster: lockstep set {name} resync_rate=KIB_PER_S",
}


def summary(now: Status) -> str:
    """In a few words."""
    dead = [leg for leg in LEGS if now.health[leg] not in ("A", "a")]
    stale = [leg for leg in LEGS if now.health[leg] == "a"]
    words = []
    if len(dead) == len(LEGS):
        words.append("both legs are dead")
    elif now.silent:
        what = " and ".join(f"the {leg} leg" for leg in now.silent)
        verb = "don't" if len(now.silent) > 1 else "doesn't"
        words.append(f"I/O waits for {what}, which {verb} answer")
    elif now.standing == "blocked":
        words.append("writes are held until both legs are there (lockstep unblock, fail-held)")
    elif now.standing == "refusing":
        words.append("writes fail until both legs are there")
    elif dead:
        words.append(f"on the {table.other(dead[0])} leg alone")
    elif stale:
        words.append(f"the {stale[0]} leg is behind")
    elif now.standing != "together":
        words.append(now.standing)
    else:
        words.append("in sync")
    if now.action not in ("idle", "resync", "verify"):
        words.append(f"resync {now.action}")
    return ", ".join(words)


def text_of(name: str, now: Status, line: str, *, counters: bool) -> str:
    shown = table.Table.parse(line)
    state = {status.OK: "good", status.DEGRADED: "degraded", status.UNUSABLE: "UNUSABLE"}[now.code]
    lines = [f"{name}: {state}: {summary(now)}"]
    rows = []
    for leg in LEGS:
        number = shown.devices[leg]
        rows.append((leg, status.HEALTH.get(now.health[leg], "?"),
                     _device_name(number) or "no device", _leg_text(name, leg, now)))  # fmt: skip
    lines.append(show.columns(rows))
    left = sum(now.stale.values())
    if left:
        done = now.regions - left
        text = f"  resync  {show.bar(done, now.regions)} {show.percent(done, now.regions)}"
        text += f", {show.size(now.left_sectors)} left"
        if now.rate_kib:
            text += f", {show.rate(now.rate_kib)}"
        if now.seconds_left is not None:
            text += f", {show.duration(now.seconds_left)} to go"
        lines.append(text)
        if now.action == "resync" and now.held_by in _HOLDS:
            lines.append("  " + _HOLDS[now.held_by].format(name=name))
    lines += _verify_lines(now)
    lines.append(
        f"  {show.size(now.length)}, {now.regions} regions ({now.dirty} dirty), policy {now.policy}"
    )
    if counters:
        counts = [(key, str(value)) for key, value in now.counters.items()]
        lines.append(show.columns([*counts, ("scatter", now.scatter or ABSENT)]))
    if now.log and (counters or now.log.full):
        lines.append(
            f"  a crash would leave {show.size(now.log.now_mib << 11)} of"
            f" {show.size(now.log.most_mib << 11)} to resync (dirty_limit)"
            + ("; a write waits for room there" if now.log.full else "")
        )
    if now.memory and (counters or now.memory.waiting):
        lines.append(
            f"  writes in flight hold {show.size(2 * now.memory.used_kib)} of"
            f" {show.size(2 * now.memory.limit_kib)} (memory_kib); {now.memory.waiting} wait"
        )
    return "\n".join(lines)


# A leg that doesn't answer and isn't given up; by whether the other one could go on alone.
_SILENT = {
    False: "it doesn't answer; it has what the other leg lacks, so all waits until it does, or"
    " until its device reports errors: look at its disk, its site and the link",
    True: "it doesn't answer, and its timeout says that it is waited for; to go on without it:"
    " lockstep fail {name} {leg}",
}


def _leg_text(name: str, leg: str, now: Status) -> str:
    words = []
    if now.stale[leg]:
        words.append(f"{now.stale[leg]} stale region{'s' * (now.stale[leg] != 1)}")
    if now.errors[leg]:
        words.append(f"I/O errors: {now.errors[leg]}, of them reads: {now.read_errors[leg]}")
    if leg in now.silent:
        words.append(_SILENT[now.health[table.other(leg)] == "A"].format(name=name, leg=leg))
    if reason := now.reasons.get(leg):
        words.append(status.REASONS.get(reason, reason).format(name=name, leg=leg))
    return "; ".join(words)


def _verify_lines(now: Status) -> list[str]:
    if now.verify is None and not now.out_of_sync:
        return []
    lines = []
    if now.verifying and now.verify:
        done, of = now.verify
        lines.append(f"  verify  {show.bar(done, of)} {show.percent(done, of)}")
    elif now.verify and not now.out_of_sync:
        lines.append("  verify has compared everything: equal")
    if now.out_of_sync:
        lines.append(
            f"  verify found {now.out_of_sync} sectors that differed, or that a leg can't give"
        )
    return lines


def examine(args: argparse.Namespace) -> int:
    found = [meta.examine(device.look(node).node, given=node) for node in args.devices]
    if args.json:
        print(show.as_json([leg.raw for leg in found]))
    else:
        print("\n".join(_leg_lines(leg) for leg in found))
    return 0 if all(leg.exists for leg in found) else 1


def _leg_lines(leg: meta.Leg) -> str:
    if not leg.exists:
        return f"{leg.device}: {leg.kind}: {leg.reason}"
    rows = [
        ("mirror", f"{leg.name}, set {leg.uuid}"),
        ("leg", f"{leg.leg}, {leg.leg_uuid}"),
        ("state", leg.state + (", open now or not closed cleanly" if leg.active else ", closed")),
        ("data", f"{show.size(leg.data_len)} ({leg.data_len} sectors)"),
        ("regions", f"of {show.size(leg.region_size)}"),
        ("created", show.moment(leg.created)),
        ("changed", f"{show.moment(leg.updated)} (update {leg.seq})"),
        ("current", f"generation {leg.current}"),
    ]
    if leg.base:
        rows.append(("base", f"generation {leg.base}: what the other leg had then"))
    rows += [
        ("history", f"{one} since {show.moment(one.time)}: {one.reason}") for one in leg.history
    ]
    return f"{leg.device}:\n{show.columns(rows)}"
