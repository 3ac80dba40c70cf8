# SPDX-License-Identifier: GPL-2.0-only
"""Both sites in one kernel, made so that either can lose its power.

The mirror site (media, NVRAM, DCD, iSCSI target in the namespace `mirror`) and
the primary (local medium, iSCSI session, lockstep mirror) are objects that can
be torn down and put together again on what a power cut has left. What is done
for each cut is done by ioctl and by writing files: a process costs more than
the whole recovery.
"""

import ctypes
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dmdev import Dm

TORTURE = os.environ.get("TORTURE", "/lockstep/build/bin/torture")
DCD_TOOL = os.environ.get("DCD_TOOL", "/lockstep/build/bin/dcd")
CONTROL = Path("/sys/kernel/debug/lockstep-media")
TARGET = Path("/sys/kernel/config/target")
IQN = "iqn.2026-11.org.lockstep:mirror"
PORTAL = "10.9.0.2:3260"
MIRROR_SYSFS = Path("/run/mirror-sysfs")
NETNS = Path("/run/netns/mirror")

MIRROR_SITE, PRIMARY_SITE = 2, 1
LEG = 16384  # sectors of a leg: 8 MiB
LOG = 16384
NVRAM = 2048  # sectors: 1 MiB


class Wrong(Exception):
    """The promise is broken."""


def until(true: Callable[[], bool], what: str, seconds: float = 600.0) -> None:
    """Waits for a condition; the seconds are the lab's, which cost nothing."""
    deadline = time.monotonic() + seconds
    step = 0.0005
    while not true():
        if time.monotonic() > deadline:
            raise Wrong(f"waited {seconds:g} s for {what}")
        time.sleep(step)
        step = min(step * 1.3, 0.25)


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Wrong(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def in_netns(path: Path) -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(path, os.O_RDONLY)
    try:
        if libc.setns(there, 0x40000000):
            raise OSError(ctypes.get_errno(), f"setns {path}")
        yield
    finally:
        libc.setns(home, 0x40000000)
        os.close(home)
        os.close(there)


class Wire:
    """A veth pair whose mirror end goes down as if unplugged: packets on the way are lost."""

    def __init__(self, delay: str = "0.1ms") -> None:
        run("ip", "netns", "add", "mirror")
        run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", "mirror")
        run("ip", "addr", "add", "10.9.0.1/24", "dev", "v0")
        run("ip", "-n", "mirror", "addr", "add", "10.9.0.2/24", "dev", "v1")
        run("ip", "link", "set", "v0", "up")
        run("ip", "link", "set", "lo", "up")
        run("ip", "-n", "mirror", "link", "set", "lo", "up")
        run("ip", "-n", "mirror", "link", "set", "v1", "up")
        netem = ["root", "netem", "delay", delay, "rate", "1gbit", "limit", "100000"]
        run("tc", "qdisc", "add", "dev", "v0", *netem)
        run("tc", "-n", "mirror", "qdisc", "add", "dev", "v1", *netem)
        MIRROR_SYSFS.mkdir(parents=True, exist_ok=True)
        run("nsenter", f"--net={NETNS}", "mount", "-t", "sysfs", "sysfs", str(MIRROR_SYSFS))
        self.flags = MIRROR_SYSFS / "class/net/v1/flags"

    @property
    def cut_control(self) -> str:
        return f"{self.flags}=0x1002"

    def mend(self) -> None:
        self.flags.write_text("0x1003")


def forget(name: str) -> None:
    listed = (CONTROL / "list").read_text().splitlines()
    if any(line.split()[0] == name for line in listed):
        (CONTROL / "forget").write_text(name)


def make(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


class Mirror:
    """The mirror site."""

    def __init__(self, dm: Dm, backstore: str, model: str, lie: bool) -> None:
        self.dm, self.kind, self.model = dm, backstore, model
        self.lie = lie
        self.devices: list[str] = []
        self.hba = TARGET / "core" / ("dcd_0" if backstore == "dcd" else "iblock_0")
        self.store = self.hba / "leg"
        self.tpg = TARGET / "iscsi" / IQN / "tpgt_1"

    def _add(self, name: str, table: str) -> str:
        node = self.dm.create(name, table)
        self.devices.append(name)
        return node

    def power_on(self, fresh: bool) -> None:
        """Media, NVRAM and backstore; @fresh: new ones, formatted."""
        self.devices = []
        if fresh:
            for name in ("m-data", "m-log", "m-nvram"):
                forget(name)
        cache = "off" if self.kind == "iblock" and not self.lie else "on"
        flush = "lie" if self.lie else "honest"
        options = f"{self.model} 6 write_cache {cache} site {MIRROR_SITE} flush {flush}"
        data = self._add("m-data", f"0 {LEG} media m-data ram {options}")
        make(self.hba)
        if self.kind == "iblock":
            control = f"udev_path={data}"
        else:
            log = self._add("m-log", f"0 {LOG} media m-log ram {options}")
            view = self._add("m-nvram", f"0 {NVRAM} labnvram m-nvram 2 site {MIRROR_SITE}")
            if fresh:
                run(DCD_TOOL, "format", "--data", data, "--log", log, "--nvram", view)
            control = f"data={data},log={log},nvram=lab:m-nvram,nvram_bytes={NVRAM * 512}"
        make(self.store)
        (self.store / "control").write_text(control)
        (self.store / "enable").write_text("1")
        (self.store / "wwn/vpd_unit_serial").write_text("6c6f636b-7374-6570-0000-000000000001")

    def power_off(self) -> None:
        """What is left of a site after its cut, or an orderly end."""
        self.withdraw()
        self.store.rmdir()
        for name in reversed(self.devices):
            self.dm.remove(name)
        self.devices = []

    def export(self) -> None:
        """Gives the leg to the primary, by iSCSI."""
        make(TARGET / "iscsi")
        make(self.tpg.parent)
        make(self.tpg)
        lun = make(self.tpg / "lun/lun_0")
        (lun / "leg").symlink_to(self.store)
        for name, value in (
            ("authentication", 0),
            ("generate_node_acls", 1),
            ("demo_mode_write_protect", 0),
            ("prod_mode_write_protect", 0),
            ("cache_dynamic_acls", 1),
        ):
            (self.tpg / "attrib" / name).write_text(str(value))
        with in_netns(NETNS):
            make(self.tpg / "np" / PORTAL)
        (self.tpg / "enable").write_text("1")

    def withdraw(self) -> None:
        if not self.tpg.exists():
            return
        (self.tpg / "enable").write_text("0")
        (self.tpg / "lun/lun_0/leg").unlink()
        (self.tpg / "lun/lun_0").rmdir()
        (self.tpg / "np" / PORTAL).rmdir()
        self.tpg.rmdir()
        self.tpg.parent.rmdir()

    @contextmanager
    def look(self) -> Iterator[str]:
        """The leg as a disk at the mirror site itself, by the loopback fabric."""
        wwn = make(TARGET / "loopback") / "naa.6001405000000001"
        tpg = make(make(wwn) / "tpgt_1")
        (tpg / "nexus").write_text("naa.6001405000000002")
        lun = make(tpg / "lun/lun_0")
        (lun / "leg").symlink_to(self.store)
        address = (tpg / "address").read_text().strip()
        blocks = Path(f"/sys/class/scsi_device/{address}:0/device/block")
        until(lambda: blocks.is_dir() and bool(os.listdir(blocks)), f"loopback disk {address}")
        node = Path("/dev") / os.listdir(blocks)[0]
        until(node.exists, str(node))
        try:
            yield str(node)
        finally:
            (lun / "leg").unlink()
            lun.rmdir()
            (tpg / "nexus").write_text("NULL")
            tpg.rmdir()
            wwn.rmdir()


class Session:
    """The primary's iSCSI session."""

    CLASS = Path("/sys/class/iscsi_session")

    def __init__(self) -> None:
        node = ["iscsiadm", "-m", "node", "-T", IQN, "-p", f"{PORTAL},1"]
        self.node = node
        run(*node, "-o", "new")
        for name, value in (
            ("node.conn[0].timeo.noop_out_interval", "1"),
            ("node.conn[0].timeo.noop_out_timeout", "1"),
            ("node.conn[0].timeo.login_timeout", "3"),
            ("node.session.timeo.replacement_timeout", "120"),
        ):
            run(*node, "-o", "update", "-n", name, "-v", value)
        self.disk = ""

    def login(self) -> str:
        run(*self.node, "--login")
        until(lambda: bool(self._blocks()), "the iSCSI disk")
        disk = Path("/dev") / self._blocks()[0]
        until(disk.exists, str(disk))
        self.disk = str(disk)
        return self.disk

    def logout(self) -> None:
        run(*self.node, "--logout")
        until(lambda: not list(self.CLASS.glob("session*")), "the end of the session")

    def _blocks(self) -> list[str]:
        pattern = "session*/device/target*/*/block/*"
        return [p.name for p in self.CLASS.glob(pattern)]

    def patience(self, seconds: int) -> None:
        """How long commands wait for a lost session before they fail."""
        for session in self.CLASS.glob("session*"):
            (session / "recovery_tmo").write_text(str(seconds))

    def up(self) -> bool:
        states = [(s / "state").read_text().strip() for s in self.CLASS.glob("session*")]
        return states == ["LOGGED_IN"]


@dataclass
class Lockstep:
    """The mirror on the primary."""

    dm: Dm
    name: str = "mirror"
    node: str = ""

    def assemble(self, local: str, remote: str, synced: bool) -> None:
        options = f"1 {'nosync' if synced else 'sync'}"
        self.node = self.dm.create(self.name, f"0 {LEG} lockstep {local} {remote} {options}")

    def remove(self) -> None:
        self.dm.remove(self.name)

    def health(self) -> str:
        return self.dm.status(self.name).split()[0]

    def wait(self, health: str) -> None:
        until(lambda: self.health() == health, f"health {health} (it is {self.health()})")

    def recover(self) -> None:
        self.dm.message(self.name, "recover")


@dataclass
class Load:
    """The torture program at work."""

    device: str
    seed: int
    cut_us: int
    cuts: list[str]
    more: int = 0
    depth: int = 16
    state: str = "/run/torture.state"
    process: subprocess.Popen[str] | None = None
    lines: list[str] = field(default_factory=list)

    def start(self) -> None:
        words = [TORTURE, "load", "--device", self.device, "--state", self.state]
        words += ["--seed", str(self.seed), "--cut-after-us", str(self.cut_us)]
        words += ["--depth", str(self.depth)]
        if self.more:
            words += ["--more", str(self.more)]
        for cut in self.cuts:
            words += ["--cut", cut]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _read(self, kind: str) -> str:
        assert self.process and self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith(kind):
                return line.strip()
        assert self.process.stderr
        raise Wrong(f"torture ended: {self.lines} {self.process.stderr.read()}")

    def wait_cut(self) -> str:
        """Returns at the instant of the cut."""
        return self._read("cut:")

    def wait_end(self) -> str:
        assert self.process
        line = self._read("end:")
        code = self.process.wait()
        if code:
            raise Wrong(f"torture saw errors after the cut: {self.lines}")
        return line


def check(node: str, state: str, promise: str) -> None:
    done = subprocess.run(
        [TORTURE, "check", "--device", node, "--state", state, "--promise", promise],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise Wrong(f"{done.stdout}{done.stderr}".strip())


def compare(a: str, b: str) -> None:
    done = subprocess.run([TORTURE, "compare", a, b], capture_output=True, text=True)
    if done.returncode:
        raise Wrong(f"legs differ: {done.stdout}{done.stderr}".strip())


def cut_loop(name: str, first: int, count: int, one: Callable[[int, random.Random], str]) -> int:
    """Runs the seeds, a line each; exit code 1 if one failed, and it stops there."""
    for seed in range(first, first + count):
        try:
            told = one(seed, random.Random(seed))
        except (Wrong, OSError) as e:
            print(f"{name} seed {seed}: FAIL {e}", flush=True)
            return 1
        print(f"{name} seed {seed}: {told}", flush=True)
    print(f"{name}: {count} cuts passed", flush=True)
    return 0
