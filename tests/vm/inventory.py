# SPDX-License-Identifier: GPL-2.0-only
"""The lab as an Ansible inventory: JSON, which is YAML too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from host import HOSTS, LINK, MIRROR, PRIMARY
from machine import Machine


def write(path: Path, machines: dict[str, Machine], key: Path) -> None:
    """Hosts primary and mirror, each in its group, with the names of the lab's devices."""

    def variables(name: str) -> dict[str, Any]:
        machine = machines[name]
        found: dict[str, Any] = {
            "ansible_host": "127.0.0.1",
            "ansible_port": machine.shell.port,
            "lab_link_address": machine.host.address,
        }
        for disk in machine.host.disks:
            found[f"lab_{disk}_device"] = f"/dev/disk/by-id/virtio-{disk}"
        if machine.host.nvdimm_mib:
            found["lab_nvram_device"] = "/dev/pmem0"
        return found

    inventory = {
        "all": {
            "vars": {
                "ansible_user": "root",
                "ansible_connection": "ssh",
                "ansible_ssh_private_key_file": str(key),
                "ansible_ssh_common_args": machines[PRIMARY.name].shell.ansible_args(),
                "ansible_python_interpreter": "/usr/bin/python3",
                "lab_link_interface": LINK,
                "lab_primary_address": PRIMARY.address,
                "lab_mirror_address": MIRROR.address,
            },
            "children": {
                f"lockstep_{host.name}": {"hosts": {host.name: variables(host.name)}}
                for host in HOSTS
            },
        }
    }
    head = "# SPDX-License-Identifier: GPL-2.0-only\n# Made by tests/vm/lab up.\n"
    path.write_text(head + json.dumps(inventory, indent=2) + "\n", encoding="utf-8")
