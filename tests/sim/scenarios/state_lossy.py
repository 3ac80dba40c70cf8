# SPDX-License-Identifier: GPL-2.0-only
"""A wire that loses packets and brings them out of order, under iSCSI, beneath a mirror with
metadata: what TCP mends is nothing to the mirror, what it can't is a lost leg like any other.
"""

import time
from pathlib import Path

from locklab import base, dm, pair
from statelab import Writers
from statewire import Mirrored

MIB = 2
WIRE = "metro"


def retransmitted() -> int:
    """TCP segments sent again since the start, of both sites' ends together."""
    names, values = (
        line.split() for line in Path("/proc/net/snmp").read_text().splitlines()
        if line.startswith("Tcp:")
    )  # fmt: skip
    return int(values[names.index("RetransSegs")])


def mended_by_tcp(both: pair.Pair, mirrored: Mirrored) -> None:
    for loss, reorder in ((1, 0), (0, 25), (5, 25)):
        base.step(f"{loss} % lost, {reorder} % out of order: slower, and no more")
        events, before = mirrored.status(), retransmitted()
        both.wire.profile(WIRE, loss, reorder)
        mirrored.write()
        mirrored.more(300)
        mirrored.stop_writing()
        base.equal(mirrored.status().remote_errors, events.remote_errors, "errors of the leg")
        base.expect(mirrored.is_("AA", "together"), "nothing has happened")
        sent_again = retransmitted() - before
        print(f"  {sent_again} segments sent again", flush=True)
        base.expect(sent_again, "the wire lost nothing: nothing was tried")
        mirrored.whole("a lossy wire")


def held_for_a_while(mirrored: Mirrored, writers: Writers) -> bool:
    """Nothing is acknowledged while the leg is away; False if it came back meanwhile."""
    events, acked = dm.event("mirror"), writers.acked
    time.sleep(20)
    now = writers.acked
    if dm.event("mirror") != events:
        return False
    base.equal(now, acked, "writes acknowledged on one leg")
    return True


def lost_and_found(both: pair.Pair, mirrored: Mirrored) -> None:
    for policy in ("degrade", "block"):
        base.step(f"policy {policy}: so much is lost that the leg is, again and again")
        mirrored.message(f"policy {policy}")
        writers = mirrored.write((0.02, 0.06))
        held = 0
        gone = "alone" if policy == "degrade" else "blocked"
        for turn in range(3):
            mirrored.more(20)
            both.wire.profile(WIRE, 90, 25)
            mirrored.wait("AD", gone, 300)
            if policy == "degrade":
                mirrored.more(40)
            else:
                held += held_for_a_while(mirrored, writers)
            # The leg comes back, and is resynced, over a wire that isn't good yet.
            both.wire.profile(WIRE, turn, 25)
            mirrored.wait("AA", "together", 120)
        mirrored.more(20)
        mirrored.stop_writing()
        both.wire.profile(WIRE)
        mirrored.whole("lost and found")
        base.expect(held or policy == "degrade", "the leg was never away for as long as that")


with pair.pair("iblock", WIRE, MIB) as both:
    mirrored = Mirrored(both.local.node, both.remote, both.site.disks[0].node,
                        "remote_timeout", 8000, "rejoin", 1)  # fmt: skip
    mended_by_tcp(both, mirrored)
    lost_and_found(both, mirrored)
    mirrored.remove()
base.step("done")
