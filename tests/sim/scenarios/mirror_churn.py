# SPDX-License-Identifier: GPL-2.0-only
"""Seeded schedules of everything at once, judged by what is read and by the legs at the end.

Arguments: how many schedules (default 20), the first seed (default the lab's), and `lun`: then the
remote leg is a DCD's LUN over the wire, which takes batches as WRITE SCATTERED. A schedule is
a load that verifies every read, on legs with latencies of their own, while legs break, mend, hang,
slow down, are failed and recovered by hand, and the mirror is suspended, reloaded and resynced.
What a schedule promises:
  - no read returns anything but what was last acknowledged;
  - no I/O fails as long as one leg is well all the time (schedules that break only one leg);
  - after everything is mended and recovered, the mirror gets in sync, and the legs are identical.
"""

import contextlib
import random
import sys
import time
from pathlib import Path

from crashlab import Wire
from locklab import base, blk, dm, mirror, ram
from mirrorlab import Background, Leg, Pair
from scatterlab import Site

MIB = 4
REGIONS = (8, 64, 512)


def try_message(pair: Pair, text: str) -> None:
    """A message that may be refused in the state the mirror is in."""
    with contextlib.suppress(OSError):
        pair.mirror.message(text)


def broken(leg: Leg, rng: random.Random) -> None:
    rng.choice((leg.gone, leg.fail_writes))()


class LunDisk(ram.Ram):
    """The LUN's node, whose memory is the DCD's matter."""

    def __init__(self, node: str) -> None:
        self.node, self.sectors = node, dm.sectors(node)


class Lun(Leg):
    """The SCSI disk itself, as nothing between it and the mirror would take a batch. What dm does
    to other legs is done by the disk's state, the wire and resets."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.site = Site("dcd", self.wire)
        self.node, self.name = self.site.remote, "lremote"
        self.disk = LunDisk(self.node)
        self.scattered = 0

    def blank(self) -> None:
        with blk.Disk(self.node) as disk:
            disk.zero(0, MIB << 11)

    def _state(self, state: str) -> None:
        # Refused while the session is being recovered, which sets it by itself.
        with contextlib.suppress(OSError):
            base.put(Path("/sys/block") / Path(self.node).name / "device/state", state)

    def well(self) -> None:
        self.wire.plug_in()
        base.until(lambda: self.site.session.states() == ["LOGGED_IN"], "the session", 60)
        self._state("running")
        base.until(self.site.session.up, "the LUN", 60)

    def gone(self) -> None:
        self._state("offline")

    def fail_writes(self) -> None:
        """The wire, which is no error for as long as the session is patient."""
        base.put(self.wire.flags, "0x1002")

    def slow(self, ms: int) -> None:
        self.wire.profile("metro" if ms > 2 else "lan")

    def hang(self) -> None:
        self.fail_writes()

    def wake(self) -> None:
        self.wire.plug_in()

    def reset(self) -> None:
        base.run("sg_reset", "--device", self.node, check=False)

    def close(self) -> None:
        """The next schedule's, too."""


def schedule(seed: int, lun: Lun | None) -> str:
    rng = random.Random(f"churn {seed}")
    one_leg = rng.random() < 0.6
    policy = rng.choice(("degrade", "degrade", "error"))
    # Else a load does very much while a session is being waited for, and nobody waits politely.
    least_us, paces = (2000, ("full",)) if lun else (0, ("polite", "full", "full"))
    kept = ("resync_pace", "full") if lun else ()
    pair = Pair(
        "nosync", "region_size", rng.choice(REGIONS), "policy", policy,
        "resync_jobs", rng.randint(1, 6), "resync_pace", rng.choice(paces),
        "resync_compare", rng.choice(("off", "on")), "remote_timeout", rng.choice((20, 50, 200)),
        "coalesce", rng.choice((1, 2, 8, 32)), "coalesce_pipeline", rng.choice((1, 2, 4)),
        latency_us=(max(least_us, rng.choice((0, 30, 200))), rng.choice((0, 200, 900))),
        cache_mib=rng.choice((0, 0, 2)), mib=MIB, remote=lun,
    )  # fmt: skip
    mode = "verify" if rng.random() < 0.75 else "scribble"
    load = Background(
        mode, pair.mirror.node, span=MIB << 11, depth=rng.choice((1, 8, 32)), seed=seed
    )
    legs = [rng.choice((pair.local, pair.remote))] if one_leg else [pair.local, pair.remote]

    def reload() -> None:
        words = ("nosync", "region_size", rng.choice(REGIONS), "policy", policy, *kept)
        # A SCSI disk that is offline can't be opened: then the old table stays.
        with contextlib.suppress(OSError) if lun else contextlib.nullcontext():
            dm.reload("mirror", mirror.table(
                pair.local.node, pair.remote.node, *words, sectors=MIB << 11))  # fmt: skip

    def bounce() -> None:
        dm.suspend("mirror", flush=rng.random() < 0.5)
        dm.resume("mirror")

    def hang() -> None:
        leg = rng.choice(legs)
        leg.hang()
        time.sleep(rng.choice((0.01, 0.1, 0.4)))
        leg.wake()

    # A message may take a leg for dead that is well: then the well one must not break meanwhile.
    sides = [leg.name[1:] for leg in legs]
    steps = [
        lambda: broken(rng.choice(legs), rng),
        lambda: broken(rng.choice(legs), rng),
        lambda: rng.choice(legs).well(),
        lambda: rng.choice(legs).slow(rng.randint(1, 4)),
        lambda: try_message(pair, f"fail {rng.choice(sides)}"),
        lambda: try_message(pair, "recover"),
        lambda: try_message(pair, "recover"),
        lambda: try_message(pair, "verify start"),
        lambda: try_message(pair, "verify start"),
        lambda: try_message(pair, f"resync_rate {rng.choice((0, 0, 500))}"),
        hang,
        reload,
        bounce,
    ]
    if sides != ["local"]:  # a resync makes the remote leg stale: then the local one must be well
        steps.append(lambda: try_message(pair, "resync"))
    if lun:
        steps.append(lambda: try_message(pair, f"scatter {rng.choice(('auto', 'on', 'off'))}"))
        if lun in legs:
            steps.append(lun.reset)
    for _ in range(rng.randint(6, 20)):
        time.sleep(rng.choice((0.001, 0.005, 0.02)))
        rng.choice(steps)()

    for leg in (pair.local, pair.remote):
        leg.well()
    pair.mirror.message("resync_rate 0")

    def synced() -> bool:
        try_message(pair, "recover")
        status = pair.mirror.status()
        if status.action == "stalled":
            try_message(pair, "resync")
        # A verify beside a load takes as long as it takes.
        return status.health == "AA" and status.action in ("idle", "verify")

    base.until(synced, "both legs in sync", 60)
    writes, reads, _, bad_writes, bad_reads = load.stop()
    if one_leg and policy == "degrade":
        base.equal((bad_writes, bad_reads), (0, 0), f"seed {seed}: failed writes and reads")
    base.until(lambda: pair.mirror.status().health == "AA", "in sync at the end")
    pair.same()
    # What is in sync is equal at every moment, so a verify beside all this finds nothing.
    base.equal(pair.count("differing"), 0, f"seed {seed}: sectors that verify found to differ")
    errors = pair.mirror.status()
    line = (
        f"seed {seed}: {mode} {policy} {'one leg' if one_leg else 'both legs'}: {writes} writes "
        f"({bad_writes} failed), {reads} reads ({bad_reads} failed), leg errors "
        f"{errors.local_errors} {errors.remote_errors}, late {pair.count('late')}"
    )
    if lun:
        lun.scattered += pair.count("scattered")
        line += f", {pair.count('scattered')} commands for {pair.count('scattered_runs')} runs"
    pair.close()
    return line


count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
first = int(sys.argv[2]) if len(sys.argv) > 2 else base.SEED
lun = Lun() if base.words(3, ["lun"]) else None
for number in range(first, first + count):
    if lun:
        lun.blank()
    try:
        print(schedule(number, lun), flush=True)
    except base.Wrong as err:
        raise base.Wrong(f"schedule of seed {number}: {err}; status {dm.status('mirror')}") from err
if lun:
    base.expect(lun.scattered > 0, "no batch went as one command")
    lun.site.close()
