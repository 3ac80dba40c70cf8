# SPDX-License-Identifier: GPL-2.0-only
"""Power cuts at the mirror site during a write load.

Each seed: load; at one instant the wire is cut and the media and the NVRAM of
the mirror site are frozen; the old target drains into the void; a new one is
assembled on what is left and looked at on the spot: everything acknowledged at
the instant has to be there (a quarter of the seeds cuts the site's power again
before that, in or after its recovery). Then the wire is mended. Either the session comes
back before its patience ends and the held writes go on, or the leg was declared
dead and rejoins by itself. In the end both legs are alike, and the whole history,
with the writes after the cut, holds on the device.

Controls for the checker: the module parameter dcd.test_ack_early=1 makes dcd.ko
acknowledge before its NVRAM has the data, --lie makes the mirror's disks
acknowledge flushes without doing them: both have to be reported (exit code 1).
Stand-ins: --backstore iblock (a disk without cache instead of a DCD, or with --cache
one with a volatile one, which says so), --plain (the load writes to the iSCSI disk, no
lockstep mirror). --offline: `dcd recover` works on copies of disks and NVRAM before the
module's recovery, which has to come to the same data disk, bit for bit.

To a DCD the mirror sends its batches as WRITE SCATTERED, half of the seeds in as few commands as
can be; how many there were is told at the end, and on an iblock backstore there must be none.
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
from locklab import base, dm, lio, media
from locklab.iscsi import Session
from locklab.media import MIRROR_SITE, PRIMARY_SITE
from locklab.mirror import Mirror


class Scenario:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.wire = Wire()
        self.site = Site(args.backstore, args.model, args.lie, args.nvram)
        self.site.offline = args.offline
        self.site.cache = args.cache
        self.session = Session()
        self.mirror: Mirror | None = None
        self.device = self.local = ""
        self.running = False
        self.scattered = 0  # commands, by mirrors that have gone

    def start(self, rng: random.Random) -> None:
        """Everything new: blank media, formatted, first session, first table."""
        if self.running:
            self.stop()
        self.site.power_on(fresh=True)
        self.site.export()
        remote = self.session.login()
        self.device = remote
        if not self.args.plain:
            media.forget("p-local")
            self.local = media.disk("p-local", LEG_MIB, "ssd", site=PRIMARY_SITE)
            create(self.local, remote, rng)
            self.mirror = assembled(self.local, remote)
            self.mirror.wait("AA", "idle")
            self.device = self.mirror.node
        self.running = True

    def stop(self) -> None:
        if self.mirror:
            self.scattered += number(self.mirror, "scattered")
            self.mirror.remove()
            dm.remove("p-local")
        self.session.logout()
        self.site.power_off()
        self.running = False

    def power_returns(self, seed: int, rng: random.Random) -> bool:
        """After a cut, and sometimes after a second one: then True."""
        self.site.power_off()
        self.site.power_on(fresh=False)
        twice = rng.random() < 0.25
        if twice:  # again, on what recovery has made of it so far
            media.cut(MIRROR_SITE, seed + 1)
            self.site.power_off()
            self.site.power_on(fresh=False)
        return twice

    def one(self, seed: int, rng: random.Random) -> str:
        if not self.running or rng.random() < 0.1:
            self.start(rng)
        mirror = self.mirror
        dies = mirror is not None and rng.random() < 0.4
        self.session.patience(2 if dies else 120)
        if mirror:
            mirror.message(f"scatter {('auto', 'on')[seed % 2]}")
        load = Load(
            self.device,
            seed,
            cut_us=rng.randrange(500, 40000),
            cuts=[self.wire.cut_control, site_cut(MIRROR_SITE, seed)],
            # A leg that nobody writes to is not missed.
            more=rng.choice((50, 300) if dies else (0, 0, 50, 300)),
            depth=rng.choice((1, 4, 16, 32)),
            pause_us=rng.choice((5, 50, 200)),
        )
        load.start()
        told = load.wait_cut()
        twice = self.power_returns(seed, rng)
        with lio.look(self.site.store) as disk:
            self.site.same_as_offline(disk, twice)
            (check_leg if mirror else check)(disk, load.state, "stable")
        if mirror and dies:
            mirror.wait("AD")
        self.site.export()
        self.wire.plug_in()
        base.until(self.session.up, "the session to come back", 600)
        if mirror:
            mirror.wait("AA", "idle")
        load.wait_end()
        check(self.device, f"{load.state}.end", "stable")
        if mirror:
            # Where time is real the leg may have died since: the load then ended without it.
            mirror.wait("AA", "idle")
            compare_legs(self.local, self.session.node)
        told = told.removeprefix("cut: ") + (", cut twice" if twice else "")
        return f"{told}, {'died and rejoined' if dies else 'came back'}"


def main() -> int:
    parser = arguments()
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--cache", action="store_true")
    args = parser.parse_args()
    scenario = Scenario(args)
    code = cut_loop("cut_mirror", args.first, args.cuts, scenario.one)
    if code == 0:
        scenario.stop()
        print(f"cut_mirror: {scenario.scattered} commands for several writes", flush=True)
        scatters = args.backstore == "dcd" and not args.plain
        if args.cuts >= 10 or not scatters:  # a few may all come before the first batch
            base.equal(scenario.scattered > 0, scatters, "such commands were sent")
    return code


if __name__ == "__main__":
    sys.exit(main())
