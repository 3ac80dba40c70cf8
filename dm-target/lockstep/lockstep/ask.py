# SPDX-License-Identifier: GPL-2.0-only
"""The person at the terminal."""

from __future__ import annotations

import sys

from . import config
from .errors import Refused


def permission(question: str, *, given: bool) -> None:
    """Returns if the answer is yes. `given`: it was given on the command line (--yes). Meanwhile
    the mirror isn't locked: the caller has to look again at all that it goes by."""
    if given:
        return
    if not sys.stdin.isatty():
        raise Refused(f"{question} There is no terminal to ask on: --yes answers yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    with config.unlocked():
        answer = sys.stdin.readline().strip().casefold()
    if answer not in ("y", "yes"):
        raise Refused("not confirmed: nothing was changed")
