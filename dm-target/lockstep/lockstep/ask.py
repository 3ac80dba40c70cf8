# SPDX-License-Identifier: GPL-2.0-only
"""The person at the terminal."""

from __future__ import annotations

import sys

from .errors import Refused


def permission(question: str, *, given: bool) -> None:
    """Returns if the answer is yes. `given`: it was given on the command line (--yes)."""
    if given:
        return
    if not sys.stdin.isatty():
        raise Refused(f"{question} There is no terminal to ask on: --yes answers yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
        raise Refused("not confirmed: nothing was changed")
