#!/usr/bin/python
# SPDX-License-Identifier: GPL-2.0-only
"""The mirror site's LUN: backstore dcd, iSCSI target, portals, one ACL with CHAP, saved.

It owns the backstore of that name and the target of the given IQN with one portal group, and brings
them to what is asked: ACLs and portals that are not asked for go. All that could make that wrong is
looked at first: a backstore of that name on other devices or with another set of the DCD, a target
that exports something else. Then it refuses and has changed nothing. Other backstores and targets
are neither changed nor saved: in the saved configuration only the entries of these two are
replaced, and the file is replaced as a whole, durably.

A change of CHAP or timeouts counts from the next login on; a running session is not touched.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: lockstep_lun
short_description: Export a DCD or a disk as an iSCSI LUN to one initiator
description:
  - Makes a LIO backstore, a target with one LUN, portals, and the ACL of one initiator with
    CHAP, and saves them so that they are restored at boot.
  - Needs rtslib with the registration of C(dcd) (C(lockstep_rtslib)).
author: The Lockstep project
options:
  name:
    description: Name of the backstore.
    type: str
    required: true
  backstore:
    description: A DCD, or LIO's own C(iblock) on the data disk, for comparison.
    type: str
    choices: [dcd, iblock]
    default: dcd
  data:
    description: The data disk.
    type: path
    required: true
  log:
    description: The log disk; a DCD needs it.
    type: path
  nvram:
    description: A DCD's NVRAM, as C(pmem:/dev/pmem0), C(dram:battery) or C(dram).
    type: str
  nvram_bytes:
    description: How much of the NVRAM to use; 0 is all of it.
    type: int
    default: 0
  wwn:
    description: >-
      Unit serial of the LUN; the DCD's uuid is a good one. A backstore that has another one is
      refused.
    type: str
  target:
    description: IQN of the target.
    type: str
    required: true
  lun:
    description: Number of the LUN.
    type: int
    default: 0
  portals:
    description: Addresses to listen on, each as ADDRESS:PORT. Others of this target are removed.
    type: list
    elements: str
    required: true
  initiator:
    description: IQN of the only initiator that may log in. Others' ACLs on the target are deleted.
    type: str
    required: true
  chap_user:
    description: Name with which the initiator proves itself.
    type: str
    required: true
  chap_password:
    description: Secret of O(chap_user), 12 to 255 characters.
    type: str
    required: true
  mutual_user:
    description: Name with which the target proves itself to the initiator.
    type: str
  mutual_password:
    description: Secret of O(mutual_user).
    type: str
  dataout_timeout:
    description: >-
      Seconds that the initiator has to send the data that the target asked for. Longer than the
      largest burst takes on the wire; the kernel allows 2 to 60.
    type: int
    default: 60
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Export the DCD
  lockstep.mirror.lockstep_lun:
    name: m0
    data: /dev/disk/by-id/wwn-0x5000c500a1b2c3d4
    log: /dev/disk/by-id/nvme-eui.0025385b71b0a1c2
    nvram: pmem:/dev/pmem0
    target: iqn.2026-11.org.example:m0
    portals: ["10.9.0.2:3260"]
    initiator: iqn.2026-11.org.example:primary
    chap_user: primary
    chap_password: "{{ vault_chap_password }}"
"""

RETURN = r"""
actions:
  description: What was (in check mode would be) changed, in words.
  type: list
  elements: str
  returned: success
"""

SECRETS = {"password", "mutual_password"}
TPG_ATTRIBUTES = {
    "authentication": 1,
    "generate_node_acls": 0,
    "cache_dynamic_acls": 0,
    "demo_mode_write_protect": 1,
    "prod_mode_write_protect": 0,
}


class Refused(Exception):
    """What is there isn't ours, or can't be what is asked."""


def same(one: Any, other: Any) -> bool:
    """As saved configurations, in which the order of lists means nothing."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        if isinstance(value, list):
            parts = (plain(part) for part in value)
            return sorted(parts, key=lambda part: json.dumps(part, sort_keys=True))
        return value

    return bool(plain(json.loads(json.dumps(one))) == plain(json.loads(json.dumps(other))))


def split_portal(portal: str) -> tuple[str, int]:
    address, _, port = portal.rpartition(":")
    if not address or not port.isdigit():
        raise Refused(f"portal {portal}: ADDRESS:PORT is expected")
    return address, int(port)


class Lun:
    def __init__(self, module: AnsibleModule, rtslib: Any, tcm: Any, save_file: str) -> None:
        self.module = module
        self.p = module.params
        self.rtslib = rtslib
        self.dcd, self.iblock = tcm.DCDStorageObject, tcm.BlockStorageObject
        # rtslib calls iblock "block".
        self.plugin = "dcd" if self.p["backstore"] == "dcd" else "block"
        self.store = f"{self.plugin}/{self.p['name']}"
        self.names = [self.p["name"]]  # of the backstores that the target exports
        self.save_file = Path(save_file)
        self.actions: list[str] = []
        self.portals = [split_portal(portal) for portal in self.p["portals"]]
        self.root = rtslib.RTSRoot()
        self.iscsi = rtslib.FabricModule("iscsi")

    # --- what is there ---

    def find_backstore(self) -> Any:
        for so in self.root.storage_objects:
            if so.plugin == self.plugin and so.name == self.p["name"]:
                return so
        return None

    def find_target(self) -> Any:
        for target in self.iscsi.targets:
            if target.wwn == self.p["target"]:
                return target
        return None

    def settings(self, so: Any) -> dict[str, Any]:
        if self.plugin == "block":
            return {"data": so.udev_path}
        return {key: getattr(so, key) for key in ("data", "log", "nvram", "nvram_bytes")}

    def refuse_foreign(self, so: Any, target: Any) -> None:
        """Before the first change: is all that has our names ours?"""
        if so is not None:
            if not so.is_configured():
                raise Refused(
                    f"backstore {self.store} is there but not enabled: remove {so.path} by hand"
                )
            for key, there in self.settings(so).items():
                asked = self.p[key]
                if there != asked:
                    raise Refused(
                        f"backstore {self.store} has {key}={there}, asked is {key}={asked}."
                        " A backstore in use is not rebuilt from here: remove it by hand"
                        f" (targetcli /backstores/{self.plugin} delete {so.name}), or correct {key}"
                    )
            if self.p["wwn"] and so.wwn != self.p["wwn"]:
                raise Refused(
                    f"backstore {self.store} has wwn={so.wwn}, asked is wwn={self.p['wwn']}. If the"
                    " DCD was formatted anew, what the primary wrote before may be missing, and it"
                    " must see another disk: remove the backstore by hand"
                    f" (targetcli /backstores/{self.plugin} delete {so.name}), then run this again"
                )
        if target is None:
            return
        for tpg in target.tpgs:
            if tpg.tag != 1:
                raise Refused(f"target {target.wwn} has a portal group {tpg.tag}, ours has only 1")
            for lun in tpg.luns:
                if self.is_digests(lun):
                    self.names.append(lun.storage_object.name)
                    continue
                there = f"{lun.storage_object.plugin}/{lun.storage_object.name}"
                if there != self.store or lun.lun != self.p["lun"]:
                    raise Refused(
                        f"target {target.wwn} exports {there} as LUN {lun.lun}, which is not ours:"
                        " choose another target IQN, or remove that LUN by hand"
                    )

    def is_digests(self, lun: Any) -> bool:
        """A LUN that shows the digests of ours. It was made by hand: it is left as it is, and
        saved with the target that exports it."""
        so = lun.storage_object
        return bool(
            self.plugin == "dcd" and so.plugin == "dcd" and lun.lun != self.p["lun"]
            and so.digests_of == self.p["name"]
        )  # fmt: skip

    # --- changes ---

    def change(self, text: str) -> bool:
        """Note a change; is it to be made?"""
        self.actions.append(text)
        return not self.module.check_mode

    def backstore(self, so: Any) -> Any:
        p = self.p
        if so is None and self.change(f"create backstore {self.store}"):
            if self.plugin == "block":
                return self.iblock(p["name"], dev=p["data"], wwn=p["wwn"])
            wanted = {key: p[key] for key in ("data", "log", "nvram", "nvram_bytes", "wwn")}
            so = self.dcd(p["name"], **wanted)
        return so

    def portal_group(self, target: Any) -> Any:
        if target is None and self.change(f"create target {self.p['target']}"):
            target = self.rtslib.Target(self.iscsi, self.p["target"], "create")
        if target is None:
            return None
        tpg = next(iter(target.tpgs), None)
        if tpg is None and self.change("create its portal group 1"):
            tpg = self.rtslib.TPG(target, 1, "create")
        return tpg

    def attribute(self, node: Any, what: str, key: str, value: int) -> None:
        there = node.get_attribute(key) if node is not None else ""
        if there != str(value) and self.change(f"{what}: {key} {there or 'unset'} -> {value}"):
            node.set_attribute(key, value)

    def lun(self, tpg: Any, so: Any) -> Any:
        luns = tpg.luns if tpg is not None else ()
        lun = next((one for one in luns if one.lun == self.p["lun"]), None)
        if lun is None and self.change(f"create LUN {self.p['lun']} on {self.store}"):
            lun = self.rtslib.LUN(tpg, self.p["lun"], so)
        return lun

    def acl(self, tpg: Any, lun: Any) -> None:
        wwn = self.p["initiator"]
        acls = list(tpg.node_acls) if tpg is not None else []
        for other in acls:
            if other.node_wwn != wwn and self.change(
                f"delete the ACL of {other.node_wwn}, which ends its sessions"
            ):
                other.delete()
        acl = next((one for one in acls if one.node_wwn == wwn), None)
        if acl is None and self.change(f"create the ACL of {wwn}"):
            acl = self.rtslib.NodeACL(tpg, wwn, "create")
        self.attribute(acl, f"ACL of {wwn}", "dataout_timeout", self.p["dataout_timeout"])
        self.chap(acl)
        mapped = [m.mapped_lun for m in acl.mapped_luns] if acl is not None else []
        if self.p["lun"] not in mapped and self.change(f"map LUN {self.p['lun']} to {wwn}"):
            self.rtslib.MappedLUN(acl, self.p["lun"], lun, False)

    def chap(self, acl: Any) -> None:
        for key, asked in (
            ("userid", self.p["chap_user"]),
            ("password", self.p["chap_password"]),
            ("mutual_userid", self.p["mutual_user"] or ""),
            ("mutual_password", self.p["mutual_password"] or ""),
        ):
            there = getattr(acl, f"chap_{key}") if acl is not None else ""
            if there == asked:
                continue
            shown = "set" if key in SECRETS else f"{there or 'unset'} -> {asked or 'unset'}"
            if self.change(f"ACL of {self.p['initiator']}: CHAP {key} {shown}"):
                setattr(acl, f"chap_{key}", asked)

    def set_portals(self, tpg: Any) -> None:
        there = {(np.ip_address, np.port): np for np in tpg.network_portals} if tpg else {}
        for address, port in self.portals:
            if (address, port) not in there and self.change(f"listen on {address}:{port}"):
                self.rtslib.NetworkPortal(tpg, address, port, "create")
        for (address, port), np in there.items():
            if (address, port) not in self.portals and self.change(
                f"listen on {address}:{port} no more"
            ):
                np.delete()

    # --- the saved configuration ---

    def ours(self, config: dict[str, Any]) -> list[Any]:
        stores = [
            so
            for so in config.get("storage_objects", [])
            if so.get("plugin") == self.plugin and so.get("name") in self.names
        ]
        targets = [t for t in config.get("targets", []) if t.get("wwn") == self.p["target"]]
        return [stores, targets]

    def is_saved(self) -> bool:
        try:
            saved = json.loads(self.save_file.read_text())
        except FileNotFoundError:
            return False
        except ValueError as err:
            raise Refused(f"{self.save_file} is no saved configuration: {err}") from err
        return same(self.ours(saved), self.ours(self.root.dump()))

    def save(self) -> None:
        if self.is_saved() or not self.change(f"save it in {self.save_file}"):
            return
        # rtslib copies over the file without a flush: a power cut could leave half of it.
        new = self.save_file.with_name(self.save_file.name + ".lockstep")
        self.save_file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        if self.save_file.exists():
            new.touch(mode=0o600)
            shutil.copyfile(self.save_file, new)
        for name in self.names:
            self.root.save_to_file(str(new), f"/backstores/{self.plugin}/{name}")
        with new.open() as file:
            os.fsync(file.fileno())
        new.replace(self.save_file)
        directory = os.open(self.save_file.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        if not self.is_saved():
            raise Refused(f"{self.save_file} doesn't show what is set up: look at it by hand")

    def run(self) -> None:
        so, target = self.find_backstore(), self.find_target()
        self.refuse_foreign(so, target)
        so = self.backstore(so)
        tpg = self.portal_group(target)
        for key, value in TPG_ATTRIBUTES.items():
            self.attribute(tpg, "portal group", key, value)
        self.acl(tpg, self.lun(tpg, so))
        self.set_portals(tpg)
        # Last, so that nobody gets in by the defaults.
        if (tpg is None or not tpg.enable) and self.change("enable the portal group"):
            tpg.enable = True
        self.save()


SPEC: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "data": {"type": "path", "required": True},
    "backstore": {"type": "str", "choices": ["dcd", "iblock"], "default": "dcd"},
    "log": {"type": "path"},
    "nvram": {"type": "str"},
    "nvram_bytes": {"type": "int", "default": 0},
    "wwn": {"type": "str"},
    "target": {"type": "str", "required": True},
    "lun": {"type": "int", "default": 0},
    "portals": {"type": "list", "elements": "str", "required": True},
    "initiator": {"type": "str", "required": True},
    "chap_user": {"type": "str", "required": True},
    "chap_password": {"type": "str", "required": True, "no_log": True},
    "mutual_user": {"type": "str"},
    "mutual_password": {"type": "str", "no_log": True},
    "dataout_timeout": {"type": "int", "default": 60},
}


def check_params(module: AnsibleModule) -> None:
    p = module.params
    for key in ("chap_password", "mutual_password"):
        if p[key] is not None and not 12 <= len(p[key]) <= 255:
            module.fail_json(msg=f"{key} has {len(p[key])} characters, 12 to 255 are needed")
    if p["mutual_password"] is not None and p["mutual_password"] == p["chap_password"]:
        module.fail_json(msg="chap_password and mutual_password are the same: initiators refuse it")
    if not 2 <= p["dataout_timeout"] <= 60:
        module.fail_json(msg=f"dataout_timeout={p['dataout_timeout']}: the kernel allows 2 to 60")


def without_rtslib(module: AnsibleModule, err: ImportError) -> NoReturn:
    if module.check_mode:  # an earlier task would have installed it
        module.exit_json(changed=True, actions=["create backstore, target and LUN"])
    module.fail_json(
        msg=f"{err}: this needs python3-rtslib-fb and Lockstep's registration with it"
        " (lockstep_rtslib in /usr/lib/python3/dist-packages)"
    )
    raise AssertionError("not reached")


def main() -> None:
    module = AnsibleModule(
        argument_spec=SPEC,
        required_if=[["backstore", "dcd", ["log", "nvram"]]],
        required_together=[["mutual_user", "mutual_password"]],
        supports_check_mode=True,
    )
    check_params(module)
    try:
        # This interpreter may have been started before they were installed.
        importlib.invalidate_caches()
        importlib.import_module("lockstep_rtslib")
        rtslib = importlib.import_module("rtslib_fb")
        tcm = importlib.import_module("rtslib_fb.tcm")
        root = importlib.import_module("rtslib_fb.root")
    except ImportError as err:
        without_rtslib(module, err)
    actions: list[str] = []
    try:
        lun = Lun(module, rtslib, tcm, root.default_save_file)
        actions = lun.actions
        lun.run()
    except (Refused, rtslib.RTSLibError, OSError) as err:
        done = f" Done before that: {'; '.join(actions)}." if actions else " Nothing was changed."
        module.fail_json(msg=f"{err}.{done}", actions=actions)
    after = "".join(f"{line}\n" for line in actions)
    module.exit_json(changed=bool(actions), actions=actions, diff={"before": "", "after": after})


if __name__ == "__main__":
    main()
