# SPDX-License-Identifier: GPL-2.0-only
"""The fuzz targets: what each is made of, and its corpus."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]


@dataclass(frozen=True)
class Target:
    name: str
    folder: str
    parts: tuple[str, ...]  # what is tried, in @folder
    helpers: tuple[str, ...] = ()  # in tools/test

    @property
    def tried(self) -> list[Path]:
        return [TOP / self.folder / part for part in self.parts]

    @property
    def words(self) -> list[str | Path]:
        """For the compiler, without what is tried."""
        test = TOP / self.folder / "tools/test"
        helpers = [test / name for name in ("fuzz.c", *self.helpers)]
        return ["-Wl,--wrap=crc32c", "-I", HERE, "-I", TOP / self.folder, HERE / "crc.c",
                *helpers, TOP / "dm-target/tools/port.c"]  # fmt: skip

    @property
    def corpus(self) -> Path:
        return HERE / f"{self.name}.tar.xz"

    def unpack(self, to: Path) -> list[Path]:
        """The inputs of the corpus as files in @to."""
        to.mkdir(parents=True, exist_ok=True)
        if not self.corpus.exists():
            return []
        with tarfile.open(self.corpus) as tar:
            tar.extractall(to, filter="data")
            return [to / name for name in tar.getnames()]

    def pack(self, folder: Path) -> int:
        """The files of @folder become the corpus; the same files, the same bytes."""
        files = sorted(folder.iterdir())
        with tarfile.open(self.corpus, "w:xz", format=tarfile.USTAR_FORMAT) as tar:
            for path in files:
                data = path.read_bytes()
                info = tarfile.TarInfo(path.name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return len(files)


TARGETS = {
    target.name: target
    for target in (
        Target("dcd", "target-plugin", ("parse.c", "segment.c", "moves.c", "plan.c"), ("walk.c",)),
        Target("lockstep", "dm-target", ("super.c", "verdict.c", "life.c", "growth.c")),
    )
}
