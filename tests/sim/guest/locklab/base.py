# SPDX-License-Identifier: GPL-2.0-only
"""Waiting, checking and running programs, with errors that name what was wrong."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

SEED = int(os.environ.get("LAB_SEED", "1"))
OUT = Path(os.environ.get("LAB_OUT", "/out"))
CHECKED = os.environ.get("LAB_KERNEL") in ("checked", "smp", "kcsan")  # slower
# The host's clock, and whatever else the host does: how long something takes says nothing there.
REALTIME = os.environ.get("LAB_KERNEL") in ("smp", "kcsan")
# How many times as long until() waits: QEMU is slow.
PATIENCE = 10 if os.environ.get("LAB_KERNEL") == "kcsan" else 1

CLONE_NEWNET = 0x40000000
_SYS_FINIT_MODULE = 313


def words(first: int, known: Collection[str]) -> list[str]:
    """The script's arguments from this one on (1: all). Each has to be one of the known: a part
    that a test names by a typo must not pass because nothing of it was run."""
    given = sys.argv[first:]
    for word in given:
        if word not in known:
            sys.exit(f"{Path(sys.argv[0]).name}: no {word!r}; known: {', '.join(known)}")
    return given


class Wrong(AssertionError):
    """What the scenario promises doesn't hold."""


def step(text: str) -> None:
    """Says which part of a scenario begins, with simulated time."""
    print(f"[{time.monotonic():12.6f}] {text}", flush=True)


def expect(true: object, what: str) -> None:
    if not true:
        raise Wrong(what)


def equal(got: object, want: object, what: str) -> None:
    if got != want:
        raise Wrong(f"{what}: got {got!r}, want {want!r}")


def soon(seconds: float, most: float, what: str) -> None:
    """It took no longer than that, if the time is simulated."""
    expect(REALTIME or seconds <= most, f"{what} took {seconds:.3f} s, more than {most:g} s")


def until(true: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    """Waits for a condition. The seconds are simulated, so patience costs nothing."""
    deadline = time.monotonic() + seconds * PATIENCE
    pause = 0.0005
    while not true():
        if time.monotonic() > deadline:
            raise Wrong(f"waited {seconds:g} s in vain for: {what}")
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)


def run(*words: str, stdin: str | None = None, check: bool = True) -> str:
    """Runs a program, returns its stdout; its own words are in the error."""
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise Wrong(f"{' '.join(words)}: rc {done.returncode}: {done.stdout}{done.stderr}".strip())
    return done.stdout


@contextlib.contextmanager
def refused(
    what: str, *errnos: int, says: str | None = None, kernel: str | None = None
) -> Iterator[None]:
    """The block must end in an OSError (one of `errnos`, if given) whose text has `says`; the
    kernel's log must meanwhile have got a line with `kernel`."""
    log = KernelLog() if kernel is not None else None
    try:
        yield
    except OSError as err:
        name = errno.errorcode.get(err.errno or 0, str(err.errno))
        if errnos and err.errno not in errnos:
            want = "/".join(errno.errorcode[e] for e in errnos)
            raise Wrong(f"{what}: refused with {name} ({err}), want {want}") from err
        if says is not None and says not in str(err):
            raise Wrong(f"{what}: the error doesn't say {says!r}: {err}") from err
    else:
        raise Wrong(f"{what}: was accepted, has to be refused")
    if log is not None and kernel is not None:
        lines = log.new()
        if not any(kernel in line for line in lines):
            raise Wrong(f"{what}: no {kernel!r} in the kernel's log: {lines}")
    print(f"  refused as it has to be: {what}", flush=True)


class KernelLog:
    """The kernel's messages since this object was made."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._fd, 0, os.SEEK_END)

    def new(self) -> list[str]:
        lines: list[str] = []
        while True:
            try:
                record = os.read(self._fd, 8192)
            except BlockingIOError:
                return lines
            except BrokenPipeError:  # some were overwritten; go on with the next
                continue
            lines.append(record.decode(errors="replace").partition(";")[2].split("\n")[0])

    def __del__(self) -> None:
        os.close(self._fd)


@contextlib.contextmanager
def inside(netns: Path) -> Iterator[None]:
    """This thread's sockets (and LIO portals) are made in that network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {netns}")
        yield
    finally:
        libc.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)


def put(path: Path, value: object) -> None:
    """Writes a sysfs or configfs file in one write; the error names the file and the value."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    except OSError as err:
        raise OSError(err.errno, f"{value!r} > {path}: {err.strerror}") from err
    finally:
        os.close(fd)


def opens(node: Path) -> bool:
    """Is there a device behind that node?"""
    try:
        os.close(os.open(node, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def insmod(path: Path, params: str = "") -> None:
    """Loads a module; what the kernel says of it is the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.syscall(_SYS_FINIT_MODULE, fd, params.encode(), 0) < 0:
            err = ctypes.get_errno()
            raise OSError(err, f"insmod {path.name} {params}: {os.strerror(err)}")
    finally:
        os.close(fd)


def made(path: Path) -> Path:
    """The directory, made if it isn't there (configfs makes objects that way)."""
    path.mkdir(exist_ok=True)
    return path
