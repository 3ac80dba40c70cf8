# SPDX-License-Identifier: GPL-2.0-only
"""The command `lockstep` as an admin has it: the real program on real devices of the guest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locklab import base, dm, lio

BY_PATH = Path(f"/dev/disk/by-path/ip-{lio.PORTAL}-iscsi-{lio.IQN}-lun-0")
DISKS = "class/iscsi_session/session*/device/target*/*/block/*"
COMMAND = "/lockstep/build/bin/lockstep"
# There is no udev in the guest: libdevmapper makes the nodes itself.
os.environ["DM_DISABLE_UDEV"] = "1"
# For scenarios that ask the command's parts.
sys.path.insert(0, "/lockstep/dm-target/lockstep")


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def run(*words: str, stdin: str = "") -> Said:
    done = subprocess.run([COMMAND, *words], input=stdin, capture_output=True, text=True,
                          check=False)  # fmt: skip
    base.expect("Traceback" not in done.stderr, f"lockstep {' '.join(words)}: {done.stderr}")
    return Said(done.returncode, done.stdout, done.stderr)


def good(*words: str) -> Said:
    said = run(*words)
    base.expect(said.code == 0, f"lockstep {' '.join(words)}: rc {said.code}: {said.text}")
    print(f"  lockstep {' '.join(words)}", flush=True)
    return said


def refused(code: int, *words: str, says: tuple[str, ...]) -> Said:
    """The command ends with that exit code and says all of that."""
    said = run(*words)
    base.equal(said.code, code, f"exit code of lockstep {' '.join(words)} ({said.text.strip()})")
    for text in says:
        base.expect(text in said.text, f"lockstep {' '.join(words)} doesn't say {text!r}:"
                    f" {said.text}")  # fmt: skip
    print(f"  refused as it has to be: lockstep {' '.join(words)}", flush=True)
    return said


def examined(node: str) -> dict[str, Any]:
    """What lockstep examine tells of one leg."""
    told: list[dict[str, Any]] = json.loads(good("examine", "--json", node).out)
    return told[0]


def status(name: str = "m") -> dict[str, Any]:
    """Of one mirror; its `exit_code` is the command's."""
    said = run("status", name, "--json")
    base.expect(said.code != 4, f"lockstep status {name}: {said.err}")
    told: dict[str, Any] = json.loads(said.out)[name]
    base.equal(told["exit_code"], said.code, "exit code of status")
    return told


def wait(name: str = "m", **want: object) -> dict[str, Any]:
    """Until the status says so."""
    told: dict[str, Any] = {}
    seen = ""

    def there() -> bool:
        # Starting a program is dear: only if the kernel's line is another one.
        nonlocal seen
        now = dm.status(name)
        if now != seen:
            seen = now
            told.clear()
            told.update(status(name))
        return all(told.get(key) == value for key, value in want.items())

    try:
        base.until(there, f"{name}: {want}", 600)
    except base.Wrong as err:
        raise base.Wrong(f"{err}: {told}") from None
    return told


def until_counted(counter: str, least: int) -> None:
    base.until(lambda: status()["counters"][counter] >= least, f"{least} {counter}")


def in_sync(name: str = "m") -> dict[str, Any]:
    return wait(name, health="AA", action="idle", standing="together")


class Events:
    """`lockstep events --json` in the background, on a mirror that runs."""

    def __init__(self, *names: str) -> None:
        self._file = Path("/tmp/events.jsonl")
        self._file.unlink(missing_ok=True)
        with self._file.open("w") as out:
            self._proc = subprocess.Popen([COMMAND, "events", "--json", *names], stdout=out)
        # It has armed before it tells what there is: nothing is missed from then on.
        base.until(self.said, "the first lines of events")

    def said(self) -> list[tuple[str, str | None, str | None]]:
        lines = (json.loads(line) for line in self._file.read_text().splitlines())
        return [(line["what"], line["from"], line["to"]) for line in lines]

    def until(self, what: str, old: str | None, new: str | None) -> None:
        base.until(lambda: (what, old, new) in self.said(), f"the event {what}: {old} -> {new}")
        print(f"  event: {what}: {old} -> {new}", flush=True)

    def stop(self) -> None:
        self._proc.terminate()
        self._proc.wait()


def udev() -> None:
    """Keeps the LUN's stable name up to date from now on, as udev does."""
    threading.Thread(target=_udev, daemon=True).start()


def _udev() -> None:
    BY_PATH.parent.mkdir(parents=True, exist_ok=True)
    while True:
        now = sorted(Path("/sys").glob(DISKS))
        want = f"../../{now[0].name}" if now else None
        have = str(BY_PATH.readlink()) if BY_PATH.is_symlink() else None
        if have != want:
            BY_PATH.unlink(missing_ok=True)
            if want:
                BY_PATH.symlink_to(want)
        time.sleep(0.1)
