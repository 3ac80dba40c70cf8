# SPDX-License-Identifier: GPL-2.0-only
"""A table line of the target lockstep: `0 LENGTH lockstep LOCAL REMOTE [COUNT OPTION...]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .errors import Failed, Usage

LOCAL, REMOTE = "local", "remote"
LEGS = (LOCAL, REMOTE)
ABSENT = "-"
# Options without a value.
_FLAGS = ("sync", "nosync")


def other(leg: str) -> str:
    return REMOTE if leg == LOCAL else LOCAL


@dataclass(frozen=True)
class Option:
    """`values`: the words it may have, the default first; empty for a number from `least` to
    `most`, if nothing is said `usual`, or with `path` for a device, or "-", which is the default.
    `live`: a message of the same name changes it while the mirror runs; others need a new table."""

    what: str
    values: tuple[str, ...] = ()
    least: int = 0
    most: int = (1 << 31) - 1
    usual: int = 0
    live: bool = False
    path: bool = False

    @property
    def default(self) -> str:
        if self.path:
            return ABSENT
        return self.values[0] if self.values else str(self.usual)

    def check(self, name: str, value: object) -> str:
        text = str(value)
        if self.path:
            if text != ABSENT and (not text.startswith("/") or text.split() != [text]):
                raise Usage(f"{name} is {text!r}: it must be a device's path, or - for none")
            return text
        if self.values:
            if text not in self.values:
                raise Usage(f"{name} is {text!r}: it must be {' or '.join(self.values)}")
            return text
        if not text.isascii() or not text.isdigit() or not self.least <= int(text) <= self.most:
            raise Usage(f"{name} is {text!r}: it must be from {self.least} to {self.most}")
        return str(int(text))


# In the order in which they are shown; dm-target/table.h says what they do.
OPTIONS: Mapping[str, Option] = {
    "policy": Option(
        "a leg fails: go on with the other, hold writes, or fail them",
        ("degrade", "block", "error"), live=True),
    "remote_timeout": Option("ms without an answer until the remote leg is given up, 0 never",
                             most=86_400_000, usual=10_000, live=True),
    "local_timeout": Option("ms without an answer until the local leg is given up, 0 never",
                            most=86_400_000, live=True),
    "rejoin": Option("seconds until a leg that failed is tried again, 0 only by re-add",
                     most=86_400, usual=5),
    "remote_cache": Option(
        "the remote cache: not trusted (fua), or known to survive a power cut",
        ("fua", "trust")),
    "local_cache": Option(
        "the local device loses its power with this host (plain), or alone", ("plain", "fua")),
    "resync_jobs": Option("pieces copied at the same time", least=1, most=16, usual=8),
    "resync_rate": Option("bound of the resync in KiB/s, 0 none", live=True),
    "resync_least": Option("KiB/s of a resync under any load, 0 none", usual=4096, live=True),
    "resync_pace": Option(
        "the application's I/O goes first, or the resync", ("polite", "full"), live=True
    ),
    "resync_compare": Option(
        "read both legs first, and copy only what differs", ("off", "on"), live=True
    ),
    "resync_digests": Option(
        "the digest LUN of the remote leg: copy only what differs; -: none", path=True
    ),
    "coalesce": Option("writes in a batch at most, 1 for no batches", least=1, most=32, usual=32,
                       live=True),
    "coalesce_pipeline": Option(
        "batches on the way to the remote leg before writes wait", least=1, most=1024, usual=8
    ),
    "scatter": Option("batches go as WRITE SCATTERED where the remote leg knows it: auto, in "
                      "commands of at most 32 KiB; on, in as few as can be",
                      ("auto", "on", "off"), live=True),
    "memory_kib": Option("KiB that writes in flight may hold, 0 for 2 % of the memory",
                         most=1 << 30, live=True),
    "dirty_limit": Option("MiB that a crash of this host leaves to resync at most", least=1,
                          most=1 << 30, usual=4096, live=True),
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    length: int
    devices: Mapping[str, str]
    options: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def parse(cls, line: str) -> Table:
        words = line.split()
        try:
            length, target, local, remote = int(words[1]), words[2], words[3], words[4]
            count, rest = int((words[5:] or ["0"])[0]), words[6:]
        except (ValueError, IndexError):
            raise Failed(f"this isn't the table of a mirror: {line!r}") from None
        if target != "lockstep" or count != len(rest):
            raise Failed(f"this isn't the table of a mirror: {line!r}")
        options: dict[str, str | None] = {}
        while rest:
            name = rest.pop(0)
            options[name] = None if name in _FLAGS or not rest else rest.pop(0)
        return cls(length, {LOCAL: local, REMOTE: remote}, options)

    def line(self) -> str:
        words = [word for pair in self.options.items() for word in pair if word is not None]
        legs = " ".join(self.devices[leg] for leg in LEGS)
        count = f" {len(words)} {' '.join(words)}" if words else ""
        return f"0 {self.length} lockstep {legs}{count}"

    def with_device(self, leg: str, node: str) -> Table:
        return replace(self, devices={**self.devices, leg: node})

    def with_options(self, options: Mapping[str, str]) -> Table:
        return replace(self, options={**self.options, **options})


def check_options(options: Mapping[str, object]) -> dict[str, str]:
    """As words of a table; refuses what there isn't."""
    checked = {}
    for name, value in options.items():
        if name not in OPTIONS:
            raise Usage(f"there is no option {name}; there are {', '.join(OPTIONS)}")
        checked[name] = OPTIONS[name].check(name, value)
    return checked
