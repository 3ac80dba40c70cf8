# SPDX-License-Identifier: GPL-2.0-only
"""Late writes over iSCSI: of a session that is still there, and of one that its host has forgotten.

    cli_late.py [readd | lost | san | made | bare | busy | together]

`san`: the same as `lost` with the local leg, a LUN of the primary's own SAN.
`busy`: the local leg is a volume on a LUN, and so is another one, which is in use: it stays so
through any number of starts of the mirror.
`together`: the local legs of two mirrors are such volumes, and both are started at once.
`bare`: the same as `lost` by dmsetup alone, which asks the target for nothing: the old write
overtakes. It shows that what the command does is needed.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import clilab
from clilab import good, refused
from latelab import Ways, draining
from locklab import base, blk, dm, iscsi, lio, mirror, ram, wire
from mirrorlab import Beside, Leg
from statelab import super_of

PORTALS = [f"{wire.mirror_ip(n)}:{lio.PORT}" for n in range(2)]
NODE = "/dev/mapper/m"
MIB = 4


class Site:
    """Its disk is reached by two ways, so that a write can hang in one of them."""

    def __init__(self, patience_s: int) -> None:
        self.wires = [wire.Wire(number=n) for n in range(2)]
        self.ways = Ways("m")
        numbers = " ".join(f"round-robin 0 1 1 {node} 1" for node in self.ways.nodes)
        self.disk = dm.create(
            "mpath", f"0 {self.ways.disk.sectors} multipath 2 queue_mode bio 0 2 1 {numbers}"
        )
        self.target = lio.Target(lio.iblock("leg", self.disk), portals=PORTALS)
        self.session = iscsi.Session(
            PORTALS, **{"node.session.timeo.replacement_timeout": str(patience_s)}
        )
        self.first = self.session.login_by(PORTALS[0])
        self.local = ram.Ram("local", MIB)

    def hold(self) -> None:
        """What is written from now on stays in the first way; after pass_by() not any more."""
        self.ways.hang(0)

    def pass_by(self) -> None:
        dm.message("mpath", f"fail_path {self.ways.nodes[0]}")

    def same(self) -> None:
        sectors = int(clilab.examined(self.local.node)["data_len"])
        blk.same(self.local.node, self.ways.disk.node, sectors)

    def has(self, tag: str) -> bool:
        with blk.Disk(self.ways.disk.node, write=False) as disk:
            return disk.read(0, 8) == blk.pattern(tag, 8)


def put(tag: str) -> None:
    with blk.Disk(NODE) as disk:
        disk.write(0, blk.pattern(tag, 8))


def readd() -> None:
    base.step("re-add by another portal, while the first session still has a write")
    site = Site(patience_s=120)
    good("create", "m", site.local.node, site.first, "--yes", "--remote-timeout", "2000")
    clilab.in_sync()
    put("first")
    site.wires[0].cut()
    put("old")
    clilab.wait(health="AD", standing="alone")
    second = site.session.login_by(PORTALS[1])
    says = ("1 requests that were given up", "iscsiadm -m session -r 1 -u", site.first)
    refused(1, "re-add", "m", "remote", "--device", second, says=says)
    put("newer")
    base.step("the monitor says it, too, and only once")
    file = Path("/etc/lockstep/m.toml")
    file.write_text(file.read_text().replace(site.first, second))
    log = Path("/tmp/monitor").open("w+")  # noqa: SIM115 - for the program's life
    watch = subprocess.Popen([clilab.COMMAND, "monitor", "m", "--interval", "2"],
                             stdout=log, stderr=subprocess.STDOUT)  # fmt: skip
    told = Path("/tmp/monitor")
    base.until(lambda: "requests that were given up" in told.read_text(), "the monitor's word")
    time.sleep(5)
    base.equal(told.read_text().count("requests that were given up"), 1, "times it was said")
    base.equal(clilab.status()["health"], "AD", "health")
    base.step("stopped and assembled meanwhile")
    good("stop", "m")
    base.expect(draining(), "it lingers")
    refused(1, "assemble", "m", "--wait", "0", says=("requests that were given up",))
    said = good("assemble", "m", "--wait", "0", "--run")
    base.expect("requests that were given up" in said.err, said.err)
    base.equal(clilab.status()["health"], "A-", "health")
    put("newest")
    base.step("the first session is back, and its write arrives")
    site.wires[0].mend("lan")
    base.until(lambda: site.session.up_by(PORTALS[0]), "the old session", 100)
    clilab.in_sync()
    watch.terminate()
    watch.wait()
    time.sleep(5)
    base.expect(site.has("newest"), "the site's disk has what was acknowledged last")
    site.same()


def lose(site: Site) -> str:
    """The primary has a write in the site's hands, and forgets it with its session. Returns the
    new session's disk."""
    good("stop", "m")
    site.hold()

    def old() -> None:
        with base.refused("the write of the old session"), blk.Disk(site.first) as disk:
            disk.write(0, blk.pattern("old", 8))

    write = Beside(old)
    time.sleep(1)  # it is at the site's disk
    site.wires[0].cut()
    write.result()
    site.pass_by()
    base.expect(not site.has("old"), "the old write hangs at the site")
    return site.session.login_by(PORTALS[1])


def lost(leg: str = "remote") -> None:
    base.step("the primary has forgotten its session, the target hasn't: the command waits for it")
    site = Site(patience_s=2)
    swapped = leg == "local"

    def legs(node: str) -> tuple[str, str]:
        return (node, site.local.node) if swapped else (site.local.node, node)

    good("create", "m", *legs(site.first), "--yes", *(["--swapped"] if swapped else []))
    clilab.in_sync()
    put("first")
    second = lose(site)
    Path("/etc/lockstep/m.toml").unlink()
    local, remote = legs(second)
    words = ("assemble", "m", "--local", local, "--remote", remote, "--wait", "0")
    refused(1, *words, says=("LUN reset", "older session"))
    base.expect(not dm.exists("m"), "it was started")
    good(*words, "--run", "--yes")
    base.equal(clilab.status()["health"], "-A" if swapped else "A-", "it runs without that leg")
    put("alone")
    refused(1, "re-add", "m", leg, "--device", second, says=("LUN reset", "older session"))
    base.step("the site's disk goes on")
    site.ways.wake(0)
    base.until(lambda: site.has("old"), "the old write arrives")
    base.until(lambda: site.session.up_by(PORTALS[1]), "the session, which was lost with it", 100)
    good("re-add", "m", leg, "--device", second)
    clilab.in_sync()
    put("newer")
    time.sleep(5)
    base.expect(site.has("newer"), "the site's disk has what was acknowledged last")
    site.same()


def made() -> None:
    base.step("a mirror is made on a disk for which the target still has a write")
    site = Site(patience_s=2)
    good("create", "m", site.local.node, site.first, "--yes")
    clilab.in_sync()
    put("first")
    second = lose(site)
    Path("/etc/lockstep/m.toml").unlink()
    words = ("create", "m", site.local.node, second, "--yes", "--force", "--force-local")
    before = clilab.examined(site.local.node)["set_uuid"]
    refused(1, *words, says=("LUN reset", "older session"))
    base.equal(clilab.examined(site.local.node)["set_uuid"], before, "nothing is written")
    base.expect(not dm.exists("m"), "it was started")
    site.ways.wake(0)
    base.until(lambda: site.has("old"), "the old write arrives")
    base.until(lambda: site.session.up_by(PORTALS[1]), "the session, which was lost with it", 100)
    good(*words)
    clilab.in_sync()
    put("newer")
    time.sleep(5)
    base.expect(site.has("newer"), "the site's disk has what was acknowledged last")
    site.same()


def bare() -> None:
    base.step("the same by dmsetup alone: the old write overtakes")
    site = Site(patience_s=2)
    good("create", "m", site.local.node, site.first, "--yes")
    clilab.in_sync()
    put("first")
    sectors = super_of(site.local.node).data_sectors
    second = lose(site)
    dm.create("m", mirror.table(site.local.node, second, sectors=sectors))
    put("newer")
    base.expect(site.has("newer"), "acknowledged by both")
    site.ways.wake(0)
    base.until(lambda: site.has("old"), "the old write over the newer one")


class San:
    """A LUN that answers in 20 ms, for several volumes."""

    def __init__(self) -> None:
        self._wire = wire.Wire("lan")
        self._below = Leg("san", mib=64)
        self._below.slow(20)
        self._target = lio.Target(lio.iblock("leg", self._below.node))
        self._session = iscsi.Session()
        self.lun = self._session.login()


def together() -> None:
    base.step("two mirrors whose local legs are volumes of one LUN are started at once")
    san = San()
    lun = san.lun
    depth = Path("/sys/block", Path(lun).name, "device/queue_depth")
    before = depth.read_text()
    other = dm.create("vg0-var", f"0 16384 linear {lun} 65536")
    remotes = []
    for n in range(2):
        dm.create(f"vg0-db{n}", f"0 32768 linear {lun} {n * 32768}")
        remotes.append(Leg(f"lremote{n}", mib=16))
        good("create", f"m{n}", f"/dev/mapper/vg0-db{n}", remotes[n].node, "--yes",
             "--assume-clean", "--force-local", "--force", "--swapped")  # fmt: skip
    ended = threading.Event()

    def work(first: int) -> None:
        with blk.Disk(other) as disk:
            while not ended.is_set():
                disk.write(first, blk.pattern("x", 8))

    def starts(*more: float) -> list[subprocess.Popen[bytes]]:
        """As after a boot, one after the other."""
        for n in range(2):
            if dm.exists(f"m{n}"):
                good("stop", f"m{n}")
            Path(f"/run/lockstep/m{n}.stopped").unlink(missing_ok=True)
        started = []
        for n, pause in enumerate(more):
            started.append(subprocess.Popen([clilab.COMMAND, "assemble", f"m{n}"]))
            time.sleep(pause)
        return started

    writers = [Beside(partial(work, 8 * n)) for n in range(16)]
    for turn in range(8):
        rcs = [one.wait() for one in starts(0.005 * turn, 0)]
        base.equal(rcs, [0, 0], f"starts in turn {turn}")
        base.equal(depth.read_text(), before, f"the LUN's queue behind turn {turn}")
    for how in (signal.SIGTERM, signal.SIGKILL):
        (one,) = starts(0)
        base.until(lambda: depth.read_text() == "1\n", "a reset to begin", 30)
        one.send_signal(how)
        base.expect(one.wait() != 0, "it was ended")
        if how == signal.SIGTERM:
            base.equal(depth.read_text(), before, "the LUN's queue behind one that was ended")
    good("assemble", "m0")
    base.equal(depth.read_text(), before, "the LUN's queue behind one that was killed")
    ended.set()
    for writer in writers:
        writer.result()
    good("stop", "m0")
    del san


def busy() -> None:
    base.step("another volume of the local leg's LUN is in use while the mirror is started again")
    san = San()
    lun = san.lun
    other = dm.create("vg0-var", f"0 65536 linear {lun} 0")
    volume = dm.create("vg0-db", f"0 32768 linear {lun} 65536")
    remote = Leg("lremote", mib=16)
    good("create", "m", volume, remote.node, "--yes", "--assume-clean", "--force-local",
         "--force", "--swapped")  # fmt: skip
    ended, done = threading.Event(), [0]

    def work(n: int) -> None:
        with blk.Disk(other) as disk:
            while not ended.is_set():
                disk.write((n * 7919 + done[0]) % 8000 * 8, blk.pattern("x", 8))
                done[0] += 1

    writers = [Beside(partial(work, n)) for n in range(16)]
    for turn in range(10):
        good("stop", "m")
        if turn % 2:
            Path("/run/lockstep/m.stopped").unlink()  # it asks for a reset then
        good("assemble", "m")
        before = done[0]
        base.until(lambda: done[0] > before + 500, f"writes behind start {turn}", 30)  # noqa: B023
    ended.set()
    for one in writers:
        one.result()
    depth = Path("/sys/block", Path(lun).name, "device/queue_depth").read_text().strip()
    base.expect(int(depth) > 1, "the LUN has its queue again")
    good("stop", "m")
    del san


PARTS: dict[str, Callable[[], None]] = {
    "readd": readd, "lost": lost, "san": partial(lost, "local"), "made": made, "bare": bare,
    "busy": busy, "together": together,
}  # fmt: skip
(part,) = sys.argv[1:]
PARTS[part]()
base.step("done")
