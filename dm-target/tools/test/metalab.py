# SPDX-License-Identifier: GPL-2.0-only
"""The metadata code, built under the sanitizers, and plain files as devices."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import sanitized
from sanitized import Said

SLOT = 4096
# What the metadata of a leg with few regions take: two slots, a page of bits, the activity log.
TAIL = 7 * SLOT
HERE = Path(__file__).resolve().parent
TARGET = HERE.parent.parent
PURE = ["super.c", "life.c", "verdict.c", "growth.c", "tools/port.c"]
META = ["lockstep-meta.c", "show.c", "make.c", "grow.c", "search.c", "device.c", "json.c"]


def compile_c(sources: list[Path], to: Path, *flags: str) -> Path:
    pure = [TARGET / name for name in PURE]
    return sanitized.compile_c(to, *flags, "-I", TARGET, *sources, *pure)


def crc32c(data: bytes | bytearray) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


def compile_meta(to: Path, *flags: str, extra: tuple[Path, ...] = ()) -> Path:
    return compile_c([*(HERE.parent / name for name in META), *extra], to, *flags)


class Meta:
    """lockstep-meta, run in a folder of plain files."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program = program
        self.folder = folder

    def __call__(self, *words: str | Path) -> Said:
        return sanitized.run(self.program, *words, cwd=self.folder)

    def device(self, name: str, size: int) -> Path:
        """A file of so many bytes, all 0xa5 so that what was overwritten is seen."""
        path = self.folder / name
        path.write_bytes(b"\xa5" * size)
        return path

    def leg(self, name: str) -> Any:
        (leg,) = self("examine", name).json()
        return leg

    def good(self, *words: str | Path) -> Any:
        said = self(*words)
        assert said.code == 0, said
        return json.loads(said.out) if said.out else None

    def refused(self, *words: str | Path) -> str:
        """Refused by a sentence on stderr, and nothing was changed."""
        before = self._written()
        said = self(*words)
        assert (said.code, said.out) == (1, ""), said
        assert said.err.startswith("lockstep-meta: ") and said.err.endswith("\n"), said
        assert self._written() == before
        return said.err

    def goes_alone(self, name: str, generation: int) -> None:
        """The leg as the module leaves it when it has gone on without the other one."""
        with open(self.folder / name, "r+b") as f:
            end = f.seek(0, os.SEEK_END) // SLOT * SLOT
            for at in (end - 2 * SLOT, end - SLOT):
                f.seek(at)
                data = bytearray(f.read(SLOT))
                cur, history = data[208:224], data[240:464]
                new = struct.pack("<QII", generation, cur[8] + 1, 0)
                data[188] = 2
                data[208:240] = new + cur
                data[240:496] = new + struct.pack("<QII", 1700000000, 2, 0) + history
                data[0:4] = struct.pack("<I", crc32c(data[4:]))
                f.seek(at)
                f.write(data)

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}

    def _written(self) -> dict[str, tuple[int, list[tuple[int, bytes]]]]:
        """Of each file its size, and what is in it but for its holes."""
        return {path.name: _extents(path) for path in sorted(self.folder.iterdir())}


def _extents(path: Path) -> tuple[int, list[tuple[int, bytes]]]:
    found = []
    with path.open("rb") as f:
        size, at = f.seek(0, os.SEEK_END), 0
        while at < size:
            try:
                at = f.seek(at, os.SEEK_DATA)
            except OSError:  # ENXIO: only a hole is left
                break
            end = f.seek(at, os.SEEK_HOLE)
            f.seek(at)
            found.append((at, f.read(end - at)))
            at = end
    return size, found


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lockstep-meta")
    return compile_meta(folder / "lockstep-meta")


@pytest.fixture
def meta(program: Path, tmp_path: Path) -> Meta:
    return Meta(program, tmp_path)


@pytest.fixture
def pair(meta: Meta) -> Meta:
    """Two devices, a and b, that are a mirror "m" in sync."""
    meta.device("a", 4 << 20)
    meta.device("b", (4 << 20) + 8192 + 512)
    meta.good("create", "--local", "a", "--remote", "b", "--name", "m", "--assume-clean")
    return meta


@pytest.fixture(scope="session")
def life_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c([HERE / "life-driver.c"], tmp_path_factory.mktemp("life") / "life-driver")
