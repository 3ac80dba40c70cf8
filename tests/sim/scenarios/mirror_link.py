# SPDX-License-Identifier: GPL-2.0-only
"""The link is cut under load: the mirror goes on alone, says so, and comes back whole."""

import sys
import threading
import time

from locklab import base, blk, dm, pair

kind = sys.argv[1] if len(sys.argv) > 1 else "iblock"
PATIENCE_S = 5
# Noticed after noop interval + timeout (2 + 2 s), given up after the patience, and the answers.
LONGEST_S = 2 + 2 + PATIENCE_S + 3


def main() -> None:
    with pair.pair(kind, "metro") as both:
        device = pair.mirrored(both)
        events = dm.event(device.name)
        woken: list[float] = []

        def watch() -> None:
            dm.wait(device.name, events)
            woken.append(time.monotonic())

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()

        base.step("a short cut is ridden out: no error, no state change")
        load = blk.Load(device.node, writers=8, pause_us=2000).start()
        load.wait_writes(200)
        both.wire.cut()
        time.sleep(1)
        both.wire.mend("metro")
        load.wait_writes(200)
        base.equal(device.status().health, "AA", "health after a short cut")
        base.equal(woken, [], "events after a short cut")

        base.step("a long cut: degraded, with an event, and no error for the application")
        both.wire.cut()
        began = time.monotonic()
        device.wait("AD")
        base.expect(time.monotonic() - began < LONGEST_S, "degraded within the stated time")
        watcher.join(60)
        base.expect(woken, "dmsetup wait woke up")
        load.wait_writes(500)
        base.equal(load.errors, [], "errors of the load")
        status = device.status()
        base.expect(status.remote_errors > 0, "remote errors are counted")
        base.expect(status.in_sync < status.regions, "stale regions are counted")

        base.step("recover is refused while the link is down")
        with base.refused("recover without a link", kernel="stays dead"):
            device.message("recover")
        base.equal(device.status().health, "AD", "health after the refusal")

        base.step("mended: recover copies what was missed, under load")
        both.wire.mend("metro")
        base.until(both.session.up, "the session")
        device.message("resync_pace full")  # how polite it is, mirror_throttle shows
        device.message("recover")
        device.in_sync()
        load.wait_writes(200)
        load.stop()
        base.equal(load.errors, [], "errors of the load")
        load.check()
        device.remove()
        load.check(both.remote)
        blk.same(both.local.node, both.remote)

        base.step("cut again in the middle of a resync")
        device = pair.mirrored(both)
        device.message("fail remote")
        with blk.Disk(device.node) as disk:
            for sector in range(0, disk.sectors, 1024):
                disk.write(sector, blk.pattern(f"alone {sector}", 8))
        device.message("resync_rate 1024")
        device.message("recover")
        base.until(lambda: device.status().in_sync > 2, "some progress")
        both.wire.cut()
        device.wait("AD")
        base.expect(device.status().in_sync < device.status().regions, "the resync wasn't done")
        both.wire.mend("metro")
        base.until(both.session.up, "the session")
        device.message("resync_rate 0")
        device.message("recover")
        device.in_sync()
        device.remove()
        blk.same(both.local.node, both.remote)
    base.step("done")


main()
