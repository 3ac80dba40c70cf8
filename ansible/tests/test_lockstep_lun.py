# SPDX-License-Identifier: GPL-2.0-only
"""What `lockstep_lun` refuses, and whom it locks out, with rtslib's objects faked."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

MODULE = Path(__file__).parents[1] / "plugins/modules/lockstep_lun.py"
OURS = "iqn.2026-11.org.example:primary"
OLD = "iqn.2026-11.org.example:old-primary"
UUID = "0123456789abcdef0123456789abcdef"
DEVICES = {"data": "/dev/D", "log": "/dev/L", "nvram": "dram", "nvram_bytes": 0}


class Acl(SimpleNamespace):
    """One that has all that is asked, and is in `acls` until it is deleted."""

    def __init__(self, acls: list[Any], wwn: str) -> None:
        super().__init__(
            node_wwn=wwn, mapped_luns=[SimpleNamespace(mapped_lun=0)],
            chap_userid="u", chap_password="p", chap_mutual_userid="", chap_mutual_password="",
        )  # fmt: skip
        self.acls = acls
        acls.append(self)

    def get_attribute(self, _: str) -> str:
        return "60"

    def delete(self) -> None:
        self.acls.remove(self)


@pytest.fixture
def lun(monkeypatch: pytest.MonkeyPatch) -> Any:
    # pytest has given this folder's parent the name of the package that the module imports.
    monkeypatch.delitem(sys.modules, "ansible", raising=False)
    spec = importlib.util.spec_from_file_location("lockstep_lun", MODULE)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    params = DEVICES | {
        "name": "m0", "backstore": "dcd", "wwn": UUID, "target": "iqn.x:m0", "lun": 0,
        "portals": [], "initiator": OURS, "chap_user": "u", "chap_password": "p",
        "mutual_user": None, "mutual_password": None, "dataout_timeout": 60,
    }  # fmt: skip
    rtslib = SimpleNamespace(RTSRoot=SimpleNamespace, FabricModule=lambda _: None)
    tcm = SimpleNamespace(DCDStorageObject=None, BlockStorageObject=None)
    one = found.Lun(SimpleNamespace(params=params, check_mode=False), rtslib, tcm, "/none")
    one.refused = found.Refused
    return one


def backstore(wwn: str) -> SimpleNamespace:
    return SimpleNamespace(name="m0", path="/c", wwn=wwn, is_configured=lambda: True, **DEVICES)


def test_a_set_that_was_formatted_anew_is_refused(lun: Any) -> None:
    """To the primary it would be the disk that it knows, with all that it had."""
    lun.refuse_foreign(backstore(UUID), None)
    with pytest.raises(lun.refused, match=f"has wwn=f{'0' * 31}, asked is wwn={UUID}"):
        lun.refuse_foreign(backstore("f" + "0" * 31), None)


def test_a_wwn_that_is_not_asked_for_is_not_compared(lun: Any) -> None:
    lun.p["wwn"] = None
    lun.refuse_foreign(backstore("whatever"), None)


@pytest.mark.parametrize("check_mode", [False, True])
def test_another_initiator_is_locked_out(lun: Any, check_mode: bool) -> None:
    """There is no fencing: an old primary that can still log in can still write."""
    lun.module.check_mode = check_mode
    acls: list[Any] = []
    Acl(acls, OLD)
    Acl(acls, OURS)
    lun.acl(SimpleNamespace(node_acls=acls), None)
    assert lun.actions == [f"delete the ACL of {OLD}, which ends its sessions"]
    assert [acl.node_wwn for acl in acls] == ([OLD, OURS] if check_mode else [OURS])


def exported(number: int, plugin: str, name: str, digests_of: str = "") -> SimpleNamespace:
    so = SimpleNamespace(plugin=plugin, name=name, digests_of=digests_of)
    return SimpleNamespace(lun=number, storage_object=so)


def test_a_digest_lun_of_ours_is_left_alone(lun: Any) -> None:
    """README makes one by hand; every later run of the role failed because of it."""
    ours, digests = exported(0, "dcd", "m0"), exported(1, "dcd", "m0-digests", "m0")
    tpg = SimpleNamespace(tag=1, luns=[digests, ours])
    lun.refuse_foreign(None, SimpleNamespace(wwn="iqn.x:m0", tpgs=[tpg]))
    assert lun.lun(tpg, None) is ours
    assert lun.actions == []
    assert lun.names == ["m0", "m0-digests"]


@pytest.mark.parametrize(
    ("number", "plugin", "name", "digests_of"),
    [
        (1, "dcd", "other", ""),
        (1, "dcd", "x-digests", "x"),
        (1, "block", "m0-digests", "m0"),
        (0, "dcd", "m0-digests", "m0"),
    ],
)
def test_any_other_lun_is_refused(
    lun: Any, number: int, plugin: str, name: str, digests_of: str
) -> None:
    tpg = SimpleNamespace(tag=1, luns=[exported(number, plugin, name, digests_of)])
    with pytest.raises(lun.refused, match="is not ours"):
        lun.refuse_foreign(None, SimpleNamespace(wwn="iqn.x:m0", tpgs=[tpg]))
