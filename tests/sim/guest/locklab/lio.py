# SPDX-License-Identifier: GPL-2.0-only
"""The mirror site's target: backstores, the iSCSI target, a look at a LUN on the spot."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import base, wire

IQN = "iqn.2026-11.org.lockstep:mirror"
PORT = 3260
PORTAL = f"{wire.MIRROR_IP}:{PORT}"
_TARGET = Path("/sys/kernel/config/target")


class Backstore:
    """core/KIND_0/NAME. Made by iblock() or dcd(); `control` is what the admin would write."""

    def __init__(self, kind: str, name: str, control: str, serial: str | None = None) -> None:
        base.made(_TARGET / "core" / f"{kind}_0")
        self.path = _TARGET / "core" / f"{kind}_0" / name
        self.path.mkdir()
        try:
            base.put(self.path / "control", control)
            base.put(self.path / "enable", 1)
        except OSError:
            self.path.rmdir()
            raise
        if serial is not None:
            base.put(self.path / "wwn/vpd_unit_serial", serial)

    def attribute(self, name: str, value: object = None) -> str:
        if value is not None:
            base.put(self.path / "attrib" / name, value)
        return (self.path / "attrib" / name).read_text().strip()

    def info(self) -> str:
        return (self.path / "info").read_text()

    def remove(self) -> None:
        self.path.rmdir()


def iblock(name: str, node: str, *, write_cache: bool = False) -> Backstore:
    """LIO's own backstore on a block device; write_cache is what the LUN says of itself."""
    store = Backstore("iblock", name, f"udev_path={node}")
    store.attribute("emulate_write_cache", int(write_cache))
    return store


def dcd(name: str, data: str, log: str, nvram: str, *more: str) -> Backstore:
    """Our backstore. `nvram` as in control: pmem:/dev/pmem0, dram, dram:battery, lab:NAME."""
    return Backstore("dcd", name, ",".join([f"data={data}", f"log={log}", f"nvram={nvram}", *more]))


class Target:
    """One iSCSI target with LUN 0, maybe more, its portals in the mirror's namespace."""

    def __init__(
        self, store: Backstore, *, iqn: str = IQN, portals: Sequence[str] = (PORTAL,)
    ) -> None:
        self._portals = portals
        base.made(_TARGET / "iscsi")
        self._iqn = base.made(_TARGET / "iscsi" / iqn)
        self.tpg = base.made(self._iqn / "tpgt_1")
        self._luns: dict[int, Path] = {}
        self._acl: Path | None = None
        self.add(store, 0)
        for name, value in (
            ("authentication", 0),
            ("generate_node_acls", 1),
            ("cache_dynamic_acls", 1),
            ("demo_mode_write_protect", 0),
            ("prod_mode_write_protect", 0),
        ):
            base.put(self.tpg / "attrib" / name, value)
        with base.inside(wire.NETNS):
            for portal in portals:
                base.made(self.tpg / "np" / portal)
        base.put(self.tpg / "enable", 1)

    def add(self, store: Backstore, lun: int) -> None:
        place = base.made(self.tpg / f"lun/lun_{lun}")
        self._luns[lun] = place / store.path.name
        self._luns[lun].symlink_to(store.path)

    def acl(self, initiator: str, **attributes: int) -> None:
        """One of that initiator's own, with LUN 0; else LIO makes one for who logs in."""
        self._acl = base.made(self.tpg / "acls" / initiator)
        mapped = base.made(self._acl / "lun_0")
        (mapped / "default").symlink_to(self.tpg / "lun/lun_0")
        for name, value in attributes.items():
            base.put(self._acl / "attrib" / name, value)

    def drop(self, lun: int) -> None:
        link = self._luns.pop(lun)
        link.unlink()
        link.parent.rmdir()

    def remove(self) -> None:
        base.put(self.tpg / "enable", 0)
        if self._acl:
            (self._acl / "lun_0/default").unlink()
            (self._acl / "lun_0").rmdir()
            self._acl.rmdir()
        for lun in list(self._luns):
            self.drop(lun)
        for portal in self._portals:
            (self.tpg / "np" / portal).rmdir()
        self.tpg.rmdir()
        self._iqn.rmdir()


@contextlib.contextmanager
def look(store: Backstore | Path, number: int = 0) -> Iterator[str]:
    """A backstore (or its directory) as a disk at the mirror site itself (loopback fabric). There
    may be several, each of a number of its own."""
    path = store if isinstance(store, Path) else store.path
    wwn = base.made(base.made(_TARGET / "loopback") / f"naa.60014050000{number:03}01")
    tpg = base.made(wwn / "tpgt_1")
    base.put(tpg / "nexus", f"naa.60014050000{number:03}02")
    lun = base.made(tpg / "lun/lun_0")
    (lun / "lun").symlink_to(path)
    address = (tpg / "address").read_text().strip()
    disks = Path(f"/sys/class/scsi_device/{address}:0/device/block")
    base.until(lambda: disks.is_dir() and os.listdir(disks), f"a loopback disk at {address}")
    node = Path("/dev") / os.listdir(disks)[0]
    # The node of an earlier disk of that name may still be there: open it to be sure.
    base.until(lambda: base.opens(node), f"{node} to open")
    try:
        yield str(node)
    finally:
        (lun / "lun").unlink()
        lun.rmdir()
        base.put(tpg / "nexus", "NULL")
        tpg.rmdir()
        wwn.rmdir()
