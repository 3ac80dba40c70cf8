# SPDX-License-Identifier: GPL-2.0-only
"""The remote leg as a LUN: found again after a logout, logged in to, given back to the mirror."""

import errno
import subprocess
import time
import tomllib
from pathlib import Path

import clilab
from clilab import BY_PATH, good, refused
from locklab import base, blk, lio, pair

NODE = "/dev/mapper/m"


def put(tag: str, sector: int) -> None:
    with blk.Disk(NODE) as disk:
        disk.write(sector, blk.pattern(tag, 64))


def created(both: pair.Pair) -> None:
    base.step("the configuration knows the LUN by what stays")
    base.until(BY_PATH.exists, "the stable name")
    refused(3, "create", "m", both.remote, both.local.node, "--yes",
            says=(f"{both.remote} is reached over a network", "--swapped"))  # fmt: skip
    good("create", "m", both.local.node, both.remote, "--yes", "--remote-timeout", "20000")
    clilab.in_sync()
    kept = tomllib.loads(Path("/etc/lockstep/m.toml").read_text())
    base.equal(kept["remote"], str(BY_PATH), "the remote leg's name")
    base.equal((kept["target"], kept["portal"]), (lio.IQN, lio.PORTAL), "the LUN's session")


def given_back(both: pair.Pair) -> None:
    base.step("the monitor begins before the mirror")
    good("stop", "m")
    log = Path("/tmp/monitor").open("w+")  # noqa: SIM115 - for the program's life
    watch = subprocess.Popen([clilab.COMMAND, "monitor", "m", "--interval", "3"],
                             stdout=log, stderr=subprocess.STDOUT)  # fmt: skip
    told = Path("/tmp/monitor")
    base.until(lambda: "m mirror: stopped\n" in told.read_text(), "the monitor's first word")
    good("assemble", "m")
    clilab.in_sync()
    before = both.remote
    for times in (1, 2):
        base.step("the session is closed below the mirror; the monitor brings the LUN back")
        put(f"before {times}", 0)
        both.session.logout()
        put(f"meanwhile {times}", 4096)
        clilab.wait(standing="alone")
        clilab.in_sync()
        now = clilab.status()["legs"]["remote"]["device"]
        base.expect(now != before, f"the LUN is another device now: {now}")
        text = told.read_text()
        base.equal(text.count(f"leg is {BY_PATH} ("), times, f"times it was given back: {text}")
        base.expect(f"the remote leg is {BY_PATH} ({Path(now).name})" in text, text)
        before = now
        base.step("stopped, the monitor waits")
        good("stop", "m")
        base.until(lambda: told.read_text().endswith("running -> stopped\n"), "its word")
        if times == 1:
            good("assemble", "m")
            clilab.in_sync()
    base.equal(watch.poll(), None, "the monitor goes on")
    watch.terminate()
    watch.wait()
    log.close()
    blk.same(both.local.node, now, int(clilab.examined(both.local.node)["data_len"]))


def taken(tag: str) -> bool:
    try:
        put(tag, 4096)
    except OSError as err:
        base.equal(err.errno, errno.EIO, "while no leg is there")
        return False
    return True


def only_leg(both: pair.Pair) -> None:
    good("assemble", "m")
    for who in ("the monitor", "re-add"):
        base.step(f"the only leg's session is closed below the mirror: {who}")
        clilab.in_sync()
        good("fail", "m", "local")
        put(f"alone {who}", 0)
        both.session.logout()
        base.expect(not taken("nowhere"), "a write to no leg was accepted")
        if who == "re-add":
            base.until(lambda: clilab.run("re-add", "m", "remote").code == 0, "re-add")
            put("back", 4096)
        else:
            with subprocess.Popen([clilab.COMMAND, "monitor", "m", "--interval", "3"]) as watch:
                base.until(lambda: taken("back"), "the LUN to be given back", 60)
                watch.terminate()
        good("re-add", "m", "local")
    clilab.in_sync()
    now = clilab.status()["legs"]["remote"]["device"]
    good("stop", "m")
    blk.same(both.local.node, now, int(clilab.examined(both.local.node)["data_len"]))


def logged_in(both: pair.Pair) -> None:
    base.step("assemble logs in by itself")
    both.session.logout()
    base.until(lambda: not BY_PATH.is_symlink(), "the end of the LUN")
    good("assemble", "m")
    clilab.in_sync()
    good("stop", "m")
    both.session.logout()
    base.step("the other site is down")
    both.wire.cut()
    begun = time.monotonic()
    said = refused(1, "assemble", "m", "--wait", "3", says=("remote leg", "--run"))
    took = time.monotonic() - begun
    base.expect(took < 8, f"assemble --wait 3 took {took:.1f} s")
    base.expect("can't log in" in said.err, f"it says why: {said.err}")
    good("assemble", "m", "--wait", "0", "--run", "--yes")
    put("alone", 8192)
    both.wire.mend("lan")
    refused(3, "re-add", "m", "local", says=("isn't dead",))
    base.until(lambda: clilab.run("re-add", "m").code == 0, "re-add, once the other site is up")
    clilab.in_sync()
    good("stop", "m")


clilab.udev()
with pair.pair("iblock") as both:
    created(both)
    given_back(both)
    only_leg(both)
    logged_in(both)
base.step("done")
