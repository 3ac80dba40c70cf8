# SPDX-License-Identifier: GPL-2.0-only
"""The VM lab: two QEMU hosts with Debian 13 and the wire between them.

    lab = Lab()
    lab.up()                                   # from the snapshot when there is one
    lab.ssh("mirror", "uname -r").stdout

All its state is in build/vm of this tree, so each checkout has a lab of its own and any program
finds the one that is up. tests/vm/lab is its command.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import cached
import host as hosts
import inventory
import payload
import qemu
import shell
import wire
from laberror import LabError
from machine import BOOT_S, Machine
from snapshot import Snapshot

TREE = Path(__file__).resolve().parents[2]
STATE = TREE / "build" / "vm"
DISK_MIB = 1024
SSH_S = 300.0
TICK_S = 15.0
# In a guest: until nothing is left to start, and all is on its disks.
IDLE = "systemctl is-system-running --wait; udevadm settle; sync"

__all__ = ["Lab", "LabError"]


def _say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


class Lab:
    """The lab of this checkout. Making the object starts nothing. `mortal`: a host that it starts
    loses its power when the thread that started it has gone."""

    def __init__(
        self, state: Path = STATE, say: Callable[[str], None] = _say, *, mortal: bool = False
    ) -> None:
        self._state = state.resolve()
        self._say = say
        self._mortal = mortal
        self._facts = self._state / "lab.json"
        self._key = self._state / "key"
        self.inventory_path = self._state / "inventory.yml"

    # What it is.

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(host.name for host in hosts.HOSTS)

    def machine(self, name: str) -> Machine:
        """The host of that name; the lab must have been brought up."""
        host = hosts.find(name)
        facts = self._read()
        return Machine(
            host, self._state / name, self._sockets(), Path(facts["image"]), facts["accel"],
            int(facts["ports"][name]), self._key, self._mortal,
        )  # fmt: skip

    def machines(self) -> dict[str, Machine]:
        return {name: self.machine(name) for name in self.hosts}

    @property
    def accel(self) -> str:
        """kvm or tcg."""
        return str(self._read()["accel"])

    def status(self) -> dict[str, str]:
        """One word for each host: ready, booting, off."""
        if not self._facts.exists():
            return dict.fromkeys(self.hosts, "off")
        found = {}
        for name, machine in self.machines().items():
            running = machine.pid() is not None
            found[name] = ("ready" if machine.ready() else "booting") if running else "off"
        return found

    # Bringing it up and down.

    def up(self, disk_mib: int = DISK_MIB) -> None:
        """Both hosts run and take ssh, with blank disks unless they were up already. Cold the
        first time, from the snapshot later."""
        with self._locked():
            if self._facts.exists() and all(m.pid() for m in self.machines().values()):
                self._wait(*self.hosts)
                return
            self._stop()
            self._prepare(disk_mib)
            if self._snapshot().exists:
                try:
                    self._load(*self.hosts)
                except LabError as err:
                    self._say(f"the snapshot is of no use here, so without it: {err}")
                    self._stop()
                    self._snapshot().drop()
                else:
                    return
            self._cold_start()
            self._load(*self.hosts)

    def down(self) -> None:
        """Ends both hosts, as by a power cut; their disks are blank when they come up again."""
        with self._locked():
            self._stop()

    def restore(self, *names: str) -> None:
        """These hosts (default: both) as they were after a clean boot, with blank disks."""
        chosen = [hosts.find(name).name for name in names] or list(self.hosts)
        with self._locked():
            if not self._snapshot().exists:
                raise LabError("no snapshot of this lab: run tests/vm/lab down, then up")
            for name in chosen:
                self.machine(name).kill()
            self._load(*chosen)

    def power_cut(
        self, name: str, seed: int = 1, keep: str = "some", stay_down: bool = False
    ) -> None:
        """The host's power goes at once, and comes back unless it is to `stay_down`. Of what its
        disks were not told to flush, a part that the seed decides is left (`keep`: "some", "none"
        or "all"); the NVDIMM keeps everything. The root disk keeps what the guest had written to
        it: as on any host, a file just made and not synced may be gone."""
        with self._locked():
            machine = self.machine(name)
            machine.check_alive()
            machine.kill()
            for disk in machine.disks:
                self._say(f"{name}: {disk.name}: {disk.cut(seed, keep)}")
        if not stay_down:
            self.boot(name)

    def boot(self, name: str) -> None:
        """Powers the host on, if it is off, and waits until it takes ssh. Its disks and NVDIMM are
        as they were left; so is its root disk, and what was installed there has to come up by
        itself. The wire keeps its profile."""
        with self._locked():
            machine = self.machine(name)
            if machine.pid() is None:
                # After a power cut there is nothing to do; when the guest had ended itself, its
                # disks kept their power.
                for disk in machine.disks:
                    disk.cut(0, keep="all")
                machine.start()
            self._wait(name)

    def wire(self, profile: str, seed: int = 1, loss_percent: float = 0.0) -> None:
        """Shapes the link, now and at later boots, until restore() or the next wire(). The loss is
        of packets, in each direction."""
        for name, shape in wire.shapes(profile, seed, loss_percent).items():
            self.ssh(name, wire.COMMAND, stdin=shape)

    def push(self) -> None:
        """Copies the project's modules and programs into both hosts: modprobe and PATH find them.
        They stay there until restore()."""
        for name in self.hosts:
            packed = payload.pack(TREE / "build", self.release)
            self.ssh(name, payload.unpack_command(self.release), stdin=packed)

    def send(self, name: str, files: Mapping[str, bytes | Path]) -> None:
        """Absolute paths in the host, with content or a file or folder of this machine."""
        self.ssh(name, "tar -x -C / --no-same-owner", stdin=payload.files(files))

    @property
    def release(self) -> str:
        """Of the guests' kernel."""
        image = Path(self._read()["image"])
        return (image / "release").read_text(encoding="ascii").strip()

    def ssh(
        self,
        name: str,
        command: str,
        check: bool = True,
        timeout: float = SSH_S,
        stdin: str | bytes | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a shell command as root on that host."""
        machine = self.machine(name)
        machine.check_alive()
        done = machine.shell.run(command, check=False, timeout=timeout, stdin=stdin)
        if done.returncode == shell.SSH_FAILED:
            # Usually ssh's own word; then the guest or QEMU is what matters.
            machine.check_alive()
        if check and done.returncode:
            said = (done.stdout + done.stderr).strip()
            raise LabError(f"{name}: exit code {done.returncode} from: {command}\n{said}")
        return done

    # How.

    def _prepare(self, disk_mib: int) -> None:
        self._state.mkdir(parents=True, exist_ok=True)
        image = cached.entry("vm-image")
        shell.make_key(self._key)
        facts: dict[str, Any] = {
            "image": str(image),
            "accel": qemu.accelerator(image, self._state / "accel"),
            "disk_mib": disk_mib,
            "ports": dict(zip(self.hosts, _free_ports(len(self.hosts)), strict=True)),
        }
        scratch = self._facts.with_suffix(".new")
        scratch.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        scratch.rename(self._facts)
        machines = self.machines()
        for name in self.hosts:
            (self._state / name).mkdir(exist_ok=True)
            machines[name].console.write_bytes(b"")
        inventory.write(self.inventory_path, machines, self._key)

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            self._state / "snapshot", self.machines().values(), int(self._read()["disk_mib"])
        )

    def _cold_start(self) -> None:
        """Boots both hosts from nothing, and takes the snapshot."""
        mib = int(self._read()["disk_mib"])
        machines = self.machines()
        for machine in machines.values():
            machine.nvdimm.unlink(missing_ok=True)
            qemu.overlay(machine.image / "root.ext4", machine.root)
            for disk in machine.disks:
                disk.blank(mib)
            machine.start()
        self._say(f"booting {' and '.join(self.hosts)} ({self.accel}), once")
        self._wait(*self.hosts)
        for name in self.hosts:
            self.ssh(name, IDLE, timeout=BOOT_S)
        self._snapshot().take()
        self._say("took a snapshot of both hosts")

    def _load(self, *names: str) -> None:
        """These hosts from the snapshot. They woke up in the past."""
        self._snapshot().load(names, int(self._read()["disk_mib"]))
        self._wait(*names)
        for name in names:
            self.ssh(name, f"date -u -s @{time.time():.3f}")

    def _stop(self) -> None:
        if not self._facts.exists():
            return
        for machine in self.machines().values():
            machine.kill()
        shutil.rmtree(self._sockets(), ignore_errors=True)

    def _wait(self, *names: str) -> None:
        """Until these hosts take ssh."""
        started = time.monotonic()
        tick = started + TICK_S
        waiting = {name: self.machine(name) for name in names}
        while True:
            for name in [name for name, machine in waiting.items() if _answers(machine)]:
                del waiting[name]
                self._say(f"{name} takes ssh after {time.monotonic() - started:.1f} s")
            if not waiting:
                return
            now = time.monotonic()
            if now - started > BOOT_S:
                machine = next(iter(waiting.values()))
                raise LabError(
                    f"{machine.host.name}: no ssh {BOOT_S:g} s after its start;"
                    f" {machine.console_tail()}"
                )
            if now > tick:
                tick += TICK_S
                self._say(f"{now - started:.0f} s: waiting for {' and '.join(waiting)}")
            time.sleep(0.2)

    def _read(self) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = json.loads(self._facts.read_text(encoding="utf-8"))
        except FileNotFoundError as err:
            raise LabError("the lab isn't up: run tests/vm/lab up") from err
        return facts

    def _sockets(self) -> Path:
        """A folder of this user's with a name short enough for UNIX sockets."""
        mark = hashlib.sha256(str(self._state).encode()).hexdigest()[:12]
        path = Path(tempfile.gettempdir()) / f"lockstep-vm-{os.getuid()}-{mark}"
        path.mkdir(mode=0o700, exist_ok=True)
        owned = path.lstat()
        if not stat.S_ISDIR(owned.st_mode) or owned.st_uid != os.getuid() or owned.st_mode & 0o077:
            raise LabError(f"{path} isn't a private folder of this user: remove it")
        return path

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._state.mkdir(parents=True, exist_ok=True)
        with (self._state / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._say("waiting for another command of this lab")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _answers(machine: Machine) -> bool:
    """Whether the guest takes ssh. QEMU's network gives a first connection up that a guest without
    a CPU to itself leaves unanswered for a while: then the next one is tried. It stays open."""
    if not machine.ready():
        return False
    return machine.shell.run("true", check=False, timeout=BOOT_S).returncode != shell.SSH_FAILED


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
