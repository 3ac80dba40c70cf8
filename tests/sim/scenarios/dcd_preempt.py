# SPDX-License-Identifier: GPL-2.0-only
"""Who makes the late writes of a lost session harmless: PREEMPT AND ABORT by another initiator, and
LOGICAL UNIT RESET. Writes of an iSCSI session wait in the DCD for its log, the session is lost, and
another initiator takes over; then the log goes on.

(By the loopback fabric Linux 7.3's PREEMPT AND ABORT waits for itself.)

    dcd_preempt.py [PART...]

holder: the old session held the reservation: PREEMPT AND ABORT ends its writes before it answers.
none: it had none when it sent them. LIO aborts only what came while the preempted key held one, so
they arrive late. reset: after a reset they don't.

All with emulate_tas=0. With LIO's default, 1, neither is answered before the target has given up
the lost session, as that has to acknowledge the answer TASK ABORTED.
"""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from dcdlab import SEGMENT, Box
from locklab import base, blk, dm, iscsi, lio, scsi, wire
from locklab.iscsi import Session
from probelab import SOON, timed

HERE, THERE = (f"{wire.mirror_ip(n)}:{lio.PORT}" for n in range(2))
PARTS = ("holder", "none", "reset")
PLACE, COUNT = 4096, 64
SIZE = 112  # sectors of a write that fills a segment
OLD, NEW = "0xabc", "0xdef"
WRITE_EXCLUSIVE = "--prout-type=1"
SLOW = 20_000


class Late(threading.Thread):
    """A write that is answered late, or never."""

    def __init__(self, node: str, n: int) -> None:
        super().__init__(daemon=True)
        self._node, self._n = node, n

    def run(self) -> None:
        cdb = struct.pack(">BBIBHB", 0x2A, 0, PLACE + self._n, 0, 1, 0)
        with contextlib.suppress(OSError), scsi.Lun(self._node) as lun:
            lun.command(cdb, blk.pattern(f"late {self._n}", 1), timeout_ms=SLOW)


def login_as_another() -> str:
    """By the other portal."""
    iface = ("iscsiadm", "-m", "iface", "-I", "other")
    base.run(*iface, "-o", "new")
    name = "iqn.2026-11.org.lockstep:other"
    base.run(*iface, "-o", "update", "-n", "iface.initiatorname", "-v", name)
    record = ("iscsiadm", "-m", "node", "-T", lio.IQN, "-p", f"{THERE},1", "-I", "other")
    base.run(*record, "-o", "new")
    base.run(*record, "--login")
    base.until(lambda: iscsi.disk_of(THERE), "the other initiator's disk")
    node = Path(f"/dev/{iscsi.disk_of(THERE)}")
    base.until(lambda: base.opens(node), f"{node} to open")
    return str(node)


def persist(node: str, *words: str) -> None:
    base.run("sg_persist", "--out", *words, node)


def filled(node: str, box: Box) -> threading.Thread:
    """Until NVRAM is full; what waits then isn't of the session that gets lost."""

    def work() -> None:
        with blk.Disk(node) as disk:
            for n in range(24):
                disk.write(n % 16 * SIZE, blk.pattern(f"segment {n}", SIZE))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    base.until(lambda: box.count("waits_for_room") > 0, "a write to wait")
    return thread


@contextlib.contextmanager
def lost(text: str, *, holds: bool) -> Iterator[tuple[str, list[int]]]:
    """Gives the new initiator's node; at the end, which of the old writes are there in the end."""
    base.step(text)
    box = Box(nvram="lab", nvram_bytes=4096 + 8 * SEGMENT, log_mib=8)
    store = box.open("busy_after_ms=0")
    base.put(store.path / "wwn/vpd_unit_serial", "f" * 32)
    store.attribute("emulate_tas", 0)
    # Where the target keeps reservations.
    Path("/var/target/pr").mkdir(parents=True, exist_ok=True)
    target, session = lio.Target(store, portals=(HERE, THERE)), Session((HERE, THERE))
    base.put(target.tpg / "attrib/default_cmdsn_depth", 2 * COUNT)
    node, new = session.login_by(HERE), login_as_another()
    there: list[int] = []
    with lio.look(store) as third:
        base.put(Path("/sys/block") / Path(third).name / "device/timeout", SLOW // 1000)
        for one in (new, third):
            with scsi.Lun(one) as lun:
                lun.command(bytes(6))
        with blk.Disk(new) as disk:
            disk.write(PLACE, blk.pattern("before", COUNT))
        persist(node, "--register", f"--param-sark={OLD}")
        persist(new, "--register", f"--param-sark={NEW}")
        dm.suspend(box.log.name)
        # Whatever goes wrong from here on: nothing can be taken away before.
        hanging = contextlib.ExitStack()
        hanging.callback(dm.resume, box.log.name)
        with hanging:
            filler = filled(third, box)
            if holds:
                persist(node, "--reserve", f"--param-rk={OLD}", WRITE_EXCLUSIVE)
            commands = store.path / "statistics/scsi_lu/num_cmds"
            before = int(commands.read_text())
            for n in range(COUNT):
                Late(node, n).start()
            base.until(lambda: int(commands.read_text()) >= before + COUNT, "the writes to come")
            WIRES[0].cut()
            yield new, there
            # What the new owner writes now must stay: the old writes are over, or come now.
            if holds:
                persist(new, "--clear", f"--param-rk={NEW}")
        # A reset has ended one of these, too, which sd sends again when its time is over.
        filler.join(4 * SLOW / 1000)
        base.expect(not filler.is_alive(), "the others' writes go on")
        with blk.Disk(new) as disk:
            disk.flush()
            now = disk.read(PLACE, COUNT)
        there += [n for n in range(COUNT) if now[n * 512 :][:512] == blk.pattern(f"late {n}", 1)]
    WIRES[0].mend("lan")
    session.close()
    target.remove()
    box.close()
    box.away()


def preempt(node: str) -> None:
    """It is answered although the log still hangs."""
    words = ("--preempt-abort", f"--param-rk={NEW}", f"--param-sark={OLD}", WRITE_EXCLUSIVE)
    timed("PREEMPT AND ABORT", lambda: persist(node, *words), SOON)


def holder() -> None:
    with lost("the old session held the reservation", holds=True) as (new, there):
        preempt(new)
    base.equal(there, [], "late writes that arrived")


def none() -> None:
    with lost("it was registered only", holds=False) as (new, there):
        preempt(new)
    print(f"  {len(there)} of {COUNT} writes arrived late", flush=True)
    base.expect(there, "LIO aborts these now, too: then say so in lockstep(8)")


def reset() -> None:
    with (
        lost("it was registered only, and the LUN is reset", holds=False) as (new, there),
        scsi.Lun(new) as lun,
    ):
        timed("the reset", lun.reset, SOON)
    base.equal(there, [], "late writes that arrived")


WIRES = [wire.Wire("lan", number=n) for n in range(2)]
for part in base.words(1, PARTS) or PARTS:
    globals()[part]()
base.step("done")
