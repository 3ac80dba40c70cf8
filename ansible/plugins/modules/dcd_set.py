#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-only
"""A DCD's set of devices: log disk, NVRAM and data disk, formatted once.

The set is taken as it is if log disk and NVRAM belong together. It is formatted
only with `format: true`, and only if no device of it carries anything: neither a
DCD, whole or damaged, nor any signature that wipefs knows, nor a mount, and if the
first and the last MiB of each are zero. So a run that is repeated formats nothing.
What is elsewhere on a disk, without any signature, isn't seen.
"""

from __future__ import annotations

import os
import re
from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: dcd_set
short_description: Format a DCD's log disk and NVRAM, once
description:
  - Looks at a data disk, a log disk and NVRAM, and formats log disk and NVRAM with C(dcd format)
    if that is allowed and none of the three carries anything.
  - Fails, and changes nothing, if a device carries a foreign signature, a DCD of another set, or
    anything but zeroes in its first and last MiB, or is in use.
author: The Lockstep project
options:
  data:
    description: The data disk. It is never written by this module.
    type: path
    required: true
  log:
    description: The log disk.
    type: path
    required: true
  nvram:
    description: What the backstore is told, as C(pmem:/dev/pmem0), C(dram:battery) or C(dram).
    type: str
    required: true
  nvram_bytes:
    description: How much of the NVRAM to use; 0 is all of it.
    type: int
    default: 0
  segment_bytes:
    description: Size of a log segment; 0 leaves the choice to C(dcd format).
    type: int
    default: 0
  format:
    description: Whether a blank set may be formatted.
    type: bool
    default: false
  program:
    description: The C(dcd) program.
    type: path
    default: /usr/local/sbin/dcd
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Format the DCD's devices, once
  lockstep.mirror.dcd_set:
    data: /dev/disk/by-id/wwn-0x5000c500a1b2c3d4
    log: /dev/disk/by-id/nvme-eui.0025385b71b0a1c2
    nvram: pmem:/dev/pmem0
    format: true
"""

RETURN = r"""
uuid:
  description: Identity of the set; empty in check mode if it is yet to be formatted.
  type: str
  returned: success
"""

MIB = 1 << 20
UUID = re.compile(r"^(.*), copy \d: (valid|BAD CHECKSUM)\n  uuid ([0-9a-f]{32})$", re.MULTILINE)


class DcdSet:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.p = module.params
        kind, _, device = self.p["nvram"].partition(":")
        self.nvram = device if kind == "pmem" else ""

    def fail(self, text: str) -> NoReturn:
        self.module.fail_json(msg=f"{text}. Nothing was changed.")
        raise AssertionError("fail_json returned")

    def uuid_of(self, path: str, what: str) -> str:
        """Of the DCD on it, "" if there is none. A damaged one is a failure, not none."""
        status, out, err = self.module.run_command([self.p["program"], "examine", path])
        found = UUID.findall(out)
        valid = {uuid for _, state, uuid in found if state == "valid"}
        if len(valid) == 1:
            return str(valid.pop())
        if found:
            self.fail(
                f"{what} {path} carries a damaged DCD, which may hold acknowledged writes:"
                f" {'no valid copy' if not valid else 'two identities'} in `dcd examine {path}`"
            )
        if status != 1 or "neither a DCD log nor" not in err:
            self.fail(f"`dcd examine {path}` failed: {err.strip() or out.strip() or status}")
        return ""

    def must_be_blank(self, path: str, what: str) -> None:
        status, out, err = self.module.run_command(
            ["wipefs", "--no-act", "--noheadings", "--output", "TYPE,LABEL,UUID", path]
        )
        if status:
            self.fail(f"can't look for signatures on {what} {path}: {err.strip()}")
        if out.strip():
            signs = "; ".join(" ".join(line.split()) for line in out.splitlines())
            self.fail(f"foreign signature on {what} {path}: {signs}. {self.to_blank(path)}")
        try:
            disk = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
        except OSError as err_:
            self.fail(f"{what} {path} is in use: {err_.strerror}")
        try:
            for start in (0, max(0, os.lseek(disk, 0, os.SEEK_END) - MIB)):
                if any(os.pread(disk, MIB, start)):
                    self.fail(
                        f"{what} {path} carries data, at byte {start} and after it, though no"
                        f" signature that wipefs knows. {self.to_blank(path)}"
                    )
        except OSError as err_:
            self.fail(f"{what} {path} can't be read: {err_.strerror}")
        finally:
            os.close(disk)

    @staticmethod
    def to_blank(path: str) -> str:
        return (
            "If nobody needs what is there: on this host, by hand,"
            f" `wipefs --all {path} && blkdiscard --zeroout {path}`, then run this again"
        )

    def devices(self) -> list[tuple[str, str]]:
        pairs = [("data disk", self.p["data"]), ("log disk", self.p["log"])]
        return pairs + ([("NVRAM", self.nvram)] if self.nvram else [])

    def check_paths(self) -> None:
        real: dict[str, str] = {}
        for what, path in self.devices():
            if not os.path.exists(path):
                self.fail(f"{what} {path} is not there")
            other = real.setdefault(os.path.realpath(path), what)
            if other != what:
                self.fail(f"{other} and {what} are the same device, {os.path.realpath(path)}")

    def existing(self) -> str:
        """The set's uuid, "" if nothing on log and NVRAM is a DCD's."""
        log = self.uuid_of(self.p["log"], "log disk")
        nvram = self.uuid_of(self.nvram, "NVRAM") if self.nvram else log
        if log != nvram:
            self.fail(
                f"log disk {self.p['log']} ({log or 'no DCD'}) and NVRAM {self.nvram}"
                f" ({nvram or 'no DCD'}) don't belong together: correct the names of the devices; a"
                " half of a DCD may hold acknowledged writes and is never formatted from here"
            )
        return log

    def format(self) -> str:
        command = [self.p["program"], "format", "--data", self.p["data"], "--log", self.p["log"]]
        command += ["--nvram", self.nvram or "none"]
        for option in ("segment_bytes", "nvram_bytes"):
            if self.p[option]:
                command += [f"--{option.replace('_', '-')}", str(self.p[option])]
        status, out, err = self.module.run_command(command)
        if status:
            self.module.fail_json(msg=f"`{' '.join(command)}`: {err.strip() or out.strip()}")
        return self.existing()

    def run(self) -> None:
        blank_check = self.module.check_mode and not os.path.exists(self.p["program"])
        self.check_paths()
        # In check mode of a first run the program isn't there yet.
        uuid = "" if blank_check else self.existing()
        if uuid:
            self.module.exit_json(changed=False, uuid=uuid)
        if not self.p["format"]:
            self.fail(
                f"log disk {self.p['log']} carries no DCD, and to format it was not allowed"
                " (mirror_site_format: true)"
            )
        for what, path in self.devices():
            self.must_be_blank(path, what)
        if not self.module.check_mode:
            uuid = self.format()
        self.module.exit_json(changed=True, uuid=uuid)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "data": {"type": "path", "required": True},
            "log": {"type": "path", "required": True},
            "nvram": {"type": "str", "required": True},
            "nvram_bytes": {"type": "int", "default": 0},
            "segment_bytes": {"type": "int", "default": 0},
            "format": {"type": "bool", "default": False},
            "program": {"type": "path", "default": "/usr/local/sbin/dcd"},
        },
        supports_check_mode=True,
    )
    DcdSet(module).run()


if __name__ == "__main__":
    main()
