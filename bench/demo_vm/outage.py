# SPDX-License-Identifier: GPL-2.0-only
"""The mirror site loses its power in the middle of a replay, and comes back.

In order: the primary's clock is read, then the power is cut, so that a write acknowledged by that
clock was acknowledged with the mirror site alive. The mirror goes on alone (degraded). The site
gets its power back; its DCD recovers and the LUN returns by the site's own units. Before the
primary copies anything to it, the site tells what it holds: that is what acked.judge() compares.
For that the primary has no route to the site meanwhile: the kernel would take the leg back as soon
as it answers. Then the route is back, and all else comes by itself, while the replay goes on: the
session, the leg's rejoin, and the resync of the regions that it missed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from demo_vm import plan
from demo_vm.sites import Sites
from demo_vm.tell import Failed, Tell
from lockstep.report import summary
from lockstep.status import Status

ALONE_S = 120.0
LUN_S = 300.0
WHOLE_S = 900.0


@dataclass
class Outage:
    """Moments by this machine's monotonic clock, in seconds; what the mirror site held."""

    cut_ns: int = 0  # by the primary's clock
    moments: dict[str, float] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)  # the mirror's status, when it changed
    held: dict[int, str] = field(default_factory=dict)
    resynced: int = 0  # sectors copied to the site after it was back
    sectors: int = 0  # of the mirror

    def mark(self, what: str) -> float:
        """Notes the moment; the seconds since the cut."""
        self.moments[what] = time.monotonic()
        return self.moments[what] - self.moments["cut"]


class Watch:
    """Shows the mirror's state whenever its health, standing or action changes."""

    def __init__(self, tell: Tell, sites: Sites, mirror: plan.Mirror, one: Outage) -> None:
        self._tell, self._sites, self._mirror, self._one = tell, sites, mirror, one
        self._shown: tuple[str, ...] | None = None
        self._synced = ""

    def look(self) -> Status:
        status = self._sites.status(self._mirror)
        self._synced = f"{status.in_sync}/{status.regions} regions"
        state = *status.health.values(), status.standing, status.action
        if state != self._shown:
            self._shown = state
            line = (
                f"{self._mirror.name}: {summary(status)}; {self._synced} in sync, "
                f"{status.standing}, {status.action}"
            )
            self._one.lines.append(line)
            self._tell.say(line)
        return status

    def alone(self) -> bool:
        status = self.look()
        return status.health["remote"] == "D" and status.standing == "alone"

    def whole(self) -> bool:
        status = self.look()
        return status.whole and status.action == "idle"

    def how_far(self) -> str:
        return self._synced


def copied(before: Status | None, now: Status) -> int:
    """Sectors that a resync copied between two looks; without the first, since the table's load."""
    counter = "resynced_sectors"
    count = now.counters[counter] - (before.counters[counter] if before else 0)
    if count < 0:
        raise Failed(f"the mirror's count of resynced sectors went back, by {-count}")
    return count


def cut(tell: Tell, sites: Sites, mirror: plan.Mirror, load: plan.Load) -> Outage:
    """Cuts the mirror site's power now, and sees it back and in sync."""
    one = Outage()
    watch = Watch(tell, sites, mirror, one)
    before, table = watch.look(), sites.table(mirror)
    one.sectors = before.length
    one.cut_ns = sites.clock_ns("primary")
    one.mark("cut")
    tell.say("the mirror site's power is cut now; the replay goes on")
    sites.lab.power_cut("mirror", seed=plan.CHANCE, stay_down=True)
    tell.wait("the mirror, to give its remote leg up", watch.alone, ALONE_S)
    tell.say(f"degraded {one.mark('alone'):.0f} s after the cut")
    tell.say("the primary's route is held until the site has told what it holds; power on")
    sites.hold_route(hold=True)
    sites.lab.boot("mirror")
    one.mark("booted")
    tell.wait("the LUN, by the mirror site's own units", lambda: sites.serves(mirror), LUN_S)
    tell.say(f"the DCD has recovered and the LUN is back {one.mark('lun'):.0f} s after the cut")
    sites.send_tools("mirror", load)
    one.held = sites.held(mirror)
    sites.hold_route(hold=False)
    tell.wait("the session, the rejoin, and the resync of what was missed", watch.whole, WHOLE_S,
              state=watch.how_far)  # fmt: skip
    tell.say(f"whole again {one.mark('whole'):.0f} s after the cut, by itself")
    now = sites.status(mirror)
    old = before if sites.table(mirror) == table else None
    one.resynced = copied(old, now)
    tell.say(
        f"the resync copied {one.resynced / 2048:.1f} of {one.sectors / 2048:.0f} MiB: the regions "
        "that were written meanwhile"
    )
    return one
