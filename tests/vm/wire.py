# SPDX-License-Identifier: GPL-2.0-only
"""The wire between the hosts: a profile of tests/lab/wires.json as netem at both ends.

Each host keeps its own end's shape in a file, which its lab-wire.service applies now and at every
boot: a line for each speed, "SECONDS NETEM-ARGUMENTS", for ever from the top; "0" means that
the line holds for good. An empty file: no netem.
"""

from __future__ import annotations

import sys
from pathlib import Path

from host import MIRROR, PRIMARY
from laberror import LabError

sys.path.append(str(Path(__file__).resolve().parents[1] / "lab"))
import wires

FILE = "/etc/lab-wire"
# For the host's shell, with the shape as stdin: takes it at once and for later boots. Returns when
# it holds.
COMMAND = f"set -e; cat >{FILE}; sync {FILE}; systemctl restart lab-wire.service"
# How long a varying wire goes on before it begins again.
VARY_S = 4 * 3600.0


def shapes(profile: str, seed: int, loss_percent: float = 0.0) -> dict[str, str]:
    """Each host's file ("": none). The seeds are those of the sim lab's wire."""
    try:
        found = wires.load(profile)
    except wires.UnknownWire as err:
        raise LabError(str(err)) from err
    return {
        PRIMARY.name: _lines(found.to_mirror, 2 * seed, loss_percent),
        MIRROR.name: _lines(found.to_primary, 2 * seed + 1, loss_percent),
    }


def _lines(way: wires.Direction, seed: int, loss: float) -> str:
    if way.vary_bit is None:
        args = wires.netem(way, seed, None, loss)
        return f"0 {' '.join(args)}\n" if args else ""
    lines, total = [], 0.0
    for seconds, rate in wires.schedule(way, seed):
        lines.append(f"{seconds:g} {' '.join(wires.netem(way, seed, rate, loss))}\n")
        total += seconds
        if total > VARY_S:
            return "".join(lines)
    raise AssertionError("a schedule is endless")
