# SPDX-License-Identifier: GPL-2.0-only
"""Two sites that can lose their power, and a link, for legs with metadata; without iSCSI, so that
a life of many crashes costs little.

The local medium is at the primary, the remote one at the mirror site. Between the primary and the
remote medium lies a dm device, the link: it can hang (what is sent stays on its way), fail, and be
mended. The media are modelled disks with volatile caches (bench/media). Another host may have a
link of its own to each medium (Wires).
"""

from __future__ import annotations

from locklab import base, blk, dm, media
from locklab.media import MIRROR_SITE, PRIMARY_SITE
from statelab import LOCAL, PAGE, REMOTE, SLOTS, Super, create, superblock

MIB = 1
SECTORS = MIB << 11
NAMES = {LOCAL: "p-medium", REMOTE: "m-medium"}
SITES = {LOCAL: PRIMARY_SITE, REMOTE: MIRROR_SITE}
WIRES = {LOCAL: "llocal", REMOTE: "lremote"}


class Wires:
    """A host's ways to both media. `legs`: as the host has them, `sectors` long."""

    def __init__(self, media: dict[str, str], names: dict[str, str], sectors: int) -> None:
        self.media, self.names, self.sectors = media, names, sectors
        self._hung: set[str] = set()
        self.legs = {leg: dm.create(name, self._well(leg)) for leg, name in names.items()}

    # What hangs is held by it until it is mended, or dropped as it fails.

    def hang(self, leg: str) -> None:
        if leg not in self._hung:
            dm.suspend(self.names[leg], flush=False)
            self._hung.add(leg)

    def fail(self, leg: str, how: str = "error") -> None:
        """how: error, or nowrite (reads don't fail). Not the target "error", which dm sends no
        flushes, and so acknowledges them."""
        words = " 1 error_writes" if how == "nowrite" else ""
        self._set(leg, f"0 {self.sectors} flakey {self.media[leg]} 0 0 36000{words}")

    def fail_places(self, leg: str, places: list[int], how: str) -> None:
        """Pages of 4 KiB, by their first sectors, in order. how: error_reads, error_writes, or
        empty, which is both."""
        node, at, lines = self.media[leg], 0, []
        words = f" 1 {how}" if how else ""
        for place in places:
            lines.append(f"{at} {place - at} linear {node} {at}")
            lines.append(f"{place} {PAGE} flakey {node} {place} 0 36000{words}")
            at = place + PAGE
        lines.append(f"{at} {self.sectors - at} linear {node} {at}")
        self._set(leg, "\n".join(line for line in lines if line.split()[1] != "0"))

    def slow(self, leg: str, ms: int) -> None:
        self._set(leg, f"0 {self.sectors} delay {self.media[leg]} 0 {ms}")

    def mend(self, leg: str) -> None:
        self._set(leg, self._well(leg))

    def mend_hung(self) -> None:
        for leg in sorted(self._hung):
            self.mend(leg)

    def grow(self, sectors: int) -> None:
        """So much of the media is shown, and all is well."""
        self.sectors = sectors
        for leg in self.names:
            self.mend(leg)

    def remove(self) -> None:
        for leg in self.names:
            self.fail(leg)
            dm.remove(self.names[leg])

    def _well(self, leg: str) -> str:
        return f"0 {self.sectors} linear {self.media[leg]} 0"

    def _set(self, leg: str, table: str) -> None:
        dm.load(self.names[leg], table)
        if leg in self._hung:
            self._hung.remove(leg)
        else:
            dm.suspend(self.names[leg], flush=False)
        dm.resume(self.names[leg])


class Sites(Wires):
    """The media, and the primary's ways to them. `media`: the disks themselves, for a look or for a
    takeover; they have `spare` sectors more than the wires show."""

    def __init__(self, cached: dict[str, bool], sectors: int = SECTORS, spare: int = 0) -> None:
        self.cached = cached
        self._turn = 0
        self._size = sectors + spare
        self._ends = [sectors]
        self.media = {}
        for leg in (LOCAL, REMOTE):
            media.forget(NAMES[leg])
            self._power_on(leg)
        super().__init__(self.media, WIRES, sectors)

    def make(
        self, ready: list[bytes] | None, *options: str, tail: int = SLOTS + 40
    ) -> list[bytes]:
        """New metadata, in the last `tail` sectors; what an earlier make() of the same options
        returned may be used again."""
        if ready is None:
            create(*self.legs.values(), *options)
        tails = []
        for number, node in enumerate(self.legs.values()):
            with blk.Disk(node) as disk:
                at = self.sectors - tail
                if ready is not None:
                    disk.write(at, ready[number], fua=True)
                tails.append(disk.read(at, tail))
        return tails

    def super(self, leg: str) -> Super:
        """The newest, where the wires end or ended before they grew."""
        found = []
        with blk.Disk(self.media[leg], write=False) as disk:
            for end in self._ends:
                one = superblock(disk.read(end - SLOTS, SLOTS))
                found += [one] if one else []
        base.expect(found, f"the {leg} leg has a superblock")
        return max(found, key=lambda one: one.seq)

    def grow(self, sectors: int) -> None:
        self._ends.append(sectors)
        super().grow(sectors)

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
        self.remove()
        for node in self.media.values():
            dm.remove(node.rpartition("/")[2])

    def _power_on(self, leg: str) -> None:
        self._turn += 1
        words = f"4 site {SITES[leg]} write_cache {'on' if self.cached[leg] else 'off'}"
        self.media[leg] = dm.create(
            f"{NAMES[leg]}{self._turn}", f"0 {self._size} media {NAMES[leg]} ram null {words}"
        )
