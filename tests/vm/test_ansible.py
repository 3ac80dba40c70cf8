# SPDX-License-Identifier: GPL-2.0-only
"""The Ansible collection on two fresh hosts: what it sets up, what it refuses, what comes back.

The hosts are set up once, and the tests go on from there in the order of this file; each leaves a
mirror that is in sync. The local leg is a small partition, so that a full resync takes seconds.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from vmlab import Lab

TREE = Path(__file__).resolve().parents[2]
DISK = "/dev/disk/by-id/virtio-data"
LOCAL = f"{DISK}-part1"
SAVED = "/etc/rtslib-fb-target/saveconfig.json"
LOG_DISK = "/dev/disk/by-id/virtio-log"
MIB = 64
SECRETS = {"LOCKSTEP_CHAP_PASSWORD": "one-of-primary", "LOCKSTEP_MUTUAL_PASSWORD": "two-of-mirror"}
# A DOS partition table with one partition of MIB; the image has no program for that.
PARTITION = f"""
import struct
with open("{DISK}", "r+b") as disk:
    entry = struct.pack("<B3sB3sII", 0, b"", 0x83, b"", 2048, {MIB} * 2048)
    disk.write(bytes(440) + b"lock" + bytes(2) + entry + bytes(48) + b"\\x55\\xaa")
"""
FIRST_RUN = ("-e", "mirror_site_format=true", "-e", "primary_initial_sync=local_to_remote")


@dataclass(frozen=True)
class Run:
    text: str
    status: int

    def count(self, host: str, word: str) -> int:
        found = re.search(rf"^{host} .*\b{word}=(\d+)", self.text, re.MULTILINE)
        assert found, f"no recap of {host} in:\n{self.text}"
        return int(found.group(1))

    def ok(self) -> Run:
        assert self.status == 0, self.text
        return self


def play(lab: Lab, *words: str, **secrets: str) -> Run:
    """site.yml with the sample inventory for a LAN, as the lab's hosts are reached."""
    command = [
        str(TREE / "ansible/play"), "--mitogen", "-i", str(TREE / "ansible/inventories/lan"),
        "-i", str(lab.inventory_path), str(TREE / "ansible/playbooks/site.yml"),
        "-e", f"primary_local={LOCAL}", *words,
    ]  # fmt: skip
    env = os.environ | SECRETS | secrets
    env |= {"ANSIBLE_HOST_KEY_CHECKING": "False", "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(
        command, cwd=TREE, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    return Run(done.stdout + done.stderr, done.returncode)


def on(lab: Lab, host: str, command: str) -> str:
    return lab.ssh(host, command).stdout.strip()


def health(lab: Lab) -> str:
    words = on(lab, "primary", "dmsetup status m0").split()
    return f"{words[3]} {words[5]}"


def in_sync(lab: Lab, seconds: float = 180.0) -> None:
    until = time.monotonic() + seconds
    while (now := health(lab)) != "AA idle":
        assert time.monotonic() < until, f"not in sync after {seconds:g} s: {now}"
        time.sleep(1)


def wait_for(lab: Lab, command: str, seconds: float = 90.0) -> None:
    """Until the command on the primary succeeds."""
    until = time.monotonic() + seconds
    while lab.ssh("primary", command, check=False).returncode:
        assert time.monotonic() < until, on(lab, "primary", "systemctl status 'lockstep*'; true")
        time.sleep(1)


def remote_node(lab: Lab) -> str:
    return on(lab, "primary", "echo /dev/$(ls /sys/class/iscsi_session/*/device/target*/*/block)")


def checksum(lab: Lab, node: str) -> str:
    """Of what the device has, not the host's page cache; as long as the mirror is."""
    read = f"dd if={node} bs=1M count={MIB} iflag=direct status=none | sha256sum"
    return on(lab, "primary", read)


def same_legs(lab: Lab) -> str:
    """Compares both legs and the mirror itself; the remote one is read from the LUN."""
    nodes = ("/dev/mapper/m0", LOCAL, remote_node(lab))
    sums = {checksum(lab, node) for node in nodes}
    assert len(sums) == 1, f"the legs differ: {sums}"
    return sums.pop()


def write(lab: Lab, mib: int, at: int) -> None:
    """Random bytes that the mirror has acknowledged, one write after another."""
    command = f"dd if=/dev/urandom of=/dev/mapper/m0 bs=64k count={16 * mib} seek={16 * at}"
    on(lab, "primary", f"{command} oflag=direct,dsync conv=nocreat status=none")


@pytest.fixture(scope="module")
def fresh(lab: Lab) -> Lab:
    lab.restore()
    on(lab, "primary", f"python3 -c '{PARTITION}' && blockdev --rereadpt {DISK} && udevadm settle")
    on(lab, "primary", f"test -b {LOCAL}")
    return lab


@pytest.fixture(scope="module")
def refused(fresh: Lab) -> tuple[Run, bool]:
    """A run that may format, with a foreign signature on the log disk; is all as it was?"""
    lab = fresh
    on(lab, "mirror", f"mkswap --label precious {LOG_DISK}")
    look = f"sha256sum < {LOG_DISK}; dd if=/dev/pmem0 bs=1M count=4 status=none | sha256sum"
    before = on(lab, "mirror", look)
    run = play(lab, *FIRST_RUN)
    same = on(lab, "mirror", look) == before
    on(lab, "mirror", f"dd if=/dev/zero of={LOG_DISK} bs=1M count=1 conv=fsync status=none")
    return run, same


@pytest.fixture(scope="module")
def site(fresh: Lab, refused: tuple[Run, bool]) -> Lab:
    play(fresh, *FIRST_RUN).ok()
    in_sync(fresh)
    return fresh


def test_a_foreign_signature_is_refused(refused: tuple[Run, bool]) -> None:
    run, same = refused
    assert run.status and run.count("mirror", "failed") == 1
    assert f"foreign signature on log disk {LOG_DISK}: swap precious" in run.text
    assert same, "the log disk or the NVRAM was changed"
    # The play ended there: the primary was never touched.
    assert "PLAY [The primary]" not in run.text


def test_another_kernel_is_refused(fresh: Lab, tmp_path: Path) -> None:
    lab = fresh
    run = play(lab, "--limit", "mirror", "-e", f"mirror_site_modules_dir={tmp_path}")
    assert run.status and run.count("mirror", "changed") == 0
    release = on(lab, "mirror", "uname -r")
    assert f"there is no {tmp_path}/{release}/dcd.ko on the control node" in run.text


def test_a_second_run_changes_nothing(site: Lab) -> None:
    run = play(site).ok()
    assert (run.count("mirror", "changed"), run.count("primary", "changed")) == (0, 0), run.text


def test_another_initiator_is_locked_out(site: Lab) -> None:
    tpg = "/sys/kernel/config/target/iscsi/*/tpgt_1"
    on(site, "mirror", f"cd {tpg}/acls && mkdir iqn.2026-11.org.example:old-primary")
    run = play(site, "--limit", "mirror").ok()
    assert run.count("mirror", "changed") == 1, run.text
    assert "old-primary" not in on(site, "mirror", f"ls {tpg}/acls; cat {SAVED}")
    assert health(site) == "AA idle"


def test_both_legs_get_what_is_written(site: Lab) -> None:
    empty = same_legs(site)
    write(site, mib=2, at=0)
    write(site, mib=1, at=MIB - 1)
    assert same_legs(site) != empty
    # Up to the LUN's other end, where the data was promised to be.
    info = on(site, "mirror", "cat /sys/kernel/config/target/core/dcd_0/m0/info")
    assert "log ok, data ok" in info


def test_a_secret_is_in_no_log_and_in_no_file_that_others_read(site: Lab) -> None:
    for host in site.hosts:
        for secret in SECRETS.values():
            found = on(site, host, f"grep -rl {secret} /etc /var/lib | xargs -r stat -c '%a %n'")
            assert found and all(line.startswith("600 ") for line in found.splitlines()), found
            logged = f"journalctl --no-pager | grep -v 'grep -rl' | grep -c {secret}"
            assert site.ssh(host, logged, check=False).stdout.strip() == "0", f"logged on {host}"


def test_a_clean_stop_needs_no_resync(site: Lab) -> None:
    on(site, "primary", "systemctl stop lockstep@m0")
    assert '"clean": true' in on(site, "primary", "cat /var/lib/lockstep/m0.json")
    on(site, "primary", "systemctl start lockstep@m0")
    assert health(site) == "AA idle"
    assert '"clean": false' in on(site, "primary", "cat /var/lib/lockstep/m0.json")
    same_legs(site)


def test_a_stop_of_a_mirror_in_use(site: Lab) -> None:
    """It fails, and the watch goes on. A stop and a start by hand leave one too."""
    use = "sleep 60 </dev/mapper/m0 >/dev/null 2>&1 & systemctl stop lockstep@m0; "
    states = "systemctl is-active lockstep@m0 lockstep-watch@m0"
    assert site.ssh("primary", f"{use} {states}; kill $!", check=False).stdout.split() == [
        "failed", "active",
    ]  # fmt: skip
    on(site, "primary", "systemctl start lockstep@m0")
    wait_for(site, f"test $({states} | grep -cx active) = 2", 30)
    on(site, "primary", "lockstep-mirror stop m0")
    wait_for(site, "! systemctl is-active lockstep-watch@m0", 30)
    on(site, "primary", "lockstep-mirror start m0")
    wait_for(site, "systemctl is-active lockstep-watch@m0", 30)
    assert health(site) == "AA idle"


def test_nothing_is_overwritten_when_nothing_is_known(site: Lab) -> None:
    """The state of a clean stop lost, as on a primary that was installed anew."""
    on(site, "primary", "systemctl stop lockstep@m0; mv /var/lib/lockstep/m0.json /root")
    start = site.ssh("primary", "lockstep-mirror start m0", check=False)
    assert start.returncode == 3 and "it is not known which leg of m0 is current" in start.stderr
    first = site.ssh("primary", "lockstep-mirror declare m0 local --if-blank", check=False)
    assert first.returncode == 3 and "would be overwritten, and it is not blank" in first.stderr
    on(site, "primary", "mv /root/m0.json /var/lib/lockstep; systemctl start lockstep@m0")
    assert health(site) == "AA idle"


def test_only_the_remote_leg_current(site: Lab) -> None:
    """The local leg failed, writes went on, the mirror stopped: the remote one is named first."""
    on(site, "primary", "dmsetup message m0 0 fail local")
    write(site, mib=1, at=7)
    wanted = checksum(site, "/dev/mapper/m0")
    on(site, "primary", "systemctl stop lockstep@m0; systemctl start lockstep@m0")
    in_sync(site)
    assert same_legs(site) == wanted
    on(site, "primary", "systemctl stop lockstep@m0; systemctl start lockstep@m0")
    assert same_legs(site) == wanted


def test_a_wrong_secret_is_refused(site: Lab) -> None:
    logout = "systemctl stop lockstep@m0 && iscsiadm -m node --logoutall=all"
    on(site, "primary", logout)
    wrong = play(site, "--limit", "primary", LOCKSTEP_CHAP_PASSWORD="none-of-primary")
    assert wrong.status and wrong.count("primary", "failed") == 1
    said = on(site, "primary", "journalctl -u lockstep@m0 --no-pager --since -2min")
    assert "refuses this host: CHAP name or secret is wrong" in said
    assert site.ssh("primary", "test -e /dev/mapper/m0", check=False).returncode == 1
    play(site, "--limit", "primary").ok()
    in_sync(site)
    same_legs(site)


def test_a_power_cut_of_the_mirror_site(site: Lab) -> None:
    """The primary goes on; the LUN is back by itself, gets what it missed, and has the rest."""
    write(site, mib=1, at=20)
    site.power_cut("mirror", stay_down=True)
    write(site, mib=1, at=30)
    assert health(site) == "AD waiting"
    site.boot("mirror")
    in_sync(site)
    same_legs(site)


def test_a_power_cut_of_the_primary(site: Lab) -> None:
    """The unit assembles the mirror at boot, local leg first."""
    write(site, mib=1, at=40)
    wanted = checksum(site, "/dev/mapper/m0")
    site.power_cut("primary")
    wait_for(site, "test -b /dev/mapper/m0")
    in_sync(site)
    assert same_legs(site) == wanted


def test_a_local_disk_that_vanishes_and_is_back_after_a_power_cut(site: Lab) -> None:
    """All that was written since is on the remote leg only: it is named first."""
    write(site, mib=2, at=12)
    before = checksum(site, "/dev/mapper/m0")
    # As when it is pulled: udev removes its name, dm keeps the rest of it.
    pci = f"$(dirname $(readlink -f /sys/block/$(basename $(readlink -f {DISK}))/device))"
    on(site, "primary", f"echo 1 > {pci}/remove; udevadm settle; ! test -e {LOCAL}")
    write(site, mib=1, at=13)
    wanted = checksum(site, "/dev/mapper/m0")
    assert wanted != before and health(site).startswith("DA ")
    # The moment that the head of lockstep-mirror speaks of.
    known = "import json; print(*json.load(open('/var/lib/lockstep/m0.json'))['current'])"
    wait_for(site, f'test "$(python3 -c "{known}")" = remote', 30)
    site.power_cut("primary")
    wait_for(site, "test -b /dev/mapper/m0")
    on(site, "primary", f"test -e {LOCAL}")
    first = on(site, "primary", "dmsetup table m0").split()[3]
    assert first == on(site, "primary", f"lsblk -ndo MAJ:MIN {remote_node(site)}").strip()
    in_sync(site)
    assert same_legs(site) == wanted
