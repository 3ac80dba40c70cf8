# SPDX-License-Identifier: GPL-2.0-only
"""Programs that answer what a test tells them, for what is about words and not about devices.

The real dmsetup, lockstep-meta and wipefs run in the sim lab: tests/sim/scenarios/cli_*.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lockstep import config, create, device, dm, main, meta
from lockstep.errors import Failed

_FAKE = """\
#!{python} -IS
import json, os, sys
words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + "\\n")
answers = json.load(open({answers!r}))
fitting = [a for a in answers if a["words"] == words[:len(a["words"])]]
if not fitting:
    sys.exit("fake: no answer for " + " ".join(words))
answer = max(fitting, key=lambda a: len(a["words"]))
sys.stdout.write(answer["out"])
sys.stderr.write(answer["err"])
sys.exit(answer["code"])
"""
GENERATION = {"id": "00000000000000a1", "count": 1}
STATUS = "AA 1024/1024 idle 0 0 degrade 0 0 0 0 together - 0 0 - 0"


@dataclass
class Host:
    """A host with fake programs, and devices /dev/X of so many sectors each."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    devices: dict[str, create.Found] = field(default_factory=dict)
    in_use: dict[str, list[str]] = field(default_factory=dict)
    tails: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)
    _answers: list[dict[str, Any]] = field(default_factory=list)

    def says(self, command: str, out: object = "", *, err: str = "", code: int = 0) -> None:
        """The next call of what begins so is answered so; a longer beginning goes before."""
        text = out if isinstance(out, str) else json.dumps(out)
        words = command.split()
        self._answers = [a for a in self._answers if a["words"] != words]
        self._answers.append({"words": words, "out": text, "err": err, "code": code})
        (self.folder / "answers").write_text(json.dumps(self._answers))

    def calls(self, program: str) -> list[str]:
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        said = [" ".join(json.loads(line)) for line in lines]
        return [line for line in said if line.startswith(program)]

    def disk(self, node: str, sectors: int = 1 << 21, *, data: bool = False,
             signs: tuple[device.Sign, ...] = (), mirror: str = "",
             grown: bool = False, room: int = 0) -> None:  # fmt: skip
        number = f"8:{16 * (ord(node[-1]) - ord('a'))}"
        at = device.Device(node, node.removeprefix("/dev/"), number, sectors, Path("/nonexistent"))
        kind = "superblock" if mirror else "grown" if grown else "blank"
        why = "it has grown: grow the mirror" if grown else "no superblock"
        leg = meta.Leg(node, kind, why, {}, name=mirror, leg="local", room=room)
        self.devices[node] = create.Found(at, list(signs), leg, data or bool(signs))

    def runs(self, name: str, line: str = STATUS, table: str = "8:0 8:16", length: int = 1 << 21,
             opens: int = 0, suspended: bool = False) -> None:  # fmt: skip
        """There is a mirror of that name."""
        state = "Suspended" if suspended else "Active"
        self.says(f"dmsetup info -c --noheadings --separator | -o {dm._FIELDS} {name}",
                  f"{name}|{opens}|{state}|LOCKSTEP-u\n")  # fmt: skip
        self.says(f"dmsetup status --noflush {name}", f"0 {length} lockstep {line}\n")
        self.says(f"dmsetup table {name}", f"0 {length} lockstep {table}\n")
        self.says("dmsetup status --noflush --target", f"{name}: 0 {length} lockstep {line}\n")
        self.says("dmsetup table --target", f"{name}: 0 {length} lockstep {table}\n")
        for word in ("message", "load", "resume", "remove"):
            self.says(f"dmsetup {word}")

    def stops(self, name: str) -> None:
        self._answers = [a for a in self._answers if a["words"][-1:] != [name]]
        self.says("dmsetup info", err="Device does not exist.\n", code=1)

    def lockstep(self, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of the command."""
        self.capture.readouterr()
        try:
            code = main.main(list(words))
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        out, err = self.capture.readouterr()
        return code, out, err


@pytest.fixture
def host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Host]:
    found = Host(tmp_path, capsys)
    for program in ("dmsetup", "lockstep-meta", "modprobe", "iscsiadm"):
        file = tmp_path / "bin" / program
        file.parent.mkdir(exist_ok=True)
        file.write_text(_FAKE.format(python=sys.executable, log=str(tmp_path / "log"),
                                     answers=str(tmp_path / "answers")))  # fmt: skip
        file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(config, "FOLDER", tmp_path / "etc")
    monkeypatch.setattr(config, "_LOCKS", tmp_path / "locks")

    def look(node: str) -> device.Device:
        if node not in found.devices:
            raise Failed(f"{node}: there is no such device")
        return found.devices[node].at

    monkeypatch.setattr(device, "look", look)
    monkeypatch.setattr(
        device, "uses",
        lambda at, besides="": [
            text for text in found.in_use.get(at.given, []) if f"({besides})" not in text
        ],
    )  # fmt: skip
    monkeypatch.setattr(device, "read_only", lambda at: False)
    monkeypatch.setattr(device, "signs", lambda at: found.devices[at.given].signs)
    monkeypatch.setattr(device, "has_data", lambda at: found.devices[at.given].data)
    monkeypatch.setattr(device, "has_tail", lambda at, start: at.given in found.tails)
    monkeypatch.setattr(
        device, "by_number", lambda number: f"/dev/{chr(ord('a') + int(number[2:]) // 16)}"
    )
    monkeypatch.setattr(
        device, "answers", lambda number: device.by_number(number) not in found.failing
    )
    monkeypatch.setattr(device, "stable_name", lambda at: (at.given, True))
    monkeypatch.setattr(device, "iscsi", lambda at: None)
    monkeypatch.setattr(
        meta, "examine", lambda node, given="", search=True: found.devices[node].mirror
    )
    found.says("dmsetup info", err="Device does not exist.\n", code=1)
    found.says("dmsetup targets", "lockstep         v1.1.0\n")
    yield found
