# SPDX-License-Identifier: GPL-2.0-only
"""The modelled media alone: service times against the models, content after power cuts."""

import errno
import mmap
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from locklab import base, dm, ram

SECTOR = 512
CONTROL = Path("/sys/kernel/debug/lockstep-media")
TORTURE = os.environ.get("TORTURE", "/lockstep/build/bin/torture")
SEED = int(os.environ.get("LAB_SEED", "1"))
SITE = 91
RUNS = 4 if base.CHECKED else 20  # the checked kernel takes ten times as long

failures = 0


@contextmanager
def device(name: str, table: str) -> Iterator[str]:
    node = dm.create(name, table)
    try:
        yield node
    finally:
        dm.remove(name)


def verdict(ok: bool, what: str) -> None:
    global failures
    print(f"{'ok  ' if ok else 'FAIL'} {what}", flush=True)
    failures += not ok


def forget(name: str) -> None:
    (CONTROL / "forget").write_text(name)


def cut(seed: int) -> None:
    (CONTROL / "cut").write_text(f"{SITE} {seed}")


class Disk:
    """Plain synchronous O_DIRECT I/O, timed by the (simulated) clock."""

    def __init__(self, node: str) -> None:
        self.fd = os.open(node, os.O_RDWR | os.O_DIRECT)
        self.memory = mmap.mmap(-1, 1 << 20)

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> "Disk":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, sector: int, count: int) -> float:
        start = time.monotonic_ns()
        with memoryview(self.memory)[: count * SECTOR] as view:
            os.preadv(self.fd, [view], sector * SECTOR)
        return (time.monotonic_ns() - start) / 1e6

    def data(self, sector: int, count: int) -> bytes:
        self.read(sector, count)
        return self.memory[: count * SECTOR]

    def write(self, sector: int, count: int, fill: int = 1, fua: bool = False) -> float:
        self.memory[: count * SECTOR] = bytes([fill]) * (count * SECTOR)
        start = time.monotonic_ns()
        with memoryview(self.memory)[: count * SECTOR] as view:
            os.pwritev(self.fd, [view], sector * SECTOR, os.RWF_DSYNC if fua else 0)
        return (time.monotonic_ns() - start) / 1e6

    def flush(self) -> float:
        start = time.monotonic_ns()
        os.fsync(self.fd)
        return (time.monotonic_ns() - start) / 1e6


def near(what: str, got: float, want: float, tolerance: float) -> None:
    verdict(
        want * (1 - tolerance) <= got <= want * (1 + tolerance),
        f"{what}: {got:.3f} (model {want:.3f})",
    )


def timing() -> None:
    rng = random.Random(SEED)
    size = 131072
    wide = f"0 {size} media t ram spindle 4 write_cache off spread on"
    with device("t", wide) as node, Disk(node) as disk:
        places = [rng.randrange(size // 8) * 8 for _ in range(600)]
        near("spindle random 4K read ms", sum(disk.read(p, 8) for p in places) / 600, 5.76, 0.05)
        near("spindle random 4K write ms", sum(disk.write(p, 8) for p in places) / 600, 6.36, 0.05)
    forget("t")
    plain = f"0 {size} media t ram spindle 2 write_cache off"
    with device("t", plain) as node, Disk(node) as disk:
        disk.read(0, 8)
        ms = sum(disk.read(8 + 128 * i, 128) for i in range(400))
        near("spindle sequential read MB/s", 400 * 65536 / ms / 1e3, 66, 0.05)
        near("spindle rewriting one place ms", sum(disk.write(800, 8) for _ in range(50)) / 50, 4.0,
             0.05)  # fmt: skip
    forget("t")
    cached = f"0 {size} media t ram spindle 4 write_cache on spread on"
    with device("t", cached) as node, Disk(node) as disk:
        near("spindle cached 4K write ms", disk.write(4096, 8), 0.126, 0.05)
        near("spindle read of a cached write ms", disk.read(4096, 8), 0.126, 0.05)
        ms = sum(disk.write(rng.randrange(size // 8) * 8, 8) for _ in range(50))
        near("spindle cached 4K writes ms", ms / 50, 0.126, 0.05)
        ms = disk.flush()
        verdict(50 < ms < 50 * 6.4, f"flush of 50 random writes takes {ms:.1f} ms")
        verdict(disk.flush() < 0.01, "flush of nothing takes no time")
    forget("t")
    small = f"0 {size} media t ram spindle 4 cache_bytes 65536 spread on"
    with device("t", small) as node, Disk(node) as disk:
        each = [disk.write(rng.randrange(size // 8) * 8, 8) for _ in range(300)]
        mean = sum(each[50:]) / 250
        verdict(2 < mean < 6, f"spindle whose cache is full, 4K write ms: {mean:.3f}")
        took = sum(disk.write(rng.randrange(size // 64) * 64, 256) for _ in range(20))
        verdict(took > 20 * 2, f"writes larger than the cache: {took / 20:.3f} ms each")
        disk.flush()
    forget("t")
    ssd = f"0 {size} media t ram ssd 6 read_us 80 write_us 25 flush_us 300"
    with device("t", ssd) as node, Disk(node) as disk:
        near("ssd read ms", disk.read(77, 8), 0.080, 0.05)
        near("ssd write ms", disk.write(77, 8), 0.025, 0.05)
        near("ssd flush ms", disk.flush(), 0.300, 0.05)
    forget("t")


def backing() -> None:
    """Over a device only the time is modelled; the data are on the device."""
    disk = ram.Ram("back", 16)
    for model in ("null", "ssd", "spindle 2 write_cache on", "spindle 2 write_cache off"):
        table = f"0 {disk.sectors} media b {disk.node} {model}"
        with device("b", table) as node, Disk(node) as medium:
            medium.write(100, 64, 7)
            took = medium.write(132, 8, 8)
            medium.flush()
            same = medium.data(100, 64) == bytes([7]) * 32 * SECTOR + bytes([8]) * 8 * SECTOR + (
                bytes([7]) * 24 * SECTOR
            )
        with Disk(disk.node) as below:
            same = same and below.data(132, 8) == bytes([8]) * 8 * SECTOR
        verdict(same, f"data through {model} reach the backing device")
        low, high = {"null": (0, 0.01), "ssd": (0.02, 0.03)}.get(model, (0.1, 12))
        verdict(low <= took <= high, f"{model} over a device: {took:.3f} ms")
    # As `make demo` stacks it: over a part of a disk, and a new device on the same part.
    rng = random.Random(SEED)
    part = f"0 {disk.sectors // 2} linear {disk.node} {disk.sectors // 2}"
    with device("half", part) as half:
        table = f"0 {disk.sectors // 2} media b {half} spindle 4 write_cache off spread on"
        places = [rng.randrange(disk.sectors // 16) * 8 for _ in range(300)]
        with device("b", table) as node, Disk(node) as medium:
            took = sum(medium.write(p, 8, 1 + p % 255) for p in places) / 300
        near("spindle over a part of a device, random 4K write ms", took, 6.36, 0.08)
        with device("b", table) as node, Disk(node) as medium:
            same = all(medium.data(p, 8) == bytes([1 + p % 255]) * 4096 for p in places)
        verdict(same, "a spindle made again over the same device has the same data")
    disk.remove()


def cuts() -> None:
    table = f"0 32768 media c ram null 2 site {SITE}"
    kept: list[int] = []
    torn = 0
    for seed in range(40):
        with device("c", table) as node, Disk(node) as disk:
            disk.write(0, 64, 1)
            disk.flush()
            # The kernel follows a synchronous FUA write with a flush, so it comes first.
            disk.write(40, 4, 3, fua=True)
            disk.write(8, 16, 2)
            disk.write(16, 8, 4)
            cut(seed)
            disk.write(0, 64, 9)  # into the void
            disk.flush()
            try:
                disk.read(0, 64)
                verdict(False, "a read from the void succeeded")
            except OSError as e:
                if e.errno != errno.EIO:
                    verdict(False, f"a read from the void: {e}")
        with device("c", table) as node, Disk(node) as disk:
            data = disk.data(0, 64)
        forget("c")
        now = [data[s * SECTOR] for s in range(64)]
        whole = all(
            data[s * SECTOR : (s + 1) * SECTOR] == bytes([now[s]]) * SECTOR for s in range(64)
        )
        legal = (
            all(now[s] in (1, 2) for s in range(8, 16))
            and all(now[s] in (1, 2, 4) for s in range(16, 24))
            and all(now[s] == 3 for s in range(40, 44))
            and all(now[s] == 1 for s in (*range(8), *range(24, 40), *range(44, 64)))
        )
        if not (whole and legal):
            verdict(False, f"seed {seed}: sectors hold {now}")
        kept.append(sum(n != 1 for n in now[8:24]))
        torn += 0 < sum(n != 1 for n in now[8:16]) < 8
    verdict(0 in kept and 16 in kept and torn > 10, f"kept of 16 unflushed sectors: {kept}")
    for seed in (5, 5):
        with device("c", table) as node, Disk(node) as disk:
            disk.write(0, 64, 1)
            dm.message("c", f"cut {seed}")
        with device("c", table) as node, Disk(node) as disk:
            data = disk.data(0, 64)
        forget("c")
        kept.append(hash(data))
    verdict(kept[-1] == kept[-2], "the same seed keeps the same")


def torture(node: str, seed: int, us: int, words: list[str]) -> None:
    subprocess.run(
        [TORTURE, "load", "--device", node, "--state", "/run/media.state", "--seed", str(seed),
         "--cut-after-us", str(us), "--cut", f"{CONTROL}/cut={SITE} {seed}", *words],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def check(node: str, promise: str) -> int:
    done = subprocess.run(
        [TORTURE, "check", "--device", node, "--state", "/run/media.state", "--promise", promise],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode == 2:
        raise RuntimeError(done.stderr)
    return done.returncode


def loads() -> None:
    """The load and the judge on a medium alone; disks that break their promise are caught."""
    good = {
        "ssd with cache": ("ssd 2 write_cache on", "volatile"),
        "ssd without cache": ("ssd 2 write_cache off", "stable"),
        "spindle with cache": ("spindle 2 write_cache on", "volatile"),
        "spindle without cache": ("spindle 2 write_cache off", "stable"),
        "null with cache": ("null 2 write_cache on", "volatile"),
    }
    bad = {
        "ssd that lies about flushes": ("ssd 2 flush lie", "volatile"),
        "ssd with cache that claims to have none": ("ssd 2 write_cache on", "stable"),
        "spindle that lies about flushes": ("spindle 2 flush lie", "volatile"),
    }
    rng = random.Random(SEED)
    for name, (model, promise) in {**good, **bad}.items():
        kind, count, rest = model.split(None, 2)
        table = f"0 16384 media l ram {kind} {int(count) + 2} {rest} site {SITE}"
        wrong = 0
        runs = RUNS if name in good else 8
        for _ in range(runs):
            seed = rng.randrange(1 << 32)
            with device("l", table) as node:
                torture(node, seed, rng.randrange(1000, 100000), [])
            with device("l", table) as node:
                wrong += check(node, promise)
        forget("l")
        if name in good:
            verdict(wrong == 0, f"{name}: {runs} cuts, {wrong} with losses")
        else:
            verdict(wrong > 0, f"{name}: {runs} cuts, {wrong} reported (want some)")


def main() -> int:
    timing()
    backing()
    cuts()
    loads()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
