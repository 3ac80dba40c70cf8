# SPDX-License-Identifier: GPL-2.0-only
"""The README's lines for a setup by hand, as they are printed there, on two fresh hosts."""

from __future__ import annotations

import time

import pytest
from lockstep import status
from vmlab import TREE, Lab

README = (TREE / "README.md").read_text(encoding="utf-8")
HOME = "/root/lockstep"
IQN = "iqn.2026-11.org.example:m"
INITIATOR = "iqn.2026-11.org.example:primary"
LOCAL = "/dev/disk/by-id/virtio-data"
REMOTE = f"/dev/disk/by-path/ip-10.9.0.2:3260-iscsi-{IQN}-lun-0"
# What stands in the README for the reader's own devices.
DEVICES = {
    "/dev/DATA": "/dev/disk/by-id/virtio-data",
    "/dev/disk/by-id/DATA": "/dev/disk/by-id/virtio-data",
    "/dev/LOG": "/dev/disk/by-id/virtio-log",
    "/dev/disk/by-id/LOG": "/dev/disk/by-id/virtio-log",
    "/dev/vg0/db": LOCAL,
    "/dev/disk/by-path/ip-10.0.0.2:3260-iscsi-iqn...:db-lun-0": REMOTE,
}
# As target-plugin/rtslib/README.md says.
REGISTRATION = {
    "lockstep_rtslib": "/usr/lib/python3/dist-packages/lockstep_rtslib",
    "lockstep-rtslib.pth": "/usr/lib/python3/dist-packages/lockstep-rtslib.pth",
    "lockstep.conf": "/etc/systemd/system/rtslib-fb-targetctl.service.d/lockstep.conf",
}


def lines(after: str) -> str:
    """The block of commands behind these words, with the lab's devices in it."""
    assert README.count(after) == 1, after
    block = README.split(after, 1)[1].split("\n\n    ", 1)[1].split("\n\n", 1)[0]
    found = "\n".join(line.strip() for line in block.splitlines())
    for name, device in DEVICES.items():
        found = found.replace(name, device)
    return found


def run(lab: Lab, host: str, commands: str) -> str:
    """As a person types them, one after another, and stops at the first that fails."""
    return lab.ssh(host, f"set -ex; cd {HOME}\n{commands}").stdout


@pytest.fixture
def hosts(clean_lab: Lab) -> Lab:
    """With what `make modules bins` leaves."""
    tree = ("build/bin", f"build/modules/{clean_lab.release}", "dm-target/lockstep")
    for host in clean_lab.hosts:
        clean_lab.send(host, {f"{HOME}/{part}": TREE / part for part in tree})
    clean_lab.send(
        "mirror", {to: TREE / "target-plugin/rtslib" / one for one, to in REGISTRATION.items()}
    )
    return clean_lab


def test_both_sites_by_hand(hosts: Lab) -> None:
    lab = hosts
    run(lab, "mirror", lines("## The DCD by hand"))
    assert lab.ssh("mirror", "cat /sys/kernel/config/target/core/dcd_0/m/enable").stdout == "1\n"
    run(lab, "mirror", "rmdir /sys/kernel/config/target/core/dcd_0/m; systemctl daemon-reload")
    run(lab, "mirror", lines("targetcli does the same"))

    lab.ssh("primary", "cat >/etc/iscsi/initiatorname.iscsi", stdin=f"InitiatorName={INITIATOR}\n")
    run(lab, "primary", f"""
        systemctl restart iscsid
        iscsiadm -m discovery -t sendtargets -p 10.9.0.2
        iscsiadm -m node -T {IQN} -p 10.9.0.2 --login
        udevadm settle; test -b {REMOTE}""")  # fmt: skip
    run(lab, "primary", lines("Until there is a package"))
    create, enable, look = lines("With a LUN logged in by open-iscsi").splitlines()
    assert create.startswith("lockstep create db ")
    # It asks, on a terminal only.
    run(lab, "primary", f"test ! -e /dev/mapper/db; echo y | script -qec '{create}' /dev/null")
    # 1: the remote leg is being filled.
    told = run(lab, "primary", f"{enable}\n{look} || test $? = 1")
    assert told.startswith("db"), told
    text = "dd if=/dev/mapper/db bs=1M count=1 iflag=direct status=none | sha256sum"
    wanted = run(lab, "primary", f"""
        dd if=/dev/urandom of=/dev/mapper/db bs=1M count=1 oflag=direct conv=fsync status=none
        {text}""")  # fmt: skip

    # A clean end, and a boot after which nobody types anything.
    lab.ssh("primary", "systemctl poweroff", check=False)
    deadline = time.monotonic() + 300
    while lab.machine("primary").pid() is not None:
        assert time.monotonic() < deadline, "it didn't power off"
        time.sleep(0.5)
    lab.boot("primary")
    until = "until test -b /dev/mapper/db; do sleep 1; done"
    lab.ssh("primary", f"timeout 300 sh -c '{until}'")
    assert run(lab, "primary", text) == wanted
    now = status.parse(run(lab, "primary", "dmsetup status --noflush db"))
    assert now.health["local"] == "A" and now.standing == "together", now
    units = "lockstep@db.service lockstep-monitor@db.service lockstep-verify@db.timer"
    assert run(lab, "primary", f"systemctl is-active {units}").split() == ["active"] * 3
    said = run(lab, "primary", "journalctl -b -u lockstep@db --no-pager -o cat")
    assert "not stopped cleanly" not in said, said
