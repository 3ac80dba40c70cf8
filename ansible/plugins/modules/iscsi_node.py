#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-only
"""One target in open-iscsi's node database, with its settings and CHAP secrets.

iscsiadm makes the record; its settings are then written into the record file itself, because
`iscsiadm -o update -v SECRET` shows the secret to everybody who can list processes. The file is
replaced as a whole. No login happens here: settings count from the next login on.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: iscsi_node
short_description: Keep a target in open-iscsi's node database
description:
  - Makes the record of one target at one portal and brings its settings to what is asked.
    Settings that are not named stay as they are. It neither discovers nor logs in.
author: The Lockstep project
options:
  target:
    description: IQN of the target.
    type: str
    required: true
  portal:
    description: ADDRESS:PORT of the target.
    type: str
    required: true
  settings:
    description: Settings of the record, as C(node.startup).
    type: dict
    default: {}
  chap_user:
    description: Name with which this host proves itself.
    type: str
    required: true
  chap_password:
    description: Secret of O(chap_user).
    type: str
    required: true
  mutual_user:
    description: Name with which the target must prove itself.
    type: str
  mutual_password:
    description: Secret of O(mutual_user).
    type: str
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Know the mirror site's target
  lockstep.mirror.iscsi_node:
    target: iqn.2026-11.org.example:m0
    portal: 10.9.0.2:3260
    settings:
      node.startup: automatic
    chap_user: primary
    chap_password: "{{ vault_chap_password }}"
"""

RETURN = r"""
record:
  description: The record's file; empty in check mode if it is yet to be made.
  type: str
  returned: success
"""

# Debian 13, Debian 12
DATABASES = (Path("/var/lib/iscsi/nodes"), Path("/etc/iscsi/nodes"))
AUTH = "node.session.auth."


def find_record(target: str, portal: str) -> Path | None:
    address, _, port = portal.rpartition(":")
    for base in DATABASES:
        for found in sorted((base / target).glob(f"{address.strip('[]')},{port},*")):
            file = found / "default" if found.is_dir() else found
            if file.is_file():
                return file
    return None


def parse(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip() for key, mark, value in lines if mark}


def edit(text: str, wanted: dict[str, str]) -> str:
    """The record with these settings; an empty value takes the setting out."""
    lines = []
    left = dict(wanted)
    for line in text.splitlines():
        key = line.partition("=")[0].strip()
        if line.startswith("# END RECORD"):
            lines += [f"{name} = {value}" for name, value in left.items() if value]
            left = {}
        if key in wanted and not line.startswith("#"):
            value = left.pop(key, "")
            line = f"{key} = {value}" if value else ""
        if line:
            lines.append(line)
    return "\n".join(lines) + "\n"


def replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.lockstep")
    new.unlink(missing_ok=True)
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(file, text.encode())
    os.fsync(file)
    os.close(file)
    new.replace(path)


def wanted_settings(p: dict[str, Any]) -> dict[str, str]:
    wanted = {str(key): str(value) for key, value in p["settings"].items()}
    wanted[f"{AUTH}authmethod"] = "CHAP"
    wanted[f"{AUTH}username"] = p["chap_user"]
    wanted[f"{AUTH}password"] = p["chap_password"]
    wanted[f"{AUTH}username_in"] = p["mutual_user"] or ""
    wanted[f"{AUTH}password_in"] = p["mutual_password"] or ""
    return wanted


def create(module: AnsibleModule, target: str, portal: str) -> Path:
    status, out, err = module.run_command(
        ["iscsiadm", "-m", "node", "-o", "new", "-T", target, "-p", f"{portal},1"]
    )
    record = find_record(target, portal)
    if status or record is None:
        module.fail_json(msg=f"iscsiadm can't make a record of {target}: {err or out}".strip())
        raise AssertionError("not reached")
    return record


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "target": {"type": "str", "required": True},
            "portal": {"type": "str", "required": True},
            "settings": {"type": "dict", "default": {}},
            "chap_user": {"type": "str", "required": True},
            "chap_password": {"type": "str", "required": True, "no_log": True},
            "mutual_user": {"type": "str"},
            "mutual_password": {"type": "str", "no_log": True},
        },
        required_together=[["mutual_user", "mutual_password"]],
        supports_check_mode=True,
    )
    p = module.params
    wanted = wanted_settings(p)
    for key, value in wanted.items():
        if re.search(r"\s", value):
            module.fail_json(msg=f"{key}: white space isn't possible in a node record")
    record = find_record(p["target"], p["portal"])
    made = record is None
    if record is None and not module.check_mode:
        record = create(module, p["target"], p["portal"])
    text = record.read_text() if record else ""
    there = parse(text)
    differ = {key: value for key, value in wanted.items() if there.get(key, "") != value}
    if differ and record and not module.check_mode:
        replace(record, edit(text, differ))
    secrets = {f"{AUTH}password", f"{AUTH}password_in"}
    shown = [key for key in sorted(differ) if key not in secrets]
    changed_secrets = [key for key in sorted(differ) if key in secrets]
    module.exit_json(
        changed=made or bool(differ),
        record=str(record or ""),
        diff={
            "before": "".join(f"{key} = {there.get(key, '')}\n" for key in shown),
            "after": "".join(f"{key} = {differ[key]}\n" for key in shown)
            + "".join(f"{key}: changed\n" for key in changed_secrets),
        },
    )


if __name__ == "__main__":
    main()
