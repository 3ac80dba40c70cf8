# SPDX-License-Identifier: GPL-2.0-only
"""What `dcd_set` takes for blank."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

MODULE = Path(__file__).parents[1] / "plugins/modules/dcd_set.py"
MIB = 1 << 20


class Failure(Exception):
    pass


@pytest.fixture
def dcd_set(monkeypatch: pytest.MonkeyPatch) -> Any:
    # pytest has given this folder's parent the name of the package that the module imports.
    monkeypatch.delitem(sys.modules, "ansible", raising=False)
    spec = importlib.util.spec_from_file_location("dcd_set", MODULE)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)

    def fail_json(msg: str) -> None:
        raise Failure(msg)

    params = {"nvram": "dram", "data": "", "log": ""}
    # No signature that wipefs knows.
    answers = SimpleNamespace(params=params, fail_json=fail_json, run_command=lambda _: (0, "", ""))
    return found.DcdSet(answers)


@pytest.mark.parametrize("size", [4096, MIB, 3 * MIB + 4096])
def test_zeroes_are_blank(dcd_set: Any, tmp_path: Path, size: int) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(size))
    dcd_set.must_be_blank(str(disk), "data disk")


@pytest.mark.parametrize("at", [0, MIB - 1, 2 * MIB + 4096, 3 * MIB + 4095])
def test_data_without_a_signature_is_not_blank(dcd_set: Any, tmp_path: Path, at: int) -> None:
    disk = tmp_path / "disk"
    there = bytearray(3 * MIB + 4096)
    there[at] = 1
    disk.write_bytes(there)
    with pytest.raises(Failure, match=f"data disk {disk} carries data, at byte") as failure:
        dcd_set.must_be_blank(str(disk), "data disk")
    assert "Nothing was changed" in str(failure.value)
