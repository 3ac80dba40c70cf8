# SPDX-License-Identifier: GPL-2.0-only
"""Power cuts at the mirror site while batches go there, each as one WRITE SCATTERED: of a batch all
is on the leg afterwards or nothing of it, as the module recovers it and as `dcd recover` does.

One writer goes by rounds. The first write of a round goes by itself; those behind it, at places
far from one another, are submitted with it, so that they wait for one another and are one batch. A
round ends when all are acknowledged, and the next writes the same places. What the places hold
after a cut has to be of one round, acknowledged or under way. dcd.test_fill_us gives the
entries of a batch time between them: some cuts have to fall into one.

--apart, the control: the mirror sends no such command, which has to be reported (exit code 1).
"""

import argparse
import ctypes
import errno
import mmap
import os
import random
import re
import struct
import sys
import threading
import time
from pathlib import Path

from crashlab import LEG_MIB, arguments, compare_legs, cut_loop, number
from cut_mirror import Scenario
from locklab import base, blk, lio, media
from locklab.media import MIRROR_SITE

STRIDE = 64  # sectors from one place to the next
PLACES = (LEG_MIB - 1 << 11) // STRIDE  # the mirror is a bit smaller than its leg
AUTO = 64  # sectors in a command of `scatter auto`, at most
MOST = 96  # of `scatter on`; the LUN takes some more, as it has segments of 64 KiB
LIBC = ctypes.CDLL(None, use_errno=True)
SETUP, DESTROY, GETEVENTS, SUBMIT = 206, 207, 208, 209
IOCB = struct.Struct("=QIIHhIQQqQII")  # linux/aio_abi.h
PWRITE = 1
EVENT = struct.Struct("=QQqq")
FILL = Path("/sys/module/dcd/parameters/test_fill_us")


def aio(call: int, *words: object) -> int:
    while (done := LIBC.syscall(ctypes.c_long(call), *words)) < 0:
        err = ctypes.get_errno()
        if err != errno.EINTR:
            raise OSError(err, f"aio {call}: {os.strerror(err)}")
    return int(done)


class Together:
    """Writes that are submitted by one system call, in their order, and may all be in flight."""

    def __init__(self, node: str, most: int) -> None:
        self._fd = os.open(node, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        self._memory = mmap.mmap(-1, most * mmap.PAGESIZE)
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._context = ctypes.c_ulong(0)
        aio(SETUP, most, ctypes.byref(self._context))

    def write(self, writes: list[tuple[int, bytes]]) -> None:
        """(sector, data of a page at most) each; returns when all have ended well."""
        blocks = []
        for n, (sector, data) in enumerate(writes):
            at = n * mmap.PAGESIZE
            self._memory[at : at + len(data)] = data
            block = IOCB.pack(n, 0, 0, PWRITE, 0, self._fd, self._at + at, len(data),
                              sector * blk.SECTOR, 0, 0, 0)  # fmt: skip
            blocks.append(ctypes.create_string_buffer(block, IOCB.size))
        listed = (ctypes.c_void_p * len(blocks))(*(ctypes.addressof(one) for one in blocks))
        base.equal(aio(SUBMIT, self._context, len(blocks), listed), len(blocks), "submitted")
        left = len(blocks)
        events = ctypes.create_string_buffer(EVENT.size * left)
        while left:
            got = aio(GETEVENTS, self._context, 1, left, events, None)
            left -= got
            for n, _, result, _ in EVENT.iter_unpack(events.raw[: got * EVENT.size]):
                base.equal(result, len(writes[n][1]), f"result of write to sector {writes[n][0]}")

    def close(self) -> None:
        aio(DESTROY, self._context)
        os.close(self._fd)


class Rounds(threading.Thread):
    def __init__(self, node: str, seed: int, rng: random.Random, auto: bool) -> None:
        super().__init__(daemon=True)
        self.node, self.seed = node, seed
        self.size = rng.choice((1, 1, 2, 8))  # sectors of a write
        self.number = rng.randint(2, min(32, (AUTO if auto else MOST) // self.size))
        self.alone, *self.places = (n * STRIDE for n in rng.sample(range(PLACES), self.number + 1))
        self.begun = self.acknowledged = 0
        self.enough = False
        self.failed: Exception | None = None

    def sector(self, place: int, turn: int) -> bytes:
        return f"{self.seed} {turn} {place}".encode().ljust(blk.SECTOR, b".")

    def run(self) -> None:
        try:
            together = Together(self.node, self.number + 1)
            while not self.enough:
                self.begun += 1
                together.write([
                    (place, self.sector(place, self.begun) * self.size)
                    for place in (self.alone, *self.places)
                ])  # fmt: skip
                self.acknowledged = self.begun
            together.close()
        except (OSError, base.Wrong) as err:
            self.failed = err

    def end(self) -> None:
        self.enough = True
        self.join(600)
        base.expect(not self.is_alive(), "a write hangs")
        if self.failed:
            raise self.failed

    def check(self, node: str, least: int, most: int) -> int:
        """Which round's the places hold."""
        found = {}
        with blk.Disk(node, write=False) as disk:
            for place in self.places:
                data = disk.read(place, self.size)
                turn = int(data.split()[1]) if data.startswith(f"{self.seed} ".encode()) else -1
                whole = data == self.sector(place, turn) * self.size
                found[place] = turn if whole else -1
        turns = set(found.values())
        what = f"rounds {least} to {most}, there is {found}"
        base.expect(len(turns) == 1, f"a part of a batch is there: {what}")
        turn = turns.pop()
        base.expect(least <= turn <= most, f"another round's batch is there: {what}")
        return turn


class Batches(Scenario):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self.wiped = 0  # cuts that left a part of a batch behind

    def one(self, seed: int, rng: random.Random) -> str:
        if not self.running or rng.random() < 0.1:
            self.start(rng)
        mirror = self.mirror
        assert mirror
        self.session.patience(120)
        auto = seed % 2 == 0
        rounds = Rounds(mirror.node, seed, rng, auto)
        mirror.message(f"scatter {'off' if self.args.apart else 'auto' if auto else 'on'}")
        mirror.message(f"coalesce {rounds.number}")  # with the last of them it is full, and goes
        others = number(mirror, "scattered_again"), number(mirror, "scattered_punted")
        rounds.start()
        # The first may be sent singly while the leg is being asked.
        base.until(lambda: rounds.acknowledged > 1, "the second round", 600)
        first, before = rounds.begun, number(mirror, "scattered")
        time.sleep(rng.uniform(0.0005, 0.04))
        sure = rounds.acknowledged
        base.put(self.wire.flags, "0x1002")
        media.cut(MIRROR_SITE, seed)
        begun, sent = rounds.begun, number(mirror, "scattered") - before
        if not self.args.apart:
            base.expect(begun - first <= sent + 1 and sent <= begun - first + 1,
                        f"{begun - first} rounds, {sent} commands")  # fmt: skip
            now = number(mirror, "scattered_again"), number(mirror, "scattered_punted")
            base.equal(now, others, "sent again, and punted, before the cut")
        log = base.KernelLog()
        twice = self.power_returns(seed, rng)
        wiped = any(re.search(r"entries in NVRAM lack", line) for line in log.new())
        self.wiped += wiped
        with lio.look(self.site.store) as disk:
            self.site.same_as_offline(disk, twice)
            there = rounds.check(disk, sure, begun)
        self.site.export()
        self.wire.plug_in()
        base.until(self.session.up, "the session to come back", 600)
        rounds.end()
        mirror.wait("AA", "idle")
        compare_legs(self.local, self.session.node)
        rounds.check(self.session.node, rounds.acknowledged, rounds.acknowledged)
        told = f"{rounds.number} writes of {rounds.size} sectors, {sure} rounds acknowledged"
        return f"{told}, there {there}{', part wiped' * wiped}{', cut twice' * twice}"


def main() -> int:
    parser = arguments()
    parser.add_argument("--apart", action="store_true")
    args = parser.parse_args()
    args.plain, args.offline, args.cache = False, True, False
    scenario = Batches(args)
    code = cut_loop("cut_batches", args.first, args.cuts, scenario.one)
    if code == 0:
        scenario.stop()
        print(f"cut_batches: {scenario.scattered} commands; {scenario.wiped} cuts in a batch",
              flush=True)  # fmt: skip
        if args.nvram == "lab" and int(FILL.read_text()):
            base.expect(scenario.wiped, "no cut was in a batch")
    return code


if __name__ == "__main__":
    sys.exit(main())
