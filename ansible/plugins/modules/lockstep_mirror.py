#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-only
"""A mirror of a local device and a LUN: made once, described in /etc/lockstep, options as asked.

What may be created is decided here, by `initial_sync`; what is on the legs, and whether the two fit
together, is decided by the command `lockstep` alone. Nothing is ever forced.
"""

from __future__ import annotations

import json
import os
import stat
import time
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: lockstep_mirror
short_description: Create a mirror, once, and keep its options
description:
  - A mirror that is described in C(/etc/lockstep/NAME.toml) gets the options that are asked for,
    at once if it runs. Options that are not named stay as they are.
  - Two legs that already are a mirror of that name are taken over and assembled, as after the host
    was installed anew.
  - Otherwise the mirror is created, if O(initial_sync) allows it. It is not started here.
  - Fails, and changes nothing, if a device is in use, if the description names other devices, if
    only one of them is a leg, or if a leg that would be overwritten isn't blank.
author: The Lockstep project
options:
  name:
    description: Name of the mirror.
    type: str
    required: true
  local:
    description: The local leg, by a name that never changes. Its content is kept, but for a tail.
    type: path
    required: true
  target:
    description: IQN of the target with the remote leg, known to open-iscsi.
    type: str
    required: true
  portal:
    description: ADDRESS:PORT of the target.
    type: str
    required: true
  lun:
    description: Number of the LUN.
    type: int
    default: 0
  initial_sync:
    description:
      - What a new mirror may do. V(local_to_remote) overwrites the remote leg, if it is blank, with
        the local one. V(identical) copies nothing, because both legs are known to be identical.
    type: str
    choices: [none, local_to_remote, identical]
    default: none
  region_size:
    description: Unit of a new mirror's dirty map, as 64K; empty leaves the choice to C(lockstep).
    type: str
    default: ""
  options:
    description: Options of the mirror, as in lockstep(8).
    type: dict
    default: {}
  start_alone:
    description: Whether it may start with one leg without being told.
    type: bool
    default: false
  wait:
    description: Seconds that the legs may take to appear.
    type: int
    default: 60
  program:
    description: The command C(lockstep).
    type: path
    default: /usr/sbin/lockstep
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Make the mirror, once
  lockstep.mirror.lockstep_mirror:
    name: db
    local: /dev/disk/by-id/wwn-0x5000c500a1b2c3d4
    target: iqn.2026-11.org.example:db
    portal: 10.9.0.2:3260
    initial_sync: local_to_remote
    options:
      policy: block
"""

RETURN = r"""
actions:
  description: What was done, or would be.
  type: list
  returned: success
"""

CONFIG = Path("/etc/lockstep")
MIB = 1 << 20
LEGS = ("local", "remote")
# Of iscsiadm.
SESSION_EXISTS = 15
LOGIN_REFUSED = 24


class Mirror:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.p = module.params
        self.name: str = self.p["name"]
        address, _, port = self.p["portal"].rpartition(":")
        self.remote = (
            f"/dev/disk/by-path/ip-{address.strip('[]')}:{port}"
            f"-iscsi-{self.p['target']}-lun-{self.p['lun']}"
        )
        self.devices = {"local": self.p["local"], "remote": self.remote}
        self.file = CONFIG / f"{self.name}.toml"
        self.actions: list[str] = []

    def fail(self, text: str) -> NoReturn:
        done = f"Done before that: {'; '.join(self.actions)}." if self.actions else "Nothing done."
        self.module.fail_json(msg=f"{text}. {done}", actions=self.actions)
        raise AssertionError("fail_json returned")

    def lockstep(self, *words: str) -> None:
        command = [self.p["program"], *words]
        status, out, err = self.module.run_command(command)
        if status:
            self.fail(f"`{' '.join(command)}`: {(err.strip() or out.strip()).rstrip('.')}")

    def may(self, what: str) -> bool:
        """Notes the action; False in check mode."""
        self.actions.append(what)
        return not self.module.check_mode

    # --- the LUN ---

    def log_in(self, *, needed: bool) -> None:
        """A site that isn't there is no failure unless the LUN is `needed` now; a secret that is
        refused always is: it wouldn't mend by itself."""
        if size(self.remote):
            return
        p = self.p
        status, out, err = self.module.run_command(
            ["iscsiadm", "-m", "node", "-T", p["target"], "-p", p["portal"], "--login"]
        )
        if status == LOGIN_REFUSED:
            self.fail(
                f"{p['target']} at {p['portal']} refuses this host: CHAP name or secret is wrong,"
                " or /etc/iscsi/initiatorname.iscsi isn't the name that it expects"
            )
        if not needed:
            return
        if status not in (0, SESSION_EXISTS):
            self.fail(f"can't log in to {p['target']} at {p['portal']}: {err.strip() or out}")
        until = time.monotonic() + p["wait"]
        while not size(self.remote):
            if time.monotonic() > until:
                self.fail(
                    f"there is a session with {p['target']}, but {self.remote} didn't appear"
                    f" within {p['wait']} s: has the target a LUN {p['lun']}?"
                )
            time.sleep(0.2)

    # --- what there is ---

    def described(self) -> dict[str, Any] | None:
        try:
            said = tomllib.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as err:
            self.fail(f"{self.file}: {err}")
        for leg, device in self.devices.items():
            if not same(str(said.get(leg)), device):
                self.fail(
                    f"{self.file} says that the {leg} leg is {said.get(leg)}, and the role is told"
                    f" {device}. If that is another name of the same device, change the file; a new"
                    f" disk becomes the leg by `lockstep replace {self.name} {leg} DEVICE`"
                )
        return said

    def legs(self) -> dict[str, dict[str, Any]]:
        command = [self.p["program"], "examine", "--json", *self.devices.values()]
        _, out, err = self.module.run_command(command)
        try:
            return dict(zip(LEGS, json.loads(out), strict=True))
        except ValueError:
            self.fail(f"`{' '.join(command)}`: {err.strip() or out.strip()}")

    def found(self, leg: str, there: dict[str, Any]) -> str:
        if there["kind"] == "superblock":
            what = f"the {there['leg']} leg of the mirror {there['name']}"
        else:
            what = f"no leg that can be used ({there.get('reason') or there['kind']})"
        return f"{self.devices[leg]} is {what}"

    # --- what is done ---

    def make(self) -> None:
        """There is no description yet."""
        if self.module.check_mode and not size(self.remote):
            self.may(f"log in, then assemble or create the mirror {self.name}")
            return
        self.log_in(needed=True)
        legs = self.legs()
        if all(there["kind"] == "superblock" for there in legs.values()):
            self.take_over(legs)
        elif any(there["kind"] == "grown" for there in legs.values()):
            self.fail(
                f"{' and '.join(self.found(leg, there) for leg, there in legs.items())}: a mirror"
                " whose devices have become larger has to grow, see lockstep(8)"
            )
        elif any(there["kind"] in ("superblock", "bad") for there in legs.values()):
            self.fail(
                f"{' and '.join(self.found(leg, there) for leg, there in legs.items())}: which"
                " content counts isn't for this role to decide; lockstep(8) has assemble, replace"
                " and wipe"
            )
        else:
            self.create()

    def take_over(self, legs: dict[str, dict[str, Any]]) -> None:
        if any(there["name"] != self.name for there in legs.values()):
            self.fail(
                f"{' and '.join(self.found(leg, there) for leg, there in legs.items())}, and the"
                f" role was told to make {self.name} of them"
            )
        if self.may(f"take over the mirror {self.name}"):
            wait = ["--wait", str(self.p["wait"])]
            devices = [word for leg in LEGS for word in (f"--{leg}", self.devices[leg])]
            self.lockstep("assemble", self.name, *devices, *wait)

    def create(self) -> None:
        kind = self.p["initial_sync"]
        if kind == "none":
            self.fail(
                f"there is no mirror on {self.devices['local']} and {self.remote} yet, and to make"
                " one was not allowed (primary_initial_sync: local_to_remote, or identical)"
            )
        if kind == "local_to_remote":
            self.must_be_blank(self.remote)
        words = ["create", "--yes", "--no-start", "--keep-data"]
        if kind == "identical":
            words.append("--assume-clean")
        if self.p["region_size"]:
            words += ["--region-size", self.p["region_size"]]
        for key, value in self.options().items():
            words += [f"--{key.replace('_', '-')}", value]
        if self.may(f"create the mirror {self.name} ({kind})"):
            self.lockstep(*words, self.name, self.devices["local"], self.remote)

    def must_be_blank(self, path: str) -> None:
        """Signatures are looked for by `lockstep create`."""
        with open(path, "rb", buffering=0) as disk:
            for start in (0, max(0, disk.seek(0, os.SEEK_END) - MIB)):
                disk.seek(start)
                if any(disk.read(MIB)):
                    self.fail(
                        f"the remote leg {path} would be overwritten, and it carries data, at byte"
                        f" {start} and after it. If nobody needs that: on this host, by hand,"
                        f" `wipefs --all {path} && blkdiscard --zeroout {path}`, then run this"
                        " again"
                    )

    def options(self) -> dict[str, str]:
        return {key: word(value) for key, value in self.p["options"].items()}

    def tune(self, said: dict[str, Any]) -> None:
        """Brings the description, and a running mirror, to what is asked."""
        there = {key: word(value) for key, value in said.get("options", {}).items()}
        differ = [f"{k}={v}" for k, v in self.options().items() if there.get(k) != v]
        if bool(said.get("start_alone", False)) != self.p["start_alone"]:
            differ.append(f"start_alone={str(self.p['start_alone']).lower()}")
        if int(said.get("wait", 60)) != self.p["wait"]:
            differ.append(f"wait={self.p['wait']}")
        if differ and self.may(f"set {' '.join(differ)}"):
            self.lockstep("set", self.name, *differ)

    def run(self) -> None:
        if self.module.check_mode and not os.path.exists(self.p["program"]):
            self.module.exit_json(changed=True, actions=[f"create the mirror {self.name}"])
        said = self.described()
        if said is None:
            self.make()
            said = self.described()
        elif not os.path.exists(f"/dev/mapper/{self.name}") and not self.module.check_mode:
            self.log_in(needed=False)
        if said is not None:
            self.tune(said)
        self.module.exit_json(changed=bool(self.actions), actions=self.actions)


def word(value: Any) -> str:
    """As `lockstep` takes it. To YAML a bare `on` is a truth value."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def same(one: str, other: str) -> bool:
    """Two names of one device. `lockstep` keeps another name than it was told if that one stays
    longer with the device (/dev/mapper/vg0-db of /dev/vg0/db)."""
    if one == other:
        return True
    number = device_number(one)
    return number is not None and number == device_number(other)


def device_number(path: str) -> int | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_rdev if stat.S_ISBLK(found.st_mode) else None


def size(path: str) -> int:
    """0: there is no such device, or it is nobody's yet."""
    try:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            return 0
        with open(path, "rb", buffering=0) as disk:
            return disk.seek(0, os.SEEK_END)
    except OSError:
        return 0


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "local": {"type": "path", "required": True},
            "target": {"type": "str", "required": True},
            "portal": {"type": "str", "required": True},
            "lun": {"type": "int", "default": 0},
            "initial_sync": {
                "type": "str",
                "choices": ["none", "local_to_remote", "identical"],
                "default": "none",
            },
            "region_size": {"type": "str", "default": ""},
            "options": {"type": "dict", "default": {}},
            "start_alone": {"type": "bool", "default": False},
            "wait": {"type": "int", "default": 60},
            "program": {"type": "path", "default": "/usr/sbin/lockstep"},
        },
        supports_check_mode=True,
    )
    Mirror(module).run()


if __name__ == "__main__":
    main()
