# SPDX-License-Identifier: GPL-2.0-only
"""Thousands of pieces are zeroed or discarded, with data between them, as fstrim does it.

    cut     beside a small write each 10 ms; the data disk is a spindle that writes zeroes as
            anything else, the log is small for it: writes go on, and all gets to the data disk
    low     a few, with destage_low=0: without a write the log isn't written to for ever
    hung    a discard hangs: nor is it then (with dcd.test_zeroes_crowd=1, or they would wait)
    trim    by four at a time, on a data disk that takes 20 ms for each: writes go on
    load    then there is an ordinary load: writes go on
    leave   one large piece, and the log is left: writes go on
"""

import itertools
import threading
import time

from dcdlab import SEGMENT, Box, Disk, format_log
from locklab import base, blk, fio

PIECES = {"cut": 20000, "low": 20, "hung": 40000, "trim": 20000, "load": 2000,
          "leave": 2}  # fmt: skip
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


def leave() -> None:
    box = small_log(33, data_mib=4096, data_model="spindle", unmaps=False,
                    data_options={"write_cache": "off", "spread": "on"})  # fmt: skip
    ended, longest = threading.Event(), [0.0]
    with box.disk() as disk:
        size = size_of(disk)
        base.step(f"{size >> 11} MiB of zeroes, and the log is left")
        beside = threading.Thread(target=writes, args=(disk.node, size, ended, longest))
        beside.start()
        disk.zero(0, size - 128)
        box.set("leave_log=1")
        box.says("log LEFT", "the log to be left", 300)
        ended.set()
        beside.join()
        print(f"  {len(longest)} writes, the longest {max(longest):.2f} s", flush=True)
        base.expect(max(longest) < 1, f"a write beside it took {max(longest):.2f} s")
        base.expect(not any(disk.read(2048, 2048)), "what was zeroed")
    box.away()


(part,) = base.words(1, tuple(PIECES))
{"hung": hung, "trim": trim, "load": load, "leave": leave}.get(part, zeroed)()
base.step("done")
