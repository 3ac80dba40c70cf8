# SPDX-License-Identifier: GPL-2.0-only
"""The mirror site takes the mirror over: on its data disk, without the DCD that was in front of it.

Each seed: a mirror whose remote leg is a DCD's LUN, and load; at one instant the primary
loses its power, and mostly the mirror site, too. Whatever state the DCD was left in, its
data disk alone is no leg of the mirror for lockstep-meta, until `dcd retire` has been there (every
other seed is cut once more in the middle of it). Then it has every acknowledged write, a mirror
runs on it, and newer data is written. No later start of the old stack changes a byte: not the
module with the old log and NVRAM, not with copies of them from before, not `dcd recover`.

Control: with the module parameter dcd.test_use_left=1 the copies are used, and old data comes over
newer, which has to be reported (exit code 1).

Then the way back: log and NVRAM are formatted anew, the old primary logs in, gets what was written
meanwhile, and both legs are alike. Half of the seeds go on from there, on the same disks.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import crashlab
from crashlab import (
    DCD_TOOL,
    LEG_MIB,
    LOG_MIB,
    NVRAM_KIB,
    Load,
    Site,
    Wire,
    arguments,
    assembled,
    check_leg,
    compare_legs,
    create,
    cut_loop,
    site_cut,
)
from locklab import base, blk, dm, lio, media
from locklab.iscsi import Session
from locklab.media import MIRROR_SITE, PRIMARY_SITE
from locklab.mirror import Mirror
from statelab import META, super_of

SPOTS = range(0, 8192, 512)


def ask(*words: str) -> tuple[int, dict[str, object], str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def verdict(local: str, remote: str) -> str:
    return str(ask(META, "verdict", local, remote)[1].get("verdict"))


def image(node: str) -> str:
    with open(node, "rb") as disk:
        return hashlib.file_digest(disk, "sha256").hexdigest()


class Disks:
    """The mirror site's devices with the power back, and no DCD on them."""

    def __init__(self, site: Site) -> None:
        self.nvram = site.nvram == "lab"
        self.data = media.disk("m-data", LEG_MIB, site.model, site=MIRROR_SITE, write_cache="on")
        self.log = media.disk("m-log", LOG_MIB, site.model, site=MIRROR_SITE, write_cache="on")
        self.view = media.nvram("m-nvram", NVRAM_KIB, site=MIRROR_SITE) if self.nvram else "none"
        self.words = ("--data", self.data, "--log", self.log, "--nvram", self.view)

    def close(self) -> None:
        for name in ("m-nvram", "m-log", "m-data") if self.nvram else ("m-log", "m-data"):
            dm.remove(name)

    def others(self) -> list[Path]:
        return [Path(node) for node in (self.log, self.view) if node != "none"]

    def start_dcd(self) -> lio.Backstore:
        nvram = "lab:m-nvram" if self.nvram else "none"
        control = f"data={self.data},log={self.log},nvram={nvram},nvram_bytes={NVRAM_KIB << 10}"
        return lio.Backstore("dcd", "leg", control, crashlab.SERIAL)

    def dcd_refuses(self, why: str) -> None:
        before = image(self.data)
        try:
            self.start_dcd()
        except OSError:
            base.equal(image(self.data), before, f"the data disk after a start ({why})")
        else:
            raise base.Wrong(f"the DCD started: {why}")
        code, told, _ = ask(DCD_TOOL, "recover", *self.words, "--json")
        base.expect(code == 1 and told["state"] == "refused", f"dcd recover ({why}): {told}")
        base.equal(image(self.data), before, f"the data disk after dcd recover ({why})")


class Scenario:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.wire = Wire()
        self.site = Site("dcd", args.model, False, args.nvram)
        self.session = Session()
        self.local = ""
        self.mirror: Mirror | None = None
        self.live = self.early = 0

    def start(self, rng: random.Random) -> None:
        """Everything new."""
        self.stop()
        self.site.power_on(fresh=True)
        self.site.export()
        remote = self.session.login()
        media.forget("p-local")
        self.local = media.disk("p-local", LEG_MIB, "ssd", site=PRIMARY_SITE)
        create(self.local, remote, rng)
        self.mirror = assembled(self.local, remote)
        self.mirror.wait("AA", "idle")

    def stop(self) -> None:
        if not self.mirror:
            return
        self.mirror.remove()
        dm.remove("p-local")
        self.session.logout()
        self.site.power_off()
        self.mirror = None

    def primary_dies(self, seed: int, rng: random.Random) -> tuple[str, str]:
        """Returns what became of the mirror site, and the load's state."""
        assert self.mirror
        how = rng.choice(("cut", "cut", "closed", "idle"))
        cuts = [self.wire.cut_control, site_cut(PRIMARY_SITE, seed)]
        if how == "cut":
            cuts.append(site_cut(MIRROR_SITE, seed))
        self.session.patience(1)
        load = Load(
            self.mirror.node, seed, cut_us=rng.randrange(500, 40000), cuts=cuts,
            depth=rng.choice((1, 4, 16, 32)), pause_us=rng.choice((5, 50, 200)),
        )  # fmt: skip
        load.start()
        load.wait_cut()
        load.wait_end()
        self.mirror.remove()
        dm.remove("p-local")
        if how == "idle":  # all is destaged, nothing was closed
            time.sleep(20)
            media.cut(MIRROR_SITE, seed)
        self.site.power_off()
        self.mirror = None
        self.wire.plug_in()
        self.session.logout()
        return how, load.state

    def retired(self, disks: Disks, seed: int, rng: random.Random) -> None:
        said = verdict("-", disks.data)
        base.expect(said in ("bypassed", "blank"), f"the data disk without its DCD is {said!r}")
        code, told, err = ask(DCD_TOOL, "check", *disks.words, "--json")
        live = told["live"]
        assert isinstance(live, dict)
        self.live += int(live["entries"])
        if rng.random() < 0.5:
            disks = self.cut_while_retiring(disks, seed, rng.random() * 0.02)
        code, told, err = ask(DCD_TOOL, "retire", *disks.words, "--json")
        base.equal((code, told.get("leg")), (0, True), f"dcd retire: {told} {err}")
        base.equal(verdict("-", disks.data), "ok", "the verdict then")

    def cut_while_retiring(self, disks: Disks, seed: int, seconds: float) -> Disks:
        """Its disks take time, so that it is in the middle of it."""
        done = subprocess.Popen([DCD_TOOL, "retire", *disks.words], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)  # fmt: skip
        time.sleep(seconds)
        media.cut(MIRROR_SITE, seed)
        done.wait()
        disks.close()
        again = Disks(self.site)
        if verdict("-", again.data) == "ok":
            again.dcd_refuses("retired before the cut")
            self.early += 1
        return again

    def new_primary(self, disks: Disks, seed: int) -> None:
        old = [(path, path.read_bytes()) for path in disks.others()]
        before = [path.read_bytes() for path, _ in old]
        sectors = super_of(disks.data).data_sectors
        mirror = Mirror("-", disks.data, "rejoin", 1, sectors=sectors)
        with blk.Disk(mirror.node) as disk:
            for at in SPOTS:
                disk.write(at, blk.pattern(f"new {seed}", 8))
        mirror.remove()
        base.equal([path.read_bytes() for path in disks.others()], before, "log and NVRAM")
        disks.dcd_refuses("retired")

    def way_back(self, disks: Disks, seed: int) -> None:
        code, _, err = ask(DCD_TOOL, "format", *disks.words, "--json")
        base.equal(code, 0, f"dcd format: {err}")
        base.equal(verdict("-", disks.data), "bypassed", "the disk below the new log")
        disks.close()
        self.site.power_on(fresh=False)
        self.site.export()
        remote = self.session.login()
        self.local = media.disk("p-local", LEG_MIB, "ssd", site=PRIMARY_SITE)
        base.equal(verdict(self.local, remote), "ok", "both legs, by the LUN")
        self.mirror = assembled(self.local, remote)
        self.mirror.wait("AA", "idle")
        compare_legs(self.local, remote)
        with blk.Disk(self.mirror.node, write=False) as disk:
            for at in SPOTS:
                base.expect(disk.read(at, 8) == blk.pattern(f"new {seed}", 8), f"sector {at}")

    def one(self, seed: int, rng: random.Random) -> str:
        if not self.mirror or rng.random() < 0.5:
            self.start(rng)
        how, state = self.primary_dies(seed, rng)
        disks = Disks(self.site)
        copies = [(path, path.read_bytes()) for path in disks.others()]
        self.retired(disks, seed, rng)
        check_leg(disks.data, state, "stable")
        self.new_primary(disks, seed)
        kept = [(path, path.read_bytes()) for path in disks.others()]
        put(copies)
        disks.dcd_refuses("old log and NVRAM put back")
        put(kept)
        self.way_back(disks, seed)
        return how


def put(content: list[tuple[Path, bytes]]) -> None:
    for path, data in content:
        with open(path, "r+b") as device:
            device.write(data)


def main() -> int:
    args = arguments().parse_args()
    scenario = Scenario(args)
    code = cut_loop("takeover", args.first, args.cuts, scenario.one)
    if code == 0:
        scenario.stop()
        early = f"{scenario.early} cuts came after the last write of dcd retire"
        print(f"takeover: {scenario.live} live entries; {early}", flush=True)
        base.expect(args.cuts < 8 or scenario.live > 0, "logs had live entries")
    return code


if __name__ == "__main__":
    sys.exit(main())
