# SPDX-License-Identifier: GPL-2.0-only
"""Blocks of 4096 bytes: of the data disk, of the log disk, or only of the LUN."""

import errno
import random
import subprocess
from pathlib import Path

from dcdlab import TOOL, Box, Disk, Model, filled, some_write
from digestlab import expected
from locklab import base, blk, lio

BLOCK = 8  # sectors
LARGE = {"block": "4096"}


def run(*words: str, stdin: bytes) -> None:
    done = subprocess.run(words, input=stdin, capture_output=True, check=False)
    base.equal(done.returncode, 0, f"{' '.join(words)}: {done.stderr.decode()}: exit code")


def of_queue(node: str, name: str) -> int:
    return int(Path(f"/sys/block/{Path(node).name}/queue/{name}").read_text())


def capacity(node: str) -> tuple[int, int, int]:
    """Blocks, bytes of one, and the exponent of the physical one."""
    said = base.run("sg_readcap", "--16", node)
    last = int(said.split("Last LBA=")[1].split()[0])
    length = int(said.split("Logical block length=")[1].split()[0])
    exponent = int(said.split("exponent=")[1].split()[0].rstrip("]"))
    return last + 1, length, exponent


def scsi(disk: blk.Disk, model: Model) -> None:
    """Commands that a file system doesn't send."""
    block = blk.pattern("same", BLOCK)
    run("sg_write_same", "--16", "--lba=20", "--num=33", "--xferlen=4096", "--in=-",
                   disk.node, stdin=block)  # fmt: skip
    model.put(20 * BLOCK, block * 33)
    new = blk.pattern("compared", BLOCK)
    run("sg_compare_and_write", "--in=-", "--lba=21", "--num=1", "--xferlen=8192",
                   disk.node, stdin=block + new)  # fmt: skip
    model.put(21 * BLOCK, new)
    base.run("sg_unmap", "--force", "--lba=25", "--num=2", disk.node)
    model.put(25 * BLOCK, bytes(2 * BLOCK * blk.SECTOR))


def disks(data: dict[str, str], log: dict[str, str], nvram: str) -> None:
    base.step(f"data disk {data or 'of 512'}, log disk {log or 'of 512'}, nvram {nvram}")
    rng = random.Random(f"{base.SEED} {data} {log} {nvram}")
    box = Box(data_options=data, log_options=log, log_mib=12, nvram=nvram)
    model = Model(box.data.sectors)
    for cut in range(2 if base.CHECKED else 4):
        with box.disk_until_cut() as disk:
            base.equal(capacity(disk.node), (box.data.sectors // BLOCK, 4096, 0), "READ CAPACITY")
            base.equal(of_queue(disk.node, "logical_block_size"), 4096, "the LUN's blocks")
            model.check(disk, f"after {cut} cuts")
            if not cut:
                scsi(disk, model)
            if cut == 2:
                box.data.fail_writes()
            for n in range(rng.randrange(20, 150)):
                some_write(disk, model, rng, f"{cut} {n}", block=BLOCK)
            if cut == 2:
                box.data.heal()
            if cut == 1:
                box.destaged()
            base.expect(cut == 2 or box.count("data_errors") == 0, "errors of the data disk")
            base.equal(box.count("log_write_errors"), 0, "errors of the log disk")
    tool = ("--data", box.data.node, "--log", box.log.node, "--nvram", box.view)
    base.run(TOOL, "check", *tool)
    base.run(TOOL, "recover", *tool)
    with box.disk("destage_batch_kib=257") as disk:
        model.check(disk, "after all cuts and dcd recover")
        for n in range(150):
            some_write(disk, model, rng, f"in the end {n}", block=BLOCK)
        box.destaged()
        model.check(disk, "from the data disk")
        assert box.store
        with base.refused("smaller blocks than the disk's", errno.EINVAL, kernel="blocks of 4096"):
            box.store.attribute("block_size", 512)
    digests(box)
    box.away()


def digests(box: Box) -> None:
    store = box.open()
    with lio.look(store) as node, blk.Disk(node) as disk:
        disk.write(disk.sectors - 8, blk.pattern("key", 8))
        content = b"".join(disk.read(at, 512) for at in range(0, disk.sectors, 512))
    view = lio.Backstore("dcd", "v", "digests_of=d")
    with lio.look(view) as node, blk.Disk(node, write=False) as shown:
        base.expect(shown.read(0, shown.sectors) == expected(content), "other digests")
    view.remove()
    box.close()


def attribute() -> None:
    base.step("block_size=4096 over disks of 512; a part of a block at the end isn't the LUN's")
    box = Box(data_mib=8, data_spare_mib=1)
    box.data.resize((8 << 11) + 5)
    base.run(TOOL, "format", "--force", "--data", box.data.node, "--log",
             box.log.node, "--nvram", "none")  # fmt: skip
    store = box.open()
    store.attribute("block_size", 4096)
    model = Model(8 << 11)
    rng = random.Random(f"{base.SEED} attribute")
    with lio.look(store) as node, blk.Disk(node) as disk:
        base.equal(capacity(node), ((8 << 11) // BLOCK, 4096, 0), "READ CAPACITY")
        scsi(disk, model)
        for n in range(100):
            some_write(disk, model, rng, f"{n}", block=BLOCK)
        model.check(disk, "written so")
        with base.refused("another size while it is exported", errno.EINVAL):
            store.attribute("block_size", 512)
    store.attribute("block_size", 512)
    with lio.look(store) as node, blk.Disk(node) as disk:
        base.equal(disk.sectors, (8 << 11) + 5, "with blocks of 512 all of it")
        model.bytes.extend(bytes(5 * blk.SECTOR))
        filled(disk, model, 8 << 11, (8 << 11) + 5, "the rest")
        model.check(disk, "as blocks of 512")
    box.close()
    box.away()


def moved() -> None:
    base.step("what was written in blocks of 512 isn't put on a disk of 4096 by halves")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 64, "before")
        box.destaged()
        box.data.fail_writes()
        filled(disk, model, 17, 22, "parts of blocks")
    box.data.heal()
    other = Disk("other", 8, **LARGE)
    with blk.Disk(box.data.node) as old, blk.Disk(other.node) as new:
        for at in range(0, old.sectors, 512):
            new.write(at, old.read(at, 512))
    control = box.control().replace(f"data={box.data.node}", f"data={other.node}")
    with base.refused("to open it there", errno.EINVAL, kernel="aren't whole blocks of 4096"):
        lio.Backstore("dcd", "d", control)
    with box.disk() as disk:
        model.check(disk, "on the old disk")
        box.destaged()
    with blk.Disk(box.data.node) as old, blk.Disk(other.node) as new:
        for at in range(0, old.sectors, 512):
            new.write(at, old.read(at, 512))
    store = lio.Backstore("dcd", "d", control)
    with lio.look(store) as node, blk.Disk(node) as disk:
        model.check(disk, "on the new one, with the log emptied before")
        some_write(disk, model, random.Random(1), "there", block=BLOCK)
        model.check(disk, "written there")
    store.remove()
    other.remove()
    box.away()


disks(LARGE, LARGE, "lab")
moved()
if not base.CHECKED:
    disks(LARGE, {}, "lab")
    disks({}, LARGE, "lab")
    disks(LARGE, LARGE, "none")
    attribute()
base.step("done")
