# SPDX-License-Identifier: GPL-2.0-only
"""What the mirror knows, or could know, to be another host's it doesn't come back to: not by
itself, not by a message, not at the second try; nor is it its own what its table has said at a time
that it doesn't remember. And a leg that was refused isn't asked over and over.

Args: the part.
"""

from __future__ import annotations

import errno
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from locklab import base, blk, count
from otherhost import AT, LOOKED, THEIRS, metadata, used
from statelab import ALONE, SLOT_SECTORS, SLOTS, Beside, crc32c, meta, super_of
from statelegs import MAP_SECTORS, Leg, Pair

NEW_TO_MAP = 1024  # a write there has to be marked
SEQ_AT = 40
LOG_SLOTS = Path("/sys/module/dm_lockstep/parameters/test_log_slots")


def parts(said: bytes) -> tuple[bytes, bytes]:
    """Both slots of the superblock, and the map."""
    return said[MAP_SECTORS << 9 :], said[: MAP_SECTORS << 9]


def refused(pair: Pair, what: str, at: int) -> None:
    with base.refused(what, errno.EIO), blk.Disk(pair.node) as disk:
        disk.write(at, bytes(8 << 9))


def has_theirs(what: str, node: str) -> None:
    with blk.Disk(node, write=False) as disk:
        base.equal(disk.read(AT, 8) == THEIRS, True, f"{what} has what the other host has written")


def untouched(leg: Leg, said: bytes) -> None:
    for what, now, was in zip(("superblock", "map"), parts(metadata(leg)), parts(said),
                              strict=True):  # fmt: skip
        base.equal(now == was, True, f"{leg.name}'s {what} is as it was")
    has_theirs(leg.name, leg.disk.node)


def theirs_is_there(pair: Pair) -> None:
    """Started anew with both legs well, the mirror has what the other host has written."""
    pair.options = ("rejoin", 1)
    pair.start()
    pair.in_sync()
    has_theirs("the mirror", pair.node)
    pair.stop()
    pair.same()
    pair.close()


def auto() -> None:
    base.step("the remote leg is used elsewhere; the local one is away for a moment, and is back")
    pair = Pair("rejoin", 1)
    pair.put(AT)  # what is dirty isn't looked at by a write
    used(pair, pair.remote)
    said = metadata(pair.remote)
    time.sleep(LOOKED)
    pair.local.gone()
    refused(pair, "a write that has to be marked", NEW_TO_MAP)
    pair.local.well()
    for _ in range(10):
        time.sleep(7)
        refused(pair, "a write to what the other host has written", AT)
        untouched(pair.remote, said)
    pair.stop()
    untouched(pair.remote, said)
    theirs_is_there(pair)


def known(policy: str, standing: str) -> None:
    pair = Pair("policy", policy, "rejoin", 1)
    pair.put(AT)
    pair.message("fail remote")
    pair.wait("AD", standing, 5)
    used(pair, pair.local)
    said = metadata(pair.local)
    time.sleep(LOOKED)
    refused(pair, "a write that has to be marked", NEW_TO_MAP)
    for _ in range(2):
        with base.refused("recover", errno.ESTALE):
            pair.message("recover")
    refused(pair, "another one", NEW_TO_MAP)
    time.sleep(LOOKED)
    untouched(pair.local, said)
    pair.stop()
    untouched(pair.local, said)
    theirs_is_there(pair)


def known_error() -> None:
    base.step("policy error: the leg that is left is used elsewhere; then the other one is told to"
              " come back")  # fmt: skip
    known("error", "refusing")


def known_block() -> None:
    base.step("policy block: the leg that is left is used elsewhere; then the other one is told to"
              " come back")  # fmt: skip
    known("block", "blocked")


def second() -> None:
    base.step("both legs are used elsewhere; one is told to come back, and is told so again")
    pair = Pair("policy", "error", "rejoin", 0)
    pair.put(0)
    pair.clean()
    # In core the local leg's seq gets ahead of the disk's: theirs isn't higher than that.
    pair.local.set(slots="nowrite")
    for _ in range(4):
        pair.message("fail remote")
        pair.message("recover")
    used(pair, pair.local, pair.remote)
    pair.local.well()
    said = [(leg, metadata(leg)) for leg in (pair.local, pair.remote)]
    time.sleep(LOOKED)
    pair.message("fail remote")
    refused(pair, "a write that has to be marked", NEW_TO_MAP)
    for which in ("the first", "the second"):
        with base.refused(f"{which} recover", errno.ESTALE):
            pair.message("recover")
    refused(pair, "another one", NEW_TO_MAP)
    pair.stop()
    for leg, was in said:
        untouched(leg, was)
    theirs_is_there(pair)


def starved() -> None:
    base.step("the source of a resync is found to be somebody else's while marks wait for room")
    base.put(LOG_SLOTS, 2)
    pair = Pair("rejoin", 1, "resync_rate", 1, "resync_pace", "full", "remote_timeout", 60000,
                "local_timeout", 60000)  # fmt: skip
    pair.local.gone()
    for region in range(8):
        pair.put(region * 64)
    pair.wait("DA", "alone", 10)
    pair.local.well()
    pair.wait("aA", "together", 10)
    pair.remote.set(data="stall:500")
    errors: list[int] = []

    def writes(number: int) -> None:
        turn = 0
        with blk.Disk(pair.node) as disk:
            while not errors:
                at = (16 + (number * 5 + turn * 3) % 14) * 64
                try:
                    disk.write(at, bytes(8 << 9))
                except OSError as err:
                    errors.append(err.errno or 0)
                turn += 1

    works = [Beside(partial(writes, number)) for number in range(3)]
    time.sleep(1)
    used(pair, pair.remote)
    for work in works:
        work.result(60)
    base.equal(set(errors), {errno.EIO}, "what writes end with")
    base.equal(pair.word("why"), "diverged", "why the local leg doesn't come back")
    pair.remote.well()
    before = count.disk(pair.remote.node)["reads"]
    time.sleep(30)
    reads = count.disk(pair.remote.node)["reads"] - before
    base.step(f"{reads} reads of the remote leg in 30 s")
    base.expect(reads < 500, f"{reads} reads of the remote leg in 30 s, has to be below 500")
    refused(pair, "a write", NEW_TO_MAP)
    pair.close()


def says_later(pair: Pair) -> None:
    """The local leg says what this table, its owner, would have said had it gone on alone."""
    pair.remote.gone()
    pair.put(AT)
    pair.wait("AD", "alone", 10)
    alone = metadata(pair.local)
    pair.remote.well()
    pair.in_sync()
    pair.clean()
    seq = pair.local.super.seq + 5
    slots = b""
    for at in (SLOTS, SLOT_SECTORS):
        slot = bytearray(alone[len(alone) - (at << 9) :][: SLOT_SECTORS << 9])
        struct.pack_into("<Q", slot, SEQ_AT, seq)
        struct.pack_into("<I", slot, 0, crc32c(bytes(slot[4:])))
        slots += slot
    with blk.Disk(pair.local.disk.node) as disk:
        disk.write(AT, THEIRS)
        disk.write(disk.sectors - SLOTS - MAP_SECTORS, alone[: MAP_SECTORS << 9] + slots)
    said = super_of(pair.local.disk.node)
    base.equal((said.seq, said.state), (seq, ALONE), "seq and state on the local leg")


def clone() -> None:
    base.step("the host's memory is put back to a picture of when both legs were in sync; the local"
              " leg says that it went on alone since then")  # fmt: skip
    pair = Pair("rejoin", 1)
    pair.put(0)
    says_later(pair)
    said = metadata(pair.local)
    time.sleep(LOOKED)
    pair.put(NEW_TO_MAP)
    time.sleep(75)
    untouched(pair.local, said)
    pair.wait("DA", "alone", 10)
    base.equal(pair.word("why"), "diverged", "why the local leg doesn't come back")
    pair.check("the remote leg goes on")
    pair.stop()
    untouched(pair.local, said)
    with base.refused("a start", errno.EINVAL, kernel="contradict each other"):
        pair.start()
    meta("resolve", "--keep", "remote", pair.local.node, pair.remote.node)
    pair.start()
    pair.good_end("resolved")
    pair.close()


PARTS: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (auto, known_error, known_block, second, starved, clone)
}
(part,) = base.words(1, PARTS)
PARTS[part]()
base.step("done")
