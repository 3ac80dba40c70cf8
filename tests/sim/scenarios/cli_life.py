# SPDX-License-Identifier: GPL-2.0-only
"""A mirror's life by the command: made, used, stopped, crashed, degraded, split, repaired."""

import errno
import json
import threading
from pathlib import Path

import clilab
from clilab import good, refused
from locklab import base, blk, dm, ram
from mirrorlab import Leg

CONFIG = Path("/etc/lockstep/m.toml")
NODE = "/dev/mapper/m"


def put(tag: str, sector: int = 0, sectors: int = 64) -> None:
    with blk.Disk(NODE) as disk:
        disk.write(sector, blk.pattern(tag, sectors))


def has(tag: str, sector: int = 0, sectors: int = 64, node: str = NODE) -> None:
    with blk.Disk(node, write=False) as disk:
        base.expect(disk.read(sector, sectors) == blk.pattern(tag, sectors), f"{node} has {tag!r}")


class Pair:
    """Two legs below dm devices, so that one can vanish from the host."""

    def __init__(self) -> None:
        self.legs = {"local": Leg("llocal", mib=16), "remote": Leg("lremote", mib=16)}
        self.nodes = {name: leg.node for name, leg in self.legs.items()}

    def vanish(self, leg: str) -> None:
        dm.remove(self.legs[leg].name)

    def appear(self, leg: str, more: ram.Ram | None = None) -> None:
        """`more`: it has become larger by that."""
        disk = self.legs[leg].disk
        table = f"0 {disk.sectors} linear {disk.node} 0"
        if more:
            table += f"\n{disk.sectors} {more.sectors} linear {more.node} 0"
        dm.create(self.legs[leg].name, table)

    def longer(self, leg: str, more: ram.Ram) -> None:
        """It becomes larger while it is used."""
        table = base.run("dmsetup", "table", self.legs[leg].name).strip()
        end = sum(int(line.split()[1]) for line in table.splitlines())
        dm.load(self.legs[leg].name, f"{table}\n{end} {more.sectors} linear {more.node} 0")
        dm.suspend(self.legs[leg].name, flush=False)
        dm.resume(self.legs[leg].name)

    def same(self) -> None:
        one, two = (leg.disk.node for leg in self.legs.values())
        blk.same(one, two, int(clilab.examined(one)["data_len"]))

    def images(self) -> list[bytes]:
        """What a power cut of this host would leave now."""
        found = []
        for leg in self.legs.values():
            with blk.Disk(leg.disk.node, write=False) as disk:
                found.append(disk.read(0, disk.sectors))
        return found

    def put_back(self, images: list[bytes]) -> None:
        for leg, image in zip(self.legs.values(), images, strict=True):
            with blk.Disk(leg.disk.node) as disk:
                disk.write(0, image)


class Held:
    """A write that waits for the mirror."""

    def __init__(self, tag: str) -> None:
        self._error = -1
        self._thread = threading.Thread(target=self._write, args=(tag,))
        self._thread.start()

    def _write(self, tag: str) -> None:
        try:
            put(tag, 20480)
            self._error = 0
        except OSError as err:
            self._error = err.errno or -1

    def end(self) -> int:
        """0, or the error number. It isn't over before somebody has decided."""
        self._thread.join(60)
        base.expect(not self._thread.is_alive(), "the write ended")
        return self._error


def made_and_stopped(pair: Pair) -> None:
    base.step("made, written, stopped, assembled: no resync")
    good("create", "m", *pair.nodes.values(), "--yes")
    clilab.in_sync()
    put("one")
    base.equal(json.loads(clilab.run("examine", pair.nodes["local"], "--json").out)[0]["active"],
               True, "the superblock of an open leg")  # fmt: skip
    with blk.Disk(NODE):
        refused(1, "stop", "m", says=("in use",))
    good("stop", "m")
    base.equal(clilab.run("status", "m").code, 2, "exit code of status for a stopped mirror")
    pair.same()
    good("assemble", "m")
    told = clilab.status()
    base.equal((told["health"], told["action"]), ("AA", "idle"), "after a clean stop")
    base.equal(told["counters"]["resynced_sectors"], 0, "sectors resynced")
    has("one")
    good("assemble", "m")


def failed_and_back(pair: Pair) -> None:
    base.step("a leg is failed, missed something, and is back")
    events = clilab.Events("m")
    good("fail", "m", "remote")
    told = clilab.wait(health="AD", standing="alone")
    base.equal(told["exit_code"], 1, "exit code of a degraded mirror")
    put("two", 4096)
    refused(3, "fail", "m", "local", says=("isn't in sync",))
    good("re-add", "m")
    told = clilab.in_sync()
    base.expect(told["counters"]["resynced_sectors"] <= 2048, "one region was copied")
    events.until("mirror", None, "running")
    events.until("remote leg", "in sync", "dead")
    # Perhaps by way of "parting".
    base.until(lambda: any(what == "standing" and new == "alone"
                           for what, _, new in events.said()), "the event alone")  # fmt: skip
    base.until(lambda: any(what == "remote leg" and new == "in sync"
                           for what, _, new in events.said()), "the event in sync")  # fmt: skip
    refused(3, "re-add", "m", says=("no leg is dead",))
    good("stop", "m")
    events.until("mirror", "running", "stopped")
    events.stop()
    pair.same()
    has("two", 4096, node=pair.nodes["remote"])


def local_failed_and_back(pair: Pair) -> None:
    base.step("the local leg is back; a clean stop later nothing is copied once more")
    good("assemble", "m")
    good("fail", "m", "local")
    put("what the local leg missed", 8192)
    good("re-add", "m")
    clilab.in_sync()
    base.equal(clilab.status()["counters"]["resynced_sectors"], 2048, "one region was copied")
    good("stop", "m")
    pair.same()
    good("assemble", "m")
    told = clilab.in_sync()
    found = (told["counters"]["resynced_sectors"], told["regions_dirty"])
    base.equal(found, (0, 0), "sectors resynced, regions dirty")
    good("stop", "m")


def crashed(pair: Pair) -> None:
    base.step("the host crashes")
    good("assemble", "m")
    put("three", 8192)
    images = pair.images()
    good("stop", "m")
    pair.put_back(images)
    said = good("assemble", "m")
    print("  it says:", said.out.strip())
    clilab.in_sync()
    has("three", 8192)
    base.expect("m runs already" in good("assemble", "m").out, "assembling what runs")
    good("stop", "m")
    pair.same()


def one_leg_only(pair: Pair) -> None:
    base.step("the remote leg isn't there")
    pair.vanish("remote")
    refused(1, "assemble", "m", "--wait", "2", says=("remote leg", "--run"))
    base.expect(not dm.exists("m"), "nothing runs")
    good("assemble", "m", "--run", "--yes", "--wait", "0")
    told = clilab.status()
    base.equal((told["exit_code"], told["standing"]), (1, "alone"), "with one leg")
    put("left")
    pair.appear("remote")
    good("re-add", "m")
    clilab.in_sync()
    good("stop", "m")
    pair.same()
    has("left", node=pair.nodes["remote"])


def split(pair: Pair) -> None:
    base.step("both legs go on alone: a split brain")
    for leg, other in (("local", "remote"), ("remote", "local")):
        pair.vanish(other)
        good("assemble", "m", "--run", "--yes", "--wait", "0")
        put(f"only {leg}", 512)
        good("stop", "m")
        pair.appear(other)
    before = pair.images()
    said = refused(3, "assemble", "m", "--run",
                   says=("local", "remote", "resolve m --keep local", "both have it"))  # fmt: skip
    print(said.err)
    base.expect(not dm.exists("m"), "nothing runs")
    refused(3, "resolve", "m", "--keep", "remote", says=("OVERWRITTEN", "--yes"))
    base.expect(pair.images() == before, "neither leg was written to")
    good("resolve", "m", "--keep", "remote", "--yes")
    good("assemble", "m")
    clilab.in_sync()
    has("only remote", 512)
    refused(3, "resolve", "m", "--keep", "local", "--yes", says=("runs",))
    good("stop", "m")
    refused(3, "resolve", "m", "--keep", "local", "--yes", says=("nothing to resolve",))
    pair.same()


def new_disk(pair: Pair) -> None:
    base.step("a new disk for a leg, while the mirror runs")
    good("assemble", "m")
    spare = ram.Ram("spare", 16)
    refused(3, "replace", "m", "remote", spare.node, "--yes", says=("is alive",))
    good("fail", "m", "remote")
    put("four", 16384)
    base.run("mkfs.ext4", "-q", spare.node)
    refused(3, "replace", "m", "remote", spare.node, "--yes", says=("ext4", "--force"))
    refused(3, "replace", "m", "remote", spare.node, "--force", says=("no terminal",))
    good("replace", "m", "remote", spare.node, "--yes", "--force")
    clilab.in_sync()
    base.expect(spare.node in CONFIG.read_text(), "the configuration names the new disk")
    good("stop", "m")
    one = pair.legs["local"].disk.node
    blk.same(one, spare.node, int(clilab.examined(one)["data_len"]))
    has("four", 16384, node=spare.node)
    base.step("a disk is swapped in its place: the same device, with nothing on it")
    good("assemble", "m")
    good("fail", "m", "remote")
    put("five", 12288)
    with blk.Disk(spare.node) as disk:
        disk.zero(0, disk.sectors)
    refused(3, "re-add", "m", says=("lockstep replace m remote",))
    base.until(lambda: clilab.status()["legs"]["remote"]["reason"] == "foreign", "it is foreign")
    base.expect("lockstep replace m remote" in clilab.run("status", "m").out, "status says what")
    refused(3, "replace", "m", "remote", spare.node, says=("IS OVERWRITTEN", "no terminal"))
    good("replace", "m", "remote", spare.node, "--yes")
    clilab.in_sync()
    good("stop", "m")
    blk.same(one, spare.node, int(clilab.examined(one)["data_len"]))
    has("five", 12288, node=spare.node)
    base.step("the old disk comes out of the drawer")
    CONFIG.write_text(CONFIG.read_text().replace(spare.node, pair.nodes["remote"]))
    refused(3, "assemble", "m", says=("m: ",))
    base.step("and gets its place back, as a new disk, while the mirror is stopped")
    refused(3, "replace", "m", "remote", pair.nodes["remote"], "--yes", says=("lockstep mirror",))
    good("replace", "m", "remote", pair.nodes["remote"], "--yes", "--force")
    good("assemble", "m")
    clilab.in_sync()
    has("four", 16384)
    good("stop", "m")
    pair.same()
    spare.remove()


def not_ours(pair: Pair) -> None:
    base.step("a disk that doesn't belong here")
    good("assemble", "m")
    good("fail", "m", "remote")
    blank = ram.Ram("blank", 16)
    refused(3, "re-add", "m", "--device", blank.node, says=("lockstep replace m remote",))
    base.expect(not clilab.status()["suspended"], "the mirror goes on")
    good("re-add", "m")
    clilab.in_sync()
    with blk.Disk(blank.node, write=False) as disk:
        base.expect(not any(disk.read(0, disk.sectors)), "the blank disk is blank")
    good("stop", "m")
    pair.same()
    blank.remove()


def grown(pair: Pair) -> None:
    base.step("both devices grow, and then the mirror")
    before = clilab.examined(pair.nodes["local"])["data_len"]
    with blk.Disk(pair.nodes["local"], write=False) as disk:
        content = disk.read(0, before)
    refused(3, "grow", "m", "--yes", says=("nothing to grow",))
    for leg in pair.legs:
        pair.vanish(leg)
        pair.appear(leg, ram.Ram(f"{leg}more", 4))
    refused(3, "grow", "m", says=("no terminal",))
    good("grow", "m", "--yes")
    good("assemble", "m")
    told = clilab.in_sync()
    base.expect(told["size_sectors"] > before, "the mirror is larger")
    put("new room", told["size_sectors"] - 64)

    base.step("again, while it is in use; first with one leg only")
    refused(3, "grow", "m", "--yes", says=("nothing to grow",))
    small = told["size_sectors"]
    for leg in pair.legs:
        pair.longer(leg, ram.Ram(f"{leg}last", 4))
    with blk.Disk(NODE) as held:
        good("fail", "m", "remote")
        refused(1, "grow", "m", "--yes", says=("when both legs are there",))
        put("alone", 512)
        good("re-add", "m")
        clilab.in_sync()
        good("grow", "m", "--yes")
        told = clilab.in_sync()
        base.expect(told["size_sectors"] > small, "the mirror is larger again")
        held.write(told["size_sectors"] - 64, blk.pattern("more room", 64))
    has("alone", 512)
    has("new room", small - 64)
    put("", 512)
    with blk.Disk(NODE) as disk:
        disk.write(512, content[512 * 512 : (512 + 64) * 512])
    good("stop", "m")
    good("assemble", "m")
    has("more room", told["size_sectors"] - 64)
    with blk.Disk(NODE, write=False) as disk:
        base.expect(disk.read(0, before) == content, "the content is what it was")
    good("stop", "m")
    blk.same(pair.nodes["local"], pair.nodes["remote"], told["size_sectors"])


def settings(pair: Pair) -> None:
    base.step("options, at once and for good")
    good("assemble", "m")
    good("set", "m", "policy=block", "resync_rate=4096", "resync_jobs=4", "wait=3")
    told = clilab.status()
    base.equal(told["policy"], "block", "policy")
    base.equal(told["options"]["resync_jobs"], "4", "resync_jobs in the table")
    refused(2, "set", "m", "policy=hope", says=("degrade or block or error",))
    good("stop", "m")
    good("assemble", "m")
    base.equal(clilab.status()["policy"], "block", "policy after a restart")
    base.step("policy block: the ways out")
    refused(3, "unblock", "m", says=("no writes are held",))
    for way_out in ("fail-held", "unblock"):
        good("fail", "m", "remote")
        told = clilab.wait(standing="blocked")
        base.equal(told["exit_code"], 2, "exit code of a blocked mirror")
        before = told["counters"]["held"]
        held = Held(way_out)
        clilab.until_counted("held", before + 1)
        good(way_out, "m")
        base.equal(held.end(), errno.EIO if way_out == "fail-held" else 0, f"after {way_out}")
        if way_out == "fail-held":
            good("re-add", "m")
            clilab.in_sync()
    clilab.wait(standing="alone")
    has("unblock", 20480)
    good("set", "m", "policy=degrade")
    good("re-add", "m")
    clilab.in_sync()
    good("stop", "m")
    pair.same()


def taken_over(pair: Pair) -> None:
    base.step("another host takes the legs over")
    CONFIG.unlink()
    refused(3, "assemble", "m", says=("--local DEV --remote DEV",))
    swapped = ("--local", pair.nodes["remote"], "--remote", pair.nodes["local"])
    refused(3, "assemble", "m", *swapped, says=("m: ", "Exchange"))
    wrong = ("--local", pair.nodes["local"], "--remote", pair.nodes["remote"])
    refused(3, "assemble", "n", *wrong, says=("a mirror that is called m",))
    base.expect(not CONFIG.exists() and not dm.exists("n"), "a refusal leaves nothing")
    good("assemble", "m", "--local", pair.nodes["local"], "--remote", pair.nodes["remote"])
    base.equal(clilab.status()["health"], "AA", "health")
    has("four", 16384)
    good("stop", "--all")
    good("assemble", "--all")
    good("stop", "m")


two = Pair()
made_and_stopped(two)
failed_and_back(two)
local_failed_and_back(two)
crashed(two)
one_leg_only(two)
split(two)
new_disk(two)
not_ours(two)
settings(two)
taken_over(two)
grown(two)
base.step("done")
