# SPDX-License-Identifier: GPL-2.0-only
"""The digest LUN of the remote leg (option resync_digests). It is a second LUN of the mirror site:
it may come up later than the leg, and without it everything works but is copied as a whole."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from . import device
from .errors import Failed
from .table import ABSENT

OPTION = "resync_digests"
# LUNs of one session are scanned one after the other, over a WAN in seconds.
PATIENCE_S = 10.0
_PAUSE_S = 0.2


def missing(options: Mapping[str, str]) -> str:
    """The LUN that is configured and isn't there; "" if nothing is amiss."""
    node = options.get(OPTION, ABSENT)
    return "" if node == ABSENT or device.present(node) else node


def wait(options: Mapping[str, str], seconds: float = PATIENCE_S) -> None:
    """Until it is there, or for so long. The kernel opens it as the table is loaded and never
    again: what is loaded before it is there copies everything."""
    until = time.monotonic() + seconds
    while missing(options) and time.monotonic() < until:
        time.sleep(_PAUSE_S)


def remark(name: str, options: Mapping[str, str]) -> None:
    """Of a table that was just loaded."""
    if node := missing(options):
        print(
            f"lockstep: {name}: the digest LUN {node} isn't there: resyncs copy everything. When it"
            f" is: lockstep set {name} {OPTION}={node}",
            file=sys.stderr,
            flush=True,
        )


def checked(options: Mapping[str, str]) -> dict[str, str]:
    """With the LUN's name that stays; fails if it isn't there, or is no block device. Whether it
    shows digests of the remote leg only the kernel finds out, at each resync."""
    node = options.get(OPTION, ABSENT)
    if node == ABSENT:
        return dict(options)
    try:
        at = device.look(node)
    except Failed as err:
        raise Failed(
            f"{OPTION}: {err}. A new LUN of a target that is logged in already shows after:"
            " iscsiadm -m session --rescan"
        ) from err
    name, stable = device.stable_name(at)
    if not stable:
        print(f"Warning: no name of {node} is known that stays the same after a reboot",
              file=sys.stderr)  # fmt: skip
    return {**options, OPTION: name}
