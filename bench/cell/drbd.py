# SPDX-License-Identifier: GPL-2.0-only
"""DRBD 8.4 (protocol C) talking to itself through the wire, in one kernel.

Two resources, `here` on the primary's disk and `there` on the mirror site's, each the other's peer.
DRBD opens its sockets in the root namespace, whatever namespace it is told from, and a packet to an
address of the same namespace never leaves it. So `here` is told that its peer is at the mirror
site's address of wire 0, and a relay there goes on to `there`; and the other way round.

    here 10.9.0.1:7788 == wire 0, shaped ==> relay 10.9.0.2:7789 -- wire 1 --> 10.9.1.1:7789 there
    there 10.9.1.1:7789 -- wire 1 --> relay 10.9.1.2:7788 == wire 0, shaped ==> 10.9.0.1:7788 here

Whichever end DRBD makes a connection from, all its bytes pass wire 0. Its time limits are as
patient as those of an iSCSI session here (connections.py): a ping behind seconds of data isn't a
dead peer.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cell.order import Absent, BadOrder
from cell.relay import Relay
from locklab import base, wire

_SETUP = "/usr/lib/drbd/drbdsetup-84"
_SAID = Path("/proc/drbd")
_HELPER = Path("/sys/module/drbd/parameters/usermode_helper")
_BACK = 1  # the wire from the relay to `there`
_HERE, _THERE = (wire.PRIMARY_IP, 7788), (wire.primary_ip(_BACK), 7789)
# Tenths of a second; ping-timeout has to be below timeout, that below ping-int and connect-int.
_PATIENT = ("--ping-timeout=300", "--timeout=590", "--ping-int=60", "--connect-int=60",
            "--ko-count=0")  # fmt: skip
_DISK = ("--al-updates=no",)
NODE = "/dev/drbd0"
_WELL = ("Connected", "UpToDate/UpToDate")
_ON_THE_WAY_S = 5.0
_FIRST_S = 1.0  # more than a round trip


@contextlib.contextmanager
def mirrored(local: str, remote: str, options: str) -> Iterator[str]:
    """@remote: the mirror site's device as a node of this kernel; wire 0 has to be there. @options:
    KEY VALUE..., of drbdsetup's net-options."""
    net = net_options(options)
    if not wire.NETNS.exists():
        raise BadOrder("stack: drbd needs a wire, and remote names none")
    ready()
    back = wire.Wire(number=_BACK)
    relays = (
        Relay((wire.MIRROR_IP, _THERE[1]), _THERE),
        Relay((wire.mirror_ip(_BACK), _HERE[1]), _HERE),
    )
    attach("here", 0, local)
    attach("there", 1, remote)
    connect("here", _HERE, (wire.MIRROR_IP, _THERE[1]), net)
    # If both begin at once their first packets cross, and DRBD draws lots whether it tries again in
    # a minute: so one goes first.
    time.sleep(_FIRST_S)
    connect("there", _THERE, (wire.mirror_ip(_BACK), _HERE[1]), net)
    try:
        with primary(minors=(0, 1)):
            yield NODE
    finally:
        for name in ("here", "there"):
            down(name)
        for one in relays:
            one.close()
        back.close()


def net_options(options: str) -> list[str]:
    """KEY VALUE... as words of drbdsetup."""
    words = options.split()
    if len(words) % 2:
        raise BadOrder(f"stack: options of drbd are {options!r}, want pairs KEY VALUE")
    return [f"--{key}={value}" for key, value in zip(words[::2], words[1::2], strict=True)]


def ready() -> None:
    if not _SAID.exists():
        raise Absent("drbd: this kernel has none")
    base.put(_HELPER, "disabled")


@contextlib.contextmanager
def primary(minors: Sequence[int]) -> Iterator[None]:
    """Minor 0 as the primary; @minors: the ends that are in this kernel, all connected."""
    _settled("Connected", "Inconsistent/Inconsistent", minors)
    # As the peers' nosync and --assume-clean: both disks are declared to be equal.
    _setup("new-current-uuid", "0", "--clear-bitmap=yes")
    _settled(*_WELL, minors)
    _setup("primary", "0")
    try:
        yield
        base.expect(_is(0, *_WELL), f"drbd has given up its peer or a disk: {status()}")
    finally:
        _setup("secondary", "0")


def status(minor: int = 0) -> str:
    """The line of /proc/drbd; of the primary's end unless told otherwise."""
    found = re.search(rf"^ *{minor}: (.*)$", _SAID.read_text(), re.MULTILINE)
    return found[1].strip() if found else "not configured"


def _is(minor: int, connection: str, disks: str) -> bool:
    return {f"cs:{connection}", f"ds:{disks}"} <= set(status(minor).split())


def _settled(connection: str, disks: str, minors: Sequence[int]) -> None:
    """These ends are so, and no word of an earlier state is on the wire any more: one that arrives
    after the next step is believed."""
    base.until(lambda: all(_is(minor, connection, disks) for minor in minors),
               f"drbd: minors {minors} {connection}, {disks}")  # fmt: skip
    time.sleep(_ON_THE_WAY_S)


def attach(name: str, minor: int, disk: str) -> None:
    base.run("drbdmeta", "--force", str(minor), "v08", disk, "internal", "create-md")
    _setup("new-resource", name)
    _setup("new-minor", name, str(minor), "0")
    _setup("attach", str(minor), disk, disk, "internal", *_DISK)


def connect(name: str, mine: tuple[str, int], peer: tuple[str, int], net: Sequence[str]) -> None:
    ends = (f"ipv4:{address}:{port}" for address, port in (mine, peer))
    _setup("connect", name, *ends, "--protocol=C", *_PATIENT, *net)


def down(name: str) -> None:
    _setup("down", name)


def _setup(*words: str) -> None:
    base.run(_SETUP, *words)
