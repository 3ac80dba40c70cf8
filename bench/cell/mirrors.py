# SPDX-License-Identifier: GPL-2.0-only
"""The mirror software: ours and its peers, each over two equal legs.

Equal conditions: none keeps a durable map of what is dirty (after a crash each would be resynced
whole), and each reads from the local leg alone. So lockstep is without metadata (`nosync`), md
without a bitmap and with its remote leg write-mostly, dm-mirror with its core log, DRBD without
its activity log. One exception: md's write-behind works with a bitmap only.

What each does not do:

    lockstep   -
    md         overlapping writes in flight aren't ordered: the legs may end up different
    md-behind  not in lock-step at all: a write is acknowledged when the local leg and the bitmap
               have it, and a lost primary loses what the remote leg is behind (at most BEHIND
               writes). Its bitmap is written on both legs
    dm-mirror  overlapping writes in flight aren't ordered
    drbd       protocol C; what a caller changes in a page under way may differ on the legs

An entry of MIRRORS makes the mirror and takes it down. On the way out it says, by an exception,
if a leg was given up meanwhile: then the work was not mirrored, and its times mean nothing. The
legs' data begin at sector 0 and are as long as the node; what is behind them (md-behind's and
DRBD's own data) differs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from cell import drbd
from cell.order import BadOrder
from locklab import base, dm, mirror

MD = "/dev/md0"
BEHIND = 256  # md's default
_MD_SYSFS = Path("/sys/block/md0/md")

Mirror = Callable[[str, str, str], contextlib.AbstractContextManager[str]]


@contextlib.contextmanager
def none(_local: str, remote: str, options: str) -> Iterator[str]:
    """No mirror: the remote leg alone."""
    _no_options("none", options)
    yield remote


@contextlib.contextmanager
def lockstep(local: str, remote: str, options: str) -> Iterator[str]:
    one = mirror.Mirror(local, remote, "nosync", *options.split())
    try:
        yield one.node
        base.equal(one.status().health, "AA", "the mirror's health after the work")
    finally:
        one.remove()


@contextlib.contextmanager
def dm_mirror(local: str, remote: str, options: str) -> Iterator[str]:
    _no_options("dm-mirror", options)
    sectors = min(dm.sectors(local), dm.sectors(remote))
    legs = f"2 {local} 0 {remote} 0"
    node = dm.create("mirror", f"0 {sectors} mirror core 2 1024 nosync {legs}")
    try:
        yield node
        base.expect(" AA " in f" {dm.status('mirror')} ", f"dm-mirror: {dm.status('mirror')}")
    finally:
        dm.remove("mirror")


@contextlib.contextmanager
def md(local: str, remote: str, options: str) -> Iterator[str]:
    _no_options("md", options)
    words = ("mdadm", "--build", MD, "--level=1", "--raid-devices=2", "--assume-clean")
    base.run(*words, local, "--write-mostly", remote)
    with _raid():
        yield MD


@contextlib.contextmanager
def md_behind(local: str, remote: str, options: str) -> Iterator[str]:
    _no_options("md-behind", options)
    # Of metadata 1.0 the superblock is at the end of a leg, the data at its beginning.
    words = ("mdadm", "--create", MD, "--run", "--metadata=1.0", "--level=1", "--raid-devices=2",
             "--assume-clean", "--bitmap=internal", f"--write-behind={BEHIND}")  # fmt: skip
    base.run(*words, local, "--write-mostly", remote)
    with _raid():
        yield MD


@contextlib.contextmanager
def _raid() -> Iterator[None]:
    try:
        yield
        degraded = (_MD_SYSFS / "degraded").read_text().strip()
        base.equal(degraded, "0", "legs that md raid1 has given up")
    finally:
        base.run("mdadm", "--stop", MD)  # when nothing is behind any more


def _no_options(name: str, options: str) -> None:
    if options:
        raise BadOrder(f"stack: software {name} takes no options, was given {options!r}")


MIRRORS: dict[str, Mirror] = {
    "none": none,
    "lockstep": lockstep,
    "md": md,
    "md-behind": md_behind,
    "dm-mirror": dm_mirror,
    "drbd": drbd.mirrored,
}
# These promise the same bytes in one order to both legs, whatever the caller does, so that the legs
# must be equal after any work; with the others an inequality is only told.
ORDERED = ("lockstep",)
# What a leg has to be larger for what they keep at its end; so a node is never shorter than asked.
OWN_MIB = {"md-behind": 1, "drbd": 1}
# These talk over the wire by themselves: their remote leg is the mirror site's device on the spot.
WITHOUT_ISCSI = ("drbd",)


def status(name: str) -> str:
    """What the software says of its mirror now, in a line."""
    if name in ("lockstep", "dm-mirror"):
        return dm.status("mirror")
    if name in ("md", "md-behind"):
        return " ".join(f"{key} {(_MD_SYSFS / key).read_text().strip()}"
                        for key in ("array_state", "degraded"))  # fmt: skip
    return drbd.status() if name == "drbd" else ""
