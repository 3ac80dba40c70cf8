# SPDX-License-Identifier: GPL-2.0-only
"""File systems on a device, and loads that know what has to be in them.

Three loads, each with a model to compare with, each in a directory of its own:
  OneFile   random operations of every kind on one file (write, read, mmap, direct I/O, truncate,
            punch, zero, allocate, copy, fsync, reopen without the cache), after the manner of fsx;
  Tree      random operations on names (create, append, rename, link, unlink, mkdir, rmdir,
            symlink), after the manner of fsstress;
  Promises  files that are written once, fsync'ed with their directory, and told of only then: each
            has to outlive a power cut.
A load works until stop(); an error or a wrong byte ends it, and stop() raises it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import random
import shutil
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import base, blk, dm, ram

KINDS = ("ext4", "xfs")
MIB = {"ext4": 64, "xfs": 320}  # mkfs.xfs wants 300
_LIBC = ctypes.CDLL(None, use_errno=True)
_MS_RDONLY, _MNT_DETACH = 1, 2
_KEEP_SIZE, _PUNCH_HOLE, _ZERO_RANGE = 1, 2, 16
_BLKROSET, _FIFREEZE, _FITHAW = 0x125D, 0xC0045877, 0xC0045878
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2  # of ext4 and xfs
_STEP = 1 << 20


def make(kind: str, node: str) -> None:
    if kind == "xfs":
        base.run("mkfs.xfs", "-q", "-f", node)
    else:
        base.run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", node)


def mount(kind: str, node: str, where: str, *, readonly: bool = False, options: str = "") -> Path:
    path = Path(where)
    path.mkdir(parents=True, exist_ok=True)
    flags = _MS_RDONLY if readonly else 0
    if _LIBC.mount(node.encode(), where.encode(), kind.encode(), flags, options.encode()):
        err = ctypes.get_errno()
        raise OSError(err, f"mount -t {kind} {node} {where}: {os.strerror(err)}")
    return path


def settle(where: Path) -> None:
    """All that it has to write is written, and whoever wrote it has come to his end.

    xfs waits for its last inodes without sleeping, so a worker that was interrupted just there
    never gets the CPU: simulated time stands still as long as somebody has it.
    """
    fd = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _FIFREEZE, 0)
        time.sleep(0.1)
        fcntl.ioctl(fd, _FITHAW, 0)
    finally:
        os.close(fd)


def umount(where: Path, *, lazy: bool = False) -> None:
    if _LIBC.umount2(str(where).encode(), _MNT_DETACH if lazy else 0):
        err = ctypes.get_errno()
        raise OSError(err, f"umount {where}: {os.strerror(err)}")


@contextlib.contextmanager
def mounted(kind: str, node: str, where: str) -> Iterator[Path]:
    path = mount(kind, node, where)
    try:
        yield path
    finally:
        umount(path)


@contextlib.contextmanager
def looked_at(kind: str, node: str, where: str) -> Iterator[Path]:
    """Mounted read-only, and the device is read-only too: xfs would write to its log else."""
    fd = os.open(node, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _BLKROSET, struct.pack("i", 1))
        path = mount(kind, node, where, readonly=True)
        try:
            yield path
        finally:
            umount(path)
            fcntl.ioctl(fd, _BLKROSET, struct.pack("i", 0))
    finally:
        os.close(fd)


def die(where: Path) -> None:
    """The file system ends here, as its host did: nothing more goes to the device, not even log."""
    fd = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    finally:
        os.close(fd)


def clean(kind: str, node: str, what: str) -> None:
    """The checker of that file system finds nothing; it may not write."""
    words = ("xfs_repair", "-n") if kind == "xfs" else ("e2fsck", "-fn")
    base.run(*words, node)
    print(f"  {what}: {words[0]} finds it clean", flush=True)


@contextlib.contextmanager
def copy(node: str, name: str) -> Iterator[str]:
    """A disk with that content, to be played with. Nothing is written to the original."""
    mib = -(-dm.sectors(node) >> 11)
    disk = ram.Ram(name, mib)
    step = _STEP // blk.SECTOR
    try:
        with blk.Disk(node, write=False) as source, blk.Disk(disk.node) as target:
            for start in range(0, source.sectors, step):
                data = source.read(start, min(step, source.sectors - start))
                if any(data):
                    target.write(start, data)
        yield disk.node
    finally:
        disk.remove()


class Worker:
    """One thread that calls _turn() until stop(), with a pause of simulated time after each."""

    def __init__(self, where: Path, seed: str, pause_us: int = 10_000) -> None:
        self.where = where
        self.turns = 0
        self.error: BaseException | None = None
        self.rng = random.Random(f"{type(self).__name__} {seed}")
        # Each turn costs wall time, and in the checked kernel ten times as much.
        self._pause = pause_us / 1e6 * (8 if base.CHECKED else 1)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _turn(self) -> None:
        raise NotImplementedError

    def _prepare(self) -> None:
        """Before the first turn; the directory is there."""
        raise NotImplementedError

    def start(self) -> None:
        self.where.mkdir(parents=True)
        self._prepare()
        self._thread.start()

    def halt(self) -> None:
        """Ends it, whatever it met: for after a power cut."""
        self._stopped.set()
        self._thread.join()

    def stop(self) -> None:
        self.halt()
        if self.error is not None:
            raise self.error

    def wait(self, turns: int) -> None:
        goal = self.turns + turns
        base.until(lambda: self.turns >= goal or self.error, f"{turns} turns in {self.where}", 900)
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        try:
            while not self._stopped.is_set():
                self._turn()
                self.turns += 1
                self._stopped.wait(self._pause)
        except BaseException as err:
            self.error = err


class OneFile(Worker):
    """One file, and in memory what it has to hold."""

    LARGEST = 256 << 10
    # Off where the device may die: a page that can't be had then is a SIGBUS, the end of us all.
    mapped = True

    def _prepare(self) -> None:
        self.model = bytearray()
        self.path = self.where / "file"
        self.done: dict[str, int] = {}
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        self._direct = os.open(self.path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)

    def halt(self) -> None:
        super().halt()
        for fd in (self._fd, self._direct):
            os.close(fd)

    def verify(self, where: Path | None = None) -> None:
        """After stop(): the file, also of another copy of the file system, is as the model."""
        path = (where or self.where) / "file"
        with path.open("rb") as file:
            self._same(file.read(), 0, len(self.model), f"the end ({path})")
        base.equal(path.stat().st_size, len(self.model), f"size of {path}")

    def _turn(self) -> None:
        operation = self.rng.choice(_OPERATIONS)
        operation(self)
        name = operation.__name__.strip("_")
        self.done[name] = self.done.get(name, 0) + 1

    def _same(self, got: bytes, start: int, length: int, what: str) -> None:
        want = self.model[start : start + length]
        if got != want:
            at = next((n for n, (a, b) in enumerate(zip(got, want, strict=False)) if a != b),
                      min(len(got), len(want)))  # fmt: skip
            raise base.Wrong(f"{self.path}: {what}: wrong from byte {start + at} on, "
                             f"{len(got)} bytes read, {len(want)} expected")  # fmt: skip

    def _place(self, grid: int = 1, most: int = 64 << 10) -> tuple[int, int]:
        start = self.rng.randrange(0, self.LARGEST - grid) // grid * grid
        length = self.rng.randrange(1, min(most, self.LARGEST - start)) // grid * grid
        return start, max(length, grid)

    def _bytes(self, length: int) -> bytes:
        return self.rng.randbytes(length)

    def _put(self, start: int, data: bytes) -> None:
        if start > len(self.model):
            self.model.extend(bytes(start - len(self.model)))
        self.model[start : start + len(data)] = data

    def _write(self) -> None:
        start, length = self._place()
        data = self._bytes(length)
        base.equal(os.pwrite(self._fd, data, start), length, "bytes written")
        self._put(start, data)

    def _read(self) -> None:
        start, length = self._place()
        self._same(os.pread(self._fd, length, start), start, length, "read")

    def _direct_write(self) -> None:
        start, length = self._place(4096)
        data = self._bytes(length)
        with mmap.mmap(-1, length) as memory, memoryview(memory) as view:
            memory[:] = data
            base.equal(os.pwritev(self._direct, [view], start), length, "bytes written")
        self._put(start, data)

    def _direct_read(self) -> None:
        start, length = self._place(4096)
        with mmap.mmap(-1, length) as memory, memoryview(memory) as view:
            got = os.preadv(self._direct, [view], start)
            self._same(bytes(view[:got]), start, length, "direct read")

    def _mapped(self) -> None:
        if not self.model or not self.mapped:
            return
        with mmap.mmap(self._fd, len(self.model)) as memory:
            start = self.rng.randrange(len(self.model))
            length = min(self.rng.randrange(1, 64 << 10), len(self.model) - start)
            self._same(memory[start : start + length], start, length, "mapped read")
            data = self._bytes(length)
            memory[start : start + length] = data
            self._put(start, data)
            if self.rng.random() < 0.3:
                memory.flush()

    def _truncate(self) -> None:
        size = self.rng.randrange(self.LARGEST)
        os.ftruncate(self._fd, size)
        del self.model[size:]
        self.model.extend(bytes(size - len(self.model)))

    def _punch(self) -> None:
        start, length = self._place()
        _fallocate(self._fd, _PUNCH_HOLE | _KEEP_SIZE, start, length)
        end = min(start + length, len(self.model))
        if end > start:
            self.model[start:end] = bytes(end - start)

    def _zero(self) -> None:
        start, length = self._place()
        _fallocate(self._fd, _ZERO_RANGE, start, length)
        self._put(start, bytes(length))

    def _allocate(self) -> None:
        start, length = self._place()
        _fallocate(self._fd, 0, start, length)
        self.model.extend(bytes(max(0, start + length - len(self.model))))

    def _copy(self) -> None:
        if not self.model:
            return
        source = self.rng.randrange(len(self.model))
        length = min(self.rng.randrange(1, 32 << 10), len(self.model) - source)
        target = self.rng.randrange(self.LARGEST)
        if abs(source - target) < length:
            return  # overlapping ranges are refused
        data = bytes(self.model[source : source + length])
        got = os.copy_file_range(self._fd, self._fd, length, source, target)
        self._put(target, data[:got])

    def _fsync(self) -> None:
        os.fsync(self._fd)

    def _reopen(self) -> None:
        os.fsync(self._fd)
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(self._fd)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        self._same(os.pread(self._fd, self.LARGEST * 2, 0), 0, len(self.model), "after reopening")


_OPERATIONS: tuple[Callable[[OneFile], None], ...] = tuple(
    getattr(OneFile, name)
    for name in ("_write", "_write", "_read", "_read", "_direct_write", "_direct_read", "_mapped",
                 "_mapped", "_truncate", "_punch", "_zero", "_allocate", "_copy", "_fsync",
                 "_reopen")
)  # fmt: skip


def _fallocate(fd: int, mode: int, start: int, length: int) -> None:
    if _LIBC.fallocate64(fd, mode, ctypes.c_int64(start), ctypes.c_int64(length)):
        err = ctypes.get_errno()
        raise OSError(err, f"fallocate mode {mode}: {os.strerror(err)}")


class Tree(Worker):
    """Names and what they name. Paths are relative; a file is a list of one bytes object, so that
    hard links share it."""

    DIRECTORIES, FILES = 12, 60

    def _prepare(self) -> None:
        self.dirs: set[str] = {""}
        self.files: dict[str, list[bytes]] = {}
        self.links: dict[str, str] = {}
        self.done: dict[str, int] = {}

    def verify(self, where: Path | None = None) -> None:
        root = where or self.where
        found: set[str] = set()
        for path, names, entries in os.walk(root):
            base_name = os.path.relpath(path, root)
            found.update(os.path.normpath(os.path.join(base_name, n)) for n in (*names, *entries))
        want = (self.dirs - {""}) | set(self.files) | set(self.links)
        base.equal(sorted(found ^ want), [], f"names that shouldn't be in {root}, or are missing")
        for name, content in self.files.items():
            if (root / name).read_bytes() != content[0]:
                raise base.Wrong(f"{root / name} has not what was written to it")
        for name, text in self.links.items():
            base.equal(os.readlink(root / name), text, f"link {root / name}")

    def _turn(self) -> None:
        operation = self.rng.choice(_TREE_OPERATIONS)
        operation(self)
        name = operation.__name__.strip("_")
        self.done[name] = self.done.get(name, 0) + 1

    def _new(self) -> str:
        """A name that isn't there, in a directory that is."""
        while True:
            name = os.path.join(self.rng.choice(sorted(self.dirs)), f"n{self.rng.randrange(1000)}")
            if name not in self.dirs and name not in self.files and name not in self.links:
                return name

    def _any(self) -> str | None:
        return self.rng.choice(sorted(self.files)) if self.files else None

    def _create(self) -> None:
        if len(self.files) >= self.FILES:
            self._unlink()
        name, data = self._new(), self.rng.randbytes(self.rng.randrange(20000))
        (self.where / name).write_bytes(data)
        self.files[name] = [data]

    def _append(self) -> None:
        name = self._any()
        if name is None:
            return
        data = self.rng.randbytes(self.rng.randrange(1, 5000))
        with (self.where / name).open("ab") as file:
            file.write(data)
            if self.rng.random() < 0.3:
                file.flush()
                os.fsync(file.fileno())
        self.files[name][0] += data
        if len(self.files[name][0]) > 100_000:
            os.truncate(self.where / name, 1000)
            self.files[name][0] = self.files[name][0][:1000]

    def _rename(self) -> None:
        name = self._any()
        if name is None:
            return
        over = self._any() if self.rng.random() < 0.3 else None
        new = over if over is not None else self._new()
        if new != name and self.files.get(new) is self.files[name]:
            return  # two links of one file: rename does nothing
        (self.where / name).rename(self.where / new)
        self.files[new] = self.files.pop(name)

    def _link(self) -> None:
        name = self._any()
        if name is None:
            return
        new = self._new()
        os.link(self.where / name, self.where / new)
        self.files[new] = self.files[name]

    def _symlink(self) -> None:
        if len(self.links) > 10:
            old = self.rng.choice(sorted(self.links))
            (self.where / old).unlink()
            del self.links[old]
        new, text = self._new(), f"to-{self.rng.randrange(10**9)}"
        (self.where / new).symlink_to(text)
        self.links[new] = text

    def _unlink(self) -> None:
        name = self._any()
        if name is not None:
            (self.where / name).unlink()
            del self.files[name]

    def _mkdir(self) -> None:
        if len(self.dirs) < self.DIRECTORIES:
            name = self._new()
            (self.where / name).mkdir()
            self.dirs.add(name)

    def _rmdir(self) -> None:
        inside = {os.path.dirname(n) for n in (*self.dirs - {""}, *self.files, *self.links)}
        empty = sorted(self.dirs - inside - {""})
        if empty:
            name = self.rng.choice(empty)
            (self.where / name).rmdir()
            self.dirs.remove(name)

    def _sync_directory(self) -> None:
        _sync_directory(self.where / self.rng.choice(sorted(self.dirs)))


_TREE_OPERATIONS: tuple[Callable[[Tree], None], ...] = tuple(
    getattr(Tree, name)
    for name in ("_create", "_create", "_create", "_append", "_append", "_append", "_rename",
                 "_rename", "_link", "_symlink", "_unlink", "_mkdir", "_rmdir", "_sync_directory")
)  # fmt: skip


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Promises(Worker):
    """Files 0, 1, 2, ...; those from `first` to below `kept` are what fsync has promised."""

    MOST = 200

    def _prepare(self) -> None:
        self.first = self.kept = 0
        self.seed = self.rng.random()
        _sync_directory(self.where.parent)

    def _turn(self) -> None:
        with (self.where / str(self.kept)).open("wb") as file:
            file.write(self._content(self.kept))
            file.flush()
            os.fsync(file.fileno())
        _sync_directory(self.where)
        self.kept += 1
        if self.kept - self.first > self.MOST:
            self.first += 1
            (self.where / str(self.first - 1)).unlink()

    def verify(self, where: Path | None = None) -> None:
        """Each promised file is there, whole."""
        for number in range(self.first, self.kept):
            path = (where or self.where) / str(number)
            if not path.exists():
                raise base.Wrong(f"{path} is gone, though it was fsync'ed with its directory")
            if path.read_bytes() != self._content(number):
                raise base.Wrong(f"{path} has not what was fsync'ed")

    def _content(self, number: int) -> bytes:
        rng = random.Random(f"promise {self.seed} {number}")
        seed = hashlib.sha256(rng.randbytes(16)).digest()
        return seed * rng.randrange(1, 800)


def loads(root: Path, seed: int, number: int = 2) -> list[Worker]:
    """Some of each kind, each in its own directory of the file system."""
    kinds: tuple[type[OneFile] | type[Tree], ...] = (OneFile, Tree)
    found: list[Worker] = [
        kind(root / f"{kind.__name__}{n}", f"{seed} {n}") for kind in kinds for n in range(number)
    ]
    return [*found, Promises(root / "Promises", f"{seed}", pause_us=20_000)]


def verify(workers: list[Worker], root: Path) -> None:
    """Each load's model against the file system that is mounted at `root`."""
    for worker in workers:
        if isinstance(worker, OneFile | Tree | Promises):
            worker.verify(root / worker.where.name)


def gone(err: BaseException | None) -> bool:
    """Is it what a load meets when its file system's device has died?"""
    return isinstance(err, OSError) and err.errno in (errno.EIO, errno.EROFS, errno.EUCLEAN)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
