# SPDX-License-Identifier: GPL-2.0-only
"""dm-lockstep: its table, its status line, its messages."""

from __future__ import annotations

from dataclasses import dataclass

from . import base, dm


@dataclass(frozen=True)
class Status:
    """The fixed fields in front; what follows them is in `rest`."""

    local: str
    remote: str
    in_sync: int
    regions: int
    action: str
    local_errors: int
    remote_errors: int
    rest: tuple[str, ...]

    @property
    def health(self) -> str:
        return self.local + self.remote


def parse(line: str) -> Status:
    health, ratio, action, local, remote, *rest = line.split()
    base.equal(len(health), 2, f"health characters in {line!r}")
    done, regions = ratio.split("/")
    return Status(
        health[0], health[1], int(done), int(regions), action, int(local), int(remote), tuple(rest)
    )


def table(local: str, remote: str, *options: object, sectors: int | None = None) -> str:
    length = sectors or min(dm.sectors(local), dm.sectors(remote))
    words = " ".join(str(option) for option in options)
    return f"0 {length} lockstep {local} {remote}" + (f" {len(options)} {words}" if options else "")


class Mirror:
    """A mirror device; options are the table's words, `nosync` unless told."""

    def __init__(
        self, local: str, remote: str, *options: object, name: str = "mirror",
        sectors: int | None = None,
    ) -> None:  # fmt: skip
        self.name, self.local, self.remote = name, local, remote
        self.table = table(local, remote, *(options or ("nosync",)), sectors=sectors)
        self.node = dm.create(name, self.table)

    def status(self) -> Status:
        return parse(dm.status(self.name))

    def wait(self, health: str, action: str | None = None, seconds: float = 600.0) -> Status:
        def there() -> bool:
            now = self.status()
            return now.health == health and action in (None, now.action)

        try:
            base.until(there, f"health {health}", seconds)
        except base.Wrong as err:
            raise base.Wrong(f"{err}; status is {dm.status(self.name)!r}") from None
        return self.status()

    def in_sync(self) -> Status:
        return self.wait("AA", "idle")

    def message(self, text: str) -> None:
        dm.message(self.name, text)

    def remove(self) -> None:
        dm.remove(self.name)
