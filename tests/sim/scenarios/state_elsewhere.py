# SPDX-License-Identifier: GPL-2.0-only
"""A host uses the remote leg by itself while the mirror's host knows nothing of it: its table is
suspended, or it sleeps as a virtual machine that is paused. What that host says on the leg isn't
overwritten when the mirror goes on: the leg is given up, and both histories are there.

Args: the part.
"""

from __future__ import annotations

import errno
import struct
import time
from collections.abc import Callable

from locklab import base, blk, dm
from otherhost import AT, LOOKED, THEIRS, metadata, other_host, used
from statelab import LOCAL, REMOTE, SLOT_SECTORS, SLOTS, crc32c, meta
from statelegs import Pair

NEW_TO_MAP = 1024  # a write there has to be marked
VERSION_AT = 4
CLEANED = 70  # seconds: then its superblocks have been written again


def refused(pair: Pair, what: str, at: int) -> None:
    with base.refused(what, errno.EIO), blk.Disk(pair.node) as disk:
        disk.write(at, bytes(8 << 9))


def theirs_is_there(pair: Pair, said: bytes) -> None:
    """The mirror is stopped; nothing of it came to the remote leg after that said this."""
    pair.stop()
    base.equal(metadata(pair.remote) == said, True, "the remote leg's metadata are as they were")
    with blk.Disk(pair.remote.disk.node, write=False) as disk:
        base.equal(disk.read(AT, 8), THEIRS, "what the other host has written")
    pair.local.well()
    pair.options = ("rejoin", 1)
    pair.start()
    pair.in_sync()
    with blk.Disk(pair.node, write=False) as disk:
        base.equal(disk.read(AT, 8), THEIRS, "what the other host has written")
    pair.stop()
    pair.same()
    pair.close()


def both_are_there(pair: Pair, seconds: float = 10) -> None:
    """The mirror goes on with the local leg; what was written elsewhere stays where it was."""
    pair.wait("AD", "alone", seconds)
    base.until(lambda: pair.word("why") == "diverged", f"why: {dm.status(pair.name)}", 10)
    pair.check("the local leg goes on")
    pair.stop()
    with blk.Disk(pair.remote.disk.node, write=False) as disk:
        base.equal(disk.read(AT, 8), THEIRS, "what the other host has written")
    with base.refused("a start", errno.EINVAL, kernel="Split brain"):
        pair.start()
    meta("resolve", "--keep", LOCAL, pair.local.node, pair.remote.node)
    pair.start()
    pair.good_end("resolved")
    pair.close()


def start() -> Pair:
    pair = Pair("rejoin", 1)
    pair.put(0)
    pair.clean()
    return pair


def suspended() -> None:
    base.step("the remote leg is used elsewhere while the table is suspended")
    pair = start()
    dm.suspend(pair.name)
    used(pair)
    dm.resume(pair.name)
    both_are_there(pair)


def asleep() -> None:
    base.step("the remote leg is used elsewhere while the host sleeps; then it writes")
    pair = start()
    used(pair)
    pair.put(256)
    both_are_there(pair, 70)


def stopped() -> None:
    base.step("the remote leg is used elsewhere while the host sleeps; then the mirror is stopped")
    pair = start()
    used(pair)
    pair.stop()
    with base.refused("a start", errno.EINVAL, kernel="Split brain"):
        pair.start()
    meta("resolve", "--keep", REMOTE, pair.local.node, pair.remote.node)
    pair.start()
    pair.in_sync()
    with blk.Disk(pair.node, write=False) as disk:
        base.equal(disk.read(AT, 8), THEIRS, "what the other host has written")
    pair.close()


def survives() -> None:
    base.step("the remote leg is used elsewhere while the host sleeps; then the local leg fails")
    pair = start()
    used(pair)
    said = metadata(pair.remote)
    pair.local.gone()
    refused(pair, "a write", 256)
    theirs_is_there(pair, said)


def known_and_forgotten() -> None:
    base.step("likewise, and the local leg is well again")
    pair = start()
    pair.put(256)
    used(pair)
    said = metadata(pair.remote)
    pair.local.gone()
    refused(pair, "a write", 256)
    pair.local.well()
    with base.refused("recover", errno.ESTALE, errno.EIO, errno.EINVAL, errno.EBUSY):
        pair.message("recover")
    time.sleep(10)
    base.equal(pair.status().health, "DA", "no leg comes back to what somebody else has used")
    base.equal(pair.word("why"), "diverged", "and it is said why")
    refused(pair, "a write", 256)
    theirs_is_there(pair, said)


def alone() -> Pair:
    """The remote leg alone: nothing is written to a superblock while it runs."""
    pair = start()
    pair.local.gone()
    pair.put(256)
    pair.wait("DA", "alone", 10)
    return pair


def source() -> Pair:
    """The local leg is resynced from the remote one, and that takes long."""
    pair = Pair("rejoin", 1, "resync_rate", 1, "resync_pace", "full")
    pair.local.gone()
    for region in range(8):
        pair.put(region * 64)
    pair.wait("DA", "alone", 10)
    pair.local.well()
    pair.wait("aA", "together", 10)
    return pair


def not_resumed(pair: Pair) -> None:
    dm.suspend(pair.name)
    used(pair)
    said = metadata(pair.remote)
    with base.refused("a resume", errno.ESTALE, kernel="dmsetup wipe_table"):
        dm.resume(pair.name)
    theirs_is_there(pair, said)


def not_written(pair: Pair) -> None:
    used(pair)
    said = metadata(pair.remote)
    time.sleep(LOOKED)
    refused(pair, "a write that has to be marked", NEW_TO_MAP)
    refused(pair, "one to what is dirty", 256)
    theirs_is_there(pair, said)


def alone_suspended() -> None:
    base.step("the only leg is used elsewhere while the table is suspended")
    not_resumed(alone())


def alone_asleep() -> None:
    base.step("the only leg is used elsewhere while the host sleeps")
    not_written(alone())


def source_suspended() -> None:
    base.step("the source of a resync is used elsewhere while the table is suspended")
    not_resumed(source())


def source_asleep() -> None:
    base.step("the source of a resync is used elsewhere while the host sleeps")
    not_written(source())


def alone_at_rest() -> None:
    base.step("the only leg is used elsewhere while the host sleeps; nobody writes for a tick")
    pair = alone()
    used(pair)
    said = metadata(pair.remote)
    pair.wait("DA", "parting", 70)
    refused(pair, "a write to what is dirty", 256)
    theirs_is_there(pair, said)


def both_suspended() -> None:
    base.step("both legs are used elsewhere while the table is suspended")
    pair = start()
    dm.suspend(pair.name)
    used(pair, pair.local, pair.remote)
    said = metadata(pair.remote)
    with base.refused("a resume", errno.ESTALE, kernel="dmsetup wipe_table"):
        dm.resume(pair.name)
    theirs_is_there(pair, said)


def both_asleep() -> None:
    base.step("both legs are used elsewhere while the host sleeps")
    pair = start()
    used(pair, pair.local, pair.remote)
    said = metadata(pair.remote)
    time.sleep(LOOKED)
    refused(pair, "a write", 256)
    refused(pair, "another one", 256)
    theirs_is_there(pair, said)


def not_reloaded(pair: Pair) -> None:
    """What the new table doesn't take: whoever has the device open gets errors, and lets it go."""
    said = metadata(pair.remote)
    with blk.Disk(pair.node, write=False) as opened:
        dm.load(pair.name, pair.table())
        for _ in range(2):
            with base.refused("a resume", errno.ESTALE, kernel="dmsetup wipe_table"):
                dm.resume(pair.name)
        dm.load(pair.name, f"0 {pair.sectors} error")
        dm.resume(pair.name)
        with base.refused("a read", errno.EIO):
            opened.read(0, 8)
    theirs_is_there(pair, said)


def alone_reloaded() -> None:
    base.step("the only leg is used elsewhere while the table is suspended; a new one is loaded")
    pair = alone()
    dm.suspend(pair.name)
    used(pair)
    not_reloaded(pair)


def alone_refused() -> None:
    base.step("the only leg is used elsewhere, and writes are refused; then a new table is loaded")
    pair = alone()
    used(pair)
    time.sleep(LOOKED)
    refused(pair, "a write that has to be marked", NEW_TO_MAP)
    dm.suspend(pair.name)
    not_reloaded(pair)


def both_reloaded() -> None:
    base.step("both legs are used elsewhere while the table is suspended; then a new one is loaded")
    pair = start()
    dm.suspend(pair.name)
    used(pair, pair.local, pair.remote)
    not_reloaded(pair)


def read_only() -> None:
    base.step("a read-only table beside another host's mirror; then a writable one is loaded")
    pair = start()
    pair.stop()
    with other_host(pair, pair.local, pair.remote) as there, blk.Disk(there) as disk:
        dm.create(pair.name, pair.table(), readonly=True)
        disk.write(AT, THEIRS)
        time.sleep(CLEANED)
    dm.suspend(pair.name)
    not_reloaded(pair)


def reloaded() -> None:
    base.step("the remote leg is used elsewhere while the table is suspended; a new one is loaded")
    pair = start()
    dm.suspend(pair.name)
    used(pair)
    dm.load(pair.name, pair.table())
    dm.resume(pair.name)
    both_are_there(pair)


def newer() -> None:
    base.step("while the table is suspended the remote leg gets a newer format's superblock")
    pair = start()
    dm.suspend(pair.name)
    with blk.Disk(pair.remote.disk.node) as disk:
        slot = bytearray(disk.read(disk.sectors - SLOTS, SLOT_SECTORS))
        struct.pack_into("<I", slot, VERSION_AT, 99)
        struct.pack_into("<I", slot, 0, crc32c(bytes(slot[4:])))
        for at in (SLOTS, SLOT_SECTORS):
            disk.write(disk.sectors - at, bytes(slot))
    dm.resume(pair.name)
    pair.wait("AD", "alone", 10)
    with blk.Disk(pair.remote.disk.node, write=False) as disk:
        base.equal(disk.read(disk.sectors - SLOTS, SLOTS) == bytes(slot) * 2, True, "it stays")
    pair.check("the local leg goes on")
    pair.close()


def put_back() -> None:
    base.step("while the table is suspended the remote leg is put back as it was once")
    pair = start()
    old = pair.remote.image()
    pair.put(256)
    pair.clean()
    dm.suspend(pair.name)
    pair.remote.put(old)
    dm.resume(pair.name)
    pair.wait("AD", "alone", 10)
    base.until(lambda: pair.word("why") == "outdated", f"why: {dm.status(pair.name)}", 10)
    pair.stop()
    with base.refused("a start", errno.EINVAL, kernel="is an older copy"):
        pair.start()
    meta("resolve", "--keep", LOCAL, pair.local.node, pair.remote.node)
    pair.start()
    pair.good_end("resolved")
    pair.close()


def one_slot() -> None:
    base.step("the only leg is used elsewhere, and one copy of its superblock can't be read then")
    for slot in range(2):
        pair = alone()
        used(pair)
        said = metadata(pair.remote)
        node, end = pair.remote.disk.node, pair.remote.disk.sectors
        bad = end - SLOTS + slot * SLOT_SECTORS
        lines = [f"0 {bad} linear {node} 0", f"{bad} {SLOT_SECTORS} error"]
        if not slot:
            lines.append(f"{end - SLOT_SECTORS} {SLOT_SECTORS} linear {node} {end - SLOT_SECTORS}")
        dm.reload(pair.remote.name, "\n".join(lines))
        time.sleep(LOOKED)
        refused(pair, "a write that has to be marked", NEW_TO_MAP)
        pair.remote.well()
        theirs_is_there(pair, said)


def told() -> None:
    base.step("both legs are used elsewhere while the host sleeps; then it is told to resync")
    pair = start()
    used(pair, pair.local, pair.remote)
    said = [metadata(leg) for leg in (pair.local, pair.remote)]
    time.sleep(LOOKED)
    for _ in range(2):
        with base.refused("resync", errno.ESTALE, errno.EBUSY, kernel="can't resync all"):
            pair.message("resync")
    base.equal(metadata(pair.local) == said[0], True, "the local leg's metadata are as they were")
    theirs_is_there(pair, said[1])


def hot() -> None:
    base.step("the remote leg is used elsewhere; then the same region is written each second")
    pair = start()
    used(pair)
    for _ in range(70):
        pair.put(256)
        if pair.status().health != "AA":
            break
        time.sleep(1)
    both_are_there(pair)


def unread() -> None:
    base.step("the only leg is used elsewhere while the link is down, and somebody writes")
    pair = alone()
    pair.remote.gone()
    used(pair)
    said = metadata(pair.remote)
    for n in range(62):
        refused(pair, "a write to no leg", 640 + 64 * (n % 4))
        time.sleep(1)
    pair.remote.well()
    for n in range(4):
        refused(pair, "a write to what another host has used", 640 + 64 * n)
    theirs_is_there(pair, said)


PARTS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        suspended, asleep, stopped, survives, put_back, known_and_forgotten, alone_suspended,
        alone_asleep, alone_at_rest, source_suspended, source_asleep, both_suspended, both_asleep,
        newer, one_slot, told, hot, reloaded, alone_reloaded, alone_refused, both_reloaded,
        read_only, unread,
    )
}
(part,) = base.words(1, PARTS)
PARTS[part]()
base.step("done")
