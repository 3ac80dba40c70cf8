# SPDX-License-Identifier: GPL-2.0-only
"""What blkid tells of a content's extent; the real one of Debian 13 runs in the sim lab."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from lockstep import device
from lockstep.device import Device, Sign
from lockstep.errors import Failed

AT = Device("/dev/a", "a", "8:0", 1 << 21, Path("/nonexistent"))
WIPEFS = """{"signatures": [{"device": "a", "offset": "0x438", "type": "ext4", "uuid": "u",
"label": "home"}, {"device": "a", "offset": "0x1fe", "type": "dos", "uuid": null, "label": null}]}
"""
DUMPE2FS = """dumpe2fs 1.47.0 (5-Feb-2023)
Filesystem volume name:   <none>
Block count:              10241
Block size:               1024
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(device, "_labels_read", nullcontext)  # there is no such device

    def add(name: str, says: str) -> None:
        (tmp_path / f"{name}.txt").write_text(says)
        file = tmp_path / name
        file.write_text(f'#!/bin/sh\nwhile read -r l; do echo "$l"; done <{tmp_path}/{name}.txt\n')
        file.chmod(0o755)

    return add


def test_a_blkid_that_tells_the_extent(programs: Callable[[str, str], None]) -> None:
    programs("wipefs", WIPEFS)
    programs("blkid", "DEVNAME=/dev/a\nFSBLOCKSIZE=1024\nFSLASTBLOCK=10241\nTYPE=ext4\n")
    assert device.signs(AT) == [Sign("ext4", "home", 20482), Sign("dos", "", None)]


def test_the_blkid_of_debian_12(programs: Callable[[str, str], None]) -> None:
    programs("wipefs", WIPEFS)
    programs("blkid", "DEVNAME=/dev/a\nBLOCK_SIZE=1024\nTYPE=ext4\n")
    programs("dumpe2fs", DUMPE2FS)
    assert device.signs(AT)[0] == Sign("ext4", "home", 20482)
    programs("blkid", "DEVNAME=/dev/a\nBLOCK_SIZE=512\nTYPE=xfs\n")
    assert device.signs(AT)[0].end is None


def test_nothing_is_found(programs: Callable[[str, str], None]) -> None:
    programs("wipefs", "")
    assert device.signs(AT) == []


def test_what_wipefs_says_is_not_understood(programs: Callable[[str, str], None]) -> None:
    """Not taken for a blank device."""
    programs("wipefs", "{}\n")
    with pytest.raises(Failed):
        device.signs(AT)


def disk(folder: Path, place: str, *, below: Path | None = None, transport: str = "") -> Device:
    sysfs = folder / place
    sysfs.mkdir(parents=True)
    if below:
        (sysfs / "slaves").mkdir()
        (sysfs / "slaves" / below.name).symlink_to(below)
    if transport:
        (sysfs / "device").mkdir()
        (sysfs / "device/transport").write_text(f"{transport}\n")
    return Device(f"/dev/{sysfs.name}", sysfs.name, "8:0", 8, sysfs)


def test_what_is_reached_over_a_network(tmp_path: Path) -> None:
    lun = disk(tmp_path, "host3/session1/target3:0:0/3:0:0:0/block/sdb")
    (part := lun.sysfs / "sdb1").mkdir()
    (part / "partition").write_text("1\n")
    local = disk(tmp_path, "ata1/host0/target0:0:0/0:0:0:0/block/sda")
    assert device.over_a_network(lun)
    assert device.over_a_network(Device("/dev/sdb1", "sdb1", "8:17", 8, part))
    assert device.over_a_network(disk(tmp_path, "virtual/dm-0", below=lun.sysfs))
    assert device.over_a_network(disk(tmp_path, "virtual/dm-1", below=part))
    assert device.over_a_network(disk(tmp_path, "nvme/nvme1n1", transport="tcp"))
    assert not device.over_a_network(local)
    assert not device.over_a_network(disk(tmp_path, "virtual/dm-2", below=local.sysfs))
    assert not device.over_a_network(disk(tmp_path, "nvme/nvme0n1", transport="pcie"))
