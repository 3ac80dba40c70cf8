# SPDX-License-Identifier: GPL-2.0-only
"""The remote disk has a volatile cache, and loses its power while it zeroes or just after it; the
session reconnects, so the primary sees no error. What was acknowledged is zeroes on both legs.

Args: the part.
"""

import errno
import random
import time
from collections.abc import Callable
from pathlib import Path

from crashlab import LEG_MIB, Site, Wire, assembled, create
from locklab import base, blk, media
from locklab.iscsi import Session
from locklab.media import MIRROR_SITE, PRIMARY_SITE
from mirrorlab import Beside

FIRST, SECTORS = 1024, 256
# Of the WAN: what is asked for is there after some 15 ms, the answer here after 30.
CUTS_MS = [half / 2 for half in range(24, 76, 2)]


class Sites:
    """The remote disk has a cache; its LUN says so if @told."""

    def __init__(self, told: bool) -> None:
        self.wire, self.session = Wire(), Session()
        self.site = Site("iblock", "ssd", lie=False)
        self.site.cache, self.told = True, told
        self.on(fresh=True)
        remote = self.session.login()
        self.session.patience(120)
        media.forget("p-local")
        self.local = media.disk("p-local", LEG_MIB, "ssd", site=PRIMARY_SITE)
        create(self.local, remote, random.Random(base.SEED))
        self.mirror = assembled(self.local, remote)
        self.mirror.wait("AA", "idle")
        self.wire.profile("wan")

    def on(self, fresh: bool) -> None:
        self.site.power_on(fresh=fresh)
        self.say()
        self.site.export()

    def say(self) -> None:
        """LIO asks the disk for what it says of it."""
        blk.say_cached(self.site.node("m-data"), self.told)

    def cut(self, seed: int) -> None:
        base.put(self.wire.flags, "0x1002")
        media.cut(MIRROR_SITE, seed)
        self.site.power_off()
        self.on(fresh=False)
        self.wire.plug_in()
        base.until(self.session.up, "the session", 600)
        time.sleep(5)  # iscsid asks for the disk's size once more, which the next cut would hang

    def tell(self) -> None:
        """Of the cache, now that the table is loaded."""
        self.told = True
        self.say()
        disk = Path("/sys/block") / Path(self.session.node).name
        base.put(disk / "device/rescan", 1)
        base.until(lambda: "back" in (disk / "queue/write_cache").read_text(), "the rescan")


def cuts(sites: Sites, zeroing: Callable[[blk.Disk], object]) -> None:
    data = blk.pattern("before", SECTORS)
    for number, cut_ms in enumerate(CUTS_MS):
        with blk.Disk(sites.mirror.node) as disk:
            disk.write(FIRST, data)
            disk.flush()
            beside = Beside(lambda disk=disk: zeroing(disk))  # type: ignore[misc]
            time.sleep(cut_ms / 1000)
            sites.cut(number)
            beside.result()
        sites.mirror.wait("AA", "idle")
        at = blk.difference(sites.local, sites.session.node, 2 * FIRST)
        base.expect(at is None, f"cut after {cut_ms} ms: the legs differ in sector {at}")
        with blk.Disk(sites.mirror.node) as disk:
            got = disk.read(FIRST, SECTORS)
        base.expect(got == bytes(len(got)), f"cut after {cut_ms} ms: it isn't zeroes")


def known() -> None:
    base.step("a leg that would forget zeroes: neither discards nor zeroing are offered")
    sites = Sites(told=True)
    with blk.Disk(sites.mirror.node) as disk, base.refused("a discard", errno.EOPNOTSUPP):
        disk.discard(FIRST, SECTORS)
    cuts(sites, lambda disk: disk.zero(FIRST, SECTORS))


def later() -> None:
    base.step("its cache is switched on later: discards are written, as zeroes")
    sites = Sites(told=False)
    sites.tell()
    cuts(sites, lambda disk: disk.discard(FIRST, SECTORS))


ALL = {"known": known, "later": later}
(part,) = base.words(1, ALL)
ALL[part]()
base.step("done")
