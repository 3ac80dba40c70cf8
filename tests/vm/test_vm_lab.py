# SPDX-License-Identifier: GPL-2.0-only
"""The VM lab itself: what the hosts have, restore, power cuts, the wire, and its errors."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cached
import machine
import pytest
import qemu
import vmcli
import vmlab
import yaml
from disk import MIB
from host import HOSTS
from vmlab import TREE, Lab, LabError

DATA = "/dev/disk/by-id/virtio-data"
LOG = "/dev/disk/by-id/virtio-log"
BLOCK = 4096
# Writes blocks with their number in every word, and says which are done.
WRITER = f"""
import mmap, os, struct
disk = os.open("{DATA}", os.O_WRONLY | os.O_DIRECT | FLAGS)
page = mmap.mmap(-1, {BLOCK})
for number in range(1, 100000):
    page[:] = struct.pack("<Q", number) * ({BLOCK} // 8)
    assert os.pwrite(disk, page, number * {BLOCK}) == {BLOCK}
    print(number, flush=True)
"""
LOAD = (
    f"fio --name=load --filename={DATA} --offset=512M --size=256M --direct=1 --rw=randwrite"
    " --bsrange=512-64k --blockalign=512 --ioengine=libaio --iodepth=32 --time_based"
    " --runtime=600 --output=/dev/null"
)
OWN_UNIT = """\
[Service]
Type=oneshot
ExecStart=/bin/true
RemainAfterExit=yes
[Install]
WantedBy=multi-user.target
"""


def ping_ms(lab: Lab, frm: str, to: str, size: int = 56) -> float:
    """The shortest of some round trips: what the wire takes, less what a busy host adds."""
    said = lab.ssh(frm, f"ping -q -c 8 -i 0.2 -s {size} {to}").stdout
    found = re.search(r"= ([0-9.]+)/", said)
    assert found, said
    return float(found[1])


def test_both_hosts_have_what_they_should(clean_lab: Lab) -> None:
    disks = {"primary": {DATA}, "mirror": {DATA, LOG}}
    for name in clean_lab.hosts:
        facts = clean_lab.ssh(name, """
            hostname; uname -r; date +%s
            systemctl is-system-running
            for d in /dev/disk/by-id/virtio-*; do
                [ "$d" = /dev/disk/by-id/virtio-root ] || echo "disk $d $(blockdev --getsize64 $d)"
            done
            modprobe -a iscsi_tcp target_core_mod iscsi_target_mod nd_pmem sch_netem dm-mod raid1
            ls /dev/pmem0 2>/dev/null || true
            """).stdout.splitlines()  # fmt: skip
        assert facts[0] == name
        assert facts[1] == clean_lab.release
        assert abs(int(facts[2]) - time.time()) < 30
        assert facts[3] == "running"
        sizes = dict(line.split()[1:] for line in facts if line.startswith("disk "))
        assert sizes == dict.fromkeys(disks[name], str(1024 * MIB))
        assert ("/dev/pmem0" in facts) == (name == "mirror")


def test_the_nvdimm_is_mapped_directly(clean_lab: Lab) -> None:
    clean_lab.ssh("mirror", """set -e
        mkfs.ext4 -q -b 4096 /dev/pmem0
        mount -o dax=always /dev/pmem0 /mnt
        umount /mnt""")  # fmt: skip


def test_the_wire_takes_the_profiles_time_both_ways(clean_lab: Lab) -> None:
    bare = ping_ms(clean_lab, "primary", "10.9.0.2")
    assert ping_ms(clean_lab, "mirror", "10.9.0.1") < 12
    assert bare < 12
    clean_lab.wire("wan", seed=3)
    assert 14 <= ping_ms(clean_lab, "primary", "10.9.0.2") < 40
    # A packet of 1442 bytes with its header: 3.8 ms at 3 Mbit/s, and 45 ms back at 256 kbit/s.
    assert 14 + 3.8 + 45 <= ping_ms(clean_lab, "mirror", "10.9.0.1", size=1400) < 100
    clean_lab.wire("none")
    assert ping_ms(clean_lab, "primary", "10.9.0.2") < 12


@pytest.mark.long
def test_a_varying_wire_varies(clean_lab: Lab) -> None:
    clean_lab.wire("wan-varying", seed=1)
    seen: set[str] = set()
    deadline = time.monotonic() + 60
    while len(seen) < 3 and time.monotonic() < deadline:
        seen |= set(re.findall(r"rate (\S+)", clean_lab.ssh("primary", "tc qdisc show").stdout))
        time.sleep(1)
    assert len(seen) >= 3, f"the speeds seen in a minute: {seen}"
    assert "rate 256Kbit" in clean_lab.ssh("mirror", "tc qdisc show dev link0").stdout
    clean_lab.wire("none")
    assert "netem" not in clean_lab.ssh("primary", "tc qdisc show").stdout
    state = clean_lab.ssh("primary", "systemctl show -P SubState lab-wire.service").stdout
    assert state == "exited\n"


def test_restore_leaves_nothing(clean_lab: Lab) -> None:
    spoil = "echo spoilt >/root/spoilt; sync; for d in {}; do echo spoilt >$d; sync $d; done"
    clean_lab.ssh("primary", spoil.format(DATA))
    clean_lab.ssh("mirror", spoil.format(f"{DATA} {LOG} /dev/pmem0"))
    clean_lab.wire("metro")
    started = time.monotonic()
    clean_lab.restore()
    assert time.monotonic() - started < 60
    for name in clean_lab.hosts:
        said = clean_lab.ssh(name, """set -e
            test ! -e /root/spoilt
            for d in /dev/disk/by-id/virtio-data /dev/disk/by-id/virtio-log /dev/pmem0; do
                [ ! -b $d ] || cmp -n 16777216 $d /dev/zero
            done
            tc qdisc show dev link0""").stdout  # fmt: skip
        assert "netem" not in said


def test_a_power_cut_keeps_what_was_flushed_and_not_all_of_the_rest(clean_lab: Lab) -> None:
    clean_lab.wire("metro")
    clean_lab.ssh("mirror", "cat >/etc/systemd/system/own.service", stdin=OWN_UNIT)
    clean_lab.ssh("mirror", f"""set -e
        test -b {DATA}
        grep -q 'write back' /sys/class/block/$(basename $(readlink -f {DATA}))/queue/write_cache
        dd if=/dev/urandom of=/root/random bs=1M count=4 status=none
        sha256sum </root/random >/root/sum; sync
        dd if=/root/random of={DATA} bs=64k oflag=direct status=none; sync {DATA}
        dd if=/root/random of={DATA} bs=4k seek=4096 oflag=direct status=none
        echo nvdimm >/dev/pmem0; sync /dev/pmem0
        ndctl list -N >/root/namespace
        systemctl enable -q own.service; sync""")  # fmt: skip
    clean_lab.power_cut("mirror", seed=1)
    left = clean_lab.ssh("mirror", f"""set -e
        head -c 4194304 {DATA} | sha256sum | cmp - /root/sum
        sha256sum </root/random | cmp - /root/sum
        [ "$(head -c 6 /dev/pmem0)" = nvdimm ]
        ndctl list -N | cmp - /root/namespace
        systemctl is-system-running --wait
        systemctl is-active own.service
        tc qdisc show dev link0 | grep -q 'netem.*delay 1ms'
        python3 -c '
new = open("/root/random", "rb").read()
disk = open("{DATA}", "rb")
disk.seek(4096 * 4096)
now = disk.read(len(new))
there = [now[i:i+512] == new[i:i+512] for i in range(0, len(new), 512)]
blank = [now[i:i+512] == bytes(512) for i in range(0, len(new), 512)]
print(len(there), sum(there), sum(blank))'""").stdout.splitlines()[-1]  # fmt: skip
    sectors, kept, lost = map(int, left.split())
    # Without a volatile cache, none were lost.
    assert kept + lost == sectors
    assert sectors / 4 < kept < sectors * 3 / 4


def cut_under_load(lab: Lab, seed: int, flags: str) -> tuple[list[int], list[int]]:
    """The mirror's power goes while one program writes block after block, and another writes at
    random beside it. Returns the numbers that were acknowledged, and those not on the disk."""
    lab.ssh("mirror", f"""systemd-run -q --collect sh -c '{LOAD} --randseed={seed}'
        while awk '$7 > 0 {{ exit 1 }}' /sys/class/block/$(basename $(readlink -f {DATA}))/stat
        do sleep 0.2; done""")  # fmt: skip
    mirror = lab.machine("mirror")
    words = mirror.shell.words(f"python3 -c '{WRITER.replace('FLAGS', flags)}'")
    acked: list[int] = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        for line in writer.stdout:
            acked.append(int(line))
            if len(acked) == 40 * seed:
                lab.power_cut("mirror", seed=seed, stay_down=True)
    assert len(acked) >= 40 * seed
    lost = []
    with mirror.disks[0].durable.open("rb") as disk:
        for number in acked:
            disk.seek(number * BLOCK)
            if disk.read(BLOCK) != number.to_bytes(8, "little") * (BLOCK // 8):
                lost.append(number)
        disk.seek(512 * MIB)
        assert any(disk.read(256 * MIB)), "there was no load"
    return acked, lost


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_cut_under_load_keeps_every_write_that_was_flushed(clean_lab: Lab, seed: int) -> None:
    assert cut_under_load(clean_lab, seed, "os.O_DSYNC")[1] == []


@pytest.mark.long
def test_the_same_without_a_flush_loses_some_and_not_all(clean_lab: Lab) -> None:
    acked, lost = cut_under_load(clean_lab, 4, "0")
    assert 0 < len(lost) < len(acked)


def test_what_the_tree_builds_is_there_after_push(clean_lab: Lab) -> None:
    clean_lab.push()
    for name in clean_lab.hosts:
        clean_lab.ssh(name, "modprobe dm-lockstep && command -v dcd torture replay")
    clean_lab.ssh("mirror", "modprobe target_core_dcd")


def test_the_inventory_names_both_hosts(lab: Lab) -> None:
    found = yaml.safe_load(lab.inventory_path.read_text(encoding="utf-8"))["all"]["children"]
    assert set(found) == {"lockstep_primary", "lockstep_mirror"}
    mirror = found["lockstep_mirror"]["hosts"]["mirror"]
    assert mirror["ansible_port"] == lab.machine("mirror").shell.port
    assert mirror["lab_log_device"] == LOG
    assert set(found["lockstep_primary"]["hosts"]) == {"primary"}


def test_the_probe_of_an_accelerator_can_pass(lab: Lab) -> None:
    # That it can fail, is KVM's part on most machines of CI.
    assert qemu.works("tcg", cached.entry("vm-image"))


def test_unknown_names_are_named(lab: Lab) -> None:
    with pytest.raises(LabError, match="no host 'tertiary' in the VM lab; there are: primary, mir"):
        lab.ssh("tertiary", "true")
    with pytest.raises(LabError, match=r"no wire profile 'wet-string'.*wan"):
        lab.wire("wet-string")


def test_a_failed_command_says_what_it_said(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"primary: exit code 3 from: .*\nnot today"):
        lab.ssh("primary", "echo not today >&2; exit 3")
    assert lab.ssh("primary", "exit 3", check=False).returncode == 3


def test_a_lab_that_isnt_up_says_so(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="run tests/vm/lab up"):
        Lab(tmp_path).ssh("primary", "true")


def test_a_host_that_died_is_named(clean_lab: Lab) -> None:
    pid = clean_lab.machine("mirror").pid()
    assert pid
    os.kill(pid, signal.SIGKILL)
    while clean_lab.machine("mirror").pid():
        time.sleep(0.01)
    with pytest.raises(LabError, match=r"mirror: QEMU isn't running.*\n.*console\.log"):
        clean_lab.ssh("mirror", "true")
    assert clean_lab.ssh("primary", "hostname").stdout == "primary\n"


def until(there: Callable[[], bool], what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < deadline, f"no {what} in {seconds:g} s"
        time.sleep(0.05)


@pytest.mark.long
def test_a_mortal_lab_ends_with_its_program(tmp_path: Path) -> None:
    script = (f"import sys; sys.path[:] = {sys.path!r}; from pathlib import Path; "
              f"from vmlab import Lab; Lab(Path({str(tmp_path)!r}), mortal=True).up()")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", script]) as program:
        pids = [tmp_path / name / "pid" for name in ("primary", "mirror")]
        until(lambda: all(pid.exists() for pid in pids), "host", 120)
        one = Lab(tmp_path)
        assert all(one.machines()[name].pid() for name in one.hosts)
        program.kill()
    until(lambda: set(one.status().values()) == {"off"}, "end", 20)


def test_a_host_that_cant_start_says_why(clean_lab: Lab) -> None:
    clean_lab.power_cut("mirror", stay_down=True)
    clean_lab.machine("mirror").root.write_bytes(b"no disk" * 1000)
    with pytest.raises(LabError, match=r"mirror: QEMU didn't start.*qcow2"):
        clean_lab.boot("mirror")


@pytest.mark.long
def test_a_host_that_doesnt_come_up_shows_its_console(
    clean_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vmlab, "BOOT_S", 2.0)
    words = r"mirror: no ssh 2 s after its start; the end of .*(\n    .*)*\n    --- lab: power on"
    with pytest.raises(LabError, match=words):
        clean_lab.power_cut("mirror")


def test_the_command(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    assert vmcli.main(["wire", "wet-string"]) == 1
    assert "lab: " in capfd.readouterr().err
    run = subprocess.run(
        [TREE / "tests/vm/lab", "ssh", "tertiary"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr.startswith("lab: ")
    assert "Traceback" not in run.stderr
    assert [host.name for host in HOSTS] == list(lab.hosts)
    assert machine.BOOT_S >= 300
