# SPDX-License-Identifier: GPL-2.0-only
"""A mirror whose remote leg is a SCSI disk that may take a batch as one command, over the wire."""

from __future__ import annotations

from pathlib import Path

from digestlab import Dcd
from locklab import base, blk, dm, iscsi, lio, mirror, ram, wire
from mirrorlab import FIELDS

MIB = 8
SERIAL = "8" * 32
# One batch on the way, so that as many writes as can wait in the next one.
PIPELINE = ("nosync", "coalesce_pipeline", 1)
TRACING = Path("/sys/kernel/tracing")


class Site:
    """The mirror site, of any LIO backstore, and what a mirror on it needs."""

    def __init__(self, kind: str, link: wire.Wire, *, block: int = 512, **settings: str) -> None:
        self.wire = link
        self.dcd = Dcd("leg", MIB) if kind == "dcd" else None
        self.disk = None if self.dcd else ram.Ram("data", MIB)
        self.store = self.dcd.store if self.dcd else lio.iblock("i", self._disk().node)
        if block != 512:
            self.store.attribute("block_size", block)
        base.put(self.store.path / "wwn/vpd_unit_serial", SERIAL)
        self.target = lio.Target(self.store)
        self.session = iscsi.Session(**settings)
        self.remote = self.session.login()
        self.local = ram.Ram("local", MIB)

    def _disk(self) -> ram.Ram:
        assert self.disk
        return self.disk

    def up(self, *options: object, remote: str = "") -> Mirrored:
        return Mirrored(mirror.Mirror(self.local.node, remote or self.remote, *PIPELINE, *options))

    def close(self) -> None:
        self.session.close()
        self.target.remove()
        if self.dcd:
            self.dcd.close()
        else:
            self.store.remove()
            self._disk().remove()
        self.local.remove()


class Mirrored:
    def __init__(self, of: mirror.Mirror) -> None:
        self.of = of

    def told(self, field: str) -> str:
        return self.of.status().rest[FIELDS.index(field)]

    def count(self, field: str) -> int:
        return int(self.told(field))

    def load(self, writes: int, unit: int = 1) -> blk.Load:
        """Small writes of so many units that come together; every one of them is there afterwards,
        on both legs (end())."""
        load = blk.Load(self.of.node, writers=16, pause_us=0, max_write=16, unit=unit)
        load.start()
        load.wait_writes(writes)
        return load

    def end(self, load: blk.Load, remote: str) -> None:
        load.stop()
        base.expect(not load.errors, f"errors: {load.errors}")
        base.equal(self.of.status().health, "AA", "health")
        load.check(self.of.local)
        blk.same(self.of.local, remote)

    def remove(self) -> None:
        dm.remove(self.of.name)


class Sent:
    """What the tracepoint tells of each command in the block: bytes, and what became of it."""

    def __enter__(self) -> Sent:
        (TRACING / "trace").open("w", encoding="ascii").close()  # which empties it
        base.put(TRACING / "events/lockstep/lockstep_scattered/enable", "1")
        self.commands: list[tuple[int, str]] = []
        return self

    def __exit__(self, *_: object) -> None:
        base.put(TRACING / "events/lockstep/lockstep_scattered/enable", "0")
        for line in (TRACING / "trace").read_text().splitlines():
            if " lockstep_scattered: " in line:
                told = line.split(" runs, ")[1]
                size, end = told.split(" bytes: ")
                self.commands.append((int(size), end.split(",")[0]))
