# SPDX-License-Identifier: GPL-2.0-only
"""What the mirror site's LUN stands on: each cache and each of its peers.

An entry of CACHES makes everything from the disks up to LIO's backstore. All take the same data
disk; the log or cache disk is the same disk for all of them, too.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from cell.disks import disk
from cell.order import Stack
from locklab import base, lio, media

DCD_TOOL = "/lockstep/build/bin/dcd"


@dataclass(frozen=True)
class Site:
    """The mirror site below its iSCSI target."""

    store: lio.Backstore
    disks: Mapping[str, str] = field(default_factory=dict)  # by what they are for, to be counted
    told: Callable[[], dict[str, int]] = dict  # the cache's own counters

    @contextlib.contextmanager
    def look(self) -> Iterator[str]:
        """A node with the LUN's content, with what is still in the cache."""
        with lio.look(self.store) as node:
            yield node


Cache = Callable[[Stack], contextlib.AbstractContextManager[Site]]


@contextlib.contextmanager
def none(stack: Stack) -> Iterator[Site]:
    """LIO's own backstore on the data disk."""
    data = disk(stack, "mdata", stack.mib)
    store = lio.iblock("leg", data)
    yield Site(store, {"data": data})
    store.remove()


@contextlib.contextmanager
def dcd(stack: Stack) -> Iterator[Site]:
    """NVRAM, log disk, data disk; answers from the NVRAM. Options are keys of its `control`."""
    data = disk(stack, "mdata", stack.mib)
    log = disk(stack, "mlog", stack.log_mib)
    nvram = media.nvram("mnvram", stack.nvram_mib << 10)
    base.run(DCD_TOOL, "format", "--data", data, "--log", log, "--nvram", nvram)
    store = lio.dcd("leg", data, log, "lab:mnvram", *stack.cache_options.split())

    def told() -> dict[str, int]:
        return {key: int(n) for key, n in re.findall(r"\b([a-z_]+) (\d+)\b", store.info())}

    yield Site(store, {"data": data, "log": log}, told)
    store.remove()


CACHES: dict[str, Cache] = {"none": none, "dcd": dcd}
