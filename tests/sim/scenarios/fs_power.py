# SPDX-License-Identifier: GPL-2.0-only
"""Power cuts of the primary under a file system on the mirror: FS [CUTS [lie]].

The local disk has a volatile cache: the cut leaves what was flushed and, by seed, a part of the
rest. The wire is cut at the same instant. Then each leg has to serve by itself, as after the loss
of the other site: on a copy of it the file system is mounted (which replays its journal), every
file that fsync had promised is there, and the checker finds nothing. At last the mirror is
assembled from what its metadata say, which copies the regions that were dirty and no others, and is
judged the same way; both legs are identical.

Control: with `lie` the local disk acknowledges flushes without doing them, which has to be caught.
"""

import json
import random
import sys
import time
from pathlib import Path

from crashlab import Wire
from locklab import base, blk, dm, fs, iscsi, lio, media, mirror
from locklab.media import MIRROR_SITE, PRIMARY_SITE
from mirrorlab import FIELDS, META

kind = sys.argv[1]
cuts = int(sys.argv[2]) if len(sys.argv) > 2 else 3
MIB = fs.MIB[kind]


# What mkfs and the cut before have dirtied is clean again after so long (two ticks, and more).
CLEANED_S = 130
FLUSH = "lie" if base.words(3, ["lie"]) else "honest"


def disk(name: str, site: int, flush: str = "honest") -> str:
    return media.disk(name, MIB, "ssd", site=site, write_cache="on", flush=flush)


class Sites:
    """The primary, which loses its power, and the mirror site, which doesn't."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.far = disk("m-data", MIRROR_SITE)
        # The site keeps its power, so what it has acknowledged is there.
        self.store = lio.iblock("leg", self.far)
        self.target = lio.Target(self.store)
        self.session = iscsi.Session()
        self.remote = self.session.login()
        self.local = disk("p-local", PRIMARY_SITE, FLUSH)
        legs = (self.local, self.remote)
        base.run(META, "create", "--local", legs[0], "--remote", legs[1], "--assume-clean")
        self.sectors = int(json.loads(base.run(META, "verdict", *legs))["data_len"])
        self.up()

    def up(self) -> None:
        """Of the table's words one with its default: all that is known is on the legs."""
        self.mirror = mirror.Mirror(self.local, self.remote, "rejoin", 5, sectors=self.sectors)

    def cut(self, seed: int) -> None:
        """Both in one instant: nothing here waits."""
        path, _, value = self.wire.cut_control.rpartition("=")
        base.put(Path(path), value)
        media.cut(PRIMARY_SITE, seed)

    def bury(self) -> None:
        """What is left of the primary's kernel objects goes."""
        self.mirror.remove()
        dm.remove("p-local")
        self.wire.plug_in()
        self.session.logout()

    def reboot(self) -> None:
        self.local = disk("p-local", PRIMARY_SITE, FLUSH)

    def assemble(self) -> int:
        """Returns how many sectors had to be copied for the legs to be alike."""
        self.remote = self.session.login()
        self.up()
        self.mirror.in_sync()
        blk.same(self.local, self.far, self.sectors)
        return int(self.mirror.status().rest[FIELDS.index("resynced")])

    def close(self) -> None:
        self.mirror.remove()
        dm.remove("p-local")
        self.session.close()
        self.target.remove()
        self.store.remove()
        dm.remove("m-data")
        self.wire.close()


def judge(what: str, node: str, workers: list[fs.Worker]) -> None:
    """The journal is replayed by the mount; then every promise is kept, and all is clean."""
    with fs.mounted(kind, node, "/run/look") as root:
        for worker in workers:
            if isinstance(worker, fs.Promises):
                worker.verify(root / worker.where.name)
                print(f"  {what}: {worker.kept - worker.first} promised files are there")
    fs.clean(kind, node, what)


def one(sites: Sites, seed: int) -> None:
    rng = random.Random(f"fs_power {seed}")
    time.sleep(CLEANED_S)
    base.step(f"cut {seed}")
    root = fs.mount(kind, sites.mirror.node, "/run/fs")
    for old in root.iterdir():
        if old.name != "lost+found":
            fs.remove(old)
    workers = fs.loads(root, seed)
    for worker in workers:
        if isinstance(worker, fs.OneFile):
            worker.mapped = False
        worker.start()
    for worker in workers:
        worker.wait(30)
    time.sleep(rng.uniform(0.0, 0.2))
    sites.session.patience(1)
    sites.cut(seed)
    fs.die(root)
    for worker in workers:  # an fsync may have been answered just before, and is counted now
        worker.halt()
        base.expect(fs.gone(worker.error) or worker.error is None, f"odd end: {worker.error!r}")
        if isinstance(worker, fs.Promises):
            base.expect(worker.kept > 10, "hardly a promise before the cut: this proves nothing")
    fs.umount(root)
    sites.bury()
    sites.reboot()
    for what, node in (("the local leg alone", sites.local), ("the remote leg alone", sites.far)):
        with fs.copy(node, "copy") as copied:
            judge(what, copied, workers)
    copied_sectors = sites.assemble()
    base.expect(copied_sectors, "nothing was dirty: the cut came at no bad time")
    base.expect(copied_sectors < sites.sectors // 2, f"{copied_sectors} sectors copied: nearly all")
    print(f"  resynced {copied_sectors >> 11} of {sites.sectors >> 11} MiB")
    judge("the mirror", sites.mirror.node, workers)
    blk.same(sites.local, sites.far, sites.sectors)


def main() -> None:
    sites = Sites()
    fs.make(kind, sites.mirror.node)
    for seed in range(base.SEED, base.SEED + cuts):
        one(sites, seed)
    sites.close()
    base.step(f"{cuts} cuts passed")


main()
