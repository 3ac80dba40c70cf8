# SPDX-License-Identifier: GPL-2.0-only
"""The bench's stack with one mirror software over the LAN: SOFTWARE verify|scribble [CONNECTIONS].

verify: what the bench's figures rest on. Each write is on both legs when the load is over, reads
come from the local leg, all connections share the work.
scribble: a load that overlaps itself and changes its pages while they are written. lockstep
promises equal legs there, too; what the others make of it is told.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))

from cell import connections, mirrors
from cell.order import Stack
from cell.stack import Built, built
from locklab import base, count, iscsi
from mirrorlab import load

MIB = 16
SPAN = MIB << 11
COUNT = 600
software, mode, number = [*sys.argv[1:], "1"][:3]
stack = Stack(software=software, remote="lan", connections=int(number), mib=MIB, media="ssd")


def by_path() -> list[int]:
    """Writes by each session's disk."""
    nodes = [iscsi.disk_of(portal) for portal in connections.portals(stack.connections)]
    return [count.disk(f"/dev/{node}")["writes"] for node in nodes]


def verified(place: Built) -> None:
    base.step(f"{software}: reads and writes that don't overlap")
    before = place.snapshot()
    paths = by_path() if stack.connections > 1 else []
    writes, reads, _, bad_writes, bad_reads = load("verify", place.node, COUNT, span=SPAN)
    spent = count.spent(before, place.snapshot())
    base.equal((bad_writes, bad_reads), (0, 0), "failed writes and reads")
    base.expect(min(writes, reads) > COUNT // 4, f"{writes} writes and {reads} reads")
    # Of a leg over iSCSI the target counts, in commands.
    reads_of, writes_of = (
        ("scsi_read", ("scsi_write", "scsi_write_scattered")) if place.over_iscsi
        else ("remote_reads", ("remote_writes",))
    )  # fmt: skip
    base.equal(spent[reads_of], 0, "reads of the remote leg")
    base.expect(sum(spent[one] for one in writes_of) > 0, "writes of the remote leg")
    if paths:
        shares = [b - a for a, b in zip(paths, by_path(), strict=True)]
        print(f"  writes by path: {shares}", flush=True)
        base.expect(min(shares) > sum(shares) // (2 * len(shares)), f"equal shares: {shares}")


with built(stack) as place:
    print(f"  {place.status()}", flush=True)
    if mode == "verify":
        verified(place)
    else:
        base.step(f"{software}: overlapping writes, pages that change meanwhile")
        load("scribble", place.node, COUNT, span=SPAN // 8)
    at = place.differ_at()
    print(f"  first sector in which the legs differ: {at}", flush=True)
    if mode == "verify" or software in mirrors.ORDERED:
        base.equal(at, None, "first sector in which the legs differ")
