# SPDX-License-Identifier: GPL-2.0-only
"""Thousands of pieces are zeroed or discarded, with data between them, as fstrim does it.

    cut     beside a small write each 10 ms; the data disk is a spindle that writes zeroes as
            anything else, the log is small for it: writes go on, and all gets to the data disk
    low     a few, with destage_low=0: without a write the log isn't written to for ever
    hung    a discard hangs: nor is it then (with dcd.test_zeroes_crowd=1, or they would wait)
    trim    by four at a time, on a data disk that takes 20 ms for each: writes go on
    load    then there is an ordinary load: writes go on
    split   all is zeroed, random writes split that, and large ones come then: those go on
    leave   one large piece, and the log dies, and is left: writes go on
    dawdles the same, and the data disk takes 400 ms for anything, for a second: writes go on
    stream  likewise, and one zeroes a MiB each 50 ms: it is left all the same
    dead    the log fails, with one large piece in it: writes go on, zeroes are there behind a cut
    fails   the log fails, with discards in it that take 20 ms each: likewise
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator

from dcdlab import SEGMENT, Box, Disk, format_log
from locklab import base, blk, fio

PIECES = {
    "cut": 20000, "low": 20, "hung": 40000, "trim": 20000, "load": 2000, "fails": 400,
    **dict.fromkeys(("split", "leave", "dawdles", "stream", "dead"), 2),
}  # fmt: skip
TRIMMERS = 4


def small_log(mib: int, **options: object) -> Box:
    """Its log is an SSD."""
    box = Box(nvram="lab", nvram_bytes=4096 + 32 * SEGMENT, log_mib=mib, **options)  # type: ignore[arg-type]
    box.log.remove()
    box.log = Disk("log", mib, "ssd")
    format_log(box.data.node, box.log.node, box.view, "--force")
    return box


def size_of(disk: blk.Disk) -> int:
    return disk.sectors // PIECES[part] // 128 * 128


def is_quiet(box: Box) -> None:
    before = box.count("segments")
    time.sleep(20)
    base.expect(box.count("segments") - before < 5, "the log is written to without a write")


def writes(node: str, size: int, ended: threading.Event, longest: list[float]) -> None:
    with blk.Disk(node) as disk:
        for n in itertools.count():
            if ended.wait(0.01):
                return
            began = time.monotonic()
            disk.write(n * 7919 % PIECES[part] * size + size - 8, blk.pattern(str(n), 8))
            longest.append(time.monotonic() - began)


def zeroed() -> None:
    box = small_log(33, data_mib=4096, data_model="spindle", unmaps=False,
                    settings="destage_low=0" if part == "low" else "",
                    data_options={"write_cache": "off", "spread": "on"})  # fmt: skip
    ended, longest = threading.Event(), [0.0]
    with box.disk() as disk:
        size = size_of(disk)
        length = min(size, 2048) - 8
        base.step(f"{PIECES[part]} pieces of {length >> 1} KiB")
        beside = threading.Thread(target=writes, args=(disk.node, size, ended, longest))
        beside.start()
        for piece in range(PIECES[part]):
            disk.zero(piece * size, length)
        ended.set()
        beside.join()
        print(f"  {len(longest)} writes, the longest {max(longest):.2f} s", flush=True)
        base.expect(max(longest) < 1, f"a write beside it took {max(longest):.2f} s")
        box.destaged()
        is_quiet(box)
        base.expect(not any(disk.read(0, length)), "what was zeroed")
    box.away()


def hung() -> None:
    box = small_log(129, data_mib=8192, data_model="ssd", data_options={"write_cache": "off"})
    with box.disk() as disk:
        size = size_of(disk)
        box.data.hold_discards()
        base.step(f"{PIECES[part]} discards of {size >> 1} KiB, of which one hangs")
        for piece in range(PIECES[part]):
            disk.discard(piece * size, size - 8)
        base.until(lambda: box.count("discards_hung") > 0, "one to hang")
        is_quiet(box)
        base.expect(blk.timed(lambda: disk.write(0, blk.pattern("x", 8))) < 1, "a write takes long")
        box.data.let_go()
        box.destaged()
    box.away()


def discards(node: str, first: int, size: int, ended: threading.Event) -> None:
    with blk.Disk(node) as disk:
        for piece in range(first, PIECES[part], TRIMMERS):
            if ended.is_set():
                return
            disk.discard(piece * size, size - 8)


def trim() -> None:
    box = small_log(33, data_mib=8192, data_model="ssd", data_options={"write_cache": "off"})
    box.data.slow(20)
    ended, longest = threading.Event(), [0.0]
    with box.disk() as disk:
        size = size_of(disk)
        base.step(f"{PIECES[part]} discards of {size >> 1} KiB")
        trimmers = [threading.Thread(target=discards, args=(disk.node, n, size, ended))
                    for n in range(TRIMMERS)]  # fmt: skip
        beside = threading.Thread(target=writes, args=(disk.node, size, ended, longest))
        for one in (beside, *trimmers):
            one.start()
        time.sleep(40)
        ended.set()
        for one in (beside, *trimmers):
            one.join()
        print(f"  {len(longest)} writes, the longest {max(longest):.2f} s", flush=True)
        base.expect(len(longest) > 3000, "the writes beside it are held up")
        base.expect(max(longest) < 1, f"a write beside it took {max(longest):.2f} s")
        base.equal(box.count("busy"), 0, "commands that ended as BUSY")
    box.away()


def load() -> None:
    box = small_log(9, data_mib=16384, data_model="spindle", unmaps=False,
                    data_options={"write_cache": "off", "spread": "on"})  # fmt: skip
    with box.disk() as disk:
        size = size_of(disk)
        base.step(f"{PIECES[part]} pieces of 6 MiB")
        for piece in range(PIECES[part]):
            disk.zero(piece * size, 12288)
        words = {"rw": "randwrite", "iodepth": 16, "time_based": 1, "runtime": 60, "bs": "4k"}
        (got,) = fio.run(disk.node, words)
        print(f"  {fio.line(got)}", flush=True)
        longest = got["write"]["clat_ns"]["max"] / 1e9
        base.expect(longest < 1, f"a write behind it took {longest:.2f} s")
    box.away()


def split() -> None:
    box = small_log(33, data_mib=4096, data_model="spindle", unmaps=False,
                    data_options={"write_cache": "off", "spread": "on"})  # fmt: skip
    with box.disk() as disk:
        for at in range(0, disk.sectors, 65536):
            disk.zero(at, 65536 - 256)
        told = {"time_based": 1, "runtime": 60}
        (small,) = fio.run(disk.node, {"rw": "randwrite", "iodepth": 16, "bs": "4k", **told})
        told["runtime"] = 30
        (large,) = fio.run(disk.node, {"rw": "write", "iodepth": 32, "bs": "1m", **told})
        print(f"  {fio.line(small)}\n  {fio.line(large)}", flush=True)
        longest, n = large["write"]["clat_ns"]["max"] / 1e9, large["write"]["total_ios"]
        base.expect(longest < 12 and n > 500, f"{n} large writes, the longest {longest:.1f} s")
    box.away()


def islands(size: int) -> list[int]:
    """In each piece that is zeroed, near both ends."""
    return [piece * size + at for piece in range(PIECES[part] - 1) for at in (64, size - 256)]


def old_data(box: Box, disk: blk.Disk, size: int) -> None:
    for at in islands(size):
        disk.write(at, blk.pattern(f"old {at}", 8))
    box.destaged()


@contextlib.contextmanager
def beside(disk: blk.Disk, size: int) -> Iterator[None]:
    """Writes, none of which may take long."""
    ended, longest = threading.Event(), [0.0]
    writer = threading.Thread(target=writes, args=(disk.node, size, ended, longest))
    writer.start()
    yield
    ended.set()
    writer.join()
    print(f"  {len(longest)} writes, the longest {max(longest):.2f} s", flush=True)
    base.expect(max(longest) < 1, f"a write beside it took {max(longest):.2f} s")


def zeroes_stay(disk: blk.Disk, size: int, when: str) -> None:
    for at in islands(size):
        base.expect(not any(disk.read(at, 8)), f"what was zeroed at {at}, {when}")


def box_that_zeroes() -> Box:
    """A hard disk, or one that takes 20 ms for a discard, and 5 for anything else."""
    if part != "fails":
        return small_log(33, data_mib=4096, data_model="spindle", unmaps=False,
                         data_options={"write_cache": "off", "spread": "on"})  # fmt: skip
    return small_log(33, data_mib=4096, data_model="ssd", data_options={"write_cache": "off"})


def dies() -> None:
    box = box_that_zeroes()
    with box.disk_until_cut() as disk:
        size = size_of(disk)
        old_data(box, disk, size)
        if part == "fails":
            box.data.slow(20)
        base.step(f"{PIECES[part] - 1} pieces of {size >> 11} MiB of zeroes, and the log fails")
        for piece in range(PIECES[part] - 1):
            (disk.zero if part != "fails" else disk.discard)(piece * size, size - 128)
        with beside(disk, size):
            box.log.fail_writes()
            box.says("log FAILING", "the log to be dead")
            time.sleep(20)
        zeroes_stay(disk, size, "past the log")
        base.step("a cut")
        base.expect(box.count("logged_again") > 0, "there is nothing to be lost by a cut")
    box.data.heal()
    with box.disk() as disk:
        zeroes_stay(disk, size, "behind the cut")
        box.destaged()
        zeroes_stay(disk, size, "on the data disk")
        old_data(box, disk, size)
        base.step("the same, and then nobody writes")
        for piece in range(PIECES[part] - 1):
            (disk.zero if part != "fails" else disk.discard)(piece * size, size - 128)
        box.log.fail_writes()
        disk.write(size - 8, blk.pattern("last", 8))
        box.says("log FAILING", "the log to be dead")
        box.says("index 0 of", "all to be wiped past the log", 400)
        zeroes_stay(disk, size, "wiped past the log")
        box.log.heal()
    box.away()


def zeroings(node: str, first: int, ended: threading.Event) -> None:
    with blk.Disk(node) as disk:
        for n in itertools.count(first, TRIMMERS):
            if ended.wait(0.05):
                return
            disk.zero(n * 7919 * 2048 % (disk.sectors // 2) // 128 * 128, 2048)


def leaves() -> None:
    box = box_that_zeroes()
    with box.disk() as disk:
        size = size_of(disk)
        base.step(f"{size >> 11} MiB of zeroes, and the log is left")
        disk.zero(0, size - 128)
        ended = threading.Event()
        others = [threading.Thread(target=zeroings, args=(disk.node, n, ended))
                  for n in range(part == "stream")]  # fmt: skip
        for other in others:
            other.start()
        with beside(disk, size):
            box.log.fail_writes()
            box.says("log FAILING", "the log to be dead")
            box.set("leave_log=1")
            if part == "dawdles":
                box.data.slow(400)
                base.until(lambda: box.count("zeroings_hung") > 0, "a zeroing to hang")
                time.sleep(1)
                box.data.heal()
            try:
                box.says("log LEFT", "the log to be left", 300)
            finally:
                ended.set()
                for other in others:
                    other.join()
        base.expect(not any(disk.read(2048, 2048)), "what was zeroed")
    box.away()


(part,) = base.words(1, tuple(PIECES))
of_zeroes = dict.fromkeys(("cut", "low"), zeroed)
of_leaves = dict.fromkeys(("leave", "dawdles", "stream"), leaves)
of_deaths = dict.fromkeys(("dead", "fails"), dies)
{"hung": hung, "trim": trim, "load": load, "split": split,
 **of_zeroes, **of_leaves, **of_deaths}[part]()  # fmt: skip
base.step("done")
