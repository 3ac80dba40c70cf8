# SPDX-License-Identifier: GPL-2.0-only
"""The mirror site's part of a cell on two hosts (cell/hosts.py).

    python3 site.py ORDER

Builds the site; then, and to each request that it reads (a line of JSON), it answers with a line:
{"told": ...}, {"absent": why} or {"error": what}. At the end of its input it takes all down.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cell import caches, drbd, hosts, stack
from cell.connections import exported
from cell.order import Absent, Stack, parse
from locklab import account, blk

# The VM lab's mirror has persistent memory: it isn't modelled.
CACHES = caches.CACHES | {"dcd": caches.dcd_pmem}


class Far:
    """What the primary can ask of it. `own_end`: what else holds the site's device."""

    def __init__(
        self, site: caches.Site, commands: account.Commands, own_end: contextlib.ExitStack
    ) -> None:
        self._site, self._commands, self._own_end = site, commands, own_end

    def counters(self) -> dict[str, int]:
        return stack.counted(self._site) | self._commands.counters()

    def digests(self, sectors: int) -> list[str]:
        self._own_end.close()
        with self._site.look() as node, blk.Disk(node, write=False) as disk:
            return blk.digests(disk, sectors)


@contextlib.contextmanager
def built(wanted: Stack) -> Iterator[Far]:
    wanted = hosts.sized(wanted)
    with contextlib.ExitStack() as below:
        below.enter_context(hosts.no_disks_left())
        commands = account.Commands()
        below.callback(commands.close)
        site = below.enter_context(CACHES[wanted.cache](wanted))
        own_end = below.enter_context(contextlib.ExitStack())
        if wanted.software == "drbd":
            drbd.ready()
            drbd.attach(hosts.DRBD, 0, own_end.enter_context(site.look()))
            own_end.callback(drbd.down, hosts.DRBD)
            drbd.connect(hosts.DRBD, hosts.THERE, hosts.HERE, drbd.net_options(wanted.options))
        else:
            below.enter_context(exported(site.store, wanted.connections))
        yield Far(site, commands, own_end)


def answered(work: Callable[[], Any]) -> bool:
    answer: dict[str, Any]
    try:
        answer = {"told": work()}
    except Absent as err:
        answer = {"absent": str(err)}
    except Exception as err:
        answer = {"error": f"the mirror site: {err}"}
    print(json.dumps(answer), flush=True)
    return "told" in answer


def main() -> None:
    os.environ.setdefault("LC_ALL", "C")
    found: list[Far] = []
    with contextlib.ExitStack() as below:
        order = parse(sys.argv[1])
        if not answered(lambda: found.append(below.enter_context(built(order.stack)))):
            return
        for line in sys.stdin:
            request = json.loads(line)
            work = getattr(found[0], request.pop("ask"))
            answered(lambda: work(**request))  # noqa: B023


if __name__ == "__main__":
    main()
