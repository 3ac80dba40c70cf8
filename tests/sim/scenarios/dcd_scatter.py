# SPDX-License-Identifier: GPL-2.0-only
"""WRITE SCATTERED(16) of a DCD: what the LUN says of it, right ones (sg_write_x too), wrong ones,
and that a power cut leaves all of one or nothing, for the module and for `dcd recover` on
copies, which come to the same data disk: args [ROUNDS [apart]].

apart, the control: each range by a command of its own, which has to be reported.
With dcd.test_fill_us the entries of a batch have time between them.
"""

import random
import re
import shutil
import sys
import threading
import time
from pathlib import Path

from dcdlab import SEGMENT, SITE, TOOL, Box, Model
from locklab import base, blk, lio, media, wire
from locklab.iscsi import Session
from locklab.scsi import ABORTED_COMMAND, ILLEGAL_REQUEST, Lun, write_scattered

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 4 if base.CHECKED else 12
APART = bool(base.words(2, ["apart"]))
SERIAL = "7" * 32
WRITERS, PLACES, STRIDE = 3, 9, 16
# A session each: that has a thread of its own in the target.
PORTALS = [f"{wire.mirror_ip(n)}:{lio.PORT}" for n in range(WRITERS)]
RSOC_ONE = bytes.fromhex("a30c039f001200000040") + bytes(2)
B7 = bytes.fromhex("1201b7004000")
C0 = bytes.fromhex("1201c0004000")


def number(text: str, label: str) -> int:
    found = re.search(rf"{label}: (0x[0-9a-f]+|\d+)", text)
    base.expect(found, f"no {label!r} in {text}")
    assert found
    return int(found[1], 0)


def says(node: str) -> tuple[int, int]:
    base.step("what the LUN says of it; its limits")
    text = base.run("sg_opcodes", node)
    base.expect(re.search(r"9f +12 +16 .*Write scattered\(16\)", text, re.I), text)
    base.expect("Inquiry" in text and "Write(16)" in text, f"the core's commands: {text}")
    timeouts = base.run("sg_opcodes", "--rctd", node)
    base.expect("scattered" in timeouts.lower(), timeouts)
    one = base.run("sg_opcodes", "--opcode=0x9f,0x12", node)
    base.expect("Command is supported" in one, one)
    with Lun(node) as lun:
        got = lun.command(RSOC_ONE, expect=64)
        base.equal((got.good, len(got.data), got.data[1] & 7), (True, 20, 3), "RSOC")
        base.equal(got.data[4:7].hex()[:5], "9f12e", "usage")
        got = lun.command(RSOC_ONE[:9] + b"\x06" + bytes(2), expect=6)
        base.equal(got.data[:4].hex(), "00030010", "RSOC, cut off by the allocation length")
        other = RSOC_ONE[:5] + b"\x13" + RSOC_ONE[6:]
        base.equal(lun.command(other, expect=64).data[1] & 7, 1, "RSOC of 9Fh/13h")
        plain = RSOC_ONE[:2] + b"\x01" + RSOC_ONE[3:]
        base.equal(lun.command(plain, expect=64).why, (ILLEGAL_REQUEST, 0x24, 0), "without action")
        pages = lun.command(bytes.fromhex("120100004000"), expect=64).data
        base.equal((pages[3], pages[-2:]), (len(pages) - 4, b"\xb7\xc0"), f"pages {pages.hex()}")
        base.equal(len(lun.command(B7, expect=64).data), 64, "page B7h")
        c0 = lun.command(C0, expect=64).data
        base.equal(c0[:20], b"\0\xc0\0\x20LOCKSTEP DCD LOG", "page C0h")
        base.expect(len(c0) == 36 and any(c0[20:]), f"it names the log: {c0.hex()}")
        base.equal(lun.command(C0[:4] + b"\x08\0", expect=8).data, c0[:8], "8 bytes of it")
        base.equal(len(lun.command(B7[:4] + b"\x10\0", expect=16).data), 16, "16 bytes of it")
    text = base.run("sg_vpd", "--page=0xb7", node)
    limits = (number(text, "Maximum scattered LBA range descriptor count"),
              number(text, "Maximum scattered transfer length"))  # fmt: skip
    print(f"  up to {limits[0]} ranges, {limits[1]} blocks", flush=True)
    return limits


def data_of(tag: str, ranges: list[tuple[int, int]]) -> bytes:
    return b"".join(blk.pattern(f"{tag} {lba}", count) for lba, count in ranges)


def told(model: Model, ranges: list[tuple[int, int]], data: bytes) -> None:
    at = 0
    for lba, count in ranges:
        model.put(lba, data[at * 512 : (at + count) * 512])
        at += count


def right(box: Box, node: str, disk: blk.Disk, model: Model, limits: tuple[int, int]) -> None:
    base.step("right ones")
    rng = random.Random(base.SEED)
    many = [(2000 + i * 2, 1) for i in range(limits[0])]
    rng.shuffle(many)
    long = [(5000, limits[1] - 1)]
    cases = [
        [(7, 1)], [(100, 3), (50, 2), (900, 8)], many, long, [(10, 5), (12, 5)],
        [(300, 0), (disk.sectors - 1, 1), (disk.sectors, 0)],
        [(rng.randrange(disk.sectors - 9), rng.randrange(9)) for _ in range(12)],
    ]  # fmt: skip
    batches = box.count("batches")
    with Lun(node) as lun:
        for n, ranges in enumerate(cases):
            while sum(c for _, c in ranges) + len(ranges) // 16 + 1 > limits[1]:
                ranges.pop()
            data = data_of(str(n), ranges)
            cdb, head = write_scattered(ranges)
            got = lun.command(cdb, head + data)
            base.expect(got.good, f"{ranges}: {got}")
            told(model, ranges, data)
            model.check(disk, f"{len(ranges)} ranges")
        base.equal(box.count("batches") - batches, len(cases), "batches")
        ranges = [(31, 2), (77, 1)]
        data = data_of("older", ranges)
        cdb, head = write_scattered(ranges, length=3)
        got = lun.command(cdb, head + data)
        base.expect(got.good, f"the length as sg3-utils has it: {got}")
        told(model, ranges, data)
        cdb, head = write_scattered([(1, 1)], length=0)
        base.expect(lun.command(cdb, head + bytes(512)).good, "length 0")
        base.expect(lun.command(write_scattered([])[0]).good, "no ranges")
        cdb, head = write_scattered([(5, 1)], flags=0x01)
        base.expect(lun.command(cdb, head + bytes(512)).good, "DLD2")
        model.put(5, bytes(512))
    Path("/tmp/list").write_text("# LBA, blocks\n40, 2\n0x200, 3\n1, 1\n")
    ranges = [(40, 2), (0x200, 3), (1, 1)]
    data = data_of("sg_write_x", ranges)
    Path("/tmp/data").write_bytes(data)
    base.run("sg_write_x", "--16", "--scattered=3", "--scat-file=/tmp/list", "--in=/tmp/data", node)
    told(model, ranges, data)
    cdb, head = write_scattered(ranges := [(600, 1), (604, 2)])
    data = data_of("combined", ranges)
    Path("/tmp/data").write_bytes(head + data)
    base.run("sg_write_x", "--16", "--scattered=2", "--combined=1", "--in=/tmp/data", node)
    told(model, ranges, data)
    model.check(disk, "sg_write_x")


def wrong(box: Box, node: str, disk: blk.Disk, model: Model, limits: tuple[int, int]) -> None:
    base.step("wrong ones change nothing")
    end, some = disk.sectors, [(10, 2), (20, 1)]
    cdb_field, list_field = (ILLEGAL_REQUEST, 0x24, 0), (ILLEGAL_REQUEST, 0x26, 0)
    space, short = (ILLEGAL_REQUEST, 0x21, 0), (ABORTED_COMMAND, 0x1A, 0)
    unit = (ILLEGAL_REQUEST, 0x0E, 3)
    cases = [
        ("too many ranges", write_scattered([(i, 1) for i in range(limits[0] + 1)], length=9),
         cdb_field),
        ("too long", write_scattered([(0, limits[1])]), cdb_field),
        ("no room for the list", write_scattered(some, offset=0), cdb_field),
        ("nor for its header", write_scattered([(i, 1) for i in range(16)], offset=1), cdb_field),
        ("protection", write_scattered(some, flags=0x20), cdb_field),
        ("FUA without a cache", write_scattered(some, flags=0x08), cdb_field),
        ("DPO without a cache", write_scattered(some, flags=0x10), cdb_field),
        ("past the end", write_scattered([(3, 1), (end - 1, 2)]), space),
        ("behind the end", write_scattered([(3, 1), (end + 1, 0)]), space),
        ("very far", write_scattered([(3, 1), (2**64 - 1, 2)]), space),
    ]  # fmt: skip
    with Lun(node) as lun:
        for what, (cdb, head), want in cases:
            size = int.from_bytes(cdb[10:14]) * 512
            base.equal(lun.command(cdb, (head + bytes(1 << 20))[:size]).why, want, what)
        cdb, head = write_scattered(some)
        for what, change, want in (
            ("two more", 1024, unit), ("two less", -1024, unit), ("half a block", -256, unit),
        ):  # fmt: skip
            out = (head + bytes(4096))[: 512 * 4 + change]
            base.equal(lun.command(cdb, out).why, want, what)
        base.equal(lun.command(cdb, expect=2048).why, cdb_field, "the other direction")
        for what, ranges in (("sum too small", [(10, 2)]), ("too large", [(10, 3), (20, 2)])):
            listed = write_scattered(ranges)[1]
            got = lun.command(write_scattered(some)[0], listed + bytes(3 * 512))
            base.equal(got.why, short, what)
            base.equal(got.sense[15:18].hex(), "c0000a", f"{what}: points to the length")
        long = write_scattered([(0, limits[1] + 1)])[1]
        got = lun.command(write_scattered(some)[0], long + bytes(3 * 512))
        base.equal(got.why, list_field, "a range that is too long")
        cdb = write_scattered([(i, 1) for i in range(17)], length=1)[0]
        base.equal(lun.command(cdb, bytes(512)).why, short, "the list is cut off")
        unknown = b"\x9f\x13" + cdb[2:]
        base.equal(lun.command(unknown).why, (ILLEGAL_REQUEST, 0x20, 0), "9Fh/13h")
    model.check(disk, "after what was refused")


def durable() -> None:
    base.step("FUA where there is a cache")
    box = Box(nvram="dram", tag="f")
    with box.disk() as disk, Lun(disk.node) as lun:
        cdb, head = write_scattered([(9, 1), (99, 1)], flags=0x18)
        before = box.count("segments")
        base.expect(lun.command(cdb, head + bytes(1024)).good, "FUA")
        base.expect(box.count("segments") > before, "it went to the log")
    box.away()


class Writer(threading.Thread):
    """Writes the same places again and again, together."""

    def __init__(self, node: str, number: int, places: list[int], first: int) -> None:
        super().__init__(daemon=True)
        self.node, self.number, self.places, self.tag = node, number, places, first
        self.acknowledged = first
        self.stop = False

    def run(self) -> None:
        with Lun(self.node) as lun:
            while not self.stop:
                self.tag += 1
                block = f"{self.number} {self.tag}".encode().ljust(512, b".")
                together = [self.places] if not APART else [[p] for p in self.places]
                for places in together:
                    cdb, head = write_scattered([(p, 1) for p in places])
                    if not lun.command(cdb, head + block * len(places)).good:
                        return
                self.acknowledged = self.tag


class Watcher(threading.Thread):
    """Reads the first place of a writer's batches and then the last: that isn't older. Else what
    comes first would be in the index, where it hides what was written before, while after a
    power cut it doesn't count."""

    def __init__(self, node: str, places: list[int]) -> None:
        super().__init__(daemon=True)
        self.node, self.places = node, places
        self.parts: list[tuple[int, int]] = []
        self.stop = False

    def run(self) -> None:
        with blk.Disk(self.node, write=False) as disk:
            while not self.stop:
                time.sleep(0.0005)
                try:
                    first, last = (
                        int(disk.read(p, 1).rstrip(b".").split()[1])
                        for p in (self.places[0], self.places[-1])
                    )
                except OSError:  # of disks without power
                    return
                if last < first:
                    self.parts.append((first, last))


def recovered_copies(box: Box) -> bytes:
    """The data disk that `dcd recover` makes of what is left, before the module opens it."""
    words = []
    for name, node in (("data", box.data.node), ("log", box.log.node), ("nvram", box.view)):
        copy = Path("/run") / f"copy.{name}"
        shutil.copyfile(node, copy)
        words += [f"--{name}", str(copy)]
    base.run(TOOL, "recover", *words)
    base.run(TOOL, "check", *words)
    return Path("/run/copy.data").read_bytes()


def cut_once(
    box: Box, session: Session, number: int, rng: random.Random, tags: list[int]
) -> int:  # fmt: skip
    """Under load. Returns how many entries recovery has wiped."""
    places = list(range(0, WRITERS * PLACES * STRIDE, STRIDE))
    rng.shuffle(places)
    store = box.open()
    # The destager goes round all the time, and lets go of what was written over.
    base.put(store.path / "control", "destage_idle_ms=1,destage_low=0,destage_high=1")
    target = lio.Target(store, portals=PORTALS)
    nodes = [session.login_by(portal) for portal in PORTALS]
    with blk.Disk(nodes[0]) as disk:
        for w in range(WRITERS):
            for p in places[w::WRITERS]:
                disk.write(p, f"{w} {tags[w]}".encode().ljust(512, b"."))
    writers = [Writer(nodes[w], w, places[w::WRITERS], tags[w]) for w in range(WRITERS)]
    watcher = Watcher(nodes[1], writers[0].places)
    threads: list[Writer | Watcher] = [*writers, watcher]
    for thread in threads:
        thread.start()
    time.sleep(rng.uniform(0.001, 0.1))
    sure = [writer.acknowledged for writer in writers]
    media.cut(SITE, base.SEED * 1000 + number)
    for thread in threads:
        thread.stop = True
    for thread in threads:
        thread.join(600)
        base.expect(not thread.is_alive(), "a writer or reader hangs")
    base.expect(not watcher.parts or APART, f"seen in parts: {watcher.parts}")
    session.logout()
    target.remove()
    box.close()
    box.power_on()
    copies = recovered_copies(box)
    log = base.KernelLog()
    with box.disk() as disk:
        base.expect(disk.read(0, disk.sectors) == copies, "module and dcd recover differ")
        lines = "\n".join(log.new())
        for writer, least in zip(writers, sure, strict=True):
            found = {disk.read(p, 1).rstrip(b".").decode() for p in writer.places}
            what = f"writer {writer.number}, {least} acknowledged, {writer.tag} begun: {found}"
            base.expect(len(found) == 1, f"a part of a batch is there: {what}")
            name, _, tag = found.pop().partition(" ")
            base.expect(name == str(writer.number) and least <= int(tag) <= writer.tag, what)
            tags[writer.number] = writer.tag
    wiped = re.search(r"(\d+) entries in NVRAM lack", lines)
    return int(wiped[1]) if wiped else 0


def cuts() -> None:
    base.step(f"{ROUNDS} power cuts")
    box = Box(nvram="lab", nvram_bytes=4096 + 8 * SEGMENT, tag="c")
    wires = [wire.Wire(number=n) for n in range(WRITERS)]
    session = Session(PORTALS)
    rng = random.Random(base.SEED)
    tags = [0] * WRITERS
    wiped = [cut_once(box, session, number, rng, tags) for number in range(ROUNDS)]
    print(f"  {sum(tags)} batches begun; entries of unfinished ones: {wiped}", flush=True)
    if int(Path("/sys/module/dcd/parameters/test_fill_us").read_text()) and not APART:
        base.expect(any(wiped), "no cut was in a batch")
    session.close()
    del wires
    box.away()


def main() -> None:
    if not APART:
        box = Box()
        store = box.open()
        base.put(store.path / "wwn/vpd_unit_serial", SERIAL)
        with lio.look(store) as node, blk.Disk(node) as disk:
            limits = says(node)
            model = Model(disk.sectors)
            right(box, node, disk, model, limits)
            wrong(box, node, disk, model, limits)
        box.close()
        with box.disk() as disk:
            model.check(disk, "after recovery")
            box.destaged()
            model.check(disk, "from the data disk")
        box.away()
        durable()
    cuts()
    base.step("done")


main()
