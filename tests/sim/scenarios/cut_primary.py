# SPDX-License-Identifier: GPL-2.0-only
"""Power cuts at the primary during a write load.

Each seed: load; at one instant the wire is cut and the local medium is frozen;
the old mirror device and session are torn down; the disk that is left is
checked against what the device promised: with a volatile write cache what was
flushed or written with FUA, without one every acknowledged write. Then a new
session, and the mirror is assembled from what its metadata say: the local leg is
the source, and what its dirty map says is copied, no more. In the end both legs
are alike, and still keep the promise.

Control for the checker: --lie makes the local disk acknowledge flushes without
doing them, which has to be reported (exit code 1).
"""

import argparse
import random
import sys

from crashlab import (
    LEG_MIB,
    Load,
    Site,
    Wire,
    arguments,
    assembled,
    check,
    check_leg,
    compare_legs,
    create,
    cut_loop,
    number,
    site_cut,
)
from locklab import base, dm, media
from locklab.iscsi import Session
from locklab.media import PRIMARY_SITE
from statelab import REGION


class Scenario:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.wire = Wire()
        self.site = Site(args.backstore, "ssd", False, args.nvram)
        self.session = Session()
        self.cache = True
        self.local = ""
        self.running = False

    def open_local(self) -> None:
        self.local = media.disk(
            "p-local", LEG_MIB, self.args.model, site=PRIMARY_SITE,
            write_cache="on" if self.cache else "off",
            flush="lie" if self.args.lie else "honest",
        )  # fmt: skip

    def assemble(self) -> None:
        self.mirror = assembled(self.local, self.session.node)

    def resynced(self) -> str:
        """Waits for the resync after a crash; how much it was."""
        regions, dirty = self.mirror.status().regions, number(self.mirror, "dirty")
        self.mirror.wait("AA", "idle")
        copied = number(self.mirror, "resynced")
        base.expect(copied <= dirty * REGION, f"{copied} sectors copied, {dirty} regions dirty")
        base.expect(dirty < regions, f"{dirty} of {regions} regions are dirty")
        return f"{dirty} of {regions} regions resynced"

    def start(self, rng: random.Random) -> None:
        if self.running:
            self.stop()
        self.cache = self.args.lie or rng.random() < 0.7
        self.site.power_on(fresh=True)
        self.site.export()
        self.session.login()
        media.forget("p-local")
        self.open_local()
        create(self.local, self.session.node, rng)
        self.assemble()
        self.mirror.wait("AA", "idle")
        self.running = True

    def stop(self) -> None:
        self.mirror.remove()
        dm.remove("p-local")
        self.session.logout()
        self.site.power_off()
        self.running = False

    def one(self, seed: int, rng: random.Random) -> str:
        if not self.running or rng.random() < 0.1:
            self.start(rng)
        base.until(lambda: not number(self.mirror, "dirty"), "idle regions clean")
        promise = "volatile" if self.cache else "stable"
        self.session.patience(1)
        load = Load(
            self.mirror.node,
            seed,
            cut_us=rng.randrange(500, 40000),
            cuts=[self.wire.cut_control, site_cut(PRIMARY_SITE, seed)],
            depth=rng.choice((1, 4, 16, 32)),
            pause_us=rng.choice((5, 50, 200)),
        )
        load.start()
        told = load.wait_cut()
        load.wait_end()
        absorbed = number(self.mirror, "absorbed")
        self.mirror.remove()
        dm.remove("p-local")
        self.wire.plug_in()
        self.session.logout()
        self.open_local()
        check_leg(self.local, load.state, promise)
        self.session.login()
        self.assemble()
        copied = self.resynced()
        compare_legs(self.local, self.session.node)
        check(self.mirror.node, load.state, promise)
        said = f"{told.removeprefix('cut: ')}, {absorbed} absorbed"
        return f"{said}, {promise} local disk, {copied}"


def main() -> int:
    args = arguments().parse_args()
    scenario = Scenario(args)
    code = cut_loop("cut_primary", args.first, args.cuts, scenario.one)
    if code == 0:
        scenario.stop()
    return code


if __name__ == "__main__":
    sys.exit(main())
