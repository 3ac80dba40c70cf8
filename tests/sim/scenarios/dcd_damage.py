# SPDX-License-Identifier: GPL-2.0-only
"""Damage of NVRAM and log that isn't one bit: never taken for the end that a power cut left.

The module refuses and `dcd check` and `dcd recover` do, and no byte is changed; with the damage
undone all that was acknowledged is there.
"""

import errno
import json
import random
import subprocess
from collections.abc import Callable

from dcdlab import RING_START, SEGMENT, TOOL, Box, Model, digest
from locklab import base, blk, lio

BLOCK, LINE = 4096, 64
WRITES = 20  # acknowledged, and nowhere but in NVRAM

Damage = Callable[[bytearray], None]


def zeroed(at: int, size: int) -> Damage:
    def do(raw: bytearray) -> None:
        raw[at : at + size] = bytes(size)

    return do


def two_bits(at: int) -> Damage:
    def do(raw: bytearray) -> None:
        raw[at + 3] ^= 1
        raw[at + 40] ^= 4

    return do


def garbage(at: int, size: int) -> Damage:
    def do(raw: bytearray) -> None:
        raw[at : at + size] = random.Random(f"damage {base.SEED} {at}").randbytes(size)

    return do


def moved(at: int, to: int, size: int) -> Damage:
    def do(raw: bytearray) -> None:
        raw[to : to + size] = raw[at : at + size]

    return do


def refused(box: Box, node: str, at: int, size: int, what: str, damage: Damage, text: str) -> None:
    """Within these bytes of one device. Then it is undone."""
    with blk.Disk(node) as disk:
        good = disk.read(at // blk.SECTOR, size // blk.SECTOR)
        raw = bytearray(good)
        damage(raw)
        base.expect(bytes(raw) != good, f"{what}: nothing is damaged")
        disk.write(at // blk.SECTOR, bytes(raw))
    nodes = (box.data.node, box.log.node, *([box.view] if box.view != "none" else []))
    words = ("--data", box.data.node, "--log", box.log.node, "--nvram", box.view)
    before = digest(*nodes)
    with base.refused(what, errno.EUCLEAN, kernel=text):
        lio.Backstore("dcd", "bad", box.control())
    for command, code in (("check", 4), ("recover", 1)):
        done = subprocess.run([TOOL, command, *words, "--json"], capture_output=True, text=True,
                              check=False)  # fmt: skip
        said = json.loads(done.stdout)
        base.equal((done.returncode, said["state"]), (code, "refused"), f"{what}: {command}")
        base.expect(text in said["message"], f"{what}: {command}: {said['message']}")
    base.equal(digest(*nodes), before, f"{what}: the disks' content")
    with blk.Disk(node) as disk:
        disk.write(at // blk.SECTOR, good)


def table_of(box: Box) -> int:
    """Where the slot with the newest entry has its table."""
    with blk.Disk(box.view, write=False) as disk:
        raw = disk.read(0, box.nvram_bytes // blk.SECTOR)
    tables = range(2 * BLOCK, box.nvram_bytes, SEGMENT)
    newest = {int.from_bytes(raw[at : at + 8], "little"): at
              for table in tables for at in range(table, table + BLOCK, LINE)}  # fmt: skip
    at = newest[max(newest)]
    table = at - at % BLOCK
    base.equal(at - table, (WRITES - 1) * LINE, "place of the newest entry")
    return table


def nvram() -> None:
    base.step("NVRAM, after a power cut")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk() as disk:  # what slots had before
        for n in range(40):
            model.put(n * 8, data := blk.pattern(f"before {n}", 8))
            disk.write(n * 8, data)
    with box.disk_until_cut() as disk:
        for n in range(WRITES):
            model.put(n * 16, data := blk.pattern(f"after {n}", 3))
            disk.write(n * 16, data)
    table = table_of(box)
    lost = "acknowledged writes may be lost"
    for what, damage, text in (
        ("a line of the middle", zeroed(4 * LINE, LINE), lost),
        ("two bits", two_bits(4 * LINE), lost),
        ("the first line", garbage(0, LINE), lost),
        ("the newest entry", zeroed((WRITES - 1) * LINE, LINE), lost),
        ("two bits of the newest", two_bits((WRITES - 1) * LINE), lost),
        ("a sector of the end", garbage(2 * 512, 512), lost),
        ("all of the table", zeroed(0, BLOCK), lost),
        ("a line over another", moved(2 * LINE, 5 * LINE, LINE), lost),
        ("payload", garbage(BLOCK, 512), "damaged, not torn"),
    ):
        refused(box, box.view, table, BLOCK + 512, what, damage, text)
    base.step("the same, but whole")
    with box.disk() as disk:
        model.check(disk, "recovered")
        box.destaged()
    box.away()


def log() -> None:
    base.step("the last segment of a log without NVRAM, which lay there (its payload: dcd_lost.py)")
    box = Box(nvram="none")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        for n in range(WRITES):
            model.put(n * 16, data := blk.pattern(f"after {n}", 3))
            disk.write(n * 16, data)
    with blk.Disk(box.log.node, write=False) as raw:
        places = range(RING_START, raw.sectors * blk.SECTOR, SEGMENT)
        have = {int.from_bytes(raw.read(at // blk.SECTOR, 1)[56:64], "little"): at for at in places}
    last = have[max(have)]
    lost = "acknowledged writes may be lost"
    for what, damage in (
        ("its header", zeroed(0, 512)),
        ("its table", garbage(BLOCK, 512)),
    ):
        refused(box, box.log.node, last, 3 * BLOCK, what, damage, lost)
    with box.disk() as disk:
        model.check(disk, "recovered")
    box.away()


def main() -> None:
    nvram()
    log()


main()
