# SPDX-License-Identifier: GPL-2.0-only
"""Seeded schedules of everything at once, judged by what is read and by the legs at the end.

Arguments: how many schedules (default 20), and the first seed (default the lab's). A schedule is
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

from locklab import base, dm, mirror
from mirrorlab import Background, Leg, Pair

REGIONS = (8, 64, 512)


def try_message(pair: Pair, text: str) -> None:
    """A message that may be refused in the state the mirror is in."""
    with contextlib.suppress(OSError):
        pair.mirror.message(text)


def broken(leg: Leg, rng: random.Random) -> None:
    rng.choice((leg.gone, leg.fail_writes))()


def schedule(seed: int) -> str:
    rng = random.Random(f"churn {seed}")
    one_leg = rng.random() < 0.6
    policy = rng.choice(("degrade", "degrade", "error"))
    mib = 4
    pair = Pair(
        "nosync", "region_size", rng.choice(REGIONS), "policy", policy,
        "resync_jobs", rng.randint(1, 6), "resync_pace", rng.choice(("polite", "full", "full")),
        "resync_compare", rng.choice(("off", "on")), "remote_timeout", rng.choice((20, 50, 200)),
        "coalesce", rng.choice((1, 2, 8, 32)), "coalesce_pipeline", rng.choice((1, 2, 4)),
        latency_us=(rng.choice((0, 30, 200)), rng.choice((0, 200, 900))),
        cache_mib=rng.choice((0, 0, 2)), mib=mib,
    )  # fmt: skip
    mode = "verify" if rng.random() < 0.75 else "scribble"
    load = Background(
        mode, pair.mirror.node, span=mib << 11, depth=rng.choice((1, 8, 32)), seed=seed
    )
    legs = [rng.choice((pair.local, pair.remote))] if one_leg else [pair.local, pair.remote]

    def reload() -> None:
        dm.reload("mirror", mirror.table(pair.local.node, pair.remote.node, "nosync",
                  "region_size", rng.choice(REGIONS), "policy", policy))  # fmt: skip

    def bounce() -> None:
        dm.suspend("mirror", flush=rng.random() < 0.5)
        dm.resume("mirror")

    def hang() -> None:
        leg = rng.choice(legs)
        dm.suspend(leg.name, flush=False)
        time.sleep(rng.choice((0.01, 0.1, 0.4)))
        dm.resume(leg.name)

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
            pair.mirror.message("resync")
        return (status.health, status.action) == ("AA", "idle")

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
    pair.close()
    return line


count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
first = int(sys.argv[2]) if len(sys.argv) > 2 else base.SEED
for number in range(first, first + count):
    try:
        print(schedule(number), flush=True)
    except base.Wrong as err:
        raise base.Wrong(f"schedule of seed {number}: {err}; status {dm.status('mirror')}") from err
