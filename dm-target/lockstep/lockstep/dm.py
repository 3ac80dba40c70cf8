# SPDX-License-Identifier: GPL-2.0-only
"""Mapped devices whose target is lockstep, by dmsetup."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from . import program
from .errors import Failed, Refused

TARGET = "lockstep"
UUID_PREFIX = "LOCKSTEP-"
PATIENCE = 30.0  # seconds in which an old table is tried again
_FIELDS = "name,open,suspended,uuid"


@dataclass(frozen=True)
class Info:
    name: str
    opens: int
    suspended: bool
    uuid: str


def node(name: str) -> str:
    return f"/dev/mapper/{name}"


def load_module() -> None:
    """The target has to be there before the first table that names it."""
    if any(line.split()[:1] == [TARGET] for line in program.run("dmsetup", "targets").splitlines()):
        return
    said = program.ask("modprobe", "dm-lockstep")
    if said.code:
        raise Failed(f"the kernel module dm-lockstep can't be loaded: {said.why}")


def lines(what: str) -> dict[str, str]:
    """What `dmsetup status` or `dmsetup table` says of all lockstep devices, by name."""
    found = {}
    for line in program.run("dmsetup", what, *_quiet(what), "--target", TARGET).splitlines():
        name, colon, rest = line.partition(": ")
        words = rest.split(None, 3)
        if colon and len(words) >= 3 and words[2] == TARGET:
            found[name] = rest
    return found


def names() -> list[str]:
    return sorted(lines("table"))


def status(name: str) -> str:
    return _line("status", name)


def table(name: str) -> str:
    return _line("table", name)


def info(name: str) -> Info | None:
    """None: there is no device of that name."""
    said = program.ask("dmsetup", "info", "-c", "--noheadings", "--separator", "|",
                       "-o", _FIELDS, name)  # fmt: skip
    if said.code:
        if "does not exist" in said.err:
            return None
        raise Failed(f"`dmsetup info {name}`: {said.why}")
    words = said.out.strip().split("|")
    if len(words) != 4:
        raise Failed(f"`dmsetup info {name}` says {said.out.strip()!r}, which isn't understood")
    return Info(words[0], int(words[1]), words[2] == "Suspended", words[3])


def exists(name: str) -> bool:
    return info(name) is not None


def running(name: str) -> Info:
    """The device, which has to be a mirror."""
    there = info(name)
    if there is None:
        raise Refused(f"there is no running mirror {name}: lockstep assemble {name}")
    table(name)
    return there


def create(name: str, uuid: str, line: str) -> None:
    with kernel_says():
        program.run("dmsetup", "create", name, "--uuid", UUID_PREFIX + uuid, "--table", line)


def remove(name: str) -> None:
    program.run("dmsetup", "remove", "--retry", name)


def message(name: str, text: str) -> None:
    with kernel_says():
        program.run("dmsetup", "message", name, "0", *text.split())


def reload(name: str, line: str) -> None:
    """The new table in the old one's place, while the device is in use. If the kernel refuses the
    new one, the old one goes on. No flush: with one a suspend fails the writes that policy block
    holds, and it may be for those that a leg comes back."""
    old = table(name)
    with kernel_says():
        program.run("dmsetup", "load", name, "--table", line)
    try:
        with kernel_says():
            resume(name)
    except Failed as err:
        goes_on = _go_on(name, old)
        if goes_on:
            raise Failed(f"{name}: the new table doesn't start: {err}. {goes_on}") from err


def _go_on(name: str, old: str) -> str:
    """The new table may be in place already, and the device suspended: all I/O waits then. What
    kept that from starting may keep the old one, too, and be over in a moment: a leg was away. If a
    device of the old one is no more, it is the new one that is tried. Empty: that has started."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with kernel_says():
                loaded = program.ask("dmsetup", "load", name, "--table", old)
                resume(name)
        except Failed as err:
            if time.monotonic() < end:
                time.sleep(1)
                continue
            return (
                f"THE DEVICE IS SUSPENDED, and its old table can't be started again: {err}. If that"
                f" is mended: dmsetup resume {name}, which lockstep-monitor@{name} tries, too. That"
                f" table was: {old}"
            )
        return "The old table goes on" if not loaded.code or table(name) == old else ""


def resume(name: str) -> None:
    """No flush: see reload()."""
    program.run("dmsetup", "resume", "--noflush", name)


def _quiet(what: str) -> tuple[str, ...]:
    # Asking must not make the device write, nor wait for one that can't.
    return ("--noflush",) if what == "status" else ()


def _line(what: str, name: str) -> str:
    said = program.ask("dmsetup", what, *_quiet(what), name)
    if said.code:
        if "does not exist" in said.err:
            raise Refused(f"there is no running mirror {name}: lockstep assemble {name}")
        raise Failed(f"`dmsetup {what} {name}`: {said.why}")
    line = said.out.strip()
    words = line.split(None, 3)
    if "\n" in line or len(words) < 3 or words[2] != TARGET:
        raise Refused(f"{node(name)} is no lockstep mirror: its table begins {line[:40]!r}")
    return line


@contextmanager
def kernel_says() -> Iterator[None]:
    """dmsetup tells an error number; the reason is in the kernel's log."""
    log = -1
    with suppress(OSError):
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(log, 0, os.SEEK_END)
    try:
        yield
    except Failed as err:
        said = list(_ours(log)) if log >= 0 else []
        raise Failed(f"{err}. The kernel says: {'; '.join(said)}" if said else str(err)) from err
    finally:
        if log >= 0:
            os.close(log)


def _ours(log: int) -> Iterator[str]:
    while True:
        try:
            record = os.read(log, 8192).decode(errors="replace")
        except BrokenPipeError:  # some were overwritten; go on with the next
            continue
        except OSError:
            return
        # A line break of the kernel's is written as an escape.
        text = record.partition(";")[2].partition("\n")[0].partition("\\x0a")[0]
        if text.startswith("device-mapper:") and ": history of the " not in text:
            yield text.removeprefix("device-mapper:").strip()


class Events:
    """Sleeps until something changes at any mapped device. Arm, look, then sleep: whatever
    happens after arming ends the sleep."""

    _CONTROL = Path("/dev/mapper/control")
    _SIZE = 312  # of struct dm_ioctl, all that this call takes
    _ARM_POLL = 3 << 30 | _SIZE << 16 | 0xFD << 8 | 16

    def __init__(self) -> None:
        try:
            self._fd = os.open(self._CONTROL, os.O_RDWR | os.O_CLOEXEC)
        except OSError as err:
            raise Failed(f"{self._CONTROL}: {err.strerror}") from err

    def arm(self) -> None:
        head = bytearray(self._SIZE)
        struct.pack_into("=3I2I", head, 0, 4, 37, 0, self._SIZE, self._SIZE)
        fcntl.ioctl(self._fd, self._ARM_POLL, head)

    def sleep(self, seconds: float | None = None) -> bool:
        """False if the time was over first."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def close(self) -> None:
        os.close(self._fd)


@contextmanager
def events() -> Iterator[Events]:
    found = Events()
    try:
        yield found
    finally:
        found.close()
