# SPDX-License-Identifier: GPL-2.0-only
"""Power cuts at the primary during a write load.

Each seed: load; at one instant the wire is cut and the local medium is frozen;
the old mirror device and session are torn down; the disk that is left is
checked against what the device promised: with a volatile write cache what was
flushed or written with FUA, without one every acknowledged write. Then a new
session, and a new table that takes the local leg as the truth and resyncs the
mirror from it. In the end both legs are alike, and still keep the promise.

Control for the checker: --lie makes the local disk acknowledge flushes without
doing them, which has to be reported (exit code 1).
"""

import argparse
import os
import random
import sys

from crashlab import (
    CONTROL,
    LEG,
    PRIMARY_SITE,
    Load,
    Lockstep,
    Mirror,
    Wire,
    check,
    compare,
    cut_loop,
    forget,
)
from locklab import dm
from locklab.iscsi import Session


class Scenario:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.wire = Wire()
        self.mirror = Mirror(args.backstore, "ssd", False)
        self.session = Session()
        self.lockstep = Lockstep()
        self.cache = True
        self.local = ""
        self.running = False

    def open_local(self) -> None:
        options = f"write_cache {'on' if self.cache else 'off'} site {PRIMARY_SITE}"
        if self.args.lie:
            options += " flush lie"
        words = len(options.split())
        table = f"0 {LEG} media p-local ram {self.args.model} {words} {options}"
        self.local = dm.create("p-local", table)

    def start(self, rng: random.Random) -> None:
        if self.running:
            self.stop()
        self.cache = self.args.lie or rng.random() < 0.7
        self.mirror.power_on(fresh=True)
        self.mirror.export()
        self.session.login()
        forget("p-local")
        self.open_local()
        self.lockstep.assemble(self.local, self.session.node, synced=False)
        self.lockstep.wait("AA")
        self.running = True

    def stop(self) -> None:
        self.lockstep.remove()
        dm.remove("p-local")
        self.session.logout()
        self.mirror.power_off()
        self.running = False

    def one(self, seed: int, rng: random.Random) -> str:
        if not self.running or rng.random() < 0.1:
            self.start(rng)
        promise = "volatile" if self.cache else "stable"
        self.session.patience(1)
        load = Load(
            self.lockstep.node,
            seed,
            cut_us=rng.randrange(500, 40000),
            cuts=[self.wire.cut_control, f"{CONTROL}/cut={PRIMARY_SITE} {seed}"],
            depth=rng.choice((1, 4, 16, 32)),
            pause_us=rng.choice((5, 50, 200)),
        )
        load.start()
        told = load.wait_cut()
        load.wait_end()
        self.lockstep.remove()
        dm.remove("p-local")
        self.wire.plug_in()
        self.session.logout()
        self.open_local()
        check(self.local, load.state, promise)
        self.session.login()
        self.lockstep.assemble(self.local, self.session.node, synced=False)
        self.lockstep.wait("AA")
        compare(self.local, self.session.node)
        check(self.lockstep.node, load.state, promise)
        return f"{told.removeprefix('cut: ')}, {promise} local disk"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuts", type=int, default=10)
    parser.add_argument("--first", type=int, default=int(os.environ.get("LAB_SEED", "1")))
    parser.add_argument("--backstore", choices=("dcd", "iblock"), default="dcd")
    parser.add_argument("--model", choices=("null", "ssd", "spindle"), default="ssd")
    parser.add_argument("--lie", action="store_true")
    args = parser.parse_args()
    scenario = Scenario(args)
    code = cut_loop("cut_primary", args.first, args.cuts, scenario.one)
    if code == 0:
        scenario.stop()
    return code


if __name__ == "__main__":
    sys.exit(main())
