# SPDX-License-Identifier: GPL-2.0-only
"""The mirror software: ours and its peers, each over two equal legs, reading from the local one.

An entry of MIRRORS makes the mirror and takes it down. On the way out it says, by an exception,
if a leg was given up meanwhile: then the work was not mirrored, and its times mean nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from locklab import base, dm, mirror

Mirror = Callable[[str, str, str], contextlib.AbstractContextManager[str]]


@contextlib.contextmanager
def none(_local: str, remote: str, _options: str) -> Iterator[str]:
    """No mirror: the remote leg alone."""
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
def dm_mirror(local: str, remote: str, _options: str) -> Iterator[str]:
    sectors = min(dm.sectors(local), dm.sectors(remote))
    legs = f"2 {local} 0 {remote} 0"
    node = dm.create("mirror", f"0 {sectors} mirror core 2 1024 nosync {legs}")
    try:
        yield node
        base.expect(" AA " in f" {dm.status('mirror')} ", f"dm-mirror: {dm.status('mirror')}")
    finally:
        dm.remove("mirror")


@contextlib.contextmanager
def md(local: str, remote: str, _options: str) -> Iterator[str]:
    """md raid1. The remote leg is write-mostly, else md reads over the wire, too."""
    words = ("mdadm", "--build", "/dev/md0", "--level=1", "--raid-devices=2", "--assume-clean")
    base.run(*words, local, "--write-mostly", remote)
    try:
        yield "/dev/md0"
        degraded = Path("/sys/block/md0/md/degraded").read_text().strip()
        base.equal(degraded, "0", "legs that md raid1 has given up")
    finally:
        base.run("mdadm", "--stop", "/dev/md0")


MIRRORS: dict[str, Mirror] = {
    "none": none, "lockstep": lockstep, "dm-mirror": dm_mirror, "md": md,
}  # fmt: skip
# These promise that both legs see overlapping writes in one order, so that the legs must be equal
# after any work; with the others an inequality is only told.
ORDERED = ("lockstep",)
