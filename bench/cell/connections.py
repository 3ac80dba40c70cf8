# SPDX-License-Identifier: GPL-2.0-only
"""The way from the primary to the mirror site's LUN: one iSCSI session, or several as one device.

The remote-mirroring paper's suffix 3 is three connections of one session. open-iscsi has one
connection a session (no MC/S), so here it is three sessions to the same LUN under dm-multipath,
round robin over all of them, a request each: what the application sees is the same, three TCP
streams that share the work. They share one wire, too, as in the paper, whose hosts had one network
card each and one cable line: each session has a portal (port) of its own on the same address. What
three streams gain on a line that is no faster is the question that the paper asks with figure 2.

Difference to MC/S: there is no order of commands between sessions. None is needed: no mirror here
sends overlapping writes at a time that it wants in order, or it says so (mirrors.py).

A burst of 128 writes is many seconds of a slow wire: the initiator's ping behind them, a command's
own time limit (30 s) and the target's for a command's data (3 s) would each take that for a dead
link, and the mirror would go on alone. So all of them are patient, whatever the number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from locklab import base, dm, iscsi, lio, wire

INITIATOR = "iqn.2026-11.org.lockstep:primary"
PATIENT = {"node.conn[0].timeo.noop_out_interval": "0", "node.conn[0].timeo.noop_out_timeout": "0"}
COMMAND_SECONDS = 600
DATA_SECONDS = 60  # the most that LIO takes
MPATH = "paths"
MAX_CONNECTIONS = 8


def portals(count: int) -> list[str]:
    """One a connection, on the one wire."""
    if not 1 <= count <= MAX_CONNECTIONS:
        raise base.Wrong(f"{count} connections: there can be 1 to {MAX_CONNECTIONS}")
    return [f"{wire.MIRROR_IP}:{lio.PORT + number}" for number in range(count)]


@contextlib.contextmanager
def connected(store: lio.Backstore, count: int = 1) -> Iterator[str]:
    """Exports the backstore and logs in, as below."""
    with exported(store, count), logged_in(count) as node:
        yield node


@contextlib.contextmanager
def logged_in(count: int = 1) -> Iterator[str]:
    """Logs in `count` times; yields the node of the LUN at the primary.

    Wire 0 has to be there, best not shaped yet: a login over a slow line takes its time. Raises
    base.Wrong if it ends with a path lost: what was measured then isn't `count` connections.
    """
    where = portals(count)
    session = iscsi.Session(where, **PATIENT)
    try:
        session.login()
        disks = [f"/dev/{iscsi.disk_of(portal)}" for portal in where]
        for disk in disks:
            base.put(Path("/sys/block") / Path(disk).name / "device/timeout", COMMAND_SECONDS)
        if count == 1:
            yield disks[0]
        else:
            yield dm.create(MPATH, _table(disks))
            alive = dm.status(MPATH).split().count("A")
            dm.remove(MPATH)
            # The group is told by an A, too.
            base.equal(alive - 1, count, "paths that are alive at the end")
        up = [portal for portal in where if session.up_by(portal)]
        base.equal(up, where, "sessions that are up at the end")
    finally:
        session.close()


def _table(disks: list[str]) -> str:
    """Round robin over all, a request each; requests fail if no path is left."""
    paths = " ".join(f"{disk} 1" for disk in disks)
    return f"0 {dm.sectors(disks[0])} multipath 0 0 1 1 round-robin 0 {len(disks)} 1 {paths}"


@contextlib.contextmanager
def exported(store: lio.Backstore, count: int = 1) -> Iterator[None]:
    """The target, with an access list of its own: only there the time limit can be set."""
    target = lio.Target(store, portals=portals(count))
    acl = base.made(target.tpg / "acls" / INITIATOR)
    base.put(acl / "attrib/dataout_timeout", DATA_SECONDS)
    lun = base.made(acl / "lun_0")
    (lun / "lun").symlink_to(target.tpg / "lun/lun_0")
    try:
        yield
    finally:
        (lun / "lun").unlink()
        lun.rmdir()
        acl.rmdir()
        target.remove()
