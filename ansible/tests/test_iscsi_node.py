# SPDX-License-Identifier: GPL-2.0-only
"""The node record that `iscsi_node` edits."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

MODULE = Path(__file__).parents[1] / "plugins/modules/iscsi_node.py"
RECORD = """\
# BEGIN RECORD 2.1.11
node.name = iqn.2026-11.org.example:m
node.startup = manual
node.session.auth.authmethod = None
# END RECORD
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    # pytest has given this folder's parent the name of the package that the module imports.
    monkeypatch.delitem(sys.modules, "ansible", raising=False)
    spec = importlib.util.spec_from_file_location("iscsi_node", MODULE)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_settings_are_replaced_added_and_taken_out(module: Any) -> None:
    there = module.edit(RECORD, {"node.startup": "automatic", "node.session.auth.password": "x"})
    assert module.parse(there) == {
        "node.name": "iqn.2026-11.org.example:m",
        "node.startup": "automatic",
        "node.session.auth.authmethod": "None",
        "node.session.auth.password": "x",
    }
    assert there.startswith("# BEGIN RECORD 2.1.11\n") and there.endswith("# END RECORD\n")
    back = {"node.startup": "manual", "node.session.auth.password": ""}
    assert module.edit(there, back) == RECORD


@pytest.mark.parametrize("name", ["10.9.0.2,3260,1/default", "10.9.0.2,3260,1"])
def test_a_record_is_found_as_file_or_folder(
    module: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "iqn.x:m" / name
    record.parent.mkdir(parents=True)
    record.write_text(RECORD)
    (tmp_path / "iqn.x:m" / "10.9.0.20,3260,1").write_text("another portal")
    monkeypatch.setattr(module, "DATABASES", (tmp_path / "none", tmp_path))
    assert module.find_record("iqn.x:m", "10.9.0.2:3260") == record
    assert module.find_record("iqn.x:m", "10.9.0.3:3260") is None


def test_a_record_is_replaced_as_a_private_file(module: Any, tmp_path: Path) -> None:
    record = tmp_path / "default"
    record.write_text("old")
    record.chmod(0o644)
    module.replace(record, "new\n")
    assert record.read_text() == "new\n" and record.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [record]
