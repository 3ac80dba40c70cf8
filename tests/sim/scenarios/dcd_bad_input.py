# SPDX-License-Identifier: GPL-2.0-only
"""Wrong settings, wrong disks, damaged ones: a clear error, and no byte is changed anywhere."""

import errno
import struct
from collections.abc import Callable

from dcdlab import RING_START, SEGMENT, TOOL, Box, Disk, Model, digest, filled, format_log
from locklab import base, blk, dm, lio, media

PER = SEGMENT // blk.SECTOR
RING = RING_START // blk.SECTOR
CRC_AT, INCOMPAT_AT = 12, 24  # in the superblock


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


def refused(what: str, control: str, kernel: str, *errnos: int, disks: tuple[str, ...]) -> None:
    """The DCD can't be had, the kernel's log says why, and the disks are as they were."""
    before = digest(*disks)
    with base.refused(what, *errnos, kernel=kernel):
        lio.Backstore("dcd", "bad", control)
    base.equal(digest(*disks), before, f"{what}: the disks' content")


def settings() -> None:
    base.step("control")
    box = Box()
    disks = (box.data.node, box.log.node)
    good = box.control()
    number = "not a number of bytes from 1 to"
    for what, text, kernel in (
        ("unknown key", "speed=high", 'unknown key "speed": there are data, log, nvram,'),
        ("no value", "data", '"data" has no value'),
        ("empty value", "log=", '"log" has no value'),
        ("not a number", "nvram_bytes=much", f"bad: control: nvram_bytes=much: {number}"),
        ("zero bytes", "nvram_bytes=0", f"bad: control: nvram_bytes=0: {number}"),
        ("past what can be counted", "nvram_bytes=0x10000000000000000", number),
        ("negative", "nvram_bytes=-1", f"bad: control: nvram_bytes=-1: {number}"),
    ):
        refused(what, f"{good},{text}", kernel, errno.EINVAL, disks=disks)
    for key in ("data", "log", "nvram"):
        less = ",".join(word for word in good.split(",") if not word.startswith(f"{key}="))
        refused(f"without {key}", less, f"control needs {key}=", errno.EINVAL, disks=disks)
    base.step("a bad word changes none of the settings; an enabled device's are fixed")
    store = box.open()
    fixed = "control: nvram=dram: the device is enabled, this setting is fixed"
    with base.refused("control of an enabled device", errno.EBUSY, kernel=fixed):
        base.put(store.path / "control", "nvram=dram")
    base.expect("nvram=dram:battery," in store.info(), store.info())
    path = base.made(store.path.parent / "second")
    base.put(path / "control", "data=/dev/one")
    with base.refused("a bad word behind a good one", errno.EINVAL, kernel="unknown key"):
        base.put(path / "control", "data=/dev/two,colour=red")
    base.expect("data=/dev/one," in (path / "info").read_text(), "the setting before")
    path.rmdir()
    box.close()
    box.away()


def devices() -> None:
    base.step("devices and NVRAM")
    box, other = Box(), Box(tag="2", data_mib=4, nvram="lab")
    third = Box(tag="3", nvram="lab")
    tiny, blank = media.nvram("tiny", 1), media.nvram("blank", other.nvram_bytes >> 10)
    disks = (box.data.node, box.log.node, other.data.node, other.log.node, other.view, third.view,
             tiny, blank)  # fmt: skip
    data, log, rest = box.data.node, box.log.node, f"nvram=dram,nvram_bytes={box.nvram_bytes}"
    lab = f"nvram_bytes={other.nvram_bytes}"

    def bad(what: str, control: str, kernel: str, *errnos: int) -> None:
        refused(what, control, kernel, *errnos, disks=disks)

    bad("no data disk", f"data=/dev/nothere,log={log},{rest}", "data disk /dev/nothere", 2)
    bad("no log disk", f"data={data},log=/dev/nothere,{rest}", "log disk /dev/nothere", 2)
    bad("a directory", f"data=/dev/mapper,log={log},{rest}", "data disk /dev/mapper")
    bad("one disk for both", f"data={log},log={log},{rest}", "both data and log", errno.EINVAL)
    bad("a disk in use", f"data=/dev/mapper/data-medium,log={log},{rest}", "in use", errno.EBUSY)
    bad("unformatted log", f"data={log},log={data},{rest}", "no valid DCD log", errno.EMEDIUMTYPE)
    bad("smaller data disk", f"data={other.data.node},log={log},{rest}", "wrong data disk")
    bad("NVRAM of no type", f"data={data},log={log},nvram=core", 'no NVRAM type "core"')
    bad("dram of no kind", f"data={data},log={log},nvram=dram:new", "nvram=dram:new")
    bad("NVRAM too small", f"data={data},log={log},nvram=dram,nvram_bytes=4096", "too small")
    bad("NVRAM too large", f"data={data},log={log},nvram=dram,nvram_bytes=0x100000000000",
        "can't get", errno.ENOMEM)  # fmt: skip
    bad("log of an NVRAM, without it", f"data={other.data.node},log={other.log.node},{rest}",
        "together with an NVRAM", errno.EMEDIUMTYPE)  # fmt: skip
    bad("log without NVRAM, with one", f"data={data},log={log},nvram=lab:nv2,{lab}",
        "without NVRAM", errno.EMEDIUMTYPE)  # fmt: skip
    bad("another log's NVRAM", f"data={other.data.node},log={other.log.node},nvram=lab:nv3,{lab}",
        "doesn't belong to the log", errno.EMEDIUMTYPE)  # fmt: skip
    bad("tiny NVRAM", f"data={other.data.node},log={other.log.node},nvram=lab:tiny,"
        "nvram_bytes=1024", "too small", errno.ENOSPC)  # fmt: skip
    bad("blank NVRAM", f"data={other.data.node},log={other.log.node},nvram=lab:blank,{lab}",
        "no valid DCD header", errno.EMEDIUMTYPE)  # fmt: skip
    for name in ("tiny", "blank"):
        dm.remove(name)
        media.forget(name)
    # Nothing was left behind: each can be had rightly.
    for one in (box, other, third):
        with one.disk() as disk:
            disk.write(0, bytes(4096))
        one.away()


def damage(disk: Disk, sector: int, count: int = 1) -> None:
    with blk.Disk(disk.node) as raw:
        data = bytearray(raw.read(sector, count))
        for at in range(0, len(data), blk.SECTOR):
            data[at + 40] ^= 0x55
        raw.write(sector, bytes(data))


def in_log(box: Box, model: Model) -> None:
    """Ten segments that are only in the log, and then it is closed."""
    with box.disk() as disk:
        box.data.fail()
        filled(disk, model, 0, 1120, "only in the log", 112)
        box.says("data FAILING", "the data disk's failure")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
    box.data.heal()


def damaged_log() -> None:
    base.step("damage in the log")
    cases: list[tuple[str, int, int, int]] = [
        ("header of a segment in the middle", RING + 4 * PER, 1, 1),
        ("table of a segment in the middle", RING + 4 * PER + 8, 1, 1),
        ("two segments in the middle", RING + 4 * PER, 1, 2),
        ("all segments but the last", RING + 1 * PER, 1, 9),
        ("the oldest segment", RING + 1 * PER, 1, 1),
    ]
    for nvram in ("dram:battery", "lab"):
        for what, first, count, times in cases:
            box = Box(nvram=nvram)
            model = Model(box.data.sectors)
            in_log(box, model)
            for n in range(times):
                damage(box.log, first + n * PER, count)
            disks = [box.data.node, box.log.node] + ([box.view] if box.view != "none" else [])
            refused(f"{nvram}: {what}", box.control(), "is there", errno.EUCLEAN,
                    disks=tuple(disks))  # fmt: skip
            for n in range(times):
                damage(box.log, first + n * PER, count)  # undone
            with box.disk() as disk:
                model.check(disk, "with the damage undone")
            box.away()


def whole(disk: Disk, data: bytes | None = None) -> bytes:
    """All bytes of the disk; before they are replaced, if `data` is given."""
    with blk.Disk(disk.node) as raw:
        was = b"".join(raw.read(at, 2048) for at in range(0, raw.sectors, 2048))
        for at in range(0, len(data or b""), 1 << 20):
            assert data
            raw.write(at // blk.SECTOR, data[at : at + (1 << 20)])
    return was


def older_log() -> None:
    base.step("a log of another time than the NVRAM: what is between them is missed")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    in_log(box, model)
    older = whole(box.log)
    in_log(box, model)
    newer = whole(box.log, older)
    refused("an older log", box.control(), "neither in the log", errno.EUCLEAN,
            disks=(box.data.node, box.log.node, box.view))  # fmt: skip
    whole(box.log, newer)
    with box.disk() as disk:
        model.check(disk, "with the log of its time")
    box.away()


def generation(copy: bytes) -> int:
    return int(struct.unpack_from("<Q", copy, 56)[0])


def superblock() -> None:
    base.step("superblock: a damaged copy, both, a newer format")
    box = Box()
    model = Model(box.data.sectors)
    disks = (box.data.node, box.log.node)
    with box.disk() as disk:
        filled(disk, model, 0, 1120, "once", 112)
    in_log(box, model)
    for at in (0, 8):
        damage(box.log, at)
    refused("both copies damaged", box.control(), "no valid DCD log", disks=disks)
    for at in (0, 8):
        damage(box.log, at)
    with blk.Disk(box.log.node) as raw:
        was = [raw.read(at, 1) for at in (0, 8)]
        for at, data in zip((0, 8), was, strict=True):
            new = bytearray(data)
            struct.pack_into("<I", new, INCOMPAT_AT, 0x10)
            struct.pack_into("<I", new, CRC_AT, 0)
            struct.pack_into("<I", new, CRC_AT, crc32c(bytes(new)))
            raw.write(at, bytes(new))
    refused("a feature of the future", box.control(), "unknown features 0x10", errno.EOPNOTSUPP,
            disks=disks)  # fmt: skip
    with blk.Disk(box.log.node) as raw:
        for at, data in zip((0, 8), was, strict=True):
            raw.write(at, data)
    old = max(was, key=generation)
    with box.disk() as disk:
        model.check(disk, "restored")
        for n in range(3):
            filled(disk, model, 0, 1120, f"round {n}", 112)
            box.destaged()
        box.data.fail()
        # Round the ring: the places that an old copy speaks of are used again.
        filled(disk, model, 0, 2912, "only in the log", 112)
        box.says("data FAILING", "the data disk's failure")
        with blk.Disk(box.log.node, write=False) as raw:
            was = [raw.read(at, 1) for at in (0, 8)]
    box.data.heal()
    with blk.Disk(box.log.node) as raw:
        for at, data in zip((0, 8), was, strict=True):  # as if it hadn't been closed
            raw.write(at, data)
        newest = 0 if generation(was[0]) > generation(was[1]) else 8
        raw.write(8 - newest, old)
    damage(box.log, newest)
    refused("an old copy alone, whose segments are gone", box.control(), "is there",
            errno.EUCLEAN, disks=disks)  # fmt: skip
    damage(box.log, newest)
    damage(box.log, 8 - newest)  # what a cut while it was written leaves
    with box.disk() as disk:
        model.check(disk, "with the older copy damaged")
    box.away()


def truncated() -> None:
    base.step("a log on a disk that is too small")
    box = Box()
    small = Disk("small", 2)
    with blk.Disk(box.log.node, write=False) as log, blk.Disk(small.node) as raw:
        raw.write(0, log.read(0, 16))
    control = box.control().replace(box.log.node, small.node)
    refused("truncated log", control, "truncated?", errno.EUCLEAN,
            disks=(box.data.node, small.node))  # fmt: skip
    small.remove()
    box.away()


def format_errors() -> None:
    base.step("dcd format")
    box, nvram = Box(), media.nvram("fresh", 1024)
    tiny, other = Disk("tiny", 1), media.nvram("short", 64)
    data, log = box.data.node, box.log.node
    disks = [data, log, nvram, tiny.node, other]

    def bad(what: str, says: str, *words: str) -> None:
        before = digest(*disks)
        try:
            base.run(TOOL, "format", *words)
        except base.Wrong as err:
            base.expect(says in str(err), f"{what}: {says!r} isn't in: {err}")
        else:
            raise base.Wrong(f"{what}: was accepted")
        base.equal(digest(*disks), before, f"{what}: the disks' content")
        print(f"  refused as it has to be: {what}", flush=True)

    bad("no arguments", "usage:")
    bad("a disk that isn't there", "/dev/nothere", "--data", "/dev/nothere", "--log", log,
        "--nvram", "none")  # fmt: skip
    bad("one disk for both", "both", "--data", tiny.node, "--log", tiny.node, "--nvram", "none")
    bad("one device as log and NVRAM", "both", "--data", data, "--log", nvram, "--nvram", nvram)
    bad("a small log", "at least", "--data", data, "--log", tiny.node, "--nvram", "none")
    bad("a small NVRAM", "at least", "--data", data, "--log", tiny.node, "--nvram", other)
    bad("an odd segment size", "--segment-bytes", "--data", data, "--log", log, "--nvram", nvram,
        "--segment-bytes", "65537")  # fmt: skip
    bad("not a number", "not a number", "--data", data, "--log", log, "--nvram", nvram,
        "--segment-bytes", "many")  # fmt: skip
    spare, end = Disk("spare", 8), (8 << 11) - 8
    disks.append(spare.node)
    for where, what in ((2000, f"byte {2000 * 512}"), (end, f"byte {end * 512}")):
        for log_disk, fast in ((spare.node, nvram), (tiny.node, spare.node)):
            with blk.Disk(spare.node) as disk:
                disk.write(where, blk.pattern("somebody's", 8))
            says = f"{spare.node} isn't blank, there is something at {what}"
            bad(f"somebody's data at {what}", says, "--data", data, "--log", log_disk,
                "--nvram", fast)  # fmt: skip
            with blk.Disk(spare.node) as disk:
                disk.write(where, bytes(8 * 512))
    spare.remove()
    disks.pop()
    bad("a log, perhaps with data", "already", "--data", data, "--log", log, "--nvram", nvram)
    box.open()
    bad("a log in use", "busy", "--data", data, "--log", log, "--nvram", nvram, "--force")
    box.close()
    format_log(data, log, nvram, "--force")
    for name in ("fresh", "short"):
        dm.remove(name)
        media.forget(name)
    tiny.remove()
    box.away()


def main() -> None:
    parts: list[Callable[[], None]] = [
        settings, devices, damaged_log, older_log, superblock, truncated, format_errors,
    ]  # fmt: skip
    for part in parts:
        part()
    base.step("done")


main()
