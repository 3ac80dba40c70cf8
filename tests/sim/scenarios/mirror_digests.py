# SPDX-License-Identifier: GPL-2.0-only
"""Resync and verify by digests: the remote leg is a DCD LUN, its digest LUN lies beside it.

Above all: whatever the digest LUN is, or does, the legs are the same when they are called so.
"""

import sys
import time

from digestlab import BLOCK, Dcd, Sites, count, resync, view
from locklab import base, blk, dm, lio, mirror, ram
from mirrorlab import Background

SECTORS = BLOCK // 512
CHUNK = 512  # sectors, at most


def spoil(sites: Sites, tag: str, every: int = 1024, first: int = 16) -> int:
    """The remote leg gets other bytes in one block of so many sectors. How many blocks."""
    blocks = 0
    with blk.Disk(sites.remote.disk) as disk:
        for at in range(first, sites.sectors - SECTORS, every):
            disk.write(at // SECTORS * SECTORS, blk.pattern(f"{tag} {at}", 3))
            blocks += 1
    return blocks


def verified(m: mirror.Mirror) -> None:
    base.until(lambda: m.status().rest[9] == f"{m.status().regions}/{m.status().regions}", "verify")


def wire_bytes() -> None:
    base.step("the legs differ in one block of 128: what each kind of resync sends over the WAN")
    sites = Sites("none", region=2048)
    sites.fill("data", sites.local.disk, sites.remote.disk)
    told: dict[str, tuple[int, float]] = {}
    for how in ("plain", "compare", "digests"):
        spoil(sites, how)
        sites.differ()
        compare = "on" if how == "compare" else "off"
        m = sites.mirror("resync_pace", "full", "resync_compare", compare, "remote_timeout", 60_000,
                         digests=None if how == "digests" else "")  # fmt: skip
        sites.wire.profile("wan")
        before = sites.wire.counters()
        seconds = blk.timed(lambda: resync(m))  # noqa: B023
        after = sites.wire.counters()
        sites.wire.profile("none")
        sent, got = (after[key] - before[key] for key in ("to_mirror_bytes", "to_primary_bytes"))
        told[how] = sent + got, seconds
        print(f"  {how}: {sent} bytes to the mirror site, {got} back, {seconds:.1f} s", flush=True)
        m.remove()
        sites.same()
    data = sites.sectors * 512
    for how in ("plain", "compare"):
        ratio = told[how][0] / told["digests"][0]
        print(f"  {how} takes {ratio:.1f} times the bytes of digests, "
              f"{told[how][1] / told['digests'][1]:.1f} times the time", flush=True)  # fmt: skip
        base.expect(told[how][0] > data, f"{how}: {told[how][0]} bytes for {data} of data")
        base.expect(ratio > 15, f"only {ratio:.1f} times")

    base.step("a verify by digests")
    m = sites.mirror("resync_pace", "full")
    before = sites.wire.counters()
    m.message("verify start")
    verified(m)
    after = sites.wire.counters()
    crossed = sum(after[k] - before[k] for k in ("to_mirror_bytes", "to_primary_bytes"))
    print(f"  {crossed} bytes on the wire for {data} of data", flush=True)
    base.expect(crossed < data / 20, "too many bytes")
    base.equal(count(m, "verified"), sites.sectors, "verified sectors")
    base.equal(count(m, "differing"), 0, "differing sectors")
    m.remove()
    sites.close()


def verify() -> None:
    base.step("the next verify relies on no digests of the one before, which were of all")
    sites = Sites("none", mib=4, region=2048)
    sites.fill("data", sites.local.disk, sites.remote.disk)
    m = sites.mirror("resync_pace", "full")
    m.message("verify start")
    verified(m)
    base.equal((count(m, "differing"), count(m, "digests_equal")), (0, sites.sectors), "verify")
    spoil(sites, "verify", 2048)
    m.message("verify start")
    verified(m)
    m.in_sync()
    base.equal(count(m, "differing"), 3 * m.status().regions, "differing sectors")
    m.remove()
    sites.same()
    sites.close()


def under_load() -> None:
    base.step("both directions, beside a load that verifies what it reads")
    sites = Sites()
    half = sites.sectors // 2 // SECTORS * SECTORS
    sites.fill("data", sites.local.disk, sites.remote.disk, first=half)
    m = sites.mirror("resync_pace", "full")
    load = Background("verify", m.node, span=half, depth=4)
    for leg in ("remote", "local", "remote"):
        spoil(sites, leg, 640, half)
        before = count(m, "writes")
        m.message(f"fail {leg}")
        base.until(lambda: count(m, "writes") > before + 100, "writes")  # noqa: B023
        m.message("recover")
        m.in_sync()
    spoil(sites, "all", 640, half)
    told = resync(m)
    base.expect(told["digested"] >= sites.sectors // 2, f"hardly any digests: {told}")
    base.expect(told["resynced"] < sites.sectors * 3 // 4, f"nearly all was copied: {told}")
    base.equal(load.stop()[3:], (0, 0), "failed writes and reads")
    sites.same()

    base.step("the same with overlapping, scribbled writes")
    load = Background("scribble", m.node, span=4096, depth=4)
    for turn in range(3):
        spoil(sites, f"scribble {turn}", 640, half)
        resync(m)
    load.stop()
    sites.same()

    base.step("digests that are late, beside a writer who puts back what was there")
    sites.digests.slow(50)
    tags = [blk.pattern(f"back {n}", 8) for n in range(2)]
    with blk.Disk(m.node) as disk:
        for turn in range(4):
            spoil(sites, f"back {turn % 2}", 640, half)
            m.message("resync")
            write = 0
            while m.status().health != "AA":
                disk.write(half + write * 8 % 512, tags[write // 64 % 2])
                write += 1
                time.sleep(0.003)
    sites.same()
    base.equal(count(m, "digests_failed"), 0, "digests_failed")
    m.remove()
    sites.close()


def said(log: base.KernelLog, text: str) -> int:
    return sum(text in line for line in log.new())


def not_used(sites: Sites, device: str, why: str, what: str) -> None:
    """All is copied, and why is told once."""
    base.step(f"in the place of the digest LUN: {what}")
    sites.fill(what, sites.local.disk)
    sites.differ()
    log = base.KernelLog()
    m = sites.mirror(digests=device)
    for _ in range(2):
        told = resync(m)
        base.equal((told["resynced"], told["digests_equal"]), (sites.sectors, 0), "copied, equal")
    base.equal(said(log, why), 1, f"lines that say {why!r}")
    m.remove()
    sites.same()


def wrong() -> None:
    sites = Sites()
    sites.fill("old", sites.local.disk, sites.remote.disk)

    m = sites.mirror()
    resync(m)  # there is a key now
    m.remove()

    # Another LUN that has just what the local leg will have: its digests call everything equal.
    other = Dcd("other")
    shown = view("others", "other")
    sites.target.add(shown, 2)
    with lio.look(other.store) as node:
        sites.fill("another LUN's digests", node)
        with blk.Disk(node) as disk, blk.Disk(sites.remote.disk) as remote:
            tail = sites.sectors
            disk.write(tail, remote.read(tail, disk.sectors - tail))  # its key, even
    with lio.look(shown) as node:
        not_used(sites, node, "doesn't know what has just been written", "another LUN's digests")
    sites.target.drop(2)
    shown.remove()
    other.close()

    # A snapshot of it, from when the remote leg had what the local leg will have again.
    base.step("an older copy of it")
    sites.fill("a snapshot of it", sites.local.disk, sites.remote.disk)
    m = sites.mirror()
    base.equal(resync(m)["digests_equal"], sites.sectors, "equal")
    copy = ram.Ram("copy", 1)
    with blk.Disk(sites.digests.disk, write=False) as disk, blk.Disk(copy.node) as to:
        for at in range(0, disk.sectors, 128):
            to.write(at, disk.read(at, min(128, disk.sectors - at)))
        size = disk.sectors
    m.remove()
    sites.fill("new", sites.remote.disk)
    snapshot = dm.create("snapshot", f"0 {size} linear {copy.node} 0")
    not_used(sites, snapshot, "doesn't know what has just been written", "a snapshot of it")

    base.step("its true header before older digests, which call everything equal")
    mixed = dm.create("mixed", f"0 8 linear {sites.digests.disk} 0\n"
                               f"8 {size - 8} linear {copy.node} 8", readonly=True)  # fmt: skip
    sites.fill("new", sites.remote.disk)
    sites.fill("a snapshot of it", sites.local.disk)
    m = sites.mirror(digests=mixed)
    told = resync(m)
    base.equal((told["digested"], told["digests_equal"], told["resynced"]),
               (sites.sectors, 0, sites.sectors), "looked at, equal, copied")  # fmt: skip
    m.remove()
    sites.same()

    base.step("digests in a wrong place")
    moved = dm.create("moved", f"0 8 linear {sites.digests.disk} 0\n"
                               f"8 {size - 16} linear {sites.digests.disk} 16\n"
                               f"{size - 8} 8 linear {sites.digests.disk} 8",
                      readonly=True)  # fmt: skip
    with blk.Disk(sites.local.disk) as disk:  # every block of it the same
        for at in range(0, sites.sectors, 256):
            disk.write(at, blk.pattern("same", 8) * (min(256, sites.sectors - at) // 8))
    sites.differ()
    m = sites.mirror(digests=moved)
    for _ in range(2):
        told = resync(m)
        base.equal((told["digests_equal"], told["resynced"]), (0, sites.sectors), "equal, copied")
        sites.same()
    m.remove()

    for device, table, why in (
        (None, f"0 {size} zero", "has no header of a digest LUN"),
        (None, f"0 {size - 8} linear {sites.digests.disk} 0", "is too small"),
        (None, "0 7 zero", "has no room for a header"),
        (None, f"0 {size} error", "can't be read"),
        ("/dev/nothing", "", "can't be opened"),
    ):
        if device is None:
            not_used(sites, dm.create("bad", table, readonly=True), why, why)
            dm.remove("bad")
        else:
            not_used(sites, device, why, why)
    for name in ("moved", "mixed", "snapshot"):
        dm.remove(name)
    copy.remove()

    base.step("and the true one again")
    m = sites.mirror()
    spoil(sites, "again")
    told = resync(m)
    base.expect(told["digests_equal"] > sites.sectors // 3, f"{told}")
    m.remove()
    sites.same()

    base.step("without metadata it is refused")
    try:
        mirror.Mirror(sites.local.node, sites.remote.node, "nosync", "resync_digests",
                      sites.digests.node)  # fmt: skip
    except OSError:
        pass
    else:
        raise base.Wrong("accepted")
    m = sites.mirror("resync_digests", "-", digests="")
    base.expect("resync_digests" not in dm.table("mirror"), dm.table("mirror"))
    m.remove()
    m = sites.mirror()
    dm.reload("mirror", f"0 {sites.sectors} lockstep {dm.table('mirror')}")
    base.equal(resync(m)["digests_equal"], sites.sectors, "equal, by the table that dm shows")
    m.remove()
    sites.close()


def started(sites: Sites, *options: object) -> mirror.Mirror:
    """A resync under way, by digests, which takes some seconds."""
    rate = sites.sectors // 2 // 4
    m = sites.mirror("resync_rate", rate, "remote_timeout", 2000, *options)
    m.message("resync")
    base.until(lambda: count(m, "digests_equal"), "some equal")
    return m


def troubles() -> None:
    sites = Sites()
    sites.fill("data", sites.local.disk, sites.remote.disk)

    base.step("it fails in mid-resync, and comes back")
    spoil(sites, "fails")
    log = base.KernelLog()
    m = started(sites)
    sites.digests.gone()
    m.in_sync()
    base.equal(count(m, "digests_failed"), 1, "digests_failed")
    base.equal(said(log, "can't be read"), 1, "lines")
    base.expect(count(m, "resynced") > sites.sectors // 4, "what had to be copied was not")
    sites.same()
    sites.digests.well()
    m.message("resync_rate 0")
    base.equal(resync(m)["digested"], 0, "digested, before it is tried again")
    time.sleep(31)
    base.equal(resync(m)["digests_equal"], sites.sectors, "equal, afterwards")
    base.equal(said(log, "what is equal isn't copied"), 1, "lines")
    m.remove()

    base.step("it hangs in mid-resync: neither the resync nor a write waits for long")
    spoil(sites, "hangs")
    m = started(sites)
    sites.digests.hang()
    with blk.Disk(m.node) as disk:
        for at in range(0, sites.sectors - 8, sites.sectors // 16):
            seconds = blk.timed(lambda: disk.write(at // 8 * 8, blk.pattern("write", 8)))  # noqa: B023
            base.expect(seconds < 0.5, f"a write took {seconds:.3f} s")
            time.sleep(0.1)
    seconds = blk.timed(m.in_sync)
    base.expect(seconds < 4 + 2 * 9 / 8, f"the resync took {seconds:.1f} s longer")
    sites.same()

    base.step("it hangs when the device is suspended, reloaded, removed")
    sites.digests.wake()
    time.sleep(31)
    m.message("resync")
    base.until(lambda: count(m, "digested") > 0, "digests")
    sites.digests.hang()
    time.sleep(0.5)
    seconds = blk.timed(lambda: dm.suspend("mirror"))
    base.expect(seconds < 0.5, f"suspending took {seconds:.3f} s")
    dm.resume("mirror")
    m.in_sync()
    sites.same()
    sites.digests.wake()
    m.remove()

    base.step("the LUN is taken away at the mirror site in mid-resync")
    spoil(sites, "away")
    m = started(sites)
    sites.target.drop(1)
    m.in_sync()
    sites.same()
    sites.target.add(sites.view, 1)
    m.message("resync_rate 0")
    time.sleep(31)
    base.equal(resync(m)["digests_equal"], sites.sectors, "equal, when it is back")
    m.remove()

    base.step("a leg dies in mid-resync and comes back: with a new key")
    spoil(sites, "dies")
    m = started(sites)
    sites.remote.gone()
    m.wait("AD")
    with blk.Disk(m.node) as disk:
        disk.write(64, blk.pattern("alone", 64))
    sites.remote.well()
    m.message("recover")
    m.in_sync()
    sites.same()
    base.equal(count(m, "digests_failed"), 0, "digests_failed")
    m.remove()

    base.step("the primary crashes in mid-resync: the resync goes on where it was, by digests")
    spoil(sites, "crash", 512)
    m = started(sites)
    base.until(lambda: m.status().in_sync > m.status().regions // 3, "a third")
    for leg in (sites.local, sites.remote):
        leg.gone()
    m.remove()
    for leg in (sites.local, sites.remote):
        leg.well()
    sites.differ()
    m = sites.mirror()
    base.equal(m.status().health, "Aa", "health")
    m.in_sync()
    base.expect(count(m, "digests_equal"), "no digests")
    sites.same()
    m.remove()
    sites.close()


PARTS = {"wire": wire_bytes, "verify": verify, "load": under_load, "wrong": wrong,
         "troubles": troubles}  # fmt: skip
PARTS[sys.argv[1]]()  # there is one wire in a boot
