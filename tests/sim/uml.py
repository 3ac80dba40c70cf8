# SPDX-License-Identifier: GPL-2.0-only
"""One User Mode Linux process: start it, carry its channels, end it.

The guest has four character channels, each a pipe of ours, so that none mixes with another:
tty0 the kernel's console, tty1 the script's stdout, tty2 its stderr, tty3 the init's word to us.
Nothing here reads the host's clock on the guest's behalf: a slow reader only makes it wait.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHANNELS = ("console", "stdout", "stderr", "control")
PIPE_BYTES = 1 << 20
PR_SET_PDEATHSIG = 1
MCONSOLE_MAGIC = 0xCAFEBABE
# How long a guest that was told to show its tasks gets for it.
LAST_WORDS_S = 3.0

Sink = Callable[[bytes], None]


@dataclass
class Uml:
    """A kernel with its command line. run() blocks until it is gone."""

    linux: Path
    cmdline: Sequence[str]
    sinks: dict[str, Sink]
    timeout_s: float
    timed_out: bool = False
    _pid: int = 0
    _pipes: dict[str, int] = field(default_factory=dict)

    def run(self) -> int:
        """Exit status of the UML process (negative: the signal that ended it)."""
        state = Path(tempfile.mkdtemp(prefix="lockstep-uml-", dir=_memory_dir()))
        writers: list[int] = []
        try:
            for name in CHANNELS:
                reader, writer = os.pipe()
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
                self._pipes[name] = reader
                writers.append(writer)
            return self._run(state, writers)
        finally:
            for fd in self._pipes.values():
                os.close(fd)
            self._pipes.clear()
            shutil.rmtree(state, ignore_errors=True)

    def _run(self, state: Path, writers: list[int]) -> int:
        consoles = [f"con{n}=null,fd:{fd}" for n, fd in enumerate(writers)]
        with subprocess.Popen(
            [str(self.linux), f"uml_dir={state}/", "umid=lab", *consoles, "con=null", *self.cmdline],
            stdin=subprocess.DEVNULL,
            stdout=writers[0],
            stderr=writers[0],
            pass_fds=writers,
            env={"TMPDIR": str(state), "HOME": str(state), "PATH": "/usr/bin:/bin"},
            start_new_session=True,
            preexec_fn=_die_with_parent,
        ) as process:
            self._pid = process.pid
            for fd in writers:
                os.close(fd)
            try:
                self._carry(process, state)
                if self.timed_out:
                    process.kill()
                return process.wait()
            finally:
                # The guest's user processes are in the same group; none may outlive the run.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _carry(self, process: subprocess.Popen[bytes], state: Path) -> None:
        """Hands the channels' bytes to their sinks until the guest has gone."""
        deadline = time.monotonic() + self.timeout_s
        with selectors.DefaultSelector() as selector:
            for name, fd in self._pipes.items():
                os.set_blocking(fd, False)
                selector.register(fd, selectors.EVENT_READ, name)
            while selector.get_map():
                for key, _ in selector.select(timeout=0.2):
                    data = os.read(key.fd, 65536)
                    if data:
                        self.sinks[key.data](data)
                    else:
                        selector.unregister(key.fd)
                if process.poll() is not None:
                    self._drain()
                    return
                if time.monotonic() > deadline:
                    if self.timed_out:
                        return
                    self.timed_out = True
                    _show_tasks(state / "lab" / "mconsole")
                    deadline = time.monotonic() + LAST_WORDS_S

    def _drain(self) -> None:
        for name, fd in self._pipes.items():
            with contextlib.suppress(BlockingIOError):
                while data := os.read(fd, 65536):
                    self.sinks[name](data)


def _memory_dir() -> str:
    """Where the guest's memory lives: a tmpfs that allows execution, as UML maps it so."""
    for place in (os.environ.get("LOCKSTEP_SHM"), "/dev/shm"):
        if place and os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_NOEXEC:
            return place
    return tempfile.gettempdir()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _show_tasks(mconsole: Path) -> None:
    """Asks a guest that takes too long for its blocked tasks (sysrq w), into its console."""
    command = b"sysrq w"
    request = struct.pack("=III512s", MCONSOLE_MAGIC, 2, len(command), command)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.bind(str(mconsole.with_name("runner")))
        sock.sendto(request, str(mconsole))
