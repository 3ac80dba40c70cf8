# SPDX-License-Identifier: GPL-2.0-only
"""Running other programs. Their own words are in the error."""

from __future__ import annotations

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


def ask(*words: str) -> Said:
    """Runs a program to its end, whatever that is."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False,
            encoding="utf-8", errors="backslashreplace",
        )  # fmt: skip
    except FileNotFoundError:
        package = _PACKAGES.get(words[0])
        what_to_do = f": apt install {package}" if package else ""
        raise Failed(f"the program {words[0]} isn't installed{what_to_do}") from None
    except PermissionError as err:
        raise Failed(f"the program {words[0]} can't be run: {err.strerror}") from err
    return Said(done.returncode, done.stdout, done.stderr)


def run(*words: str) -> str:
    """Runs a program that has to succeed; returns its output."""
    said = ask(*words)
    if said.code:
        raise Failed(f"`{' '.join(words)}`: {said.why}")
    return said.out
