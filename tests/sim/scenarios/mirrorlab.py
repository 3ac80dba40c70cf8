# SPDX-License-Identifier: GPL-2.0-only
"""What the mirror's own scenarios share: legs that can be slowed and broken at will."""

from __future__ import annotations

import errno
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from locklab import base, blk, dm, mirror, ram

META = "/lockstep/build/bin/lockstep-meta"
LOAD = "/lockstep/build/bin/mirror-load"
MIB = 8
SECTORS = MIB << 11

# Positions in Status.rest (dm-target/status.h: field 6 is rest[0]).
FIELDS = (
    "policy", "stale_local", "stale_remote", "read_errors_local", "read_errors_remote",
    "standing", "why", "dirty", "rate", "verify", "differing",
    "writes", "reads", "flushes", "fua", "zeroes", "waited", "copied", "punted", "failovers",
    "alone", "refused", "late", "resynced", "abandoned",
    "held", "marked", "map_writes", "super_writes", "cleaned",
    "compared", "equal",
    "batches", "batched", "merged", "absorbed", "saved",
    "verified", "repaired", "repairs_failed", "repairs_dropped", "absorbed_waiting",
    "digested", "digests_equal", "digests_failed",
    "scattered", "scattered_runs", "scattered_again", "scattered_punted",
    "parked", "window_halved", "budget_waited", "budget_background", "budget_left",
    "reads_abandoned",
    "scatter", "memory", "holds", "silent", "log",
)  # fmt: skip


# Loop says that it has a volatile cache: with such a remote leg zeroing isn't offered.
ZEROES = ("remote_cache", "trust")


class Loop(ram.Ram):
    """A disk that can write zeroes by itself, which the null_blk ones can't."""

    def __init__(self, name: str, mib: int) -> None:
        self._file = Path(f"/tmp/{name}.img")
        self._file.write_bytes(bytes(mib << 20))
        words = ("losetup", "--find", "--show", "--direct-io=off", str(self._file))
        self.node = base.run(*words).strip()
        self.sectors = mib << 11

    def remove(self) -> None:
        base.run("losetup", "--detach", self.node)
        self._file.unlink()


class Leg:
    """A disk in memory below a dm device whose table is exchanged to slow or break it."""

    def __init__(
        self, name: str, *, mib: int = MIB, latency_us: int = 0, cache_mib: int = 0,
        zeroes: bool = False,
    ) -> None:  # fmt: skip
        self.disk = (
            Loop(name, mib) if zeroes
            else ram.Ram(f"{name}disk", mib, latency_us=latency_us, cache_mib=cache_mib)
        )  # fmt: skip
        self.name = name
        self.node = dm.create(name, self._linear())

    def _linear(self) -> str:
        return f"0 {self.disk.sectors} linear {self.disk.node} 0"

    def table(self, table: str) -> None:
        """Another device-mapper table in the place of what there is."""
        dm.load(self.name, table)
        dm.suspend(self.name, flush=False)
        dm.resume(self.name)

    def well(self) -> None:
        self.table(self._linear())

    def gone(self) -> None:
        """Every I/O fails."""
        self.table(f"0 {self.disk.sectors} error")

    def fail_writes(self) -> None:
        self.table(f"0 {self.disk.sectors} flakey {self.disk.node} 0 0 3600 1 error_writes")

    def slow(self, ms: int) -> None:
        """Writes, flushes and reads take that long."""
        self.table(f"0 {self.disk.sectors} delay {self.disk.node} 0 {ms}")

    def bad_reads(self, first: int, last: int, *, below: str = "") -> None:
        """Reads of these sectors (inclusive) fail, and come right when they are written. @below:
        another device in the place of the disk."""
        self.table(f"0 {self.disk.sectors} dust {below or self.disk.node} 0 512")
        for sector in range(first, last + 1):
            dm.message(self.name, f"addbadblock {sector}")
        dm.message(self.name, "enable")

    def worn_reads(self, sector: int) -> None:
        """Reads of this one fail, though writes are taken."""
        node, behind = self.disk.node, sector + 1
        self.table(f"0 {sector} linear {node} 0\n"
                   f"{sector} 1 flakey {node} {sector} 0 3600 1 error_reads\n"
                   f"{behind} {self.disk.sectors - behind} linear {node} {behind}")  # fmt: skip

    def hang(self) -> None:
        """Nothing comes back until wake()."""
        dm.suspend(self.name, flush=False)

    def wake(self) -> None:
        dm.resume(self.name)

    def close(self) -> None:
        dm.remove(self.name)
        self.disk.remove()


class Pair:
    """Two legs and the mirror on them."""

    def __init__(
        self, *options: object, mib: int = MIB, latency_us: tuple[int, int] = (0, 0),
        cache_mib: int = 0, zeroes: bool = False, remote: Leg | None = None,
    ) -> None:  # fmt: skip
        """On a `remote` of the caller's, or on a new one."""
        if base.CHECKED:
            # A load does as much as simulated time allows, and there it costs 30 times the wall.
            latency_us = (max(4000, latency_us[0]), max(5000, latency_us[1]))
            # So nobody waits politely beside one; that is seen on the plain kernel.
            if "resync_pace" not in options:
                options = (*(options or ("nosync",)), "resync_pace", "full")
        if zeroes:
            options = (*(options or ("nosync",)), *ZEROES)
        self.local = Leg(
            "llocal", mib=mib, latency_us=latency_us[0], cache_mib=cache_mib, zeroes=zeroes
        )
        self.remote = remote or Leg(
            "lremote", mib=mib, latency_us=latency_us[1], cache_mib=cache_mib, zeroes=zeroes
        )
        self.mirror = mirror.Mirror(self.local.node, self.remote.node, *options)

    def word(self, field: str) -> str:
        return self.mirror.status().rest[FIELDS.index(field)]

    def count(self, field: str) -> int:
        return int(self.word(field))

    def recovers(self) -> None:
        """As soon as the remote leg answers, and nothing of it is out any more."""

        def back() -> bool:
            try:
                self.mirror.message("recover")
            except OSError as err:
                base.expect(err.errno in (errno.EBUSY, errno.EIO), f"recover: {err}")
                return False
            return True

        base.until(back, "recover accepted", 30)
        self.mirror.in_sync()

    def same(self) -> None:
        """At this quiet moment, on the disks themselves."""
        blk.same(self.local.disk.node, self.remote.disk.node)

    def close(self) -> None:
        self.mirror.remove()
        self.local.close()
        self.remote.close()


class Beside:
    """Something that blocks, in a thread of its own; what it raised is raised by result()."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._failed: OSError | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError as err:
            self._failed = err

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> None:
        self._thread.join(600)
        base.expect(self.done, "still blocked")
        if self._failed:
            raise self._failed


class Background:
    """mirror-load until stop(); its verdict is the scenario's."""

    def __init__(self, mode: str, node: str, *, span: int = SECTORS, depth: int = 16,
                 count: int = 0, seed: int = base.SEED) -> None:  # fmt: skip
        self._stop = Path(f"/tmp/stop-{mode}-{seed}")
        self._stop.unlink(missing_ok=True)
        self._proc = subprocess.Popen(
            [LOAD, mode, node, str(span), str(depth), str(count), str(seed), str(self._stop)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def stop(self) -> tuple[int, int, int, int, int]:
        """Counts of writes, reads, flushes, failed writes, failed reads."""
        self._stop.touch()
        said, complaint = self._proc.communicate()
        base.equal(self._proc.returncode, 0, f"mirror-load's exit code ({complaint.strip()})")
        writes, reads, flushes, bad_writes, bad_reads = (int(word) for word in said.split())
        base.expect(writes, "the load wrote nothing")
        return writes, reads, flushes, bad_writes, bad_reads


def load(mode: str, node: str, count: int, *, span: int = SECTORS, depth: int = 16,
         seed: int = base.SEED) -> tuple[int, int, int, int, int]:  # fmt: skip
    """mirror-load to its end."""
    said = base.run(LOAD, mode, node, str(span), str(depth), str(count), str(seed))
    writes, reads, flushes, bad_writes, bad_reads = (int(word) for word in said.split())
    return writes, reads, flushes, bad_writes, bad_reads
