# SPDX-License-Identifier: GPL-2.0-only
"""The primary's iSCSI session, by iscsid and iscsiadm as an admin runs them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import base, lio

_CLASS = Path("/sys/class/iscsi_session")
INITIATOR = "iqn.2026-11.org.lockstep:primary"

# What the lab wants to be short. noop: a dead link is noticed after interval + timeout;
# replacement_timeout: then commands wait that long for the session to come back before they fail.
SETTINGS = {
    "node.startup": "manual",
    "node.session.timeo.replacement_timeout": "5",
    "node.conn[0].timeo.noop_out_interval": "2",
    "node.conn[0].timeo.noop_out_timeout": "2",
    "node.conn[0].timeo.login_timeout": "10",
    "node.conn[0].timeo.logout_timeout": "3",
    "node.session.err_timeo.abort_timeout": "5",
    "node.session.err_timeo.lu_reset_timeout": "5",
    "node.session.cmds_max": "128",
    "node.session.queue_depth": "64",
}


class Session:
    """A session to lio.IQN by each of the portals. login() gives the node of the first's disk."""

    def __init__(self, portals: Sequence[str] = (lio.PORTAL,), **settings: str) -> None:
        chosen = SETTINGS | {key.replace("__", "."): value for key, value in settings.items()}
        Path("/etc/iscsi/initiatorname.iscsi").write_text(f"InitiatorName={INITIATOR}\n")
        Path("/etc/iscsi/iscsid.conf").write_text(
            "".join(f"{key} = {value}\n" for key, value in chosen.items())
        )
        Path("/run/lock/iscsi").mkdir(parents=True, exist_ok=True)
        self._daemon = _iscsid()
        self._portals = portals
        for portal in portals:
            base.run(*_record(portal), "-o", "new")
        self.node = ""

    def login(self) -> str:
        nodes = [self.login_by(portal) for portal in self._portals]
        self.node = nodes[0]
        return self.node

    def login_by(self, portal: str) -> str:
        """One session; gives the node of its disk."""
        base.run(*_record(portal), "--login")
        base.until(lambda: disk_of(portal), f"the iSCSI disk by {portal}")
        node = f"/dev/{disk_of(portal)}"
        base.until(lambda: base.opens(Path(node)), f"{node} to open")
        return node

    def logout(self) -> None:
        """Also works with the link down; then it takes the logout timeout."""
        for portal in self._portals:
            self.logout_by(portal)

    def logout_by(self, portal: str) -> None:
        base.run(*_record(portal), "--logout", check=False)
        base.until(lambda: not _session(portal), "the end of the session")

    def close(self) -> None:
        if self.states():
            self.logout()
        self._end_daemon()

    def _end_daemon(self) -> None:
        """A signal just before iscsid polls is seen after the poll, which may never end."""
        while self._daemon.poll() is None:
            self._daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._daemon.wait(1)

    def restart_daemon(self) -> None:
        """As an admin does whose iscsid wasn't told that a session died: it looks anew."""
        self._end_daemon()
        self._daemon = _iscsid()

    def states(self) -> list[str]:
        """LOGGED_IN, FAILED (waiting for the link) or FREE (given up) of each session."""
        return [(one / "state").read_text().strip() for one in sorted(_CLASS.glob("session*"))]

    def up(self) -> bool:
        return (
            self.states() == ["LOGGED_IN"] * len(self._portals)
            and self.device_state() == "running"
        )

    def up_by(self, portal: str) -> bool:
        session, disk = _session(portal), disk_of(portal)
        if session is None or disk is None:
            return False
        said = (session / "state", Path(f"/sys/block/{disk}/device/state"))
        return [one.read_text().strip() for one in said] == ["LOGGED_IN", "running"]

    def device_state(self) -> str:
        """The SCSI device's: running, blocked, transport-offline."""
        return (Path("/sys/block") / Path(self.node).name / "device/state").read_text().strip()

    def patience(self, seconds: int) -> None:
        """How long commands wait for a lost session from now on."""
        for one in _CLASS.glob("session*"):
            base.put(one / "recovery_tmo", seconds)


def _iscsid() -> subprocess.Popen[bytes]:
    daemon = subprocess.Popen(
        ["iscsid", "-f"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,  # it signals its whole group
    )
    base.until(lambda: "ISCSIADM_ABSTRACT_NAMESPACE" in Path("/proc/net/unix").read_text(),
               "iscsid's socket")
    return daemon


def _record(portal: str) -> list[str]:
    return ["iscsiadm", "-m", "node", "-T", lio.IQN, "-p", f"{portal},1"]


def _session(portal: str) -> Path | None:
    address, _, port = portal.partition(":")
    for one in _CLASS.glob("session*"):
        for at in one.glob("device/connection*/iscsi_connection/*"):
            told = [(at / f"persistent_{key}").read_text().strip() for key in ("address", "port")]
            if told == [address, port or str(lio.PORT)]:
                return one
    return None


def disk_of(portal: str, lun: int = 0) -> str | None:
    """The kernel's name of the LUN by that portal's session."""
    session = _session(portal)
    found = sorted(session.glob(f"device/target*/*:{lun}/block/*")) if session else []
    return found[0].name if found else None
