# SPDX-License-Identifier: GPL-2.0-only
"""Legs that must not be used together, when a mirror starts and when a leg would come back: each is
refused for its own reason, in words, and nothing is written.
"""

import errno
import sys
import time
from collections.abc import Callable

from locklab import base, blk, dm, mirror
from statelab import ALONE, LOCAL, REMOTE, SYNC, create, meta
from statelegs import Pair

LEGS = (LOCAL, REMOTE)


def images(pair: Pair) -> list[bytes]:
    return [leg.image() for leg in pair.legs.values()]


def refused(pair: Pair, what: str, *says: str, table: str | None = None) -> None:
    """With these words in the kernel's log, and nothing written."""
    before = images(pair)
    log = base.KernelLog()
    try:
        dm.create("mirror", table or pair.table())
    except OSError as err:
        base.equal(err.errno, errno.EINVAL, what)
    else:
        raise base.Wrong(f"{what}: was accepted")
    lines = log.new()
    for text in says:
        base.expect(any(text in line for line in lines), f"{what}: no {text!r} in {lines}")
    base.expect(images(pair) == before, f"{what}: something was written")
    print(f"  refused as it has to be: {what}", flush=True)


def stopped(*words: str) -> Pair:
    pair = Pair()
    pair.put(0)
    pair.stop()
    if words:
        print(*words, flush=True)
    return pair


def went_alone(pair: Pair, leg: str) -> None:
    """That leg alone, and a write."""
    other = {LOCAL: REMOTE, REMOTE: LOCAL}[leg]
    pair.start(**{other: "-"})
    with blk.Disk(pair.node) as disk:
        disk.write(64, blk.pattern(f"only {leg}", 8))
    pair.stop()
    base.equal(pair.legs[leg].super.state, ALONE, f"the {leg} leg")


def accepted(pair: Pair, what: str, tag: str | None) -> None:
    pair.start()
    pair.in_sync()
    if tag:
        with blk.Disk(pair.node) as disk:
            base.expect(disk.read(64, 8) == blk.pattern(tag, 8), f"{what}: data of {tag}")
    pair.stop()
    pair.same()
    base.equal([leg.super.state for leg in pair.legs.values()], [SYNC, SYNC], what)
    pair.close()


def foreign() -> None:
    base.step("a leg of another mirror; none; the legs swapped; one twice")
    pair = stopped()
    good = images(pair)
    create(pair.local.node, pair.remote.node, "--force", "--assume-clean")
    pair.local.put(good[0])
    refused(pair, "a leg of another mirror", "belong to different mirrors")
    pair.remote.put(bytes(len(good[1])))
    refused(pair, "a blank leg", "The remote leg can't be used")
    pair.remote.put(good[1])
    refused(pair, "swapped", "The legs are swapped",
            table=pair.table(local=pair.remote.node, remote=pair.local.node))  # fmt: skip
    pair.remote.put(good[0])
    refused(pair, "a copy of the local leg as the remote leg", "is not this mirror's remote leg")
    pair.remote.put(good[1])
    accepted(pair, "foreign", None)


def lengths() -> None:
    base.step("a table of another length, or other regions; a device that has grown or shrunk")
    pair = stopped()
    for sectors in (pair.sectors - 8, pair.sectors + 8, 64):
        refused(pair, f"{sectors} sectors", f"the legs hold {pair.sectors} sectors",
                table=mirror.table(pair.local.node, pair.remote.node, sectors=sectors))  # fmt: skip
    refused(pair, "other regions", "the legs have regions of 64 sectors",
            table=pair.table(options=("region_size", 128)))  # fmt: skip
    node, end = pair.remote.disk.node, pair.remote.disk.sectors
    for what, table in (
        ("grown", f"0 {end} linear {node} 0\n{end} 1024 zero"),
        ("shrunk", f"0 {end - 8} linear {node} 0"),
    ):
        other = dm.create("other", table)
        refused(pair, f"a device that has {what}", "The remote leg can't be used",
                table=pair.table(remote=other))  # fmt: skip
        dm.remove("other")
    accepted(pair, "lengths", None)


def damaged() -> None:
    base.step("a damaged superblock: one slot is passed over, both are refused")
    pair = stopped()
    good = images(pair)
    for name, leg in pair.legs.items():
        for slot in (0, 1):
            image = bytearray(leg.image())
            at = len(image) - 8192 + slot * 4096
            image[at + 100] ^= 1
            leg.put(bytes(image))
            pair.start()
            base.equal(pair.status().health, "AA", f"{name} leg, slot {slot} damaged")
            pair.stop()
        whole = leg.image()
        image = bytearray(whole)
        for slot in (0, 1):
            image[len(image) - 8192 + slot * 4096 + 100] ^= 1
        leg.put(bytes(image))
        refused(pair, f"{name} leg, both slots damaged", f"The {name} leg can't be used",
                "checksum")  # fmt: skip
        image[len(image) - 8192 :] = bytes(8192)
        leg.put(bytes(image))
        refused(pair, f"{name} leg, both slots empty", f"The {name} leg can't be used")
        leg.put(whole)
    for leg, first in zip(pair.legs.values(), good, strict=True):
        leg.put(first)
    pair.local.set(slots="error")
    before = base.KernelLog()
    with base.refused("an unreadable superblock", errno.EINVAL):
        pair.start()
    base.expect(any("The local leg can't be used" in line for line in before.new()), "it says so")
    pair.local.well()
    accepted(pair, "damaged", None)


def damaged_map() -> None:
    base.step("a damaged dirty map: its regions count as dirty")
    pair = stopped()
    image = bytearray(pair.local.image())
    at = len(image) - 8192 - 4096
    image[at + 60] ^= 0x10
    pair.local.put(bytes(image))
    log = base.KernelLog()
    pair.start()
    base.expect(any("is damaged: all of its" in line for line in log.new()), "it says so")
    pair.in_sync()
    base.equal(pair.count("resynced"), pair.sectors, "all is copied")
    pair.good_end("damaged map")
    pair.close()


def split() -> None:
    base.step("split brain: both histories are told, and either can be kept")
    for keep in LEGS:
        pair = stopped()
        for leg in LEGS:
            went_alone(pair, leg)
        refused(pair, "a split brain", "Split brain", "history of the local leg",
                "history of the remote leg")  # fmt: skip
        meta("resolve", "--keep", keep, pair.local.node, pair.remote.node)
        accepted(pair, f"kept the {keep} leg", f"only {keep}")


def outdated() -> None:
    base.step("a copy from the drawer, from before the other leg was replaced")
    pair = stopped()
    old = pair.remote.image()
    went_alone(pair, LOCAL)
    meta("join", "--source", pair.local.node, "--leg", "remote", "--force", pair.remote.node)
    pair.start()
    pair.in_sync()
    pair.stop()
    new = pair.remote.image()
    pair.remote.put(old)
    refused(pair, "the old remote leg")
    pair.remote.put(new)
    accepted(pair, "outdated", "only local")


def ahead() -> None:
    base.step("one leg went on, the other has what it had: which one is told, both ways")
    for leg in LEGS:
        pair = stopped()
        went_alone(pair, leg)
        accepted(pair, f"the {leg} leg is ahead", f"only {leg}")


def comes_back(what: str, change: Callable[[Pair], None], why: str) -> None:
    """While the mirror runs without the remote leg, that is exchanged below it."""
    base.step(f"would come back: {what}")
    pair = Pair()
    pair.put(0)
    pair.remote.gone()
    pair.put(0)
    pair.wait("AD", "alone")
    good = pair.remote.image()
    change(pair)
    before = pair.remote.image()
    pair.remote.well()
    time.sleep(5)
    base.equal((pair.status().health, pair.word("why")), ("AD", why), "after 5 s")
    with base.refused("recover", errno.EINVAL):
        pair.message("recover")
    pair.put(640)
    base.expect(pair.remote.image() == before, "nothing was written to it")
    pair.remote.put(good)
    pair.good_end(what)
    pair.close()


def blank(pair: Pair) -> None:
    pair.remote.put(bytes(pair.remote.disk.sectors * 512))


def another(pair: Pair) -> None:
    pair.remote.put(pair.local.image())


def used_elsewhere(pair: Pair) -> None:
    """The mirror site has gone on with it."""
    device = dm.create("site", mirror.table("-", pair.remote.disk.node, sectors=pair.sectors))
    with blk.Disk(device) as disk:
        disk.write(64, blk.pattern("site", 8))
    dm.remove("site")


SCENES: dict[str, Callable[[], None]] = {
    "foreign": foreign,
    "lengths": lengths,
    "damaged": damaged,
    "damaged_map": damaged_map,
    "split": split,
    "outdated": outdated,
    "ahead": ahead,
    "back_blank": lambda: comes_back("a blank device", blank, "foreign"),
    "back_another": lambda: comes_back("a copy of the local leg", another, "foreign"),
    "back_diverged": lambda: comes_back("a leg that was used elsewhere", used_elsewhere,
                                        "diverged"),
}  # fmt: skip

for name in sys.argv[1:] or SCENES:
    SCENES[name]()
base.step("done")
