# SPDX-License-Identifier: GPL-2.0-only
"""README's take-over and the way back, by the command; what is refused, and its hints."""

import subprocess
import time
from pathlib import Path

import clilab
from clilab import BY_PATH, good, refused
from locklab import base, blk, dm, lio, pair, ram
from locklab.pair import DCD_TOOL, NVRAM_BYTES
from statelab import META

NODE = "/dev/mapper/m"
CONFIG = Path("/etc/lockstep/m.toml")
AWAY = CONFIG.with_suffix(".away")


def put(tag: str, sector: int, node: str = NODE) -> None:
    with blk.Disk(node) as disk:
        disk.write(sector, blk.pattern(tag, 64))


def has(tag: str, sector: int) -> None:
    with blk.Disk(NODE, write=False) as disk:
        base.expect(disk.read(sector, 64) == blk.pattern(tag, 64), f"{tag!r} at {sector}")


def tool(*words: str, code: int = 0) -> str:
    done = subprocess.run([DCD_TOOL, *words], capture_output=True, text=True, check=False)
    base.equal(done.returncode, code, f"dcd {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def with_a_dcd(both: pair.Pair) -> None:
    base.step("the leg knows that it is reached through a DCD")
    base.until(BY_PATH.exists, "the LUN's name")
    good("create", "m", both.local.node, str(BY_PATH), "--yes")
    clilab.in_sync()
    told = clilab.examined(both.remote)["log"]
    base.equal((told["state"], told["bypassed"]), ("behind", False), "by the LUN")
    base.equal(clilab.examined(both.local.node)["log"], None, "the local leg")
    put("destaged", 0)
    time.sleep(30)
    put("in the log", 0)
    put("in the log, too", 4096)
    good("stop", "m")
    both.session.logout()


def taken_over(both: pair.Pair) -> tuple[str, ...]:
    data, log = (disk.node for disk in both.site.disks)
    words = ("--data", data, "--log", log, "--nvram", "none")
    base.step("the mirror site's host: the disk is the DCD's, then nobody's")
    CONFIG.rename(AWAY)
    over = ("assemble", "m", "--local", "-", "--remote", data, "--run", "--wait", "0")
    refused(1, *over, "--yes", says=("in use",))
    tool("retire", *words, code=1)
    both.site.target.remove()
    both.site.store.remove()
    said = refused(3, *over, "--yes", says=(f"dcd retire --data {data} --log LOG", "--log-lost"))
    print("  it says:", said.err.strip())
    print("  it says:", tool("retire", *words).strip())
    refused(3, *over, says=("SPLIT BRAIN", "--yes"))
    said = good(*over, "--yes")
    base.expect("SPLIT BRAIN" in said.err, "it says so before the start, and goes by the word")
    has("in the log", 0)
    has("in the log, too", 4096)
    put("by the new primary", 0)
    put("by the new primary", 8192)
    tool("format", *words, "--force", code=1)  # in use
    good("stop", "m")
    base.step("no start of the old stack")
    base.expect("retired" in tool("recover", *words, code=1), "dcd recover says why")
    try:
        lio.dcd("leg", data, log, "dram:battery", f"nvram_bytes={NVRAM_BYTES}")
        raise base.Wrong("the DCD started with a retired log")
    except OSError as err:
        print(f"  the module refuses: {err}")
    CONFIG.unlink()
    return words


def back(both: pair.Pair, words: tuple[str, ...]) -> None:
    base.step("the way back: a session that is there before its LUN is")
    tool("format", *words)
    site = both.site
    site.store = lio.dcd("leg", words[1], words[3], "dram:battery", f"nvram_bytes={NVRAM_BYTES}")
    site.target = lio.Target(site.store)
    site.target.drop(0)
    base.run("iscsiadm", "-m", "node", "-T", lio.IQN, "-p", lio.PORTAL, "--login")
    AWAY.rename(CONFIG)
    said = refused(1, "assemble", "m", "--wait", "1", says=("remote leg", "split brain"))
    base.expect(said.err.index("split brain") < said.err.index("--run"), "the warning comes first")
    site.target.add(site.store, 0)
    good("assemble", "m", "--wait", "30")
    clilab.in_sync()
    has("by the new primary", 0)
    has("in the log, too", 4096)
    has("by the new primary", 8192)
    good("stop", "m")
    log = clilab.examined(str(BY_PATH))["log"]
    base.equal((log["state"], log["bypassed"]), ("behind", False), "the new log")


def grown() -> None:
    base.step("a leg has grown, and its mirror was lost before that did")
    low, local = ram.Ram("low", 24), ram.Ram("other", 16)
    leg = dm.create("grown", f"0 {local.sectors} linear {low.node} 0")
    good("create", "m", local.node, leg, "--yes")
    clilab.in_sync()
    put("before", 0)
    good("stop", "m")
    CONFIG.unlink()
    dm.reload("grown", f"0 {low.sectors} linear {low.node} 0")
    over = ("assemble", "m", "--local", "-", "--remote", leg, "--run", "--wait", "0", "--yes")
    refused(3, *over, says=("has grown", f"lockstep-meta grow - {leg}, then this again"))
    base.run(META, "grow", "-", leg)
    good(*over)
    has("before", 0)
    good("stop", "m")


clilab.udev()
grown()
CONFIG.unlink()
with pair.pair("dcd") as both:
    with_a_dcd(both)
    back(both, taken_over(both))
base.step("done")
