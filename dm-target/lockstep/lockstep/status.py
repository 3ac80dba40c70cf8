# SPDX-License-Identifier: GPL-2.0-only
"""The status line of the target lockstep (dm-target/status.h has its fields), and what it means."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .errors import Failed
from .table import LEGS, LOCAL, REMOTE

# Exit codes of `lockstep status`, as `mdadm --detail --test` has them.
OK, DEGRADED, UNUSABLE, ERROR = 0, 1, 2, 4

HEALTH = {"A": "in sync", "a": "stale", "D": "dead", "-": "absent", "?": "not known yet"}
_ALIVE = ("A", "a")
# In the order of dm-target/counters.h; a newer kernel may have more behind them.
COUNTERS = (
    "writes", "reads", "flushes", "fua", "zeroes", "waited", "copied_bytes", "punted", "failovers",
    "alone", "refused", "late", "resynced_sectors", "abandoned", "held",
    "marked", "map_writes", "super_writes", "cleaned", "compared_sectors", "equal_sectors",
    "batches", "batched", "merged", "absorbed", "saved_bytes",
    "verified_sectors", "repaired", "repairs_failed", "repairs_dropped",
    "absorbed_waiting",
    "digested_sectors", "digests_equal_sectors", "digests_failed",
    "scattered", "scattered_runs", "scattered_again", "scattered_punted",
    "parked", "window_halved", "budget_waited", "budget_background", "budget_left",
    "reads_abandoned",
)  # fmt: skip
_FIXED = 16
# Why a dead leg stays dead: the kernel's word (leg.c), what it means, and what to do about {leg} of
# {name}.
REASONS = {
    "absent": "there is no device for it; when it is there: lockstep re-add {name} {leg}",
    "told": "it was failed by hand; back with: lockstep re-add {name} {leg}",
    "failed": "a write or a flush failed; it is tried again",
    "timeout": "it didn't answer within its timeout; it is tried again",
    "draining": "requests that were given up haven't come back, maybe by another device or session;"
    " it comes back by itself when they have, or: lockstep re-add {name} {leg} says what to end",
    "unreadable": "it can't be read; it is tried again",
    "foreign": "its metadata is missing, damaged, or another mirror's: lockstep examine DEVICE,"
    " lockstep replace {name} {leg} DEVICE",
    "outdated": "it is from before the other leg was replaced: lockstep replace {name} {leg}"
    " DEVICE",
    "diverged": "split brain: lockstep stop {name}, then lockstep assemble {name} says what to"
    " decide",
    "taken": "another mirror of this host has it, by another device; it comes back by itself when"
    " that one is stopped",
}


@dataclass(frozen=True)
class Memory:
    used_kib: int
    limit_kib: int
    waiting: int


@dataclass(frozen=True)
class Log:
    """The activity log: what it alone would leave to resync after a crash of this host."""

    now_mib: int
    most_mib: int
    full: bool  # a write waits for room in it


@dataclass(frozen=True)
class Status:
    length: int
    health: Mapping[str, str]
    in_sync: int
    regions: int
    action: str
    errors: Mapping[str, int]
    policy: str
    stale: Mapping[str, int]
    read_errors: Mapping[str, int]
    standing: str
    reasons: Mapping[str, str]
    dirty: int
    rate_kib: int
    verify: tuple[int, int] | None
    out_of_sync: int
    counters: Mapping[str, int]
    # Do batches go as WRITE SCATTERED? The kernel's word (scatter.h); None: an older kernel.
    scatter: str | None = None
    # Of the writes in flight; None: an older kernel.
    memory: Memory | None = None
    # What holds a resync or a verify back: application or rate; None: nothing of the mirror's.
    held_by: str | None = None
    # Legs that are alive, don't answer, and aren't given up: I/O waits for them.
    silent: tuple[str, ...] = ()
    # None: an older kernel, or a mirror without metadata.
    log: Log | None = None

    @property
    def usable(self) -> bool:
        """Reads and writes go through."""
        return (
            any(health in _ALIVE for health in self.health.values())
            and self.standing not in ("blocked", "refusing")
            and not self.silent
        )

    @property
    def whole(self) -> bool:
        return all(health == "A" for health in self.health.values()) and self.standing == "together"

    @property
    def code(self) -> int:
        return UNUSABLE if not self.usable else OK if self.whole else DEGRADED

    @property
    def verifying(self) -> bool:
        """A run is under way, if only waiting for a leg or the resync. One that has ended by itself
        is told with all regions done."""
        return self.verify is not None and self.verify[0] < self.verify[1]

    @property
    def left_sectors(self) -> int:
        """To be copied until both legs are in sync."""
        return self.length * sum(self.stale.values()) // max(self.regions, 1)

    @property
    def seconds_left(self) -> int | None:
        if self.action != "resync" or not self.rate_kib:
            return None
        return self.left_sectors // 2 // self.rate_kib

    def json(self) -> dict[str, Any]:
        return {
            "legs": {
                leg: {
                    "health": HEALTH.get(self.health[leg], self.health[leg]),
                    "reason": self.reasons.get(leg),
                    "silent": leg in self.silent,
                    "stale_regions": self.stale[leg],
                    "errors": self.errors[leg],
                    "read_errors": self.read_errors[leg],
                }
                for leg in LEGS
            },
            "health": self.health[LOCAL] + self.health[REMOTE],
            "standing": self.standing,
            "policy": self.policy,
            "size_sectors": self.length,
            "regions": self.regions,
            "regions_in_sync": self.in_sync,
            "regions_dirty": self.dirty,
            "action": self.action,
            "resync": {
                "rate_kib_s": self.rate_kib,
                "left_sectors": self.left_sectors,
                "seconds_left": self.seconds_left,
                "held_back_by": self.held_by,
            },
            "verify": {
                "running": self.verifying,
                "regions_done": self.verify[0] if self.verify else None,
                "regions": self.verify[1] if self.verify else None,
                "out_of_sync_sectors": self.out_of_sync,
            },
            "counters": dict(self.counters),
            "scatter": self.scatter,
            "memory": asdict(self.memory) if self.memory else None,
            "dirty_log": asdict(self.log) if self.log else None,
        }


def parse(line: str) -> Status:
    """Of the line with its `START LENGTH TARGET`."""
    _, length, _, *words = line.split()
    if len(words) < _FIXED:
        raise Failed(
            f"the loaded dm-lockstep tells {len(words)} status fields, this command needs {_FIXED}:"
            " the two are of different versions; load the module that came with this command"
        )
    try:
        return _parse(int(length), words)
    except (ValueError, IndexError) as err:
        raise Failed(f"the status {line!r} isn't understood ({err})") from err


def _parse(length: int, words: list[str]) -> Status:
    health = dict(zip(LEGS, words[0], strict=True))
    done, _, regions = words[1].partition("/")
    rest = words[_FIXED:]
    numbers = [int(word) for word in itertools.takewhile(str.isdigit, rest)]
    # What follows the counters, in the order of status.h.
    after: dict[int, str] = dict(enumerate(rest[len(numbers) :]))
    scatter, memory, held, silent, log = (after.get(at) for at in range(5))
    names = [*COUNTERS, *(f"counter_{n + 1}" for n in range(len(COUNTERS), len(numbers)))]
    verify = words[14].split("/")
    return Status(
        length=length,
        health=health,
        in_sync=int(done),
        regions=int(regions),
        action=words[2],
        errors=_pair(words[3:5]),
        policy=words[5],
        stale=_pair(words[6:8]),
        read_errors=_pair(words[8:10]),
        standing=words[10],
        reasons=_reasons(health, words[11]),
        dirty=int(words[12]),
        rate_kib=int(words[13]),
        verify=(int(verify[0]), int(verify[1])) if words[14] != "-" else None,
        out_of_sync=int(words[15]),
        counters=dict(zip(names, numbers, strict=False)),
        scatter=scatter,
        memory=Memory(*(int(word) for word in memory.split("/"))) if memory else None,
        held_by=held if held != "-" else None,
        silent=tuple(silent.split(",")) if silent and silent != "-" else (),
        log=_log(log.split("/")) if log and log != "-" else None,
    )


def _log(words: list[str]) -> Log:
    return Log(int(words[0]), int(words[1]), words[2:] == ["full"])


def _reasons(health: Mapping[str, str], word: str) -> dict[str, str]:
    """Of each dead leg."""
    dead = [leg for leg in LEGS if health[leg] not in _ALIVE]
    return dict(zip(dead, word.split(","), strict=False)) if word != "-" else {}


def _pair(words: list[str]) -> dict[str, int]:
    return {leg: int(word) for leg, word in zip(LEGS, words, strict=True)}
