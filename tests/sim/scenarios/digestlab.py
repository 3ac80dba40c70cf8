# SPDX-License-Identifier: GPL-2.0-only
"""Both sites with a DCD as the remote leg and its digest LUN; each of the three devices below dm,
so that it can be slowed, broken and exchanged."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from dcdlab import format_log
from locklab import base, blk, dm, iscsi, lio, mirror, ram, wire
from mirrorlab import FIELDS
from statelab import create, super_of

BLOCK, DIGEST = 4096, 32
MIB = 2 if base.CHECKED else 16


class Under:
    """A device below dm."""

    def __init__(self, name: str, node: str, *, readonly: bool = False) -> None:
        self.name, self.disk, self.sectors, self._ro = name, node, dm.sectors(node), readonly
        self.node = dm.create(name, f"0 {self.sectors} linear {node} 0", readonly=readonly)

    def set(self, table: str) -> None:
        dm.load(self.name, table, readonly=self._ro)
        dm.suspend(self.name, flush=False)
        dm.resume(self.name)

    def well(self) -> None:
        self.set(f"0 {self.sectors} linear {self.disk} 0")

    def gone(self) -> None:
        """Not the target "error", which dm sends no flushes, and so acknowledges them."""
        self.set(f"0 {self.sectors} flakey {self.disk} 0 0 36000")

    def slow(self, ms: int) -> None:
        self.set(f"0 {self.sectors} delay {self.disk} 0 {ms}")

    def hang(self) -> None:
        dm.suspend(self.name, flush=False)

    def wake(self) -> None:
        dm.resume(self.name)

    def close(self) -> None:
        dm.remove(self.name)


class Dcd:
    """A DCD on plain disks."""

    def __init__(self, name: str, mib: int = MIB, latency_us: int = 0) -> None:
        self.disks = [ram.Ram(f"{name}data", mib, latency_us=latency_us), ram.Ram(f"{name}log", 16)]
        data, log = (disk.node for disk in self.disks)
        format_log(data, log)
        self._control = (name, data, log, "dram:battery", f"nvram_bytes={1 << 20}")
        self.store = lio.dcd(*self._control)

    def again(self) -> None:
        self.store = lio.dcd(*self._control)

    def close(self) -> None:
        self.store.remove()
        for disk in self.disks:
            disk.remove()


def view(name: str, of: str) -> lio.Backstore:
    return lio.Backstore("dcd", name, f"digests_of={of}")


class Sites:
    def __init__(self, profile: str = "lan", mib: int = MIB, region: int = 64) -> None:
        self.wire = wire.Wire()
        self.dcd = Dcd("leg", mib)
        self.view = view("digests", "leg")
        self.target = lio.Target(self.dcd.store)
        self.target.add(self.view, 1)
        self.session = iscsi.Session()
        self.remote = Under("lremote", self.session.login())
        base.until(lambda: iscsi.disk_of(lio.PORTAL, 1), "the digest LUN")
        lun = f"/dev/{iscsi.disk_of(lio.PORTAL, 1)}"
        base.until(lambda: base.opens(Path(lun)), f"{lun} to open")
        self.digests = Under("ldigests", lun, readonly=True)
        self.memory = ram.Ram("local", mib)
        self.local = Under("llocal", self.memory.node)
        self.wire.profile(profile)
        create(self.local.node, self.remote.node, "--assume-clean", "--region-size", str(region))
        self.sectors = super_of(self.local.node).data_sectors

    def mirror(self, *options: object, digests: str | None = None) -> mirror.Mirror:
        """With the digest LUN, or with that device in its place; "" without any."""
        device = self.digests.node if digests is None else digests
        words = ("resync_digests", device) if device else ()
        # What a load does costs 30 times as much on the checked kernel, beside politeness, too.
        polite = not base.CHECKED or "resync_pace" in options
        pace = () if polite else ("resync_pace", "full")
        more = options or ("remote_timeout", 10_000)
        return mirror.Mirror(
            self.local.node, self.remote.node, *words, *pace, *more, sectors=self.sectors
        )

    def fill(self, tag: str, *nodes: str, first: int = 0, count: int | None = None) -> None:
        """Bytes that tell where they belong, straight to these devices."""
        count = self.sectors - first if count is None else count
        for node in nodes:
            with blk.Disk(node) as disk:
                for at in range(first, first + count, 2048):
                    part = min(2048, first + count - at)
                    one = blk.pattern(f"{tag} {at}", 8) * (part // 8 + 1)
                    disk.write(at, one[: part << 9])

    def same(self) -> None:
        """The legs' data, at this quiet moment."""
        blk.same(self.local.disk, self.remote.disk, self.sectors)

    def differ(self) -> None:
        base.expect(blk.difference(self.local.disk, self.remote.disk, self.sectors) is not None,
                    "the legs are the same already: the test tells nothing")  # fmt: skip

    def close(self) -> None:
        for one in (self.local, self.remote, self.digests):
            one.close()
        self.session.close()
        self.target.remove()
        self.view.remove()
        self.dcd.close()
        self.memory.remove()
        self.wire.close()


def count(m: mirror.Mirror, field: str) -> int:
    return int(m.status().rest[FIELDS.index(field)])


def resync(m: mirror.Mirror) -> dict[str, int]:
    """All of it; what it counted."""
    fields = ("resynced", "compared", "equal", "digested", "digests_equal", "digests_failed")
    before = {field: count(m, field) for field in fields}
    m.message("resync")
    m.in_sync()
    return {field: count(m, field) - before[field] for field in fields}


def expected(data: bytes) -> bytes:
    """The digest LUN of a data LUN with these bytes, made a second time from lockstep-digest.h."""
    blocks = len(data) // BLOCK
    key = data[blocks * BLOCK - DIGEST : blocks * BLOCK]
    size = -(-(BLOCK + blocks * DIGEST) // BLOCK) * BLOCK
    if key == bytes(DIGEST):
        return bytes(size)
    header = struct.pack("<QIIIIQ", 0x3154534749445354, 1, 1, BLOCK, DIGEST, len(data) // 512)
    told = header + hashlib.blake2s(header, key=key).digest()
    digests = b"".join(
        hashlib.blake2s(struct.pack("<Q", n) + data[n * BLOCK : (n + 1) * BLOCK], key=key).digest()
        for n in range(blocks)
    )
    return (told.ljust(BLOCK, b"\0") + digests).ljust(size, b"\0")
