# SPDX-License-Identifier: GPL-2.0-only
"""Both sites in one kernel, made so that either can lose its power.

The mirror site (media, NVRAM, DCD, iSCSI target in the namespace `mirror`) and
the primary (local medium, iSCSI session, lockstep mirror) are objects that can
be torn down and put together again on what a power cut has left. What is done
for each cut is done by ioctl and by writing files: a process costs more than
the whole recovery.
"""

import errno
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from locklab import base, dm, lio, wire
from locklab.base import Wrong, made, put, run

TORTURE = os.environ.get("TORTURE", "/lockstep/build/bin/torture")
DCD_TOOL = os.environ.get("DCD_TOOL", "/lockstep/build/bin/dcd")
CONTROL = Path("/sys/kernel/debug/lockstep-media")
TARGET = Path("/sys/kernel/config/target")
MIRROR_SYSFS = Path("/run/mirror-sysfs")

MIRROR_SITE, PRIMARY_SITE = 2, 1
LEG = 16384  # sectors of a leg: 8 MiB
LOG = 16384
NVRAM = 2048  # sectors: 1 MiB


def until(true: Callable[[], object], what: str) -> None:
    base.until(true, what, 600.0)


class Wire(wire.Wire):
    """The wire, which can also be cut by writing a file.

    The mirror's end goes down, so what is on the way is lost on both ways and
    the primary's end sees only silence; and it happens within the one system
    call, as the instant of a power cut wants it.
    """

    def __init__(self) -> None:
        super().__init__("lan")
        made(MIRROR_SYSFS)
        run("nsenter", f"--net={wire.NETNS}", "mount", "-t", "sysfs", "sysfs", str(MIRROR_SYSFS))
        self.flags = MIRROR_SYSFS / "class/net/v1/flags"

    @property
    def cut_control(self) -> str:
        return f"{self.flags}=0x1002"

    def plug_in(self) -> None:
        put(self.flags, "0x1003")


def forget(name: str) -> None:
    listed = (CONTROL / "list").read_text().splitlines()
    if any(line.split()[0] == name for line in listed):
        put(CONTROL / "forget", name)


def opens(node: str) -> bool:
    try:
        os.close(os.open(node, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as e:
        if e.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    return True


class Mirror:
    """The mirror site."""

    def __init__(self, backstore: str, model: str, lie: bool) -> None:
        self.kind, self.model = backstore, model
        self.lie = lie
        self.devices: list[str] = []
        self.hba = TARGET / "core" / ("dcd_0" if backstore == "dcd" else "iblock_0")
        self.store = self.hba / "leg"
        self.tpg = TARGET / "iscsi" / lio.IQN / "tpgt_1"

    def _add(self, name: str, table: str) -> str:
        node = dm.create(name, table)
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
        made(self.hba)
        if self.kind == "iblock":
            control = f"udev_path={data}"
        else:
            log = self._add("m-log", f"0 {LOG} media m-log ram {options}")
            view = self._add("m-nvram", f"0 {NVRAM} labnvram m-nvram 2 site {MIRROR_SITE}")
            if fresh:
                run(DCD_TOOL, "format", "--data", data, "--log", log, "--nvram", view)
            control = f"data={data},log={log},nvram=lab:m-nvram,nvram_bytes={NVRAM * 512}"
        made(self.store)
        put(self.store / "control", control)
        put(self.store / "enable", "1")
        put(self.store / "wwn/vpd_unit_serial", "6c6f636b-7374-6570-0000-000000000001")

    def power_off(self) -> None:
        """What is left of a site after its cut, or an orderly end."""
        self.withdraw()
        self.store.rmdir()
        for name in reversed(self.devices):
            dm.remove(name)
        self.devices = []

    def export(self) -> None:
        """Gives the leg to the primary, by iSCSI."""
        made(TARGET / "iscsi")
        made(self.tpg.parent)
        made(self.tpg)
        lun = made(self.tpg / "lun/lun_0")
        (lun / "leg").symlink_to(self.store)
        for name, value in (
            ("authentication", 0),
            ("generate_node_acls", 1),
            ("demo_mode_write_protect", 0),
            ("prod_mode_write_protect", 0),
            ("cache_dynamic_acls", 1),
        ):
            put(self.tpg / "attrib" / name, value)
        with base.inside(wire.NETNS):
            made(self.tpg / "np" / lio.PORTAL)
        put(self.tpg / "enable", "1")

    def withdraw(self) -> None:
        if not self.tpg.exists():
            return
        put(self.tpg / "enable", "0")
        (self.tpg / "lun/lun_0/leg").unlink()
        (self.tpg / "lun/lun_0").rmdir()
        (self.tpg / "np" / lio.PORTAL).rmdir()
        self.tpg.rmdir()
        self.tpg.parent.rmdir()

    @contextmanager
    def look(self) -> Iterator[str]:
        """The leg as a disk at the mirror site itself, by the loopback fabric."""
        wwn = made(TARGET / "loopback") / "naa.6001405000000001"
        tpg = made(made(wwn) / "tpgt_1")
        put(tpg / "nexus", "naa.6001405000000002")
        lun = made(tpg / "lun/lun_0")
        (lun / "leg").symlink_to(self.store)
        address = (tpg / "address").read_text().strip()
        blocks = Path(f"/sys/class/scsi_device/{address}:0/device/block")
        until(lambda: blocks.is_dir() and bool(os.listdir(blocks)), f"loopback disk {address}")
        # The node of the disk before may still be there; it can't be opened any more.
        node = f"/dev/{os.listdir(blocks)[0]}"
        until(lambda: opens(node), f"{node} to open")
        try:
            yield node
        finally:
            (lun / "leg").unlink()
            lun.rmdir()
            put(tpg / "nexus", "NULL")
            tpg.rmdir()
            wwn.rmdir()


@dataclass
class Lockstep:
    """The mirror on the primary."""

    name: str = "mirror"
    node: str = ""

    def assemble(self, local: str, remote: str, synced: bool) -> None:
        options = f"1 {'nosync' if synced else 'sync'}"
        self.node = dm.create(self.name, f"0 {LEG} lockstep {local} {remote} {options}")

    def remove(self) -> None:
        dm.remove(self.name)

    def health(self) -> str:
        return dm.status(self.name).split()[0]

    def wait(self, health: str) -> None:
        until(lambda: self.health() == health, f"health {health} (it is {self.health()})")

    def recover(self) -> None:
        dm.message(self.name, "recover")


@dataclass
class Load:
    """The torture program at work."""

    device: str
    seed: int
    cut_us: int
    cuts: list[str]
    more: int = 0
    depth: int = 16
    pause_us: int = 200
    state: str = "/run/torture.state"
    process: subprocess.Popen[str] | None = None
    lines: list[str] = field(default_factory=list)

    def start(self) -> None:
        words = [TORTURE, "load", "--device", self.device, "--state", self.state]
        words += ["--seed", str(self.seed), "--cut-after-us", str(self.cut_us)]
        words += ["--depth", str(self.depth), "--pause-us", str(self.pause_us)]
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
