# SPDX-License-Identifier: GPL-2.0-only
"""systemd's lockstep@NAME.service, and that it says what is so: it is active while the mirror runs,
whoever has started or stopped that.

Its process (`assemble --stay`) ends with the mirror, and stops it when systemd says so. An ExecStop
would be run after a stop by hand, too, and stop a mirror that somebody has started again by then.
Who starts a mirror by hand whose unit is enabled has the unit started with it, so that the mirror
is stopped at shutdown, in its turn."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from . import dm, program
from .errors import Failed

_SYSTEMD = Path("/run/systemd/system")


class ToldToStop(Exception):
    """By SIGTERM. Once: what it interrupts is cleared up undisturbed."""


@contextmanager
def told() -> Iterator[None]:
    """SIGTERM is an exception in here."""

    def on(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise ToldToStop

    before = signal.signal(signal.SIGTERM, on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stay(name: str) -> None:
    """Returns when the mirror has gone."""
    sys.stdout.flush()  # The journal is to have what was said so far now, not when this ends.
    with dm.events() as event:
        event.arm()
        _ready()
        while dm.exists(name):
            event.sleep()
            event.arm()
    print(f"{name}: it was stopped")


def _ready() -> None:
    """To who has started this, if that is systemd."""
    place = os.environ.pop("NOTIFY_SOCKET", "")
    if not place:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
        # An abstract name begins with a zero byte, for which there is an @ here.
        to.connect(f"\0{place[1:]}" if place.startswith("@") else place)
        to.send(b"READY=1")


def started(name: str) -> None:
    """By hand. What systemd makes of it is no matter of the mirror's."""
    if not _SYSTEMD.is_dir():
        return
    unit = f"lockstep@{name}.service"
    with suppress(Failed):
        if program.ask("systemctl", "is-enabled", "--quiet", unit).code == 0:
            program.ask("systemctl", "start", "--no-block", unit)
