# SPDX-License-Identifier: GPL-2.0-only
"""One DCD and its disks, looked at on the spot: for scenarios that need no wire and no mirror."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from locklab import base, blk, dm, lio, media

TOOL = "/lockstep/build/bin/dcd"
SITE = 9
SEGMENT = 64 << 10
RING_START = 1 << 20
# Without one LIO lists no VPD pages, and Linux unmaps by WRITE SAME, which is a write.
SERIAL = "0123456789abcdef0123456789abcdef"

SCSI_DEBUG = Path("/sys/bus/pseudo/drivers/scsi_debug")


def scsi_disk() -> str:
    """scsi_debug's, as the kernel's arguments say."""
    base.put(SCSI_DEBUG / "delay", 0)
    base.put(SCSI_DEBUG / "add_host", 1)
    place = "adapter*/host*/target*/*:*/block/*"
    base.until(lambda: list(SCSI_DEBUG.glob(place)), "the disk")
    return f"/dev/{next(SCSI_DEBUG.glob(place)).name}"


def format_log(data: str, log: str, nvram: str = "none", *more: str) -> None:
    base.run(TOOL, "format", "--data", data, "--log", log, "--nvram", nvram, *more)


def digest(*nodes: str) -> str:
    """Of every byte of these devices."""
    sums = hashlib.sha256()
    for node in nodes:
        with blk.Disk(node, write=False) as disk:
            for at in range(0, disk.sectors, 2048):
                sums.update(disk.read(at, min(2048, disk.sectors - at)))
    return sums.hexdigest()


def image(node: str) -> bytes:
    """Every byte of this device."""
    with blk.Disk(node, write=False) as disk:
        parts = range(0, disk.sectors, 1024)
        return b"".join(disk.read(at, min(1024, disk.sectors - at)) for at in parts)


def put_image(node: str, content: bytes) -> None:
    """Which is durable then."""
    with blk.Disk(node) as disk:
        for at in range(0, disk.sectors, 1024):
            disk.write(at, content[at * blk.SECTOR : (at + 1024) * blk.SECTOR])
        disk.flush()


def counters(store: lio.Backstore) -> dict[str, int]:
    """The `name number` pairs of info."""
    return {name: int(n) for name, n in re.findall(r"\b([a-z_]+) (\d+)\b", store.info())}


class Disk:
    """A disk with a volatile cache, whose power can be cut and which can be told to fail."""

    def __init__(
        self, name: str, mib: int, model: str = "null", spare_mib: int = 0, /, **options: str
    ) -> None:
        self.name, self.sectors, self._model = name, mib << 11, model
        self._mib, self._options = mib + spare_mib, options
        self._medium = media.disk(f"{name}-medium", self._mib, model, site=SITE, **options)
        self.node = dm.create(name, self._linear(0, self.sectors))

    def fail(self, what: str = "2 error_reads error_writes") -> None:
        """Reads, writes and flushes are I/O errors, or what dm-flakey is told."""
        self._load([f"0 {self.sectors} flakey {self._medium} 0 0 1 {what}"])

    def fail_writes(self) -> None:
        """Writes and flushes only."""
        self.fail("1 error_writes")

    def fail_part(self, first: int, last: int) -> None:
        """Reads and writes of these sectors are I/O errors."""
        self.fail_parts((first, last))

    def fail_parts(self, *parts: tuple[int, int], slow_ms: int = 0) -> None:
        """The same of several parts, in their order: all others are good, and maybe slow."""
        lines, good = [], 0
        for first, last in parts:
            lines += [self._good(good, first, slow_ms), f"{first} {last + 1 - first} error"]
            good = last + 1
        self._load([*lines, self._good(good, self.sectors, slow_ms)])

    def refuse_late(self, ms: int, first: int = 0, last: int | None = None) -> None:
        """Writes to these sectors, or to any, are I/O errors after such a time; reads are good."""
        end = self.sectors if last is None else last + 1
        good = f"{self._medium} {first}"
        lines = [self._linear(0, first)] if first else []
        lines.append(f"{first} {end - first} delay {good} 0 {self._bad()} {first} {ms} {good} 0")
        self._load([*lines, self._linear(end, self.sectors)] if end < self.sectors else lines)

    def fail_late(self, ms: int, *parts: tuple[int, int]) -> None:
        """Reads and writes of these parts, in their order, or of all of it if there are none, are
        I/O errors, after such a time; flushes are good."""
        bad = self._bad()
        lines, good = [], 0
        for first, last in parts or [(0, self.sectors - 1)]:
            slow = f"{bad} {first} {ms}"
            lines.append(self._linear(good, first))
            flush = f"{self._medium} {first} 0"
            lines.append(f"{first} {last + 1 - first} delay {slow} {slow} {flush}")
            good = last + 1
        self._load([*lines, self._linear(good, self.sectors)])

    def refuse(self, *parts: tuple[int, int]) -> None:
        """Writes to these parts, in their order, are I/O errors; reads and flushes are good."""
        bad = self._bad()
        lines, good = [], 0
        for first, last in parts:
            well = f"{self._medium} {first} 0"
            lines.append(self._linear(good, first))
            lines.append(f"{first} {last + 1 - first} delay {well} {bad} {first} 0 {well}")
            good = last + 1
        self._load([*lines, self._linear(good, self.sectors)])

    def refuse_and_dawdle(self, bad: tuple[int, int], slow: tuple[int, int], ms: int) -> None:
        """Writes to the one part are I/O errors, those to the other take so long; reads and flushes
        are good."""
        medium, lines, good = self._medium, [], 0
        refused, late = f"{self._bad()} {bad[0]} 0", f"{medium} {slow[0]} {ms}"
        for (first, last), write in sorted([(bad, refused), (slow, late)]):
            well = f"{medium} {first} 0"
            lines.append(self._linear(good, first))
            lines.append(f"{first} {last + 1 - first} delay {well} {write} {well}")
            good = last + 1
        self._load([*lines, self._linear(good, self.sectors)])

    def refuse_and_break(self, first: int, last: int) -> None:
        """Writes are I/O errors, and so are reads of these sectors; flushes are good."""
        bad, medium = self._bad(), self._medium
        lines = []
        rest = last + 1
        for at, end, read in (0, first, medium), (first, rest, bad), (rest, self.sectors, medium):
            if end > at:
                lines.append(f"{at} {end - at} delay {read} {at} 0 {bad} {at} 0 {medium} {at} 0")
        self._load(lines)

    def refuse_and_slow_reads(self, first: int, ms: int) -> None:
        """Writes before this sector are I/O errors; reads from there on take so long."""
        medium = self._medium
        well, ring = f"{medium} 0 0", f"{medium} {first} 0"
        self._load([
            f"0 {first} delay {well} {self._bad()} 0 0 {well}",
            f"{first} {self.sectors - first} delay {medium} {first} {ms} {ring} {ring}",
        ])  # fmt: skip

    def refuse_and_read(self, *parts: tuple[tuple[int, int], tuple[bool, int] | None]) -> None:
        """Writes are I/O errors; reads of each of these parts, which are all of it, are errors or
        good (True or False) after so many ms, or good at once."""
        bad, medium, lines = self._bad(), self._medium, []
        for (first, last), how in parts:
            fails, ms = how or (False, 0)
            read = f"{bad if fails else medium} {first} {ms}"
            write, flush = f"{bad} {first} 0", f"{medium} {first} 0"
            lines.append(f"{first} {last + 1 - first} delay {read} {write} {flush}")
        self._load(lines)

    def rot(self, sector: bytes) -> None:
        """One bit of the first sector that has these bytes changes."""
        with blk.Disk(self._medium) as disk:
            at = disk.read(0, disk.sectors).find(sector)
            base.expect(at >= 0, f"nothing of {self.name} has these bytes")
            disk.write(at // blk.SECTOR, bytes([sector[0] ^ 4]) + sector[1:])

    def fail_reads_late(self, ms: int, *parts: tuple[int, int]) -> None:
        """Only reads of them, likewise; writes are good, and mend nothing."""
        bad = self._bad()
        lines, good = [], 0
        for first, last in parts:
            well = f"{self._medium} {first} 0"
            lines.append(self._linear(good, first))
            lines.append(f"{first} {last + 1 - first} delay {bad} {first} {ms} {well} {well}")
            good = last + 1
        self._load([*lines, self._linear(good, self.sectors)])

    def fail_writes_and_hang(self, first: int, last: int, ms: int) -> None:
        """Reads of these sectors take so long; writes, but to them, are I/O errors."""
        medium = self._medium
        well = f"{medium} {first} 0"
        self._load([
            f"0 {first} flakey {medium} 0 0 1 1 error_writes",
            f"{first} {last + 1 - first} delay {medium} {first} {ms} {well} {well}",
            f"{last + 1} {self.sectors - last - 1} flakey {medium} {last + 1} 0 1 1 error_writes",
        ])  # fmt: skip

    def unreadable(self, *parts: tuple[int, int]) -> None:
        """Reads of these parts, in their order, are I/O errors; writes aren't, and mend nothing."""
        self.fail_here(*((part, "error_reads") for part in parts))

    def fail_here(self, *parts: tuple[tuple[int, int], str]) -> None:
        """Each of these parts, in their order, does what dm-flakey's word says."""
        lines, good = [], 0
        for (first, last), what in parts:
            bad = f"flakey {self._medium} {first} 0 1 1 {what}"
            lines += [self._linear(good, first), f"{first} {last + 1 - first} {bad}"]
            good = last + 1
        self._load([*lines, self._linear(good, self.sectors)])

    def slow_reads_of(self, first: int, last: int, ms: int) -> None:
        """Reads of these sectors are held back so long before the medium is asked; no writes."""
        medium = self._medium
        slow = f"{first} {last + 1 - first} delay {medium} {first} {ms} {medium} {first} 0"
        self._load([self._linear(0, first), slow, self._linear(last + 1, self.sectors)])

    def fail_flush(self, slow: tuple[int, int] = (0, -1), ms: int = 0) -> None:
        """Writes are taken (into the cache), flushes are I/O errors. The last 8 sectors fail.
        Writes to the slow ones take so long.

        dm also hands the flush to the medium, which does it unless it lies.
        """
        first, last = slow
        medium, end = self._medium, self.sectors - 8
        well = f"{medium} {first} 0"
        self._load([
            self._linear(0, first),
            f"{first} {last + 1 - first} delay {well} {medium} {first} {ms} {well}" if ms else "",
            self._linear(last + 1, end),
            f"{end} 8 flakey {medium} {end} 0 1 1 error_writes",
        ])  # fmt: skip

    def slow(self, ms: int) -> None:
        """Every request takes so long, any number at a time."""
        self._load([f"0 {self.sectors} delay {self._medium} 0 {ms}"])

    def slow_parts(self, *parts: tuple[tuple[int, int], int]) -> None:
        """Every request to each of these parts, in their order, takes its time, in ms."""
        lines, good = [], 0
        for (first, last), ms in parts:
            lines += [self._linear(good, first), self._good(first, last + 1, ms)]
            good = last + 1
        self._load([*lines, self._linear(good, self.sectors)])

    def blink(self, up: int, down: int) -> None:
        """By its own clock, over and over: well for so many seconds, then errors for so many."""
        what = "2 error_reads error_writes"
        self._load([f"0 {self.sectors} flakey {self._medium} 0 {up} {down} {what}"])

    def fails_and_dawdles(self, bad: tuple[int, int], slow: tuple[int, int], ms: int) -> None:
        """Reads and writes of the first part are I/O errors, writes of the second one are held back
        so long before they get to the medium."""
        medium, at = self._medium, slow[0]
        lines = [
            self._linear(0, bad[0]),
            f"{bad[0]} {bad[1] + 1 - bad[0]} error",
            self._linear(bad[1] + 1, at),
            f"{at} {slow[1] + 1 - at} delay {medium} {at} 0 {medium} {at} {ms}",
            self._linear(slow[1] + 1, self.sectors),
        ]
        self._load(lines)

    def resize(self, sectors: int) -> None:
        """As a logical volume is: at once, with what it has. There has to be spare room for it."""
        self.sectors = sectors
        self.heal()

    def unused(self) -> bool:
        return not dm.opens(self.name)

    def stall(self, ms: int, refuses_ms: int, *, reads: bool = False) -> None:
        """Writes that are under way from now on are I/O errors after such a time, maybe reads, too,
        and all that come for so long afterwards are at once. Returns when the disk is well."""
        low, medium = f"{self.name}-stall", self._medium
        slow = f"{self._bad()} 0 {ms}"
        slow = f"delay {slow if reads else f'{medium} 0 0'} {slow} {medium} 0 0"
        self._load([f"0 {self.sectors} linear {dm.create(low, f'0 {self.sectors} {slow}')} 0"])
        time.sleep(ms / 2000)
        self.fail("2 error_reads error_writes" if reads else "1 error_writes")  # when that is back
        time.sleep(refuses_ms / 1000)
        self.heal()
        dm.remove(low)

    def read_by(self, node: str) -> None:
        """Reads go by another device, which is above the same medium."""
        medium = self._medium
        self._load([f"0 {self.sectors} delay {node} 0 0 {medium} 0 0 {medium} 0 0"])

    @property
    def medium(self) -> str:
        """What is below all that this class puts before it."""
        return self._medium

    def slow_reads(self, ms: int) -> None:
        """Every read takes so long, writes don't."""
        self._load([f"0 {self.sectors} delay {self._medium} 0 {ms} {self._medium} 0 0"])

    def slow_writes(self, ms: int) -> None:
        """Every write takes so long, and every flush, reads don't."""
        self._load([f"0 {self.sectors} delay {self._medium} 0 0 {self._medium} 0 {ms}"])

    def heal(self) -> None:
        self._load([self._linear(0, self.sectors)])

    def hold_discards(self) -> None:
        """They don't return, and aren't done, before let_go()."""
        dm.message(f"{self.name}-medium", "hold")

    def discards(self, how: str) -> None:
        """They are "good"; or "fail" or are "refuse"d, though the disk says that it does them."""
        dm.message(f"{self.name}-medium", f"discards {how}")

    def refuse_write(self, sector: int) -> None:
        """From now on no write is done that has this sector, nor any part of such a one."""
        dm.message(f"{self.name}-medium", f"refuse_write {sector}")

    def hold_write(self, sector: int) -> None:
        """The next write to this sector doesn't return, and isn't done, before let_go()."""
        dm.message(f"{self.name}-medium", f"hold_write {sector}")

    def hold_read(self, sector: int) -> None:
        """The next read of this sector doesn't return before let_go(); it has what is there now."""
        dm.message(f"{self.name}-medium", f"hold_read {sector}")

    def held(self) -> int:
        """How many requests wait there."""
        return int(dm.status(f"{self.name}-medium").split()[2])

    def let_go(self) -> None:
        dm.message(f"{self.name}-medium", "let_go")

    def replug(self) -> None:
        """The disk's power is cut and comes back while it is in use, and it is an honest one.

        Of what wasn't flushed some writes are lost, by seed.
        """
        dm.message(f"{self.name}-medium", f"cut {base.SEED}")
        self._load([f"0 {self.sectors} error"])
        self.remake()
        self.heal()

    def bytes(self, first: int, count: int) -> bytes:
        """What is on the medium."""
        with blk.Disk(self._medium, write=False) as disk:
            return disk.read(first, count)

    def remake(self) -> None:
        """The medium after its power came back."""
        dm.remove(f"{self.name}-medium")
        media.disk(f"{self.name}-medium", self._mib, self._model, site=SITE, **self._options)

    def remove(self) -> None:
        dm.remove(self.name)
        if dm.exists(f"{self.name}-bad"):
            dm.remove(f"{self.name}-bad")
        dm.remove(f"{self.name}-medium")
        media.forget(f"{self.name}-medium")

    def _bad(self) -> str:
        """A disk of errors, which stays until it is removed."""
        name, table = f"{self.name}-bad", f"0 {self.sectors} error"
        if not dm.exists(name):
            return dm.create(name, table)
        dm.reload(name, table)
        return f"/dev/mapper/{name}"

    def _good(self, first: int, end: int, ms: int) -> str:
        if not ms or end == first:
            return self._linear(first, end)
        return f"{first} {end - first} delay {self._medium} {first} {ms}"

    def _linear(self, first: int, end: int) -> str:
        return f"{first} {end - first} linear {self._medium} {first}" if end > first else ""

    def _load(self, lines: list[str]) -> None:
        dm.reload(self.name, "\n".join(line for line in lines if line))


@dataclass
class Box:
    """A DCD's disks and its NVRAM, and the DCD while it is open."""

    data_mib: int = 8
    data_model: str = "null"
    data_options: dict[str, str] = field(default_factory=dict)
    data_spare_mib: int = 0
    log_mib: int = 3
    log_model: str = "null"
    log_options: dict[str, str] = field(default_factory=dict)
    nvram: str = "dram:battery"  # "lab": one that keeps its content
    nvram_bytes: int = 4096 + 4 * SEGMENT
    settings: str = ""  # more of them
    unmaps: bool = True  # the LUN takes discards, even if the data disk doesn't
    tag: str = ""
    data: Disk = field(init=False)
    log: Disk = field(init=False)
    view: str = field(init=False, default="none")
    store: lio.Backstore | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.data = Disk(
            f"data{self.tag}", self.data_mib, self.data_model, self.data_spare_mib,
            **self.data_options,
        )  # fmt: skip
        self.log = Disk(f"log{self.tag}", self.log_mib, self.log_model, **self.log_options)
        if self.nvram == "lab":
            self.view = media.nvram(f"nv{self.tag}", self.nvram_bytes >> 10, site=SITE)
        format_log(self.data.node, self.log.node, self.view)

    def control(self, *more: str) -> str:
        nvram = f"lab:nv{self.tag}" if self.nvram == "lab" else self.nvram
        return (
            f"data={self.data.node},log={self.log.node},nvram={nvram},"
            f"nvram_bytes={self.nvram_bytes},{','.join((self.settings, *more))}"
        )

    def tool(self, command: str, *words: str) -> tuple[int, dict[str, Any]]:
        """Exit code of `dcd` on its devices, and what it says with --json."""
        sets = ("--data", self.data.node, "--log", self.log.node, "--nvram", self.view)
        done = subprocess.run([TOOL, command, *sets, *words, "--json"], capture_output=True,
                              text=True, check=False)  # fmt: skip
        print(done.stderr, end="", flush=True)
        return done.returncode, json.loads(done.stdout) if done.stdout else {}

    def set(self, settings: str) -> None:
        """While it is open."""
        assert self.store
        base.put(self.store.path / "control", settings)

    def leave_log(self) -> None:
        """It doesn't answer just then, as one that works isn't left."""
        self.log.fail("1 error_reads")
        self.set("leave_log=1")
        self.log.heal()

    def open(self, *more: str) -> lio.Backstore:
        self.store = lio.Backstore("dcd", "d", self.control(*more), SERIAL)
        if self.unmaps:
            self.store.attribute("emulate_tpu", 1)
            self.store.attribute("emulate_tpws", 1)
        return self.store

    def close(self) -> None:
        assert self.store
        self.store.remove()
        self.store = None

    @contextlib.contextmanager
    def disk(self, *more: str) -> Iterator[blk.Disk]:
        """The LUN, from opening the DCD to closing it; `more` is for control."""
        store = self.open(*more)
        with lio.look(store) as node, blk.Disk(node) as disk:
            yield disk
        self.close()

    @contextlib.contextmanager
    def disk_closed_by(
        self, how: Callable[[Callable[[], None]], None], *more: str
    ) -> Iterator[blk.Disk]:
        """The same, and who looks at the close."""
        store = self.open(*more)
        with lio.look(store) as node, blk.Disk(node) as disk:
            yield disk
        how(self.close)

    @contextlib.contextmanager
    def disk_until_cut(self) -> Iterator[blk.Disk]:
        """The LUN; at the end the site's power is cut, and comes back."""
        store = self.open()
        with lio.look(store) as node, blk.Disk(node) as disk:
            yield disk
            media.cut(SITE, base.SEED)
        self.close()
        self.power_on()

    def power_on(self) -> None:
        """After a cut, with the DCD closed."""
        for disk_ in (self.data, self.log):
            # What is late to fail has it open until it has.
            base.until(disk_.unused, f"{disk_.name} to be closed", 30)
            dm.remove(disk_.name)
            disk_.remake()
            dm.create(disk_.name, f"0 {disk_.sectors} linear /dev/mapper/{disk_.name}-medium 0")

    def count(self, name: str) -> int:
        assert self.store
        return counters(self.store)[name]

    def info(self) -> str:
        assert self.store
        return self.store.info()

    def says(self, text: str, what: str, seconds: float = 120) -> None:
        """Waits until info has it."""
        try:
            base.until(lambda: text in self.info(), what, seconds)
        except base.Wrong as err:
            raise base.Wrong(f"{err}; info: {self.info()}") from None

    def destaged(self) -> None:
        """Waits until nothing is left in the log."""
        base.until(
            lambda: self.count("live") == 0 and " 0 in use" in self.info(), "all to be destaged"
        )

    def away(self) -> None:
        if self.view != "none":
            dm.remove(f"nv{self.tag}")
            media.forget(f"nv{self.tag}")
        self.data.remove()
        self.log.remove()


class Model:
    """What each sector of a small disk must hold."""

    def __init__(self, sectors: int) -> None:
        self.bytes = bytearray(sectors * blk.SECTOR)

    def put(self, sector: int, data: bytes) -> None:
        self.bytes[sector * blk.SECTOR : sector * blk.SECTOR + len(data)] = data

    def check(self, disk: blk.Disk, what: str) -> None:
        step = 512
        for at in range(0, disk.sectors, step):
            count = min(step, disk.sectors - at)
            want = bytes(self.bytes[at * blk.SECTOR : (at + count) * blk.SECTOR])
            got = disk.read(at, count)
            if got != want:
                n = next(i for i in range(len(got)) if got[i] != want[i]) // blk.SECTOR
                raise base.Wrong(f"{what}: {disk.node} has other bytes in sector {at + n}")
        print(f"  {what}: every sector is as the model has it", flush=True)


def some_write(
    disk: blk.Disk, model: Model, rng: random.Random, tag: str, *, within: int = 0, block: int = 1
) -> None:
    """A write, zeroes or a discard of some blocks of `block` sectors, in the first `within` sectors
    or anywhere, and tells the model."""
    count = block * rng.choice((1, 1, 2, 3, 5, 8, 13, 40))
    first = block * rng.randrange(((within or disk.sectors) - count) // block)
    kind = rng.choices(("write", "zero", "discard"), (6, 1, 1))[0]
    data = blk.pattern(tag, count) if kind == "write" else bytes(count * blk.SECTOR)
    if kind == "write":
        disk.write(first, data)
    elif kind == "zero":
        disk.zero(first, count)
    else:
        disk.discard(first, count)
    model.put(first, data)


def filled(disk: blk.Disk, model: Model, first: int, last: int, tag: str, size: int = 64) -> None:
    """Writes a pattern to [first, last) and tells the model."""
    for at in range(first, last, size):
        data = blk.pattern(f"{tag} {at}", min(size, last - at))
        disk.write(at, data)
        model.put(at, data)
