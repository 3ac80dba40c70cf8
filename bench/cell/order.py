# SPDX-License-Identifier: GPL-2.0-only
"""What one cell is: the stack to build, the work to do on it, the seed. Written and read as JSON.

The runner makes an order on the host, cell/main.py carries it out where the cell runs; so this
file knows neither the lab nor any library. Everything that decides a result is in it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LOCAL, NOWHERE, HERE = "local", "none", "here"


class BadOrder(ValueError):
    """An order that can't be read; the text says which key and why."""


class Absent(Exception):
    """Something the cell needs isn't there (a peer's module, a program): a gap, not a failure."""


@dataclass(frozen=True)
class Stack:
    """From the disks up to the device that the work is done on."""

    software: str = "lockstep"  # a name in cell/mirrors.py; none: no mirror, the remote leg itself
    options: str = ""  # words of the mirror's own
    remote: str = LOCAL  # a wire of tests/lab/wires.json; local: a second disk; none: no second leg
    cache: str = "none"  # a name in cell/caches.py: what the mirror site's LUN stands on
    cache_options: str = ""  # words of the cache's own
    connections: int = 1
    loss_percent: float = 0.0  # of packets, in each direction
    mib: int = 512  # of each leg
    log_mib: int = 128  # of the cache's disk
    nvram_mib: int = 32
    media: str = "spindle"  # a name in cell/disks.py
    mtu: int = 1500
    devices: tuple[str, ...] = ()  # with remote `here`: the local one and the other, if any


@dataclass(frozen=True)
class Order:
    workload: str  # a module in cell/workloads
    stack: Stack = field(default_factory=Stack)
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)


def stack(table: Mapping[str, Any]) -> Stack:
    """From JSON or TOML; unknown keys and wrong types are errors."""
    known = {one.name: one for one in dataclasses.fields(Stack)}
    for key, value in table.items():
        if key not in known:
            raise BadOrder(f"stack: unknown key {key!r}; there are: {', '.join(known)}")
        default = known[key].default
        if isinstance(default, tuple):
            good = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        else:
            good = type(value) is type(default)
        if not good:
            raise BadOrder(f"stack: {key} is {value!r}, want {type(default).__name__}")
        if isinstance(value, int) and value < 1:
            raise BadOrder(f"stack: {key} is {value}, want at least 1")
        if isinstance(value, float) and not 0 <= value <= 100:
            raise BadOrder(f"stack: {key} is {value}, want 0 to 100")
    words: dict[str, Any] = {
        key: tuple(one) if isinstance(one, list) else one for key, one in table.items()
    }
    return Stack(**words)


def parse(text: str) -> Order:
    table = json.loads(text)
    return Order(table["workload"], stack(table["stack"]), table["params"], table["seed"])
