# SPDX-License-Identifier: GPL-2.0-only
"""sg3-utils on a DCD LUN, where iscsi-test-cu doesn't look: what the LUN says of itself, compared
with the disk and with stock iblock on the same disk; the cache; commands of whole ranges; COMPARE
AND WRITE under contention.
"""

import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import dcdlab
from locklab import base, blk, lio, ram

MIB = 32
SERIAL = "5" * 32
# Exit codes of sg3-utils.
ILLEGAL, MISCOMPARE, OUT_OF_RANGE = 5, 14, 22


def sg(*words: str, rc: int = 0, stdin: bytes = b"") -> str:
    done = subprocess.run(words, input=stdin, capture_output=True, check=False)
    text = (done.stdout + done.stderr).decode(errors="replace")
    base.equal(done.returncode, rc, f"{' '.join(words)}: exit code; it said: {text}")
    return text


def number(text: str, label: str) -> int:
    found = re.search(rf"^ *{re.escape(label)} *[:=] *(0x[0-9a-f]+|\d+)", text, re.M)
    base.expect(found, f"no {label!r} in {text}")
    assert found
    return int(found[1], 0)


def told(node: str) -> dict[str, object]:
    """What of the VPD pages and READ CAPACITY a file system or a mirror goes by."""
    limits = sg("sg_vpd", "--page=bl", node)
    kind = sg("sg_vpd", "--page=bdc", node)
    provisioning = sg("sg_vpd", "--page=lbpv", node)
    capacity = sg("sg_readcap", "--long", node)
    return {
        "granularity": number(limits, "Optimal transfer length granularity"),
        "rotates": "Non-rotating" not in kind,
        "unmap": number(provisioning, "LBPU"),
        "write same": number(provisioning, "LBPWS"),
        "physical": re.findall(r"Logical blocks per physical block exponent.*", capacity),
        "blocks": re.findall(r"Last LBA=(\d+)", capacity),
    }


def control(disks: dict[str, ram.Ram], nvram: str = "dram:battery") -> str:
    return f"data={disks['data'].node},log={disks['log'].node},nvram={nvram}"


def opened(disks: dict[str, ram.Ram], nvram: str = "dram:battery") -> lio.Backstore:
    return lio.Backstore("dcd", "d", control(disks, nvram), serial=SERIAL)


def identity(disks: dict[str, ram.Ram]) -> None:
    base.step("of itself it says what the data disk is, as iblock does of the same disk")
    for rotational in (0, 1):
        base.put(Path("/sys/block/data/queue/rotational"), rotational)
        stock = lio.iblock("i", disks["data"].node)
        for name in ("emulate_tpu", "emulate_tpws"):
            stock.attribute(name, 1)
        # Without one the core has no VPD pages.
        base.put(stock.path / "wwn/vpd_unit_serial", "6" * 32)
        with lio.look(stock) as node:
            theirs = told(node)
        stock.remove()
        store = opened(disks)
        with lio.look(store) as node:
            ours = told(node)
            limits = sg("sg_vpd", "--page=bl", node)
        store.remove()
        base.equal(ours, theirs, f"with rotational {rotational}")
        base.equal(ours["rotates"], bool(rotational), "a rotating medium")
        # Finer than any disk: the log takes single blocks.
        base.equal(number(limits, "Optimal unmap granularity"), 1, "unmap granularity")
        base.expect(number(limits, "Maximum unmap LBA count") > 0, limits)
        base.equal(number(limits, "Maximum write same length"), 0xFFFF, "write same")


def cache(disks: dict[str, ram.Ram]) -> None:
    base.step("WCE is 1 with plain dram only; SYNCHRONIZE CACHE of all, of a range, IMMED")
    for nvram, want in (("dram", "1"), ("dram:battery", "0")):
        store = opened(disks, nvram)
        with lio.look(store) as node:
            page = sg("sg_modes", "--page=8", node)
            found = re.search(r"page.*\n *00 +08 +[0-9a-f]{2} +([0-9a-f]{2})", page)
            base.expect(found, f"no caching page in {page}")
            assert found
            base.equal(f"{int(found[1], 16) >> 2 & 1}", want, f"WCE with nvram={nvram}")
            before = int(store.attribute("stat_flushes"))
            sg("sg_sync", node)
            sg("sg_sync", "--lba=8", "--count=16", node)
            sg("sg_sync", "--lba=8", "--count=16", "--immed", node)
            sg("sg_sync", "--16", "--lba=0", node)
            flushes = int(store.attribute("stat_flushes")) - before
            base.expect(flushes >= 4, f"{flushes} flushes came of four")
            sg("sg_sync", f"--lba={MIB << 11}", "--count=16", node,
               rc=OUT_OF_RANGE)  # fmt: skip
        store.remove()


def ranges(disks: dict[str, ram.Ram]) -> None:
    base.step("UNMAP and WRITE SAME of zeroes, of a pattern, past the limits")
    store = opened(disks)
    with lio.look(store) as node, blk.Disk(node) as disk:
        disk.write(0, blk.pattern("old", 2048))
        sg("sg_unmap", "--force", "--lba=7", "--num=13", node)
        want = bytearray(blk.pattern("old", 2048))
        want[7 * 512 : 20 * 512] = bytes(13 * 512)
        base.equal(disk.read(0, 2048), bytes(want), "after UNMAP of 13 blocks at 7")
        block = blk.pattern("same", 1)
        for at, count, data in ((100, 700, block), (301, 5, bytes(512)), (1000, 1, block)):
            words = ("--16", f"--lba={at}", f"--num={count}", "--xferlen=512", "--in=-")
            sg("sg_write_same", *words, node, stdin=data)
            want[at * 512 : (at + count) * 512] = data * count
            base.equal(disk.read(0, 2048), bytes(want), f"after WRITE SAME of {count} at {at}")
        sg("sg_write_same", "--16", "--unmap", "--lba=640", "--num=64", "--xferlen=512", node)
        want[640 * 512 : 704 * 512] = bytes(64 * 512)
        base.equal(disk.read(0, 2048), bytes(want), "after WRITE SAME with UNMAP")
        # More than one piece of the worker's, and not a whole number of them.
        sg("sg_write_same", "--16", "--lba=4096", "--num=1201", "--xferlen=512", "--in=-", node,
           stdin=block)  # fmt: skip
        base.equal(disk.read(4096, 1202), block * 1201 + bytes(512), "1201 blocks")
        end = MIB << 11
        refused = (
            (ILLEGAL, ("sg_write_same", "--16", "--lba=0", "--num=65536", "--xferlen=512")),
            (OUT_OF_RANGE, ("sg_write_same", "--16", f"--lba={end}", "--num=1", "--xferlen=512")),
            (OUT_OF_RANGE, ("sg_unmap", "--force", f"--lba={end - 1}", "--num=2")),
        )
        for rc, command in refused:
            sg(*command, node, rc=rc)
        base.equal(disk.read(0, 2048), bytes(want), "after what was refused")
    store.remove()


def contention(disks: dict[str, ram.Ram]) -> None:
    base.step("COMPARE AND WRITE: of those who saw the same block, one wins")
    store = opened(disks)
    rounds, players = 5, 4
    with lio.look(store) as node, blk.Disk(node) as disk:
        disk.write(50, bytes(512))
        wins: list[int] = []

        def play(me: int) -> None:
            for number in range(rounds):
                new = bytes([me + 1, number + 1]) * 256
                while True:
                    with blk.Disk(node, write=False) as mine:
                        old = mine.read(50, 1)
                    done = subprocess.run(
                        ["sg_compare_and_write", "--in=-", "--lba=50", "--num=1", node],
                        input=old + new, capture_output=True, check=False)  # fmt: skip
                    if done.returncode != MISCOMPARE:
                        break
                    misses.append(me)
                assert done.returncode == 0, done.stderr
                wins.append(me)

        misses: list[int] = []
        threads = [threading.Thread(target=play, args=(n,)) for n in range(players)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        base.equal(len(wins), rounds * players, "writes that won")
        base.equal(int(store.attribute("stat_writes")) - 1, len(wins), "writes that came")
        last = bytes([wins[-1] + 1, rounds]) * 256
        print(f"  {len(misses)} miscompares", flush=True)
        base.expect(disk.read(50, 1)[1] == rounds, f"the last write: {last[:2].hex()}")
    store.remove()


def main() -> None:
    disks = {name: ram.Ram(name, MIB) for name in ("data", "log")}
    dcdlab.format_log(disks["data"].node, disks["log"].node)
    parts: list[Callable[[dict[str, ram.Ram]], None]] = [
        identity, cache, ranges, contention,
    ]  # fmt: skip
    for part in parts:
        part(disks)
    base.step("done")


main()
