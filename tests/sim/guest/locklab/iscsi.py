# SPDX-License-Identifier: GPL-2.0-only
"""The primary's iSCSI session, by iscsid and iscsiadm as an admin runs them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from . import base, lio

_CLASS = Path("/sys/class/iscsi_session")
_INITIATOR = "iqn.2026-11.org.lockstep:primary"

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
    """One session to lio.IQN. login() gives the disk's node."""

    def __init__(self, **settings: str) -> None:
        chosen = SETTINGS | {key.replace("__", "."): value for key, value in settings.items()}
        Path("/etc/iscsi/initiatorname.iscsi").write_text(f"InitiatorName={_INITIATOR}\n")
        Path("/etc/iscsi/iscsid.conf").write_text(
            "".join(f"{key} = {value}\n" for key, value in chosen.items())
        )
        Path("/run/lock/iscsi").mkdir(parents=True, exist_ok=True)
        self._daemon = subprocess.Popen(
            ["iscsid", "-f"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,  # it signals its whole group
        )
        base.until(lambda: "ISCSIADM_ABSTRACT_NAMESPACE" in Path("/proc/net/unix").read_text(),
                   "iscsid's socket")
        self._node = ["iscsiadm", "-m", "node", "-T", lio.IQN, "-p", f"{lio.PORTAL},1"]
        base.run(*self._node, "-o", "new")
        self.node = ""

    def login(self) -> str:
        base.run(*self._node, "--login")
        base.until(self._disks, "the iSCSI disk")
        self.node = f"/dev/{self._disks()[0]}"
        base.until(lambda: base.opens(Path(self.node)), f"{self.node} to open")
        return self.node

    def logout(self) -> None:
        """Also works with the link down; then it takes the logout timeout."""
        base.run(*self._node, "--logout", check=False)
        base.until(lambda: not self.states(), "the end of the session")

    def close(self) -> None:
        if self.states():
            self.logout()
        self._daemon.terminate()
        self._daemon.wait()

    def states(self) -> list[str]:
        """LOGGED_IN, FAILED (waiting for the link) or FREE (given up) of each session."""
        return [(one / "state").read_text().strip() for one in sorted(_CLASS.glob("session*"))]

    def up(self) -> bool:
        return self.states() == ["LOGGED_IN"] and self.device_state() == "running"

    def device_state(self) -> str:
        """The SCSI device's: running, blocked, transport-offline."""
        return (Path("/sys/block") / Path(self.node).name / "device/state").read_text().strip()

    def patience(self, seconds: int) -> None:
        """How long commands wait for a lost session from now on."""
        for one in _CLASS.glob("session*"):
            base.put(one / "recovery_tmo", seconds)

    def _disks(self) -> list[str]:
        return sorted(p.name for p in _CLASS.glob("session*/device/target*/*/block/*"))
