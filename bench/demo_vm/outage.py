# SPDX-License-Identifier: GPL-2.0-only
"""The mirror site loses its power in the middle of a replay, and comes back.

In order: the primary's clock is read, then the power is cut, so that a write acknowledged by that
clock was acknowledged with the mirror site alive. The mirror goes on alone (degraded). The site
gets its power back; its DCD recovers and the LUN returns by the site's own units. Before the
primary copies anything to it, the site tells what it holds: that is what acked.judge() compares.
For that the role's watch, which gives the leg back as soon as it is there, is held. Then it runs
again, and the leg is resynced, while the replay goes on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from demo_vm import plan
from demo_vm.sites import Sites, Status
from demo_vm.tell import Tell

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

    def mark(self, what: str) -> float:
        """Notes the moment; the seconds since the cut."""
        self.moments[what] = time.monotonic()
        return self.moments[what] - self.moments["cut"]


class Watch:
    """Shows the mirror's status line whenever its health or action changes."""

    def __init__(self, tell: Tell, sites: Sites, mirror: plan.Mirror, one: Outage) -> None:
        self._tell, self._sites, self._mirror, self._one = tell, sites, mirror, one
        self._shown: tuple[str, str] | None = None
        self._synced = ""

    def look(self) -> Status:
        status = self._sites.status(self._mirror)
        self._synced = f"{status.synced} regions"
        if (status.health, status.action) != self._shown:
            self._shown = status.health, status.action
            line = f"{self._mirror.name}: {status.line}"
            self._one.lines.append(line)
            self._tell.say(line)
        return status

    def alone(self) -> bool:
        return self.look().health == "AD"

    def whole(self) -> bool:
        return self.look().whole

    def how_far(self) -> str:
        return self._synced


def cut(tell: Tell, sites: Sites, mirror: plan.Mirror, load: plan.Load) -> Outage:
    """Cuts the mirror site's power now, and sees it back and in sync."""
    one = Outage()
    watch = Watch(tell, sites, mirror, one)
    watch.look()
    tell.say("lockstep-watch is held until the mirror site has told what it holds after the cut")
    sites.hold_watch(mirror, hold=True)
    one.cut_ns = sites.clock_ns("primary")
    one.mark("cut")
    tell.say("the mirror site's power is cut now; the replay goes on")
    sites.lab.power_cut("mirror", seed=plan.CHANCE, stay_down=True)
    tell.wait("the mirror, to give its remote leg up", watch.alone, ALONE_S)
    tell.say(f"degraded {one.mark('alone'):.0f} s after the cut; power on")
    sites.lab.boot("mirror")
    one.mark("booted")
    tell.wait("the LUN, by the mirror site's own units", lambda: sites.serves(mirror), LUN_S)
    tell.say(f"the DCD has recovered and the LUN is back {one.mark('lun'):.0f} s after the cut")
    sites.send_tools("mirror", load)
    one.held = sites.held(mirror)
    sites.hold_watch(mirror, hold=False)
    tell.wait("the session, and the resync of what was missed", watch.whole, WHOLE_S,
              state=watch.how_far)  # fmt: skip
    tell.say(f"whole again {one.mark('whole'):.0f} s after the cut")
    return one
