# SPDX-License-Identifier: GPL-2.0-only
"""The Ansible collection on two fresh hosts: what it sets up, what it refuses, what comes back.

The hosts are set up once. Each test begins with a mirror that is in sync; if the one before left
another, both hosts are set up anew. What has to be copied is told to the region, so such a test
begins with a mirror that was stopped and started: no region is dirty, nothing is counted yet. The
local leg is a small partition, so that a full resync takes seconds; the mirror is shorter than that
by the metadata at its end.

The hosts may be slow (emulated CPUs, other programs beside them): a wait has an end only so that a
failure is told.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from lockstep import status
from lockstep.status import Status
from vmlab import Lab, LabError

TREE = Path(__file__).resolve().parents[2]
DISK = "/dev/disk/by-id/virtio-data"
LOCAL = f"{DISK}-part1"
# What the role is told: another name of the same device than `lockstep create` keeps.
TOLD = "/dev/lab-leg"
REMOTE = "/dev/disk/by-path/ip-10.9.0.2:3260-iscsi-iqn.2026-11.org.example:m0-lun-0"
SAVED = "/etc/rtslib-fb-target/saveconfig.json"
LOG_DISK = "/dev/disk/by-id/virtio-log"
MIB = 64
REGION = 2048  # sectors: of so small a mirror's dirty map
SECRETS = {"LOCKSTEP_CHAP_PASSWORD": "one-of-primary", "LOCKSTEP_MUTUAL_PASSWORD": "two-of-mirror"}
# A DOS partition table with one partition of MIB; the image has no program for that.
PARTITION = f"""
import struct
with open("{DISK}", "r+b") as disk:
    entry = struct.pack("<B3sB3sII", 0, b"", 0x83, b"", 2048, {MIB} * 2048)
    disk.write(bytes(440) + b"lock" + bytes(2) + entry + bytes(48) + b"\\x55\\xaa")
"""
WAIT_S = 300.0
# A host that is short of CPU answers late, and must not be taken for lost.
PATIENT = {
    "primary_command_timeout": 45,
    "primary_noop_timeout": 20,
    "primary_replacement_timeout": 5,
    "primary_options": {"remote_timeout": 30000},
}
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
        "-e", f"primary_local={TOLD}", "-e", json.dumps(PATIENT), *words,
    ]  # fmt: skip
    env = os.environ | SECRETS | secrets
    env |= {"ANSIBLE_HOST_KEY_CHECKING": "False", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_TIMEOUT": "60"}
    done = subprocess.run(
        command, cwd=TREE, env=env, capture_output=True, text=True, timeout=900, check=False
    )
    return Run(done.stdout + done.stderr, done.returncode)


def on(lab: Lab, host: str, command: str) -> str:
    return lab.ssh(host, command).stdout.strip()


def mirror(lab: Lab) -> Status:
    """By dmsetup: `lockstep status` costs seconds of emulated CPU."""
    return status.parse(on(lab, "primary", "dmsetup status --noflush m0"))


def good(now: Status) -> bool:
    return now.whole and now.action == "idle"


def health(now: Status) -> str:
    """Of both legs, what is being done, and how the legs stand to each other."""
    return f"{''.join(now.health.values())} {now.action} {now.standing}"


def resynced(lab: Lab) -> int:
    """Sectors, since the mirror was assembled or got a new table."""
    return mirror(lab).counters["resynced_sectors"]


def reaches(lab: Lab, what: Callable[[Status], bool], seconds: float = WAIT_S) -> Status:
    """Waits for a state of the mirror."""
    until = time.monotonic() + seconds
    while not what(now := mirror(lab)):
        assert time.monotonic() < until, f"after {seconds:g} s: {health(now)}, {now.dirty} dirty"
        time.sleep(1)
    return now


def in_sync(lab: Lab) -> None:
    reaches(lab, good)


def wait_for(lab: Lab, command: str, seconds: float = WAIT_S) -> None:
    """Until the command on the primary succeeds."""
    until = time.monotonic() + seconds
    while lab.ssh("primary", command, check=False).returncode:
        assert time.monotonic() < until, on(lab, "primary", "systemctl status 'lockstep*'; true")
        time.sleep(1)


def rested(lab: Lab) -> None:
    """Stopped and started: no region is dirty, and what is copied is counted from here."""
    on(lab, "primary", "systemctl restart lockstep@m0")
    now = mirror(lab)
    assert good(now) and now.dirty == 0 and now.counters["resynced_sectors"] == 0, now


def checksum(lab: Lab, node: str) -> str:
    """Of the data that the device has, not the host's page cache, as long as the mirror is."""
    length = "$(blockdev --getsize64 /dev/mapper/m0)"
    read = f"dd if={node} bs=1M count={length} iflag=direct,count_bytes status=none | sha256sum"
    return on(lab, "primary", read)


def same_legs(lab: Lab) -> str:
    """Compares both legs and the mirror itself; the remote one is read from the LUN."""
    sums = {checksum(lab, node) for node in ("/dev/mapper/m0", LOCAL, REMOTE)}
    assert len(sums) == 1, f"the legs differ: {sums}"
    return sums.pop()


def described(lab: Lab) -> dict[str, Any]:
    """As the command tells it."""
    told: dict[str, dict[str, Any]] = json.loads(on(lab, "primary", "lockstep status m0 --json"))
    return told["m0"]


def write(lab: Lab, mib: int, at: int) -> None:
    """Random bytes that the mirror has acknowledged, one write after another."""
    command = f"dd if=/dev/urandom of=/dev/mapper/m0 bs=64k count={16 * mib} seek={16 * at}"
    on(lab, "primary", f"{command} oflag=direct,dsync conv=nocreat status=none")


def again(lab: Lab, at: int) -> None:
    """Writes what is there already: a region gets clean a minute after its last write, and on an
    emulated CPU a checksum can take that long."""
    place = "bs=64k count=1 status=none"
    read = f"dd if=/dev/mapper/m0 {place} skip={16 * at} iflag=direct"
    to = f"dd of=/dev/mapper/m0 {place} seek={16 * at} iflag=fullblock oflag=direct,dsync"
    on(lab, "primary", f"{read} | {to} conv=nocreat")


def blank(lab: Lab) -> None:
    """Both hosts as Debian installed them."""
    lab.restore()
    on(lab, "primary", f"python3 -c '{PARTITION}' && blockdev --rereadpt {DISK} && udevadm settle")
    rule = f'SYMLINK=="{LOCAL.removeprefix("/dev/")}", SYMLINK+="{Path(TOLD).name}"\n'
    again = f"udevadm control --reload && udevadm trigger --settle --name-match={LOCAL}"
    lab.ssh("primary", f"cat >/etc/udev/rules.d/99-lab-leg.rules && {again}", stdin=rule)
    on(lab, "primary", f"test -b {LOCAL} && test -b {TOLD} && sync")


def set_up(lab: Lab) -> None:
    play(lab, *FIRST_RUN).ok()
    in_sync(lab)


@pytest.fixture(scope="module")
def fresh(lab: Lab) -> Lab:
    blank(lab)
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
def first_run(fresh: Lab, refused: tuple[Run, bool]) -> Lab:
    set_up(fresh)
    return fresh


@pytest.fixture
def site(first_run: Lab, request: pytest.FixtureRequest) -> Lab:
    """A mirror in sync, on both hosts as the playbook left them."""
    lab = first_run
    try:
        reaches(lab, good, 60)
    except (AssertionError, LabError) as err:
        print(f"{request.node.name}: both hosts are set up anew: {err}")
        blank(lab)
        set_up(lab)
    return lab


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
    assert good(mirror(site))


def test_both_legs_get_what_is_written(site: Lab) -> None:
    empty = same_legs(site)
    write(site, mib=2, at=0)
    write(site, mib=1, at=MIB - 2)
    # Up to the mirror's end, behind which the metadata begins.
    last = "$(($(blockdev --getsize64 /dev/mapper/m0) / 4096 - 1))"
    on(site, "primary", f"dd if=/dev/urandom of=/dev/mapper/m0 bs=4k count=1 seek={last}"
       " oflag=direct,dsync conv=nocreat status=none")  # fmt: skip
    assert same_legs(site) != empty
    info = on(site, "mirror", "cat /sys/kernel/config/target/core/dcd_0/m0/info")
    assert "log ok, data ok" in info


def test_what_is_at_work(site: Lab) -> None:
    units = "lockstep@m0.service lockstep-monitor@m0.service lockstep-verify@m0.timer"
    assert on(site, "primary", f"systemctl is-active {units}").split() == ["active"] * 3
    assert on(site, "primary", f"systemctl is-enabled {units}").split() == ["enabled"] * 3
    timeout = f"cat /sys/block/$(basename $(readlink -f {REMOTE}))/device/timeout"
    assert on(site, "primary", timeout) == "45"
    on(site, "primary", "man -w lockstep || test -e /usr/local/share/man/man8/lockstep.8")


def test_a_secret_is_in_no_log_and_in_no_file_that_others_read(site: Lab) -> None:
    for host in site.hosts:
        for secret in SECRETS.values():
            found = on(site, host, f"grep -rl {secret} /etc /var/lib | xargs -r stat -c '%a %n'")
            assert found and all(line.startswith("600 ") for line in found.splitlines()), found
            logged = f"journalctl --no-pager | grep -v 'grep -rl' | grep -c {secret}"
            assert site.ssh(host, logged, check=False).stdout.strip() == "0", f"logged on {host}"


def test_a_clean_stop_needs_no_resync(site: Lab) -> None:
    write(site, mib=1, at=5)
    on(site, "primary", "systemctl stop lockstep@m0")
    legs = json.loads(on(site, "primary", f"lockstep examine --json {LOCAL} {REMOTE}"))
    assert [(leg["state"], leg["active"]) for leg in legs] == [("sync", False)] * 2
    on(site, "primary", "systemctl start lockstep@m0")
    now = mirror(site)
    assert good(now) and now.counters["resynced_sectors"] == 0
    same_legs(site)


def test_a_stop_of_a_mirror_in_use(site: Lab) -> None:
    """It fails, and the mirror goes on with its monitor."""
    units = "lockstep@m0 lockstep-monitor@m0"
    use = "sleep 600 </dev/mapper/m0 >/dev/null 2>&1 & systemctl stop lockstep@m0; "
    said = site.ssh("primary", f"{use} systemctl is-active {units}; kill $!", check=False).stdout
    assert said.split() == ["failed", "active"]
    assert good(mirror(site))
    on(site, "primary", "systemctl start lockstep@m0")
    assert on(site, "primary", f"systemctl is-active {units}").split() == ["active"] * 2
    assert good(mirror(site))


def test_the_unit_is_active_while_the_mirror_runs(site: Lab) -> None:
    """Whoever stops and starts it."""
    state = "systemctl is-active lockstep@m0"
    for end in ("lockstep stop m0", "dmsetup remove m0"):
        on(site, "primary", end)
        wait_for(site, f"test $({state}) = inactive")
        on(site, "primary", "systemctl start lockstep@m0 && test -b /dev/mapper/m0")
    on(site, "primary", "lockstep stop m0 && lockstep assemble m0")
    wait_for(site, f"test $({state}) = active")
    on(site, "primary", "systemctl stop lockstep@m0 && test ! -b /dev/mapper/m0")
    on(site, "primary", "systemctl start lockstep@m0")
    assert good(mirror(site))


def test_the_monitor_gives_the_lun_of_a_new_session_back(site: Lab) -> None:
    """Also after a stop and a start by hand, of which systemd knows nothing."""
    on(site, "primary", "lockstep stop m0 && lockstep assemble m0")
    number = f"lsblk --nodeps --noheadings --output MAJ:MIN {REMOTE}"
    before = on(site, "primary", number)
    on(site, "primary", "iscsiadm -m node --logoutall=all")
    write(site, mib=1, at=3)
    wanted = checksum(site, "/dev/mapper/m0")
    in_sync(site)
    assert on(site, "primary", number) != before
    assert same_legs(site) == wanted
    # Counted by the table that the new device came with.
    assert resynced(site) == REGION
    said = on(site, "primary", "journalctl -b -u lockstep-monitor@m0 --no-pager -o cat")
    assert f"the remote leg is {REMOTE} (" in said, said


def test_the_timer_has_the_legs_compared(site: Lab) -> None:
    """Both its date, and that it starts what it is there for."""
    unit = "lockstep-verify@m0.timer"
    due = on(site, "primary", f"systemctl show --property NextElapseUSecRealtime --value {unit}")
    when = datetime.strptime(due, "%a %Y-%m-%d %H:%M:%S UTC")
    assert when.strftime("%a") == "Sun" and when.day <= 7 and 1 <= when.hour < 5, when
    rested(site)
    folder = f"/run/systemd/system/{unit}.d"
    soon = "[Timer]\nOnCalendar=\nRandomizedDelaySec=0\nOnActiveSec=1\n"
    begin = f"mkdir -p {folder} && cat >{folder}/soon.conf && systemctl daemon-reload"
    site.ssh("primary", f"{begin} && systemctl restart {unit}", stdin=soon)
    try:
        now = reaches(site, lambda now: now.verify == (now.regions, now.regions))
        assert now.out_of_sync == 0
        assert now.counters["verified_sectors"] == now.length
        wait_for(site, "! systemctl is-active lockstep-verify@m0.service")
        result = "systemctl show --property Result --value lockstep-verify@m0.service"
        assert on(site, "primary", result) == "success"
    finally:
        end = f"rm -r {folder}; systemctl daemon-reload; systemctl restart {unit}"
        on(site, "primary", end)


def test_a_primary_that_was_installed_anew_takes_its_mirror_over(site: Lab) -> None:
    """Nothing is known on the host any more; the permission to create is given by mistake."""
    wanted = same_legs(site)
    before = described(site)["uuid"]
    on(site, "primary", "systemctl stop lockstep@m0; rm /etc/lockstep/m0.toml")
    run = play(site, "--limit", "primary", "-e", "primary_initial_sync=local_to_remote").ok()
    assert run.count("primary", "changed") > 0
    assert (described(site)["uuid"], resynced(site)) == (before, 0)
    assert same_legs(site) == wanted and good(mirror(site))


def test_only_the_remote_leg_current(site: Lab) -> None:
    """The local leg failed, writes went on, the mirror stopped: the local one gets what it missed,
    and no more."""
    rested(site)
    on(site, "primary", "lockstep fail m0 local")
    write(site, mib=1, at=7)
    wanted = checksum(site, "/dev/mapper/m0")
    on(site, "primary", "systemctl restart lockstep@m0")
    in_sync(site)
    assert same_legs(site) == wanted
    assert resynced(site) == REGION


def test_a_wrong_secret_is_refused(site: Lab) -> None:
    logout = "systemctl stop lockstep@m0 && iscsiadm -m node --logoutall=all"
    on(site, "primary", logout)
    wrong = play(site, "--limit", "primary", LOCKSTEP_CHAP_PASSWORD="none-of-primary")
    assert wrong.status and wrong.count("primary", "failed") == 1
    assert "refuses this host: CHAP name or secret is wrong" in wrong.text
    assert site.ssh("primary", "test -e /dev/mapper/m0", check=False).returncode == 1
    play(site, "--limit", "primary").ok()
    in_sync(site)
    same_legs(site)


def test_a_power_cut_of_the_mirror_site(site: Lab) -> None:
    """The primary goes on; the LUN is back by itself, and gets what it missed."""
    rested(site)
    write(site, mib=1, at=20)
    site.power_cut("mirror", stay_down=True)
    write(site, mib=1, at=30)
    wanted = checksum(site, "/dev/mapper/m0")
    assert health(mirror(site)) == "AD waiting alone"
    site.boot("mirror")
    in_sync(site)
    assert same_legs(site) == wanted
    # What was acknowledged before the cut, the site has.
    assert resynced(site) == REGION


def test_a_power_cut_of_the_primary(site: Lab) -> None:
    """In the middle of writes: the unit assembles the mirror at boot, and what is copied is where
    writes were under way."""
    rested(site)
    write(site, mib=1, at=40)
    piece = "dd if=/dev/mapper/m0 bs=1M skip=40 count=1 iflag=direct status=none | sha256sum"
    wanted = on(site, "primary", piece)
    on(site, "primary",
       "systemd-run -q --collect fio --name=load --filename=/dev/mapper/m0 --offset=8M --size=4M"
       " --direct=1 --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --time_based"
       " --runtime=3600 --output=/dev/null")  # fmt: skip
    again(site, at=40)
    # The region written before, and the four under load.
    assert reaches(site, lambda now: now.dirty >= 5).dirty == 5
    site.power_cut("primary")
    wait_for(site, "test -b /dev/mapper/m0")
    in_sync(site)
    said = on(site, "primary", "journalctl -b -u lockstep@m0 --no-pager")
    assert "It was not stopped cleanly" in said
    assert resynced(site) == 5 * REGION
    assert on(site, "primary", piece) == wanted
    same_legs(site)


def test_a_boot_without_the_mirror_site(site: Lab) -> None:
    """The mirror isn't started on one leg; when the site is there, it is assembled."""
    on(site, "primary", "lockstep set m0 wait=10 && sync")
    rested(site)
    write(site, mib=1, at=45)
    wanted = same_legs(site)
    again(site, at=45)
    site.power_cut("mirror", stay_down=True)
    site.power_cut("primary")
    wait_for(site, "journalctl -b -u lockstep@m0 | grep -q 'the remote leg .* isn.t there'")
    assert site.ssh("primary", "test -e /dev/mapper/m0", check=False).returncode == 1
    site.boot("mirror")
    wait_for(site, "test -b /dev/mapper/m0")
    in_sync(site)
    assert same_legs(site) == wanted
    assert resynced(site) == REGION


@pytest.mark.long
def test_a_boot_without_the_mirror_site_that_may_start_degraded(site: Lab) -> None:
    """On the local leg alone; the remote one gets what it missed, when it is there."""
    may = ("-e", "primary_start_degraded=true", "-e", "primary_device_wait=10")
    # YAML takes a bare `on` for a truth value.
    options = '{"primary_policy": "block", "primary_options": {"resync_compare": on}}'
    assert play(site, "--limit", "primary", *may, "-e", options).ok().count("primary", "changed")
    assert mirror(site).policy == "block"
    assert "resync_compare on" in on(site, "primary", "dmsetup table m0")
    on(site, "primary", "lockstep set m0 policy=degrade resync_compare=off && sync")
    rested(site)
    site.power_cut("mirror", stay_down=True)
    site.power_cut("primary")
    wait_for(site, "test -b /dev/mapper/m0")
    now = mirror(site)
    assert (now.health["local"], now.health["remote"], now.standing) == ("A", "-", "alone")
    write(site, mib=1, at=50)
    wanted = checksum(site, "/dev/mapper/m0")
    site.boot("mirror")
    in_sync(site)
    assert same_legs(site) == wanted
    assert resynced(site) == REGION
    play(site, "--limit", "primary").ok()
    kept = on(site, "primary", "cat /etc/lockstep/m0.toml")
    assert "start_alone = false" in kept and "wait = 60" in kept


@pytest.mark.long
def test_a_local_disk_that_vanishes_and_is_back_after_a_power_cut(site: Lab) -> None:
    """All that was written since is on the remote leg only: the local one gets it."""
    rested(site)
    write(site, mib=1, at=12)
    before = checksum(site, "/dev/mapper/m0")
    again(site, at=12)
    # As when it is pulled: udev removes its name, dm keeps the rest of it.
    pci = f"$(dirname $(readlink -f /sys/block/$(basename $(readlink -f {DISK}))/device))"
    on(site, "primary", f"echo 1 > {pci}/remove; udevadm settle; ! test -e {LOCAL}")
    write(site, mib=1, at=13)
    wanted = checksum(site, "/dev/mapper/m0")
    now = mirror(site)
    assert wanted != before and (now.health["local"], now.health["remote"]) == ("D", "A")
    site.power_cut("primary")
    wait_for(site, "test -b /dev/mapper/m0")
    in_sync(site)
    assert same_legs(site) == wanted
    assert resynced(site) == 2 * REGION
