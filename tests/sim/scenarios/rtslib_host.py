# SPDX-License-Identifier: GPL-2.0-only
"""The mirror site's host as its admin has it: rtslib and targetcli, with or without our part.

The guest's root is written to memory only, so things are installed where they belong.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locklab import base, lio, wire

HERE = Path("/lockstep/target-plugin/rtslib")
DIST = Path("/usr/lib/python3/dist-packages")
SAVED = Path("/etc/rtslib-fb-target/saveconfig.json")
CORE = Path("/sys/kernel/config/target/core")
DROP_IN = Path("/etc/systemd/system/rtslib-fb-targetctl.service.d")
DCD_TOOL = "/lockstep/build/bin/dcd"
INITIATOR = "iqn.2026-11.org.lockstep:primary"


@dataclass(frozen=True)
class Said:
    rc: int
    text: str


def prepare() -> None:
    """What a booted Debian has: a system bus, and the directory that targetctl's unit makes."""
    SAVED.parent.mkdir(exist_ok=True)
    Path("/run/dbus").mkdir(exist_ok=True)
    base.run("dbus-daemon", "--system", "--fork", "--nopidfile")


def install() -> None:
    """As target-plugin/rtslib/README.md says."""
    shutil.copytree(HERE / "lockstep_rtslib", DIST / "lockstep_rtslib")
    shutil.copy(HERE / "lockstep-rtslib.pth", DIST)
    DROP_IN.mkdir(parents=True)
    shutil.copy(HERE / "lockstep.conf", DROP_IN)


def program(*words: str, netns: Path | None = None, stdin: str = "") -> Said:
    inside = ("nsenter", f"--net={netns}") if netns else ()
    done = subprocess.run(
        [*inside, *words], input=stdin, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    return Said(done.returncode, done.stdout)


def good(*words: str, netns: Path | None = None, stdin: str = "") -> str:
    said = program(*words, netns=netns, stdin=stdin)
    base.expect(said.rc == 0, f"{' '.join(words)}: rc {said.rc}: {said.text}")
    base.expect("Traceback" not in said.text, f"{' '.join(words)}: {said.text}")
    return said.text


def targetcli(*words: str) -> str:
    return good("targetcli", *words)


def daemon(command: str) -> str:
    """What a running targetclid answers, in its own protocol."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect("/var/run/targetclid.sock")
        line.sendall(f"cd /%{command}".encode())
        (left,) = struct.unpack("i", line.recv(4))
        said = b""
        while len(said) < left:
            said += line.recv(left - len(said))
        line.sendall(b"-END@OF@DATA-")
    return said.decode()


def create(name: str, **settings: object) -> str:
    words = (f"{key}={value}" for key, value in settings.items())
    return targetcli("/backstores/dcd", "create", f"name={name}", *words)


def set_uuid(log: str) -> str:
    """The set's uuid by the format tool: 32 hexadecimal digits."""
    (uuid,) = set(re.findall(r"^  uuid (\w{32})$", base.run(DCD_TOOL, "examine", log), re.M))
    return str(uuid)


def objects() -> list[str]:
    """What there is in configfs, whoever made it: KIND_N/NAME."""
    return sorted(f"{p.parent.name}/{p.name}" for p in CORE.glob("*_*/*") if p.is_dir())


def hbas() -> list[str]:
    return sorted(p.name for p in CORE.glob("*_*") if p.is_dir())


def saved(path: Path | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path or SAVED).read_text())
    return found


def export(*stores: str) -> None:
    """Target, LUNs, ACL and a portal in the mirror's namespace, by targetcli."""
    targetcli("/iscsi", "create", lio.IQN)
    # The portal that targetcli adds; versions differ in its address.
    for portal in (CORE.parent / "iscsi" / lio.IQN / "tpgt_1/np").iterdir():
        portal.rmdir()
    tpg = f"/iscsi/{lio.IQN}/tpg1"
    for store in stores:
        targetcli(f"{tpg}/luns", "create", store)
    targetcli(f"{tpg}/acls", "create", INITIATOR)
    good("nsenter", f"--net={wire.NETNS}", "targetcli", f"{tpg}/portals", "create", wire.MIRROR_IP)
