# SPDX-License-Identifier: GPL-2.0-only
"""A mirror with metadata whose remote leg is behind a wire, whatever is between, with writers that
know what it has to hold.
"""

from __future__ import annotations

from locklab import base, blk, dm, mirror
from mirrorlab import FIELDS
from statelab import History, Versions, Writers, content, create, super_of


class Mirrored:
    """On new legs. `medium`: the remote leg as its own site sees it."""

    def __init__(self, local: str, remote: str, medium: str, *options: object) -> None:
        self.local, self.medium, self.options = local, medium, options
        create(local, remote, "--assume-clean")
        self.sectors = super_of(local).data_sectors
        self.history = History(self.sectors)
        self.versions = Versions()
        self.node = dm.create("mirror", self.table(remote))
        self.writers: Writers | None = None

    def table(self, remote: str) -> str:
        return mirror.table(self.local, remote, *self.options, sectors=self.sectors)

    def remove(self) -> None:
        dm.remove("mirror")

    def message(self, text: str) -> None:
        dm.message("mirror", text)

    def status(self) -> mirror.Status:
        return mirror.parse(dm.status("mirror"))

    def word(self, field: str) -> str:
        return self.status().rest[FIELDS.index(field)]

    def is_(self, health: str, standing: str) -> bool:
        return (self.status().health, self.word("standing")) == (health, standing)

    def wait(self, health: str, standing: str, seconds: float = 120) -> None:
        try:
            base.until(lambda: self.is_(health, standing), f"{health} {standing}", seconds)
        except base.Wrong as err:
            raise base.Wrong(f"{err}; {dm.status('mirror')}") from None

    def write(self, pause: tuple[float, float] = (0.005, 0.02)) -> Writers:
        self.writers = Writers(self.node, self.history, self.versions, seed=self.versions.last,
                               writers=4, pause=pause)  # fmt: skip
        return self.writers

    def more(self, writes: int = 40, seconds: float = 120) -> None:
        assert self.writers
        mine = self.writers
        want = mine.acked + writes
        base.until(lambda: mine.acked >= want, f"{writes} more writes", seconds)

    def stop_writing(self) -> None:
        assert self.writers
        self.writers.stop()
        base.equal(self.writers.failed, 0, "failed writes")
        self.writers = None

    def whole(self, what: str) -> None:
        """In sync again, and alike on both sites' disks."""
        self.wait("AA", "together")
        base.until(lambda: self.status().action == "idle", "idle")
        self.history.check(content(self.node, self.sectors), what)
        blk.same(self.local, self.medium, self.sectors)
