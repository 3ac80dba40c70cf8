# SPDX-License-Identifier: GPL-2.0-only
"""Both sites set up by the collection's own playbook, one run a mirror, as an administrator would.

What the playbook says goes to build/demo/ansible-NAME.log; the name of the task is shown.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
from pathlib import Path
from typing import Any

from demo_vm import plan
from demo_vm.sites import TOP
from demo_vm.tell import Failed, Tell
from vmlab import Lab

PLAY_S = 1200.0
INITIATOR = f"{plan.IQN}:primary"
_TASK = re.compile(r"^TASK \[(?:.* : )?(.*?)\] \**$")


def variables(mirror: plan.Mirror, mirror_address: str) -> dict[str, Any]:
    """What the roles are told. CHAP secrets are new in each run."""
    target, portal = f"{plan.IQN}:{mirror.name}", f"{mirror_address}:3260"
    password, mutual = secrets.token_hex(12), secrets.token_hex(12)
    both = {
        "modules_dir": str(TOP / "build/modules"), "programs_dir": str(TOP / "build/bin"),
        "lockstep_dir": str(TOP / "dm-target/lockstep"), "name": mirror.name, "target_iqn": target,
        "initiator_iqn": INITIATOR, "chap_password": password,
        "mutual_user": target, "mutual_password": mutual,
    }  # fmt: skip
    site: dict[str, Any] = {
        "backstore": mirror.kind, "portals": [portal], "data": mirror.data.node,
        "dcd_program": str(TOP / "build/bin/dcd"),
        "rtslib_dir": str(TOP / "target-plugin/rtslib"),
    }  # fmt: skip
    if mirror.kind == "dcd":
        site |= {"log": plan.LOG.node, "nvram": f"pmem:{plan.NVRAM}", "format": True}
    primary = {
        "portal": portal, "local": mirror.local.node, "initial_sync": "local_to_remote",
        # A burst of 16 requests takes some seconds of the WAN; a lost site is known after that.
        "noop_interval": 5, "noop_timeout": 10, "replacement_timeout": 10,
        "command_timeout": 90,
        # Small regions: a resync over the WAN carries little more than what was missed.
        "region_size": "64K",
        # The requests in flight wait that long when the site is lost; a burst answers sooner.
        "options": {"resync_jobs": 4, "remote_timeout": 15000},
    }  # fmt: skip
    return {
        **{f"mirror_site_{key}": value for key, value in (both | site).items()},
        **{f"primary_{key}": value for key, value in (both | primary).items()},
    }


def run(tell: Tell, lab: Lab, out: Path) -> None:
    for mirror in plan.MIRRORS:
        told = out / f"ansible-{mirror.name}.json"
        told.touch(mode=0o600)
        told.write_text(json.dumps(variables(mirror, plan.MIRROR_ADDRESS), indent=1))
        words = [
            str(TOP / "ansible/play"), "--mitogen", "-i", str(lab.inventory_path),
            "-e", f"@{told}", str(TOP / "ansible/playbooks/site.yml"),
        ]  # fmt: skip
        tell.say(f"mirror {mirror.name}: {mirror.about}")
        recap = play(tell, words, out / f"ansible-{mirror.name}.log")
        tell.say(recap)


def play(tell: Tell, words: list[str], log: Path) -> str:
    """One run; its recap."""
    environment = os.environ | {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOST_KEY_CHECKING": "0"}
    with log.open("wb") as file:
        child = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, env=environment)
    try:
        tell.wait(
            "site.yml", lambda: child.poll() is not None, PLAY_S, state=lambda: task(log)
        )  # fmt: skip
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if child.returncode:
        why = [line for line in lines if line.startswith(("fatal:", "ERROR", "[ERROR"))]
        raise Failed(
            f"Ansible ended with {child.returncode} in the task {task(log)!r}, see {log}:\n"
            + "\n".join(why[-2:] or lines[-5:])
        )
    return "; ".join(" ".join(line.split()) for line in lines if " ok=" in line)


def task(log: Path) -> str:
    found = [
        match[1]
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if (match := _TASK.match(line))
    ]
    return found[-1] if found else ""
