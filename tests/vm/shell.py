# SPDX-License-Identifier: GPL-2.0-only
"""ssh into a guest, as root, by the lab's own key."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from laberror import LabError

SSH_FAILED = 255


def make_key(path: Path) -> str:
    """The public half of the key pair at `path`; made when it is missing."""
    public = path.with_name(path.name + ".pub")
    if not (path.exists() and public.exists()):
        path.unlink(missing_ok=True)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lockstep-lab"]
        subprocess.run([*words, "-f", str(path)], check=True, stdin=subprocess.DEVNULL)
    return public.read_text(encoding="ascii").strip()


@dataclass(frozen=True)
class Shell:
    """How one guest is reached. The first command opens a connection that later ones share."""

    host: str
    port: int
    key: Path
    control: Path

    def options(self) -> list[str]:
        """ssh's, without the shared connection. The host key is new with each lab, and the way
        to it is this machine's loopback."""
        return [
            "-i", str(self.key), "-p", str(self.port),
            "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
            "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-o", "GlobalKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
            "-o", "ConnectTimeout=180", "-o", "ServerAliveInterval=30",
            "-o", "ServerAliveCountMax=4",
        ]  # fmt: skip

    def words(self, *command: str) -> list[str]:
        shared = ["-o", "ControlMaster=auto", "-o", "ControlPersist=600"]
        shared += ["-o", f"ControlPath={self.control}"]
        return ["ssh", "-F", "none", *self.options(), *shared, "root@127.0.0.1", *command]

    def run(
        self, command: str, check: bool, timeout: float, stdin: str | bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin or b""
        try:
            raw = subprocess.run(
                self.words(command), input=data, capture_output=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired as err:
            raise LabError(f"{self.host}: no end after {timeout:g} s: {command}") from err
        done = subprocess.CompletedProcess(
            command, raw.returncode, raw.stdout.decode(errors="replace"),
            raw.stderr.decode(errors="replace"),
        )  # fmt: skip
        if check and done.returncode:
            said = (done.stdout + done.stderr).strip()
            raise LabError(f"{self.host}: exit code {done.returncode} from: {command}\n{said}")
        return done

    def hang_up(self) -> None:
        """Ends the shared connection, so that none outlives its guest."""
        if not self.control.exists():
            return
        words = ["ssh", "-F", "none", "-O", "exit", "-o", f"ControlPath={self.control}", "lab"]
        subprocess.run(words, capture_output=True, check=False)
        with contextlib.suppress(FileNotFoundError):
            self.control.unlink()

    def ansible_args(self) -> str:
        """For ansible_ssh_common_args; port and key have variables of their own."""
        options = self.options()
        return shlex.join(options[options.index("-o") :])

    def attach(self, command: list[str]) -> None:
        """Becomes ssh: never returns."""
        tty = ["-t"] if os.isatty(0) and not command else []
        words = self.words(*command)
        os.execvp(words[0], [words[0], *tty, *words[1:]])
