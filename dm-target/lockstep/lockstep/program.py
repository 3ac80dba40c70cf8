# SPDX-License-Identifier: GPL-2.0-only
"""Running other programs. Their own words are in the error."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass

from .errors import Failed

# What to install when one is missing.
_PACKAGES = {
    "dmsetup": "dmsetup",
    "wipefs": "util-linux",
    "blkid": "util-linux",
    "dumpe2fs": "e2fsprogs",
    "modprobe": "kmod",
    "iscsiadm": "open-iscsi",
}


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def why(self) -> str:
        """What a program says of its failure, on one line."""
        text = " ".join((self.err or self.out).split()).removesuffix("Command failed.")
        return text.strip().rstrip(".") or f"exit code {self.code}"


# The exit code of timeout(1) for a program that was ended by it.
TOO_LONG = 124
# What a program gets for its own clearing up before it is killed.
_LAST_S = 2.0


def ask(*words: str, seconds: float | None = None) -> Said:
    """Runs a program to its end, whatever that is. One that needs longer than `seconds` is ended,
    and its exit code is TOO_LONG."""
    try:
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            encoding="utf-8", errors="backslashreplace",
        ) as running:  # fmt: skip
            try:
                out, err = running.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                _end(running)
                return Said(TOO_LONG, "", f"no answer within {seconds:g} s")
            except BaseException:
                running.kill()
                raise
    except FileNotFoundError:
        package = _PACKAGES.get(words[0])
        what_to_do = f": apt install {package}" if package else ""
        raise Failed(f"the program {words[0]} isn't installed{what_to_do}") from None
    except PermissionError as denied:
        raise Failed(f"the program {words[0]} can't be run: {denied.strerror}") from denied
    return Said(running.returncode, out, err)


def _end(running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGINT)
    try:
        running.communicate(timeout=_LAST_S)
    except subprocess.TimeoutExpired:
        running.kill()


def run(*words: str) -> str:
    """Runs a program that has to succeed; returns its output."""
    said = ask(*words)
    if said.code:
        raise Failed(f"`{' '.join(words)}`: {said.why}")
    return said.out
