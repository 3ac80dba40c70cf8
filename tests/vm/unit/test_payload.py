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


def test_files_folders_and_content_go_to_absolute_places(tmp_path: Path) -> None:
    (tmp_path / "tool/__pycache__").mkdir(parents=True)
    (tmp_path / "tool/__pycache__/a.pyc").touch()
    (tmp_path / "tool/a.py").write_text("pass", encoding="ascii")
    sent = payload.files({"/run/tool": tmp_path / "tool", "/etc/own": b"words"})
    with tarfile.open(fileobj=io.BytesIO(sent)) as tar:
        assert tar.getnames() == ["run/tool", "run/tool/a.py", "etc/own"]
        own = tar.extractfile("etc/own")
        assert own and own.read() == b"words"
