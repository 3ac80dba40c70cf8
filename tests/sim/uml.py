# SPDX-License-Identifier: GPL-2.0-only
"""One User Mode Linux process: start it, carry its channels, end it. (emulated.py: one QEMU.)

The guest has four character channels, so that none mixes with another: tty0 the kernel's console,
tty1 the script's stdout, tty2 its stderr, tty3 the init's word to us. Each is a regular file that
we read along. Pipes won't do: whenever we emptied one, the host would tell the guest so by a
signal, an interrupt at a moment of the host's choosing.

The guest's random numbers are a function of its command line (randomness.py), so that mustn't
depend on the run or the machine: folders are handed over as descriptors with fixed numbers, and
the guest mounts folder(n).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import randomness

CHANNELS = ("console", "stdout", "stderr", "control")
PR_SET_PDEATHSIG = 1
MCONSOLE_MAGIC = 0xCAFEBABE
POLL_S = 0.05
# How long a guest that was told to show its tasks gets for it.
LAST_WORDS_S = 3.0
# The guest's descriptors: the channels, then the folders. Above all that a runner has open.
FIRST_FD = 200

Sink = Callable[[bytes], object]


def folder(number: int) -> str:
    """By which path the guest's kernel gets at one of Uml.folders."""
    return f"/proc/self/fd/{FIRST_FD + len(CHANNELS) + number}"


@dataclass
class Uml:
    """A kernel with its command line. run() blocks until it is gone."""

    linux: Path
    cmdline: Sequence[str]
    folders: Sequence[Path]
    sinks: dict[str, Sink]
    timeout_s: float
    timed_out: bool = False

    def run(self) -> int:
        """Exit status of the UML process (negative: the signal that ended it)."""
        state = Path(tempfile.mkdtemp(prefix="lockstep-uml-", dir=_memory_dir()))
        try:
            with contextlib.ExitStack() as stack:
                writers = [stack.enter_context((state / c).open("ab", 0)) for c in CHANNELS]
                readers = [stack.enter_context((state / c).open("rb", 0)) for c in CHANNELS]
                return self._run(state, writers, dict(zip(CHANNELS, readers, strict=True)))
        finally:
            shutil.rmtree(state, ignore_errors=True)

    def _run(self, state: Path, writers: list[FileIO], readers: dict[str, FileIO]) -> int:
        consoles = [f"con{n}=null,fd:{FIRST_FD + n}" for n in range(len(CHANNELS))]
        command = [str(self.linux), f"uml_dir={state}/", "umid=lab", *consoles, "con=null"]
        with contextlib.ExitStack() as stack:
            given = [file.fileno() for file in writers]
            for path in self.folders:
                given.append(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
                stack.callback(os.close, given[-1])

            def in_the_child() -> None:
                end_with_us()
                for number, fd in enumerate(given):
                    os.dup2(fd, FIRST_FD + number)
                randomness.refuse()

            process = stack.enter_context(
                subprocess.Popen(
                    [*command, *self.cmdline],
                    stdin=subprocess.DEVNULL,
                    stdout=writers[0],
                    stderr=writers[0],
                    # What Python opens is closed on exec anyway; what in_the_child makes is not.
                    close_fds=False,
                    env={"TMPDIR": str(state), "HOME": str(state), "PATH": "/usr/bin:/bin"},
                    start_new_session=True,
                    preexec_fn=in_the_child,
                )
            )
            return self.until_gone(process, readers, state)

    def until_gone(
        self, process: subprocess.Popen[bytes], readers: dict[str, FileIO], state: Path
    ) -> int:
        """Carries its channels until it has gone; its exit status."""
        try:
            status = self._carry(process, readers, state)
        finally:
            # The guest's user processes are in the same group; none may outlive the run.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._read_along(readers)
        return status

    def _carry(
        self, process: subprocess.Popen[bytes], readers: dict[str, FileIO], state: Path
    ) -> int:
        """Hands the channels' bytes to their sinks until the guest has gone, or has to go."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(POLL_S)
            self._read_along(readers)
            if time.monotonic() > deadline:
                if self.timed_out:
                    return -signal.SIGKILL
                self.timed_out = True
                _show_tasks(state / "lab" / "mconsole")
                deadline = time.monotonic() + LAST_WORDS_S

    def _read_along(self, readers: dict[str, FileIO]) -> None:
        for name, file in readers.items():
            while data := file.read(1 << 16):
                self.sinks[name](data)


def end_with_us() -> None:
    """In the child: it doesn't outlive the runner."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _memory_dir() -> str:
    """Where the guest's memory lives: a tmpfs that allows execution, as UML maps it so."""
    for place in (os.environ.get("LOCKSTEP_SHM"), "/dev/shm"):
        if place and os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_NOEXEC:
            return place
    return tempfile.gettempdir()


def _show_tasks(mconsole: Path) -> None:
    """Asks a guest that takes too long for its blocked tasks (sysrq w), into its console."""
    command = b"sysrq w"
    request = struct.pack("=III512s", MCONSOLE_MAGIC, 2, len(command), command)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.bind(str(mconsole.with_name("runner")))
        sock.sendto(request, str(mconsole))
