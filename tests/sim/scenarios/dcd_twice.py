# SPDX-License-Identifier: GPL-2.0-only
"""One disk by two names: no log is in two DCDs, and none is its own data disk.

Each name is a linear device of its own over the same medium, which the kernel lets several
have at a time, as with two paths to one disk.

    dcd_twice.py [PART...]
"""

from __future__ import annotations

import contextlib
import errno
import subprocess
import time
from collections.abc import Iterator

from dcdlab import TOOL, Box, Disk, Model, digest, filled, format_log
from loadlab import SIZE, small
from locklab import base, blk, dm, lio
from poisonlab import HELD
from statelab import Beside

PARTS = ("logs", "lingers", "left", "data", "other_log", "format", "tools")


@contextlib.contextmanager
def again(disk: Disk) -> Iterator[str]:
    """Another name of that disk."""
    name = f"{disk.name}-again"
    yield dm.create(name, f"0 {disk.sectors} linear /dev/mapper/{disk.name}-medium 0")
    dm.remove(name)


def control(box: Box, data: str, log: str) -> str:
    return f"data={data},log={log},nvram=dram:battery,nvram_bytes={box.nvram_bytes}"


def second(box: Box, data: str, log: str) -> lio.Backstore:
    return lio.Backstore("dcd", "second", control(box, data, log))


def reads_back(store: lio.Backstore, model: Model, what: str) -> None:
    with lio.look(store, 1) as node, blk.Disk(node) as disk:
        model.check(disk, what)


def logs() -> None:
    base.step("a log by another name: refused while a DCD has it, and that goes on unharmed")
    box, other = Box(), Disk("data2", 8)
    model = Model(box.data.sectors)
    with again(box.log) as log, again(box.data) as data:
        with box.disk() as disk:
            filled(disk, model, 0, 2048, "before")
            disk.flush()
            for what, its in (("and the same data disk", data), ("and another one", other.node)):
                said = "is in use by the DCD d: it is the same disk"
                with base.refused(f"that log {what}", errno.EBUSY, kernel=said):
                    second(box, its, log)
            filled(disk, model, 1024, 4096, "behind it")
            model.check(disk, "the first one")
        with box.disk() as disk:
            model.check(disk, "opened again")
        base.step("the first one is closed: the second one gets it")
        store = second(box, data, log)
        reads_back(store, model, "by its other name")
        with base.refused("the first one", errno.EBUSY, kernel="by the DCD second: it is the same"):
            box.open()
        store.remove()
        with box.disk() as disk:
            model.check(disk, "by its first name")
    other.remove()
    box.away()


def lingers() -> None:
    base.step("a DCD that was closed waits for its data disk: its log is in use until then")
    box, model = small("dram:battery")
    with again(box.log) as log, again(box.data) as data:
        with box.disk("destage_idle_ms=1") as disk:
            box.data.hold_write(SIZE)
            filled(disk, model, 0, 4 * SIZE, "late", SIZE)
            base.until(lambda: box.count("writes_late") == 1, "a write that is late")
        with base.refused("its log", errno.EBUSY,
                          kernel="by the DCD d, which was closed but still waits"):  # fmt: skip
            second(box, data, log)
        box.data.let_go()
        base.until(lambda: dm.opens(box.data.name) == 0, "the data disk in nobody's use")
        store = second(box, data, log)
        reads_back(store, model, "afterwards")
        store.remove()
    box.away()


def data_is_log() -> None:
    base.step("the data disk is the log disk, by another name")
    box = Box(data_mib=3)
    before = digest(box.log.node)
    with (
        again(box.log) as node,
        base.refused("such a data disk", errno.EINVAL, kernel="is the log disk"),
    ):
        second(box, node, box.log.node)
    base.equal(digest(box.log.node), before, "the log's content")
    base.step("a data disk that has an older copy of its log isn't the log")
    with box.disk() as disk:
        with blk.Disk(box.log.node, write=False) as log, blk.Disk(box.data.node) as data:
            data.write(0, log.read(0, 16))
        disk.write(2048, blk.pattern("some", 8))
        box.set("destage_idle_ms=1")
        box.destaged()
    with blk.Disk(box.log.node) as log, blk.Disk(box.data.node) as data:
        base.expect(log.read(0, 16) != data.read(0, 16), "the log hasn't been used")
    with box.disk() as disk:
        base.expect(disk.read(2048, 8) == blk.pattern("some", 8), "what was written")
    box.away()


def other_log() -> None:
    base.step("the data disk is another DCD's log, by another name")
    box, two = Box(), Box(tag="2", data_mib=3)
    model = Model(box.data.sectors)
    with again(box.log) as node, box.disk() as disk:
        filled(disk, model, 0, 2048, "first")
        with base.refused("such a data disk", errno.EBUSY, kernel="of the DCD d: it is the same"):
            second(two, node, two.log.node)
        filled(disk, model, 1024, 4096, "behind it")
        model.check(disk, "the first one")
    with two.disk() as disk:
        disk.write(0, bytes(4096))
    for one in (box, two):
        one.away()


def left() -> None:
    base.step("a log is opened by another name while its DCD leaves it, writes on and is closed")
    box, model = small("dram:battery", HELD)
    with again(box.log) as log, again(box.data) as data:
        with box.disk() as disk:
            filled(disk, model, 0, 64, "old")
            opened: list[lio.Backstore] = []
            opens = Beside(lambda: opened.append(second(box, data, log)))
            time.sleep(1)
            box.leave_log()
            box.says("log LEFT", "the log to be left")
            filled(disk, model, 0, 64, "new")
            disk.flush()
        base.until(lambda: opens.done, "the second one, or that it is refused")
        try:
            opens.result()
        except OSError as err:
            base.expect(err.errno in (errno.EBUSY, errno.EUCLEAN, errno.EMEDIUMTYPE), f"{err}")
        for store in opened:
            reads_back(store, model, "by its other name")
            store.remove()
    base.equal(box.data.bytes(0, 64), bytes(model.bytes[: 64 << 9]), "the data disk")
    box.away()


def refused_by(*words: str) -> str:
    done = subprocess.run([TOOL, *words], capture_output=True, text=True, check=False)
    base.equal(done.returncode, 1, f"dcd {words[0]}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def formats() -> None:
    base.step("dcd format: log and data disk are one, by two names")
    for content in ("blank", "somebody's"):
        disk = Disk("both", 8)
        if content != "blank":
            with blk.Disk(disk.node) as raw:
                raw.write(0, blk.pattern("somebody's", 4096))
        before = digest(disk.node)
        with again(disk) as node:
            text = refused_by("format", "--data", disk.node, "--log", node, "--nvram", "none",
                              *(["--force"] * (content != "blank")))  # fmt: skip
        base.expect("they are the same disk" in text, text)
        base.equal(digest(disk.node), before, f"{content}: the disk's content")
        disk.remove()
    base.step("two disks with the same content aren't one")
    pair = [Disk(name, 8) for name in ("one", "two")]
    for disk in pair:
        with blk.Disk(disk.node) as raw:
            raw.write(0, blk.pattern("the same", 2048))
    before = digest(pair[0].node)
    format_log(pair[0].node, pair[1].node, "none", "--force")
    base.equal(digest(pair[0].node), before, "the data disk's content")
    for disk in pair:
        disk.remove()


def tools() -> None:
    base.step("the commands don't take a log as its own data disk either")
    box = Box(data_mib=3, nvram="none")
    with box.disk() as disk:
        disk.write(64, blk.pattern("some", 8))
    before = digest(box.log.node)
    with again(box.log) as node:
        for verb in ("recover", "retire"):
            text = refused_by(verb, "--data", node, "--log", box.log.node)
            base.expect("is the log disk by another name" in text, text)
    base.equal(digest(box.log.node), before, "the log's content")
    box.away()


WORK = {"logs": logs, "lingers": lingers, "left": left, "data": data_is_log, "other_log": other_log,
        "format": formats, "tools": tools}  # fmt: skip
for part in base.words(1, PARTS) or PARTS:
    WORK[part]()
base.step("done")
