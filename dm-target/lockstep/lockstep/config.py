# SPDX-License-Identifier: GPL-2.0-only
"""What is kept of a mirror on this host: /etc/lockstep/NAME.toml, its devices and options.

Nothing there says which leg is current: that is on the legs. A file is replaced as a whole, and
durably; what somebody wrote into it by hand (comments) stays when `lockstep set` changes a value.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any

from . import table
from .errors import Failed, Refused, Usage

FOLDER = Path(os.environ.get("LOCKSTEP_CONFIG", "/etc/lockstep"))
# Root's own: in a folder that everybody may write to, a name could be a link to any file.
_LOCKS = Path("/run/lockstep")
_PAUSE_S = 0.2
_PATIENCE_S = 120.0
# The lock of this process, and whose it is.
_held: tuple[str, IO[str]] | None = None
# lockstep-format.h: 64 bytes with their end. It is a file's name, a device's and a unit's too.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,62}")
_HEAD = """\
# Lockstep mirror {name}. Written by `lockstep create`, changed by `lockstep set`; see lockstep(8).
# Devices by names that stay the same; which of them is current is written on the devices.
"""


@dataclass(frozen=True)
class Config:
    name: str
    local: str
    remote: str
    uuid: str = ""
    # The remote leg's LUN: logged in to if the device isn't there.
    target: str = ""
    portal: str = ""
    # Seconds that `assemble` waits for the legs.
    wait: int = 60
    # Whether `assemble` may start with one leg without being told --run.
    start_alone: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    def devices(self) -> dict[str, str]:
        return {table.LOCAL: self.local, table.REMOTE: self.remote}

    def with_device(self, leg: str, node: str) -> Config:
        return replace(self, local=node) if leg == table.LOCAL else replace(self, remote=node)

    def text(self) -> str:
        lines = [_HEAD.format(name=self.name)]
        for key in _KEYS:
            value = getattr(self, key)
            if value != _DEFAULTS.get(key):
                lines.append(f"{key} = {_toml(value)}\n")
        lines.append("\n[options]\n")
        lines += [f"{key} = {_toml(_typed(value))}\n" for key, value in self.options.items()]
        return "".join(lines)


_KEYS = [one.name for one in fields(Config) if one.name not in ("name", "options")]
_DEFAULTS = {one.name: one.default for one in fields(Config)}


def path(name: str) -> Path:
    return FOLDER / f"{name}.toml"


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Usage(
            f"{name!r} can't be a mirror's name: 1 to 63 letters, digits and _ . + -, and not"
            " . + - at its beginning"
        )


def check_new_name(name: str) -> None:
    """Of a mirror that is to be made. One that exists may have such a name yet."""
    check_name(name)
    if "+" in name:
        raise Usage(
            f"{name!r} can't be a mirror's name: + can't be in a systemd unit's name, so"
            f" lockstep@{name}.service could never start it"
        )


def names() -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def load(name: str) -> Config:
    check_name(name)
    file = path(name)
    try:
        return _parse(name, file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refused(
            f"no mirror {name} is configured here: {file} doesn't exist. `lockstep create` makes"
            " one of two devices; `lockstep assemble NAME --local DEV --remote DEV` takes one over"
        ) from None
    except OSError as err:
        raise Failed(f"{file}: {err.strerror}") from err
    except (ValueError, Refused) as err:
        raise Refused(f"{file}: {err}") from err


def save(config: Config) -> None:
    """Durable when it returns."""
    _write(config.name, config.text())


def change(config: Config) -> None:
    """Like save, but what else is in the file stays as it is."""
    file = path(config.name)
    old = load(config.name)
    text = file.read_text(encoding="utf-8")
    for key in _KEYS:
        if getattr(config, key) != getattr(old, key):
            text = _with_value(text, "", key, _toml(getattr(config, key)))
    for key, value in config.options.items():
        if old.options.get(key) != value:
            text = _with_value(text, "options", key, _toml(_typed(value)))
    try:
        good = _parse(config.name, text) == config
    except (ValueError, Refused):
        good = False
    if not good:
        raise Failed(f"{file} is written in a way that can't be changed here: edit it by hand")
    _write(config.name, text)


def remove(name: str) -> None:
    path(name).unlink(missing_ok=True)


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One command at a time changes a mirror. Who has to wait says so, and not for ever."""
    global _held
    check_name(name)
    with _opened(f"{name}.lock") as lock:
        _take(name, lock)
        _held = (name, lock)
        try:
            yield
        finally:
            _held = None


@contextmanager
def alone(what: str, told: str) -> Iterator[IO[str]]:
    """Nobody else is at work on what several mirrors share. The file keeps what the next one has to
    know if this one is killed."""
    with _opened(f"{what}.lock") as lock, _opened(f"{what}.note") as note:
        _take(told, lock)
        yield note


def remember(name: str, what: Mapping[str, Any]) -> None:
    """Until the host is started again; the mirror is locked."""
    with _open(f"{name}.stopped") as file:
        file.truncate()
        json.dump(what, file)


def remembered(name: str) -> dict[str, Any]:
    try:
        with _open(f"{name}.stopped") as file:
            return dict(json.loads(file.read() or "{}"))
    except (OSError, ValueError):  # it can't be read, or was cut off
        return {}


def _opened(name: str) -> IO[str]:
    try:
        return _open(name)
    except OSError as err:
        raise Failed(f"{err.filename}: {err.strerror}: this needs root") from err


def _open(name: str) -> IO[str]:
    """Only in a folder and on a file that nobody else can have put there."""
    with suppress(FileExistsError):
        _LOCKS.mkdir(mode=0o700)
    folder = os.open(_LOCKS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_owner(_LOCKS, os.fstat(folder))
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(name, flags, 0o600, dir_fd=folder)
    except OSError as err:
        raise OSError(err.errno, err.strerror, f"{_LOCKS}/{name}") from err
    finally:
        os.close(folder)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{_LOCKS}/{name} is no file: remove it")
        _check_owner(_LOCKS / name, found)
        return os.fdopen(file, "r+")
    except Refused:
        os.close(file)
        raise


def _check_owner(place: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise Refused(
            f"{place} belongs to user {found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}: another"
            " user could write there. Remove it; the next command makes it anew"
        )


@contextmanager
def unlocked() -> Iterator[None]:
    """While a person is asked, who may think for hours: other commands don't wait for that. After
    it everything has to be looked at again."""
    if _held:
        fcntl.flock(_held[1], fcntl.LOCK_UN)
    yield
    if _held:
        _take(*_held)


def _take(name: str, lock: IO[str]) -> None:
    until = time.monotonic() + _PATIENCE_S
    told = False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            lock.seek(0)
            who = f"another command (process {lock.read().strip() or 'unknown'}) is at work on it"
        if time.monotonic() >= until:
            raise Failed(f"{name}: {who}, for {_PATIENCE_S:.0f} s by now. Nothing was done")
        if not told:
            print(f"lockstep: {name}: {who}, waiting", file=sys.stderr, flush=True)
            told = True
        time.sleep(_PAUSE_S)
    lock.seek(0)
    lock.truncate()
    lock.write(f"{os.getpid()}\n")
    lock.flush()


def _parse(name: str, text: str) -> Config:
    said: dict[str, Any] = tomllib.loads(text)
    options = said.pop("options", {})
    if not isinstance(options, dict):
        raise Refused("options must be a table: [options]")
    for key, value in said.items():
        if key not in _KEYS:
            raise Refused(f"there is no key {key}; there are {', '.join(_KEYS)} and [options]")
        want = type(_DEFAULTS[key]) if isinstance(_DEFAULTS[key], str | int) else str
        if type(value) is not want:
            raise Refused(f"{key} must be a {want.__name__}")
    for key in table.LEGS:
        if not said.get(key):
            raise Refused(f"{key} is missing: the device of the {key} leg")
    return Config(name=name, options=table.check_options(options), **said)


def _typed(value: str) -> str | int:
    return int(value) if value.isdigit() else value


def _toml(value: object) -> str:
    # TOML's strings, numbers and booleans are written as JSON's.
    return json.dumps(value, ensure_ascii=False)


def _with_value(text: str, section: str, key: str, value: str) -> str:
    """The text with `key = value` in that section: in its line if it has one, else after the
    section's last line."""
    lines = text.splitlines()
    now, end = "", None
    for at, line in enumerate(lines):
        head = re.fullmatch(r"\s*\[([^\]]*)\]\s*(#.*)?", line)
        if head:
            now = head[1].strip()
        if now != section:
            continue
        found = re.fullmatch(rf"(\s*{re.escape(key)}\s*=\s*)(\"[^\"]*\"|[^\s#]*)(\s*(#.*)?)", line)
        if found:
            lines[at] = found[1] + value + found[3]
            return "\n".join(lines) + "\n"
        if line.strip():
            end = at + 1
    if end is None:
        lines += ["", f"[{section}]"] if section else []
        end = len(lines) if section else 0
    lines.insert(end, f"{key} = {value}")
    return "\n".join(lines) + "\n"


def _write(name: str, text: str) -> None:
    file = path(name)
    new = file.with_name(f".{file.name}.new")
    try:
        FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
        with new.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)
        folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as err:
        raise Failed(f"{file} can't be written: {err.strerror}") from err
