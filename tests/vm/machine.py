# SPDX-License-Identifier: GPL-2.0-only
"""One host of the lab: a QEMU process, its files and its console.

The process outlives the program that started it, unless it was to be mortal; whoever comes next
finds it by its pid file.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import mortal
import qemu
from disk import MIB, Disk
from host import Host
from laberror import LabError
from qmp import Qmp
from shell import Shell

MEMORY_MIB = 2048
START_S = 60.0
BOOT_S = 300.0
POLL_S = 0.1
TAIL_LINES = 15
# In the console's log: ours at each start, and the guest's word that its sshd is up.
POWER_ON = "--- lab: power on"
RESTORED = "--- lab: restored from the snapshot"
TAKES_SSH = "lab: takes ssh"
# Each process we started and still have to wait for.
_children: dict[int, subprocess.Popen[bytes]] = {}


class Machine:
    """`folder` has the host's files; `sockets` is a folder with a short name."""

    def __init__(
        self, host: Host, folder: Path, sockets: Path, image: Path, accel: str, port: int,
        key: Path, is_mortal: bool = False,
    ) -> None:  # fmt: skip
        self.host = host
        self.image = image
        self.accel = accel
        self.disks = [Disk(folder, name) for name in host.disks]
        self.root = folder / "root.qcow2"
        self.nvdimm = folder / "nvdimm.raw"
        self.console = folder / "console.log"
        self.said = folder / "qemu.log"
        self._pid_file = folder / "pid"
        self._folder = folder
        self._sockets = sockets
        self._port = port
        self._key = key
        self._is_mortal = is_mortal
        self.shell = Shell(host.name, port, key, sockets / f"{host.name}.ssh")

    # The process.

    def pid(self) -> int | None:
        """Of the running QEMU, or None."""
        try:
            pid = int(self._pid_file.read_text(encoding="ascii"))
            if pid in _children and _children[pid].poll() is not None:
                return None
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return None
        # A process that was killed and not yet waited for has no words; another one has others.
        return pid if str(self._qmp_path).encode() in words else None

    def start(self, incoming: bool = False) -> None:
        """Powers on, or waits for a snapshot."""
        if self.pid() is not None:
            raise LabError(f"{self.host.name}: is running already")
        if self.host.nvdimm_mib and not self.nvdimm.exists():
            with self.nvdimm.open("wb") as file:
                os.truncate(file.fileno(), self.host.nvdimm_mib * MIB)
        for path in (self._qmp_path, self._link_path(self.host.index)):
            path.unlink(missing_ok=True)
        with self.console.open("a", encoding="utf-8") as console:
            print(RESTORED if incoming else POWER_ON, time.strftime("%H:%M:%S"), file=console)
        words = self.words()
        if incoming:
            words += ["-incoming", "defer"]
        if self._is_mortal:
            words = mortal.words(words, "KILL")
        with self.said.open("wb") as said:
            child = subprocess.Popen(
                words, env=qemu.environment(), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True, cwd="/",
            )  # fmt: skip
        _children[child.pid] = child
        self._pid_file.write_text(f"{child.pid}\n", encoding="ascii")
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), Qmp(self._qmp_path):
                return
            if child.poll() is not None:
                raise LabError(f"{self.host.name}: QEMU didn't start: {self._last_words()}")
            if time.monotonic() > deadline:
                self.kill()
                raise LabError(f"{self.host.name}: QEMU gave no sign of life in {START_S:g} s")
            time.sleep(POLL_S)

    def kill(self) -> None:
        """kill -9: as the power goes."""
        self.shell.hang_up()
        pid = self.pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            while self.pid() is not None:
                time.sleep(0.01)
        self._pid_file.unlink(missing_ok=True)

    def qmp(self) -> Qmp:
        try:
            return Qmp(self._qmp_path)
        except OSError as err:
            raise LabError(f"{self.host.name}: {self.gone()}") from err

    def check_alive(self) -> None:
        if self.pid() is None:
            raise LabError(f"{self.host.name}: {self.gone()}")

    def gone(self) -> str:
        return (
            "QEMU isn't running (the lab's boot starts this host, its up both)."
            f" {self._last_words()}\n{self.console_tail()}"
        )

    def _last_words(self) -> str:
        said = ""
        if self.said.exists():
            said = self.said.read_text(encoding="utf-8", errors="replace").strip()
        return f"It said: {said or '(nothing)'} ({self.said})"

    # The guest.

    def ready(self) -> bool:
        """Whether the guest takes ssh. An error when it can't come any more. (The console is
        asked: QEMU accepts connections long before the guest does, and each costs it dearly.)"""
        self.check_alive()
        text = self.console.read_text(encoding="utf-8", errors="replace")
        last = text[max(text.rfind(POWER_ON), text.rfind(RESTORED), 0) :]
        return last.startswith(RESTORED) or TAKES_SSH in last

    def console_tail(self) -> str:
        if not self.console.exists():
            return "(no console yet)"
        text = self.console.read_text(encoding="utf-8", errors="replace")
        lines = [line.rstrip() for line in text.splitlines() if line.strip()][-TAIL_LINES:]
        shown = "\n".join(f"    {line}" for line in lines) or "    (empty)"
        return f"the end of {self.console}:\n{shown}"

    # The command line.

    def identity(self) -> str:
        """All that a snapshot of its memory depends on."""
        words = "\n".join([*self.words(), self.image.name])
        # Where the lab is, and which port it got, is no part of the guest.
        for own, name in ((self._folder, "FOLDER"), (self._sockets, "SOCKETS")):
            words = words.replace(str(own), name)
        words = words.replace(f":{self._port}-", ":PORT-")
        return words + (qemu.cpu() if self.accel == "kvm" else "")

    @property
    def _qmp_path(self) -> Path:
        return self._sockets / f"{self.host.name}.qmp"

    def _link_path(self, index: int) -> Path:
        return self._sockets / f"link{index}"

    def words(self) -> list[str]:
        host = self.host
        mac = f"52:54:00:00:%02x:{host.index:02x}"
        link = {
            "type": "dgram",
            "id": "link",
            "local": {"type": "unix", "path": str(self._link_path(host.index))},
            "remote": {"type": "unix", "path": str(self._link_path(3 - host.index))},
        }
        return [
            *qemu.system(),
            "-name", f"lockstep-{host.name}",
            *qemu.accel_args(self.accel),
            *self._memory(),
            "-nodefaults", "-no-user-config", "-display", "none", "-rtc", "base=utc,clock=host",
            "-kernel", str(self.image / "vmlinuz"), "-initrd", str(self.image / "initrd"),
            "-append", self._kernel_words(),
            "-drive", f"if=none,id=root,file={_quoted(self.root)},format=qcow2,cache=unsafe",
            "-device", "virtio-blk-pci,drive=root,serial=root",
            "-device", "virtio-rng-pci",
            "-netdev", f"user,id=mgmt,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:22",
            "-device", f"virtio-net-pci,netdev=mgmt,mac={mac % 0},romfile=",
            "-netdev", json.dumps(link),
            "-device", f"virtio-net-pci,netdev=link,mac={mac % 1},romfile=",
            "-chardev", f"file,id=console,path={_quoted(self.console)},append=on",
            "-serial", "chardev:console",
            "-qmp", f"unix:{_quoted(self._qmp_path)},server=on,wait=off",
            *self._disk_words(),
        ]  # fmt: skip

    def _memory(self) -> list[str]:
        if not self.host.nvdimm_mib:
            return ["-machine", "q35", "-m", f"{MEMORY_MIB}M"]
        backend: dict[str, Any] = {
            "qom-type": "memory-backend-file",
            "id": "nvdimm",
            "share": True,
            "mem-path": str(self.nvdimm),
            "size": self.host.nvdimm_mib * MIB,
        }
        return [
            "-machine", "q35,nvdimm=on,nvdimm-persistence=cpu",
            "-m", f"{MEMORY_MIB}M,slots=2,maxmem={2 * MEMORY_MIB}M",
            "-object", json.dumps(backend),
            "-device", "nvdimm,id=nvdimm0,memdev=nvdimm",
        ]  # fmt: skip

    def _disk_words(self) -> list[str]:
        words: list[str] = []
        for disk in self.disks:
            words += ["-object", json.dumps(disk.thread())]
            words += ["-blockdev", json.dumps(disk.blockdev())]
            words += ["-device", json.dumps(disk.device())]
        return words

    def _kernel_words(self) -> str:
        host = self.host
        public = self._key.with_name(self._key.name + ".pub").read_bytes()
        key = base64.b64encode(public).decode("ascii")
        return " ".join([
            "console=ttyS0", "quiet", "loglevel=4", "panic=0", "mitigations=off", "audit=0",
            "apparmor=0", "selinux=0", "tsc=reliable", "no_timer_check", "random.trust_cpu=on",
            "net.ifnames=0", "systemd.show_status=0", "systemd.gpt_auto=0",
            f"systemd.hostname={host.name}", f"systemd.machine_id={host.index:032x}",
            f"systemd.set_credential_binary=ssh.authorized_keys.root:{key}",
        ])  # fmt: skip


def _quoted(path: Path) -> str:
    """As a value in QEMU's comma-separated options."""
    return str(path).replace(",", ",,")
