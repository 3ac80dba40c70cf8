# SPDX-License-Identifier: GPL-2.0-only
"""Batches as WRITE SCATTERED(16): to a DCD, also with blocks of 4096; to one that says it knows it
and then doesn't; to stock iblock; to a partition; while the LUN is reset. What it saves is
printed: commands and bytes on the wire, with and without.

With DEVICE as the only argument to that, which must be a SCSI disk that knows the command and that
nobody uses; `scsi_debug [PART...]` makes one of the kernel's own (see test_mirror_legs.py).
"""

import contextlib
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from locklab import base, blk, count, dm, lio, mirror, ram, wire
from mirrorlab import Beside
from scatterlab import MIB, PIPELINE, SERIAL, Mirrored, Sent, Site

WRITES = 100 if base.CHECKED else 600
AUTO = 32 << 10
LIST = 4096  # at most, before the data
DEBUG_HOST = Path("/sys/bus/pseudo/drivers/scsi_debug/add_host")
DEBUG_DELAY = DEBUG_HOST.with_name("delay")  # in jiffies


def saved(site: Site) -> None:
    base.step("to a DCD: all that is told of it; with and without")
    base.put(Path("/sys/block") / Path(site.remote).name / "queue/iostats_passthrough", 1)
    for how in ("auto", "on", "off"):
        m = site.up("scatter", how)
        before = count.snapshot(site.wire, site.store, {"leg": site.remote})
        batches = int(site.store.attribute("stat_batches"))
        with Sent() as sent:
            load = m.load(WRITES)
            load.stop()
        used = count.spent(before, count.snapshot(site.wire, site.store, {"leg": site.remote}))
        batches = int(site.store.attribute("stat_batches")) - batches
        commands, runs = m.count("scattered"), m.count("scattered_runs")
        m.end(load, site.remote)
        base.equal(m.count("scattered_again"), 0, "sent again")
        base.equal(m.told("scatter"), "off" if how == "off" else "yes", "word")
        base.equal(batches, commands, "the DCD's batches and the mirror's commands")
        ends = [end for _, end in sent.commands]
        base.equal((len(ends), ends.count("good")), (commands, commands), "by the tracepoint")
        print(f"  {how}: {load.writes} writes, {commands} commands for {runs} runs:", flush=True)
        print(f"    {count.line(used, load.writes)}", flush=True)
        uncounted = used["scsi_commands"] - used["leg_writes"]
        base.equal(uncounted, 0 if how == "off" else 2, "commands but writes: the questions")
        if how == "off":
            base.equal(commands, 0, "commands")
        else:
            base.expect(runs >= 2 * commands > 20, f"{commands} commands, {runs} runs")
            most = max(size for size, _ in sent.commands)
            base.equal(most > AUTO + LIST, how == "on", f"more than {AUTO} bytes in one ({most})")
        m.remove()


def no_larger(site: Site) -> None:
    base.step("`on`: no command is larger than the block layer would have a write")
    most = Path("/sys/block") / Path(site.remote).name / "queue/max_sectors_kb"
    usual = most.read_text().strip()
    base.put(most, 12)
    m = site.up("scatter", "on")
    with Sent() as sent:
        m.end(m.load(WRITES), site.remote)
    m.remove()
    base.put(most, usual)
    largest = max(size for size, _ in sent.commands)
    base.expect(len(sent.commands) > 20, f"{len(sent.commands)} commands")
    base.expect(largest <= 12 << 10, f"a command of {largest} bytes")


def switched(site: Site) -> None:
    base.step("switched on and off")
    m = site.up("scatter", "off")
    m.of.message("scatter auto")
    base.expect("scatter" not in dm.table("mirror"), "the default is left out")
    m.end(m.load(WRITES), site.remote)
    base.expect(m.count("scattered") > 0, "switched on, none is sent")
    m.of.message("scatter off")
    base.expect("scatter off" in dm.table("mirror"), "it is in the table")
    now = m.count("scattered")
    m.end(m.load(50), site.remote)
    base.equal(m.count("scattered"), now, "commands after it was switched off")
    with base.refused("a word that is none", kernel="none of auto, on, off"):
        m.of.message("scatter maybe")
    m.remove()


def cache_switched(site: Site) -> None:
    base.step("a volatile cache: FUA in a command only where the LUN says that it looks at it")
    assert site.dcd
    disk = Path("/sys/block") / Path(site.remote).name

    def battery(works: int, look: bool = True) -> None:
        base.put(site.store.path / "control", f"battery={works}")
        if look:
            base.put(disk / "device/rescan", 1)
            cache = "write through" if works else "write back"
            base.until(lambda: (disk / "queue/write_cache").read_text().strip() == cache, cache)

    def sent(m: Mirrored) -> int:
        before = m.count("scattered")
        m.end(m.load(WRITES), site.remote)
        return m.count("scattered") - before

    m = site.up()
    base.expect(sent(m) > 10, "without such a cache FUA isn't needed")
    fua = int(site.store.attribute("stat_fua"))
    battery(0)
    base.expect(sent(m) > 10, "it has one now, and is asked again: commands with FUA")
    base.expect(int(site.store.attribute("stat_fua")) - fua >= WRITES // 16, "they had FUA")
    m.remove()
    # It would take FUA, but says no more that it looks at it; the initiator hasn't heard of it.
    battery(1, look=False)
    m = site.up()
    base.equal((sent(m), m.told("scatter")), (0, "yes"), "commands with FUA, and the word")
    base.equal(m.count("scattered_again"), 0, "sent again")
    m.remove()
    battery(1)


def partition(site: Site) -> None:
    base.step("a partition")
    start, length = 2048 + 8, (MIB << 11) - 4096
    blk.partition(site.remote, blk.ADDED, start, length)
    node = f"{site.remote}1"
    base.until(lambda: base.opens(Path(node)), f"{node} to open")
    with blk.Disk(site.remote, write=False) as disk:
        outside = disk.read(0, start), disk.read(start + length, 64)
    m = site.up(remote=node)
    load = m.load(WRITES)
    load.stop()
    base.expect(m.count("scattered") > 10, "scattered")
    load.check(node)
    with blk.Disk(site.remote, write=False) as disk:
        base.expect((disk.read(0, start), disk.read(start + length, 64)) == outside,
                    "what is outside of the partition has changed")  # fmt: skip
    smaller(site, m, start, length)
    m.remove()
    base.run("dd", f"if={site.remote}", f"of={site.local.node}", "bs=1M", "oflag=direct")


def smaller(site: Site, m: Mirrored, start: int, length: int) -> None:
    base.step("the partition is made smaller below the mirror: nothing is written behind its end")
    end = length - 256

    def behind() -> bytes:
        with blk.Disk(site.remote, write=False) as disk:
            return disk.read(start + end, length - end)

    def write(sector: int) -> None:
        with blk.Disk(m.of.node) as disk:
            disk.write(sector, blk.pattern(f"behind {sector}", 8))

    blk.partition(site.remote, blk.RESIZED, start, end)
    before, batched = behind(), m.count("batched")
    # The first has room; while it is on the way the others become a batch.
    together([partial(write, sector) for sector in (0, *range(end, length, 64))])
    base.equal(m.count("batched") - batched, 4, "writes in a batch")
    base.expect(behind() == before, "what is behind the partition's end has changed")
    base.equal(m.of.status().health, "AD", "health")


def reset(site: Site) -> None:
    base.step("the LUN is reset under it: a unit attention is no error of the leg")
    m = site.up()
    load = m.load(WRITES // 3)
    for _ in range(3):
        base.run("sg_reset", "--device", site.remote)
        load.wait_writes(WRITES // 3)
    m.end(load, site.remote)
    base.equal(m.told("scatter"), "yes", "word")
    again = m.count("scattered_again")
    base.expect(again, "no command met a reset: nothing was tried")
    print(f"  {again} runs sent again", flush=True)
    m.remove()


def refused(site: Site) -> None:
    base.step("a LUN that said it knows it, and doesn't: the writes go on singly, for good")
    assert site.dcd
    m = site.up()
    m.end(m.load(WRITES), site.remote)
    base.expect(m.count("scattered") > 0, "scattered")
    base.until(lambda: "live 0 " in site.store.info() and " 0 in use" in site.store.info(),
               "all to be on the data disk")  # fmt: skip
    site.target.remove()
    site.dcd.store.remove()
    other = lio.iblock("i", site.dcd.disks[0].node)
    base.put(other.path / "wwn/vpd_unit_serial", SERIAL)
    site.target = lio.Target(other)
    base.until(site.session.up, "the session to come back")
    log = base.KernelLog()
    m.end(m.load(WRITES), site.remote)
    base.equal(m.told("scatter"), "refused", "word")
    base.expect(m.count("scattered_again") > 1, "sent again")
    told = [line for line in log.new() if "has refused a WRITE SCATTERED" in line]
    base.equal(len(told), 1, "times that it was told")
    now = m.count("scattered")
    m.end(m.load(WRITES), site.remote)
    base.equal(m.count("scattered"), now, "commands after it was refused")
    m.remove()
    site.session.close()
    site.target.remove()
    other.remove()
    for one in (*site.dcd.disks, site.local):
        one.remove()


def together(work: list[Callable[[], None]], after: Callable[[], None] = lambda: None) -> None:
    """All of it at the same time; `after` when it has begun."""
    threads = [threading.Thread(target=one) for one in work]
    for one in threads:
        one.start()
    after()
    for one in threads:
        one.join()


def writes(node: str, number: int, tag: str = "") -> list[Callable[[], None]]:
    def write(at: int) -> None:
        with blk.Disk(node) as disk:
            disk.write(64 * at, blk.pattern(f"{tag} {at}", 8), fua=at % 2 == 1)

    return [partial(write, at) for at in range(number)]


def written(node: str, number: int, tag: str) -> None:
    with blk.Disk(node, write=False) as disk:
        for at in range(number):
            there = disk.read(64 * at, 8) == blk.pattern(f"{tag} {at}", 8)
            base.expect(there, f"{node}: write {at} ({tag}) isn't there")


def new_table(link: wire.Wire) -> None:
    base.step("a new table, and the end, while the leg is being asked: only the end waits")
    site = Site("dcd", link)
    link.profile("wan")
    m = site.up()
    together(writes(m.of.node, 6))
    base.equal(m.told("scatter"), "unknown", "word: it has answered already")
    dm.reload("mirror", f"0 {dm.sectors(m.of.node)} lockstep {dm.table('mirror')}")
    together(writes(m.of.node, 6))
    base.equal(m.told("scatter"), "unknown", "word: it has answered already")
    m.remove()
    link.profile("lan")
    site.close()


def full_queue(link: wire.Wire) -> None:
    site = Site("dcd", link)
    queue = Path("/sys/block") / Path(site.remote).name
    base.put(queue / "queue/nr_requests", 4)
    m = site.up()

    def read() -> None:
        with blk.Disk(site.remote, write=False) as disk:
            disk.read(0, 8)

    def in_flight() -> int:
        return sum(int(one) for one in (queue / "inflight").read_text().split())

    def behind_reads(tag: str, enough: Callable[[], object], what: str) -> None:
        """Writes while the queue is full, until it is enough. Each second one has FUA, so that its
        batch doesn't wait for another's return: the first goes alone, then one, then mostly two."""

        def mended() -> None:
            base.until(enough, what)
            link.mend("lan")

        def full() -> None:
            base.until(lambda: in_flight() == 4, "all of the queue to be out")
            together(writes(m.of.node, 16, tag), mended)

        link.cut()
        together([read] * 16, full)
        for leg in (m.of.local, site.remote):
            written(leg, 16, tag)

    base.step("a leg whose queue has been full for many batches is asked all the same, later")
    behind_reads(
        "unknown", lambda: m.count("batches") > 5 and m.told("scatter") == "unknown",
        "many batches, none of which could ask",
    )  # fmt: skip
    load = m.load(WRITES // 2)
    # A queue of four has room for a question or a command now and then only.
    base.until(lambda: m.told("scatter") == "yes", "the leg to be asked, and to answer")
    base.until(lambda: m.count("scattered") > 0, "a command")
    m.end(load, site.remote)

    base.step("batches that find the queue full wait with the sender, and go when there is room")
    sent, before = m.count("scattered"), m.count("batches")
    behind_reads(
        "full", lambda: m.count("batches") >= before + 5 and m.count("scattered") == sent,
        "many batches, none of them sent",
    )  # fmt: skip
    print(f"  {m.count('scattered_punted')} punted", flush=True)
    base.equal((m.of.status().health, m.count("scattered_again")), ("AA", 0), "health, sent again")
    blk.same(m.of.local, site.remote)
    m.remove()
    site.close()


def large_blocks(link: wire.Wire) -> None:
    base.step("a DCD with blocks of 4096")
    site = Site("dcd", link, block=4096)
    m = site.up()
    batches = int(site.store.attribute("stat_batches"))
    m.end(m.load(WRITES, unit=8), site.remote)
    commands = m.count("scattered")
    base.expect(commands > 10, f"{commands} commands")
    base.equal(int(site.store.attribute("stat_batches")) - batches, commands, "the DCD's batches")
    base.equal(m.count("scattered_again"), 0, "sent again")
    m.remove()
    site.close()


def stock(link: wire.Wire) -> None:
    base.step("stock iblock doesn't know it")
    site = Site("iblock", link)
    m = site.up()
    m.end(m.load(WRITES // 2), site.remote)
    base.equal((m.told("scatter"), m.count("scattered")), ("no", 0), "word, commands")
    m.remove()
    site.close()


def no_disk() -> None:
    base.step("a disk that is none of SCSI")
    local, remote = ram.Ram("local", MIB), ram.Ram("remote", MIB)
    m = Mirrored(mirror.Mirror(local.node, remote.node, *PIPELINE))
    m.end(m.load(50), remote.node)
    base.equal(m.told("scatter"), "-", "word")
    m.remove()


MEDIUM_ERROR = "0 0 2 3 0x0c 0"
# What scsi_debug is to answer instead of doing it (host byte, driver byte, status, sense key, ASC,
# ASCQ); and may the command be used after that?
ANSWERS = (
    ("BUSY", "0 0 8 0 0 0", True),
    ("TASK SET FULL", "0 0 0x28 0 0 0", True),
    ("RESERVATION CONFLICT", "0 0 0x18 0 0 0", True),
    ("unit attention: reset", "0 0 2 6 0x29 0", True),
    ("not ready: another path is", "0 0 2 2 4 0x0b", True),
    ("not ready: becoming so", "0 0 2 2 4 0x0a", True),
    ("medium error", MEDIUM_ERROR, True),
    ("hardware error", "0 0 2 4 0x44 0", True),
    ("recovered error", "0 0 2 1 0x18 0", True),
    ("no more space", "0 0 2 7 0x27 7", True),
    ("aborted", "0 0 2 0x0b 0x47 3", True),
    ("no connection", "1 0 0 0 0 0", True),
    ("timeout", "3 0 0 0 0 0", True),
    ("host error", "7 0 0 0 0 0", True),
    ("the wire's trouble", "0x0e 0 0 0 0 0", True),
    ("no such LUN", "0 0 2 5 0x25 0", True),
    ("no such field", "0 0 2 5 0x24 0", False),
)  # fmt: skip


def more(m: Mirrored, commands: int) -> bool:
    return m.count("scattered") > commands


def beside(node: str) -> tuple[ram.Ram, Mirrored]:
    """A disk in memory with what that one has, and a mirror on both."""
    local = ram.Ram("local", min(MIB, dm.sectors(node) >> 11))
    base.run("dd", f"if={node}", f"of={local.node}", "bs=1M", f"count={local.sectors >> 11}",
             "oflag=direct")  # fmt: skip
    return local, Mirrored(mirror.Mirror(local.node, node, *PIPELINE))


def injected(node: str) -> Path:
    """Where scsi_debug is told what is to go wrong."""
    device = Path(f"/sys/block/{Path(node).name}/device").resolve().name
    return Path("/sys/kernel/debug/scsi_debug") / device / "error"


def answers(node: str) -> None:
    base.step("answers that aren't good: none is an error of the leg, a refusal alone is for good")
    errors = injected(node)
    local, m = beside(node)
    load = m.load(WRITES // 6, block_of(node))
    for what, answer, good in ANSWERS:
        sent = m.count("scattered"), m.count("scattered_again")
        base.put(errors, f"2 -2 0x9f {answer}")
        base.until(partial(more, m, sent[0]), f"a command: {what}")
        load.wait_writes(WRITES // 6)
        base.put(errors, "- 2 0x9f")
        load.wait_writes(WRITES // 6)
        sent = m.count("scattered") - sent[0], m.count("scattered_again") - sent[1]
        print(f"  {what}: {sent[0]} commands, {sent[1]} writes sent again", flush=True)
        base.equal(m.told("scatter"), "yes" if good else "refused", f"word after {what}")
    m.end(load, node)
    m.remove()
    local.remove()


def in_vain(node: str) -> None:
    base.step("a command that fails for ever while its writes are good isn't tried for ever")
    errors = injected(node)
    local, m = beside(node)
    load = m.load(WRITES // 6, block_of(node))
    base.until(partial(more, m, 0), "a command")

    def fail(times: int) -> None:
        base.put(errors, f"2 {times} 0x9f {MEDIUM_ERROR}")

    def left() -> int:
        return int(errors.read_text().splitlines()[1].split()[1])

    def mend() -> None:
        base.put(errors, "- 2 0x9f")

    base.step("  seven in a row, twice: that passes")
    for _ in range(2):
        again = m.count("scattered_again")
        fail(-7)
        base.until(lambda: left() == 0, "all to have failed")
        mend()
        base.until(partial(more, m, m.count("scattered")), "a good command")
        load.wait_writes(WRITES // 6)
        base.expect(m.count("scattered_again") >= again + 7 * 2, "sent again")
        base.equal(m.told("scatter"), "yes", "word")

    base.step("  for ever: no more of them before the leg has been away")
    for _ in range(2):
        log, sent = base.KernelLog(), m.count("scattered")
        fail(1)
        base.until(lambda: m.told("scatter") == "failed", "the word")
        tried = m.count("scattered") - sent
        base.expect(8 <= tried <= 40, f"{tried} were tried")
        sent = m.count("scattered")
        load.wait_writes(WRITES)
        mend()
        load.wait_writes(WRITES)
        base.equal(m.count("scattered"), sent, "commands after that")
        told = [line for line in log.new() if "times in a row" in line]
        base.equal(len(told), 1, "times that it was told")
        m.of.message("fail remote")
        m.of.message("recover remote")
        base.until(partial(more, m, sent), "a command to the leg that is back")
        base.equal(m.told("scatter"), "yes", "word")
    m.of.in_sync()
    m.end(load, node)
    m.remove()
    local.remove()


def at_once(m: Mirrored, unit: int) -> list[Beside]:
    """The first one goes alone, the others together when it is back."""

    def write(at: int) -> None:
        with blk.Disk(m.of.node) as disk:
            disk.write(4 * unit * at, blk.pattern(f"{at}", unit))

    return [Beside(partial(write, at)) for at in range(17)]


def dropped(node: str) -> None:
    base.step("writes of a failed command that a dead leg is never sent again: that passes, too")
    errors, queue = injected(node), Path("/sys/block") / Path(node).name / "queue/nr_requests"
    usual, unit, delay = queue.read_text().strip(), block_of(node), DEBUG_DELAY.read_text().strip()
    local, m = beside(node)
    for _ in range(3):  # the first ones ask
        for one in at_once(m, unit):
            one.result()
    base.expect(m.count("scattered"), "no command")
    base.put(queue, 4)
    base.put(DEBUG_DELAY, 300)
    base.put(errors, f"2 -1 0x9f {MEDIUM_ERROR}")
    some = at_once(m, unit)
    base.until(lambda: m.count("scattered_again"), "a command to fail")
    m.of.message("fail remote")
    for one in some:
        one.result()
    base.until(partial(delay_is, delay), "the end of all that was sent")
    base.put(errors, "- 2 0x9f")
    base.put(queue, usual)
    m.of.message("recover remote")
    m.of.in_sync()
    sent = m.count("scattered")
    for _ in range(3):
        for one in at_once(m, unit):
            one.result()
    base.expect(m.count("scattered") > sent, "no command to the leg that is back")
    blk.same(m.of.local, node)
    m.remove()
    local.remove()


def removed(node: str) -> None:
    base.step("removed while the leg's sender isn't done with a command whose writes all are")
    knob = Path("/sys/module/dm_lockstep/parameters/test_slow_sent")
    unit, (local, m) = block_of(node), beside(node)
    for _ in range(3):
        for one in at_once(m, unit):
            one.result()
    before = m.count("scattered")
    base.put(knob, 500)
    for one in at_once(m, unit):
        one.result()
    # They are one command or two; the last one hasn't been counted.
    base.expect(m.count("scattered") <= before + 1, "it has been counted already")
    m.remove()
    base.put(knob, 0)
    blk.same(local.node, node)
    local.remove()


def delay_is(jiffies: str) -> bool:
    """False: not yet, as it has commands."""
    with contextlib.suppress(OSError):
        base.put(DEBUG_DELAY, jiffies)
        return True
    return False


def debug_disk() -> str:
    """A disk of the kernel's own SCSI target in memory."""
    disks = Path("/sys/bus/pseudo/devices")
    base.put(DEBUG_HOST, "1")
    base.until(lambda: list(disks.glob("adapter*/host*/target*/*/block/*")), "its disk")
    node = f"/dev/{next(disks.glob('adapter*/host*/target*/*/block/*')).name}"
    base.until(lambda: base.opens(Path(node)), f"{node} to open")
    return node


def block_of(node: str) -> int:
    """In sectors."""
    return int(Path(f"/sys/block/{Path(node).name}/queue/logical_block_size").read_text()) // 512


def on_disk(node: str) -> None:
    """Any SCSI disk of this machine that has it."""
    unit = block_of(node)
    base.step(f"{node}, blocks of {unit * 512}")
    local, m = beside(node)
    m.end(m.load(WRITES, unit), node)
    base.equal(m.told("scatter"), "yes", "word")
    base.expect(m.count("scattered") > 10, "scattered")
    base.equal(m.count("scattered_again"), 0, "sent again")
    print(f"  {m.count('scattered')} commands, {m.count('scattered_runs')} runs", flush=True)
    m.remove()
    local.remove()


def main() -> None:
    link = wire.Wire("lan")
    site = Site("dcd", link)
    for part in (saved, switched, no_larger, cache_switched, partition, reset, refused):
        part(site)
    new_table(link)
    full_queue(link)
    large_blocks(link)
    stock(link)
    no_disk()
    base.step("done")


if sys.argv[1:2] == ["scsi_debug"]:
    debug = debug_disk()
    for part in (on_disk, in_vain, dropped, removed, answers):
        if part.__name__ in (sys.argv[2:] or part.__name__):
            part(debug)
elif sys.argv[1:]:
    on_disk(sys.argv[1])
else:
    main()
