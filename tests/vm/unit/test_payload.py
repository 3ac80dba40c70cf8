# SPDX-License-Identifier: GPL-2.0-only
"""What push sends."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import payload
import pytest
from laberror import LabError


def test_modules_of_that_kernel_and_programs(tmp_path: Path) -> None:
    for name in ("modules/6.12/own.ko", "modules/6.1/other.ko", "bin/tool"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="ascii")
    with tarfile.open(fileobj=io.BytesIO(payload.pack(tmp_path, "6.12"))) as tar:
        found = {entry.name: (entry.uid, entry.uname) for entry in tar}
    assert found == dict.fromkeys(
        ("usr/lib/modules/6.12/updates/own.ko", "usr/local/bin/tool"), (0, "root")
    )


def test_what_isnt_built_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"modules/6\.12: run make modules-vm"):
        payload.pack(tmp_path, "6.12")
    (tmp_path / "modules/6.12").mkdir(parents=True)
    (tmp_path / "modules/6.12/own.ko").touch()
    with pytest.raises(LabError, match="bin: run make bins"):
        payload.pack(tmp_path, "6.12")
