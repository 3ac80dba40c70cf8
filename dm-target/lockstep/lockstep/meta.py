# SPDX-License-Identifier: GPL-2.0-only
"""lockstep-meta: all that is known of what is on the legs. This module knows its JSON, no more."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import program
from .errors import Failed
from .table import LEGS

PROGRAM = "lockstep-meta"


@dataclass(frozen=True)
class Generation:
    id: str
    count: int
    time: float = 0
    reason: str = ""
    leg: str = ""

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Generation:
        return cls(str(said["id"]), int(said["count"]), float(said.get("time", 0)),
                   str(said.get("reason", "")), str(said.get("leg", "")))  # fmt: skip

    def __str__(self) -> str:
        return f"{self.count} ({self.id})"


@dataclass(frozen=True)
class Leg:
    """What was found on a device. All but device, kind and reason only if it `exists`."""

    device: str
    kind: str
    reason: str
    raw: Mapping[str, Any]
    warning: str = ""
    unread: bool = False  # it may be one: its end gives I/O errors
    uuid: str = ""
    leg_uuid: str = ""
    leg: str = ""
    name: str = ""
    state: str = ""
    active: bool = False
    data_len: int = 0
    room: int = 0  # for data: the mirror may be so long
    bypassed: bool = False  # the disk below a DCD whose log may have more; of a grown one, too
    left: bool = False  # of a DCD whose log was given up, or retired; likewise
    region_size: int = 0
    created: float = 0
    updated: float = 0
    seq: int = 0
    current: Generation | None = None
    base: Generation | None = None
    history: list[Generation] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        return self.kind == "superblock"

    @property
    def ours(self) -> bool:
        """There is a superblock, if only a damaged one, or one that isn't at the end any more."""
        return self.kind in ("superblock", "bad", "grown")


@dataclass(frozen=True)
class How:
    """How a mirror is to be made. `region_size` in sectors, None: the program's own rule."""

    name: str
    region_size: int | None = None
    assume_clean: bool = False


@dataclass(frozen=True)
class Made:
    """A mirror or a leg that was made, or (dry) would be."""

    uuid: str
    data_len: int
    region_size: int


@dataclass(frozen=True)
class Verdict:
    """`word`: "ok", or why it is refused; `leg`: the one that a refusal is about. `join`: the leg
    that isn't the source lacks something."""

    word: str
    text: str
    uuid: str
    name: str
    data_len: int
    source: str
    leg: str
    full: bool
    join: bool
    histories: Mapping[str, list[Generation]]
    # Going on alone: the absent leg may have done so, too.
    guess: bool
    # A leg is a DCD's LUN, and its superblock doesn't say so yet.
    unmarked: bool
    # Refused, as the leg gives I/O errors: that may pass.
    unread: bool
    raw: Mapping[str, Any]

    @property
    def good(self) -> bool:
        return self.word == "ok"


def examine(node: str, *, given: str = "", search: bool = True) -> Leg:
    """`search`: for the metadata of when the device was smaller, if there are none at its end. That
    may take half a minute, so only the first look does it."""
    (said,) = _answer("examine", *[] if search else ["--no-search"], node)
    raw = {**said, "device": given or node}
    log = said.get("log") or {}
    leg = Leg(given or node, str(said["kind"]), str(said.get("reason") or ""), raw,
              str(said.get("warning") or ""), bool(said.get("unread")),
              bypassed=bool(log.get("bypassed")), left=log.get("state") == "left")  # fmt: skip
    if not leg.exists:
        return leg
    return Leg(
        device=leg.device, kind=leg.kind, reason=leg.reason, raw=raw,
        uuid=said["set_uuid"], leg_uuid=said["leg_uuid"], leg=said["leg"], name=said["name"],
        state=said["state"], active=said["active"], data_len=said["data_len"],
        room=said["map_start"], bypassed=leg.bypassed, left=leg.left,
        region_size=said["region_size"], created=said["created"], updated=said["updated"],
        seq=said["seq"], current=_generation(said["cur"]), base=_generation(said["base"]),
        history=[Generation.of(one) for one in said["history"]],
    )  # fmt: skip


# Both are told what `examine` has found before: they don't search for older metadata again.
def create(local: str, remote: str, how: How, *, dry: bool = False, force: bool = False) -> Made:
    words = ["create", "--no-search", "--local", local, "--remote", remote, "--name", how.name]
    if how.region_size is not None:
        words += ["--region-size", str(how.region_size)]
    if how.assume_clean:
        words.append("--assume-clean")
    return _made(_answer(*words, *_flags(dry=dry, force=force)))


def join(source: str, leg: str, node: str, *, dry: bool = False, force: bool = False,
         in_use: bool = False) -> Made:  # fmt: skip
    words = ["join", "--no-search", "--source", source, "--leg", leg, node]
    if in_use and dry:
        words.append("--in-use")
    return _made(_answer(*words, *_flags(dry=dry, force=force)))


def verdict(local: str, remote: str) -> Verdict:
    said = _answer("verdict", local, remote)
    histories = said.get("histories") or {}
    return Verdict(
        word=str(said["verdict"]),
        text=str(said["text"]),
        uuid=str(said.get("set_uuid") or ""),
        name=str(said.get("name") or ""),
        data_len=int(said.get("data_len") or 0),
        source=str(said.get("source") or ""),
        leg=str(said.get("leg") or ""),
        full=bool(said.get("full")),
        join=bool(said.get("join")),
        histories={
            leg: [Generation.of(one) for one in histories.get(leg) or []] for leg in LEGS
        },
        guess=bool(said.get("guess")),
        unmarked=bool(said.get("unmarked")),
        unread=bool(said.get("unread")),
        raw=said,
    )  # fmt: skip


def mark(local: str, remote: str) -> None:
    """Durable when it returns."""
    _run("mark", local, remote)


def leave_log(node: str) -> None:
    _run("leave-log", node)


def resolve(keep: str, local: str, remote: str) -> None:
    _run("resolve", "--keep", keep, local, remote)


def grow(local: str, remote: str, *, dry: bool = False) -> Made:
    return _made(_answer("grow", *_flags(dry=dry, force=False), local, remote))


def wipe(node: str, *, force: bool) -> None:
    _run("wipe", *_flags(dry=False, force=force), node)


def _flags(*, dry: bool, force: bool) -> list[str]:
    return ["--dry-run"] * dry + ["--force"] * force


def _generation(said: Mapping[str, Any] | None) -> Generation | None:
    return Generation.of(said) if said else None


def _made(said: Mapping[str, Any]) -> Made:
    return Made(str(said["set_uuid"]), int(said["data_len"]), int(said["region_size"]))


def _path() -> str:
    found = shutil.which(PROGRAM)
    if not found:
        raise Failed(f"the program {PROGRAM} isn't installed: it comes with this command")
    return found


def _run(*words: str) -> program.Said:
    said = program.ask(_path(), *words)
    if said.code:
        raise Failed(_why(said))
    return said


def _why(said: program.Said) -> str:
    """Its lines begin with its name."""
    return said.why.replace(f"{PROGRAM}: ", "")


def _answer(*words: str) -> Any:
    """The JSON of a program that refuses by an answer (a verdict, a device without metadata), and
    fails without one."""
    said = program.ask(_path(), *words)
    if said.code and not said.out.strip():
        raise Failed(_why(said))
    try:
        return json.loads(said.out)
    except ValueError as err:
        raise Failed(f"`{PROGRAM} {' '.join(words)}` says what isn't JSON ({err})") from err
