# SPDX-License-Identifier: GPL-2.0-only
"""Two sites that can lose their power, and a link, for legs with metadata; without iSCSI, so that
a life of many crashes costs little.

The local medium is at the primary, the remote one at the mirror site. Between the primary and the
remote medium lies a dm device, the link: it can hang (what is sent stays on its way), fail, and be
mended. The media are modelled disks with volatile caches (bench/media).
"""

from __future__ import annotations

from locklab import blk, dm, media
from locklab.media import MIRROR_SITE, PRIMARY_SITE
from statelab import LOCAL, REMOTE, SLOTS, Super, create, super_of

MIB = 1
SECTORS = MIB << 11
NAMES = {LOCAL: "p-medium", REMOTE: "m-medium"}
SITES = {LOCAL: PRIMARY_SITE, REMOTE: MIRROR_SITE}
WIRES = {LOCAL: "llocal", REMOTE: "lremote"}


class Sites:
    """`media`: the disks themselves, for a look or for a takeover; `legs`: as the primary has them.
    """

    def __init__(self, cached: dict[str, bool]) -> None:
        self.cached = cached
        self._turn = 0
        self._hung: set[str] = set()
        self.media: dict[str, str] = {}
        self.legs: dict[str, str] = {}
        for leg in (LOCAL, REMOTE):
            media.forget(NAMES[leg])
            self._power_on(leg)
            self.legs[leg] = dm.create(WIRES[leg], self._well(leg))

    def make(self, ready: list[bytes] | None, *options: str) -> list[bytes]:
        """New metadata; what an earlier make() of the same options returned may be used again."""
        if ready is None:
            create(*self.legs.values(), *options)
        tails = []
        for number, node in enumerate(self.legs.values()):
            with blk.Disk(node) as disk:
                at = SECTORS - SLOTS - 40
                if ready is not None:
                    disk.write(at, ready[number], fua=True)
                tails.append(disk.read(at, SLOTS + 40))
        return tails

    def super(self, leg: str) -> Super:
        return super_of(self.media[leg])

    # The wire to a leg. What hangs is held by it until it is mended, or dropped as it fails.

    def hang(self, leg: str) -> None:
        if leg not in self._hung:
            dm.suspend(WIRES[leg], flush=False)
            self._hung.add(leg)

    def fail(self, leg: str, how: str = "error") -> None:
        """how: error, or nowrite (reads don't fail). Not the target "error", which dm sends no
        flushes, and so acknowledges them."""
        words = " 1 error_writes" if how == "nowrite" else ""
        self._set(leg, f"0 {SECTORS} flakey {self.media[leg]} 0 0 36000{words}")

    def slow(self, leg: str, ms: int) -> None:
        self._set(leg, f"0 {SECTORS} delay {self.media[leg]} 0 {ms}")

    def mend(self, leg: str) -> None:
        self._set(leg, self._well(leg))

    def mend_hung(self) -> None:
        for leg in sorted(self._hung):
            self.mend(leg)

    # Power. A crash takes whatever was on the wire with it, unless it is to be retried.

    def cut(self, leg: str, seed: int) -> None:
        """The leg's site loses its power now; the device that is left is a void."""
        media.cut(SITES[leg], seed)

    def power_on(self, leg: str) -> None:
        """The wire still leads to the void, or is cut: mend() it."""
        old = self.media[leg]
        self._power_on(leg)
        self._void = old

    def drop(self, leg: str) -> None:
        """After power_on() and mend(): nobody uses the old incarnation any more."""
        dm.remove(self._void.rpartition("/")[2])

    def close(self) -> None:
        for leg in (LOCAL, REMOTE):
            self.fail(leg)
            dm.remove(WIRES[leg])
            dm.remove(self.media[leg].rpartition("/")[2])

    def _power_on(self, leg: str) -> None:
        self._turn += 1
        words = f"4 site {SITES[leg]} write_cache {'on' if self.cached[leg] else 'off'}"
        self.media[leg] = dm.create(
            f"{NAMES[leg]}{self._turn}", f"0 {SECTORS} media {NAMES[leg]} ram null {words}"
        )

    def _well(self, leg: str) -> str:
        return f"0 {SECTORS} linear {self.media[leg]} 0"

    def _set(self, leg: str, table: str) -> None:
        dm.load(WIRES[leg], table)
        if leg in self._hung:
            self._hung.remove(leg)
        else:
            dm.suspend(WIRES[leg], flush=False)
        dm.resume(WIRES[leg])
