# SPDX-License-Identifier: GPL-2.0-only
"""Seeded lives of a DCD over a mirror's leg: its data disk grows, the mirror grows after it, or
only begins to; superblocks of earlier mirrors, and files, are where the ends are; the log fails,
for good or until somebody mends it; the DCD is closed, loses its power, or is emptied by `dcd`. Its
NVRAM is ordinary memory, and a reboot forgets what the kernel knew (dcd.test_kernel_forgets).

Args: how many lives, and the first seed.

What is promised:
  - What was acknowledged is read, as long as there was no cut before it was durable on the data
    disk; where the log is dead that is when the leg says so.
  - Nothing but the DCD's own LUN, and what writes the leg's superblock, changes a byte.
  - The leg's superblock is read by the LUN as it is on the data disk.
  - At the end `dcd retire` finds the leg, which is one once its mirror has grown.
"""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
import time
from pathlib import Path

from dcdlab import TOOL, Box, Model, format_log
from locklab import base, blk, lio, media, ram
from statelab import META, crc32c

HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99"
FORGETS = Path("/sys/module/dcd/parameters/test_kernel_forgets")
MIB = 1 << 11
PART = 512  # sectors that are written
SLOTS = 16  # sectors of a superblock
SEQ, MOVED_TO = 40, 512  # bytes in a slot, by lockstep-format.h
WEIGHTS = {
    "write": 8, "grow": 3, "mirror_grows": 1, "half_grown": 1, "stale": 1, "dies": 3, "heals": 1,
    "looks": 2, "waits": 2,
}  # fmt: skip


class Life:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.box = Box(settings=HELD, data_spare_mib=24)
        self.leg = self.box.data.sectors  # at the end of which it lies
        local = ram.Ram("local", self.box.data_mib)
        both = ("--local", local.node, "--remote", self.box.data.node)
        base.run(META, "create", *both, "--assume-clean")
        local.remove()
        format_log(self.box.data.node, self.box.log.node, "none", "--force")
        self.model = Model(PART)
        self.dead = False
        self.done: list[str] = []

    # While it is open.

    def write(self, disk: blk.Disk) -> None:
        at, count = self.rng.randrange(PART - 64), self.rng.choice((1, 8, 50))
        data = blk.pattern(f"{len(self.done)}", count)
        try:
            disk.write(at, data)
        except OSError:
            self.heals(disk)
            base.until(lambda: self._taken(disk, at, data), "a write to be taken", 200)
        self.model.put(at, data)

    @staticmethod
    def _taken(disk: blk.Disk, at: int, data: bytes) -> bool:
        try:
            disk.write(at, data)
        except OSError:
            return False
        return True

    def grow(self, _: blk.Disk) -> None:
        if self.box.data.sectors >= (self.box.data_mib + 20) * MIB:
            return
        self._works()
        self.box.data.resize(self.box.data.sectors + self.rng.choice((1, 2)) * MIB)
        self.box.set("grow=1")

    def _works(self) -> None:
        self.box.log.heal()
        self.dead = False
        self.box.says("log ok", "the log to work")

    def _rescan(self, disk: blk.Disk) -> int:
        base.put(Path("/sys/block", Path(disk.node).name, "device/rescan"), 1)
        with blk.Disk(disk.node, write=False) as now:
            return now.sectors

    def mirror_grows(self, disk: blk.Disk) -> None:
        now = self._rescan(disk)
        if now != self.leg:
            self._works()
            with blk.Disk(disk.node) as lun:
                self._forget(lun)
            base.run(META, "grow", "-", disk.node)
            self.leg = now

    @staticmethod
    def _forget(disk: blk.Disk) -> None:
        """What an earlier mirror left there, as an admin does who is told of that."""
        disk.write(disk.sectors - SLOTS, bytes(SLOTS * blk.SECTOR), fua=True)

    def half_grown(self, disk: blk.Disk) -> None:
        """The leg's superblock points to the new end, where there is none yet."""
        now = self._rescan(disk)
        if now == self.leg:
            return
        self._works()
        with blk.Disk(disk.node) as lun:
            raw = bytearray(lun.read(self.leg - SLOTS, 8))
            (seq,) = struct.unpack_from("<Q", raw, SEQ)
            struct.pack_into("<Q", raw, SEQ, seq + 1)
            struct.pack_into("<Q", raw, MOVED_TO, now - SLOTS)
            struct.pack_into("<I", raw, 0, crc32c(bytes(raw[4:])))
            for slot in (0, 8):
                lun.write(self.leg - SLOTS + slot, bytes(raw), fua=True)

    def stale(self, _: blk.Disk) -> None:
        """Where the disk ends there is the superblock of a mirror that it was a leg of earlier."""
        end = self.box.data.sectors
        if end == self.leg:
            return
        other, peer = (ram.Ram(name, end // MIB) for name in ("other", "peer"))
        words = ("--local", peer.node, "--remote", other.node, "--assume-clean")
        base.run(META, "create", *words)
        with blk.Disk(other.node, write=False) as there, blk.Disk(self.box.data.node) as data:
            data.write(end - SLOTS, there.read(end - SLOTS, SLOTS), fua=True)
        for one in (other, peer):
            one.remove()

    def dies(self, _: blk.Disk) -> None:
        self.box.log.fail_writes()
        self.dead = True

    def heals(self, _: blk.Disk) -> None:
        self.box.log.heal()
        self.dead = False

    def looks(self, disk: blk.Disk) -> None:
        """By the LUN, and at the disk if that has all."""
        if self.leg > disk.sectors:
            return
        disk.read(self.leg - SLOTS, SLOTS)
        if not self._in_log():
            base.until(lambda: self._same(disk), "the leg's superblock by the LUN", 3)

    def _same(self, disk: blk.Disk) -> bool:
        with blk.Disk(self.box.data.node, write=False) as data:
            there = data.read(self.leg - SLOTS, SLOTS)
        return disk.read(self.leg - SLOTS, SLOTS) == there

    def _in_log(self) -> bool:
        return bool(self.box.count("live")) or " 0 in use" not in self.box.info()

    def waits(self, _: blk.Disk) -> None:
        time.sleep(self.rng.choice((0.1, 2, 20)))

    # And in between.

    def check(self, disk: blk.Disk, what: str) -> None:
        got = disk.read(0, PART)
        for n in range(PART):
            at = slice(n * blk.SECTOR, (n + 1) * blk.SECTOR)
            base.expect(got[at] == self.model.bytes[at], f"{what}: sector {n} has other bytes")

    def may_be_cut(self) -> bool:
        """All is on the data disk, and the leg says it, or the log does."""
        return self.dead and self.box.count("leg_marks") > 0 and " 0 in use" in self.box.info()

    def open(self) -> None:
        end = "closed"
        with lio.look(self.box.open()) as node, blk.Disk(node) as disk:
            self.check(disk, "opened")
            self.looks(disk)
            for _ in range(self.rng.randrange(2, 9)):
                (what,) = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
                self.done.append(what)
                getattr(self, what)(disk)
            self.looks(disk)
            if self.rng.random() < 0.5 and self.may_be_cut():
                time.sleep(3)
                self.check(disk, "before a cut")
                media.cut(9, len(self.done))
                end = "cut"
        self.done.append(end)
        self.box.close()
        if end == "cut":
            self.box.power_on()
            if self.dead:
                self.box.log.fail_writes()
        if self.rng.random() < 0.7:
            self.box.log.heal()
            self.dead = False

    def tool(self, command: str) -> dict[str, object]:
        self.done.append(command)
        words = ("--data", self.box.data.node, "--log", self.box.log.node, "--json")
        done = subprocess.run([TOOL, command, *words], capture_output=True, text=True, check=False)
        base.equal(done.returncode, 0, f"dcd {command}: {done.stdout}{done.stderr}")
        found: dict[str, object] = json.loads(done.stdout)
        return found

    def live(self) -> None:
        for _ in range(4):
            self.open()
            if not self.dead and self.rng.random() < 0.3:
                self.tool(self.rng.choice(("check", "recover")))
        self.box.log.heal()
        with self.box.disk() as disk:
            self.check(disk, "at last")
        base.equal(self.tool("retire")["leg"], True, "retire has told the leg")
        with blk.Disk(self.box.data.node, write=False) as data:
            self.check(data, "retired")
        if self.leg != self.box.data.sectors:
            with blk.Disk(self.box.data.node) as data:
                self._forget(data)
            base.run(META, "grow", "-", self.box.data.node)
        base.run(META, "verdict", "-", self.box.data.node)
        self.box.away()


base.put(FORGETS, 1)
count, first = (int(word) for word in sys.argv[1:])
for seed in range(first, first + count):
    life = Life(seed)
    try:
        life.live()
    except (base.Wrong, OSError) as err:
        raise base.Wrong(f"life {seed}: {' '.join(life.done)}: {err}") from err
print(f"{count} lives passed", flush=True)
