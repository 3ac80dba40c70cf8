# SPDX-License-Identifier: GPL-2.0-only
"""WRITE SAME with its UNMAP bit is a write: what is read then is the block that was sent, whatever
the data disk's discards leave. Space is given back where that is zeroes, and the block is, too,
and not without that bit.

Args: the part.
    zeroing, thin  at a LUN that says that unmapped blocks read as zeroes, or doesn't
    moved          by a mirror whose initiator believes the former, and it is the latter by now
    logged         what was unmapped while it was the former, and is in the log yet
    stays          zeroes that aren't to unmap: the data disk keeps the space
    frees          a discard after the log was left: it gives it back
    parked         zeroes that wait for such a one, which hangs: they are zeroes
    parts          such a one of what isn't whole granules of the data disk: it is zeroes
The disk is scsi_debug's, by the kernel's arguments.
"""

import contextlib
import itertools
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from dcdlab import SCSI_DEBUG, SERIAL, Disk, counters, format_log, scsi_disk
from locklab import base, blk, dm, iscsi, lio, media, mirror, scsi, wire

AT, SIZE = 4096, 2048
OLD = blk.pattern("old", SIZE)
HOUR_MS = 3600000
UNMAP = 8
GRANULE = 128


class Dcd:
    """A DCD of this data disk, opened anew now and then."""

    def __init__(self, data: str = "") -> None:
        self.data, self._log = data or scsi_disk(), Disk("log", 9, "ssd")
        format_log(self.data, self._log.node)

    def open(self, *settings: str) -> lio.Backstore:
        words = (f"data={self.data}", f"log={self._log.node}", "nvram=dram:battery",
                 "read_cache_bytes=0", *settings)  # fmt: skip
        return lio.Backstore("dcd", "d", ",".join(words), SERIAL)

    def leave_log(self, store: lio.Backstore) -> None:
        """It doesn't answer just then, as one that works isn't left."""
        self._log.fail("1 error_reads")
        base.put(store.path / "control", "leave_log=1")
        self._log.heal()
        base.until(lambda: "log LEFT" in store.info(), "the log to be left")

    def prefer_space(self) -> None:
        """As dcd(8) tells the admin: the data disk has no command that zeroes from now on."""
        place = Path(f"/sys/block/{Path(self.data).name}/device/scsi_disk")
        base.put(next(place.iterdir()) / "max_write_same_blocks", 0)


def destaged(store: lio.Backstore) -> None:
    base.until(
        lambda: counters(store)["live"] == 0 and " 0 in use" in store.info(), "all to be destaged"
    )


def says(store: lio.Backstore, zeroes: str) -> None:
    base.equal(store.attribute("unmap_zeroes_data"), zeroes, "what the LUN says of UNMAP")


def mapped() -> bool:
    """Does the data disk use space for it?"""
    for one in (SCSI_DEBUG / "map").read_text().strip().split(","):
        first, _, last = one.partition("-")
        if one and int(first) < AT + SIZE and int(last or first) >= AT:
            return True
    return False


def cdb_of(opcode: int, flags: int) -> bytes:
    if opcode == 0x41:
        return struct.pack(">BBIxHx", opcode, flags, AT, SIZE)
    if opcode == 0x7F:
        return struct.pack(">B6xBHBxQ8xI", opcode, 24, 13, flags, AT, SIZE)
    return struct.pack(">BBQIxx", opcode, flags, AT, SIZE)


def alone(zeroes: str) -> None:
    dcd = Dcd()
    if zeroes == "0":
        dcd.prefer_space()
    store = dcd.open()
    says(store, zeroes)
    base.equal(store.attribute("emulate_tpws"), "1", "whether the LUN takes WRITE SAME with UNMAP")
    blocks = {"zeroes": bytes(blk.SECTOR), "a pattern": b"\xa5" * blk.SECTOR}
    with lio.look(store) as node, blk.Disk(node) as disk, scsi.Lun(node) as lun:
        for opcode, flags, what in itertools.product((0x41, 0x93, 0x7F), (UNMAP, 0), blocks):
            name, want = f"WRITE SAME {opcode:#x} of {what}, flags {flags}", blocks[what] * SIZE
            disk.write(AT, OLD)
            destaged(store)
            got = lun.command(cdb_of(opcode, flags), blocks[what])
            base.expect(got.good, f"{name}: status {got.status} {got.why}")
            base.expect(disk.read(AT, SIZE) == want, f"{name}: it isn't there at once")
            destaged(store)
            base.expect(disk.read(AT, SIZE) == want, f"{name}: it isn't there, destaged")
            print(f"  {name}: space in use {mapped()}", flush=True)
            gives = zeroes == "1" and not any(want) and flags == UNMAP
            base.equal(mapped(), not gives, f"{name}: space in use")
    store.remove()


def moved() -> None:
    link, dcd = wire.Wire(), Dcd()
    store = dcd.open()
    target = lio.Target(store)
    says(store, "1")
    session = iscsi.Session(node__session__timeo__replacement_timeout="60")
    remote, local = session.login(), media.disk("local", 16, "ssd", write_cache="off")
    pair = mirror.Mirror(local, remote)
    with blk.Disk(pair.node) as disk:
        disk.write(AT, OLD)
        destaged(store)
        base.step("its data disk has no command that zeroes any more; nobody tells the initiator")
        target.remove()
        store.remove()
        dcd.prefer_space()
        store = dcd.open()
        says(store, "0")
        target = lio.Target(store)
        base.until(session.up, "the session")
        disk.write(AT + SIZE, blk.pattern("more", 8))
        pair.in_sync()
        base.step("a discard by the mirror, which zeroes its legs")
        disk.discard(AT, SIZE)
        base.expect(counters(store)["zeroes"] + counters(store)["discards"] > 0, store.info())
        destaged(store)
    base.equal(pair.status().health, "AA", "the mirror's legs")
    for name, node in ("local", local), ("remote", remote):
        with blk.Disk(node, write=False) as leg:
            base.expect(not any(leg.read(AT, SIZE)), f"the {name} leg has other than zeroes")
    pair.remove()
    session.close()
    target.remove()
    store.remove()
    link.close()


def logged() -> None:
    dcd = Dcd()
    store = dcd.open()
    says(store, "1")
    with lio.look(store) as node, blk.Disk(node) as disk:
        disk.write(AT, OLD)
        destaged(store)
        base.put(store.path / "control", f"destage_idle_ms={HOUR_MS}")
        disk.discard(AT, SIZE)
        base.expect(counters(store)["discards"] > 0, store.info())
        base.expect(counters(store)["discarded_sectors"] == 0, "it is in the log yet")
    store.remove()
    dcd.prefer_space()
    for wait in HOUR_MS, 10:
        store = dcd.open(f"destage_idle_ms={wait}")
        says(store, "0")
        with lio.look(store) as node, blk.Disk(node) as disk:
            base.expect(not any(disk.read(AT, SIZE)), "what was unmapped isn't zeroes")
            if wait < HOUR_MS:
                destaged(store)
                base.expect(not any(disk.read(AT, SIZE)), "what was unmapped is there again")
        store.remove()


def stays() -> None:
    dcd = Dcd()
    store = dcd.open()
    with lio.look(store) as node, blk.Disk(node) as disk:
        disk.write(AT, OLD)
        destaged(store)
        disk.zero(AT, SIZE)
        destaged(store)
        base.expect(not any(disk.read(AT, SIZE)), "what was zeroed")
        base.equal(mapped(), True, "space in use")
    store.remove()


@contextlib.contextmanager
def left_log(data: str = "", *settings: str) -> Iterator[tuple[lio.Backstore, blk.Disk]]:
    dcd = Dcd(data)
    store = dcd.open(*settings)
    with lio.look(store) as node, blk.Disk(node) as disk:
        disk.write(AT, OLD)
        dcd.leave_log(store)
        yield store, disk
    store.remove()


def frees() -> None:
    with left_log() as (_, disk):
        base.equal(mapped(), True, "space in use")
        disk.discard(AT - SIZE, 3 * SIZE)
        disk.flush()
        base.expect(not any(disk.read(AT, SIZE)), "what was discarded")
        base.equal(mapped(), False, "space in use")


def parked() -> None:
    low = scsi_disk()
    with blk.Disk(low) as disk:
        size = disk.sectors
    table = f"0 {size} delay {low} 0 0 {low} 0"
    data = dm.create("slow", f"{table} 0")
    with left_log(data, "busy_after_ms=2000") as (store, disk):
        dm.reload("slow", f"{table} 25000")
        other = threading.Thread(target=disk.discard, args=(AT, SIZE))
        other.start()
        base.until(lambda: counters(store)["through_given_up"] > 0, "the discard to be given up")
        with scsi.Lun(disk.node) as lun:
            base.until(lambda: lun.command(cdb_of(0x93, 0), bytes(blk.SECTOR)).good, "zeroes", 90)
        other.join()
        dm.reload("slow", f"{table} 0")
        base.expect(not any(disk.read(AT, SIZE)), "acknowledged zeroes aren't there")


def parts() -> None:
    with left_log() as (_, disk):
        granule = Path("/sys/module/scsi_debug/parameters/unmap_granularity").read_text().strip()
        base.equal(granule, str(GRANULE), "sectors of a granule of the data disk")
        for first, size in ((8, 8), (8, 3 * GRANULE), (4 * GRANULE, GRANULE + 8), (700, 100)):
            disk.write(AT, OLD)
            disk.discard(AT + first, size)
            disk.flush()
            want = bytearray(OLD)
            want[first * blk.SECTOR : (first + size) * blk.SECTOR] = bytes(size * blk.SECTOR)
            base.expect(disk.read(AT, SIZE) == want, f"sectors {first} on, {size}: aren't zeroes")


part = base.words(1, ("zeroing", "thin", "moved", "logged", "stays", "frees", "parked", "parts"))[0]
base.step(f"WRITE SAME with UNMAP, {part}")
if part == "moved":
    moved()
elif part == "logged":
    logged()
elif part in ("stays", "frees", "parked", "parts"):
    {"stays": stays, "frees": frees, "parked": parked, "parts": parts}[part]()
else:
    alone("1" if part == "zeroing" else "0")
base.step("done")
