# SPDX-License-Identifier: GPL-2.0-only
"""What the tree builds for the guests, as a compressed tar for them to unpack."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from laberror import LabError


def pack(build: Path, release: str) -> bytes:
    """The modules for that kernel, and the programs."""
    modules = sorted((build / "modules" / release).glob("*.ko"))
    programs = sorted(path for path in (build / "bin").glob("*") if path.is_file())
    if not modules:
        raise LabError(f"no modules in {build / 'modules' / release}: run make modules-vm")
    if not programs:
        raise LabError(f"no programs in {build / 'bin'}: run make bins")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as tar:
        for path in modules:
            tar.add(path, f"usr/lib/modules/{release}/updates/{path.name}", filter=_roots)
        for path in programs:
            tar.add(path, f"usr/local/bin/{path.name}", filter=_roots)
    return packed.getvalue()


def files(wanted: Mapping[str, bytes | Path]) -> bytes:
    """By absolute path in the guest: content, or a file or folder of this machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for to, what in wanted.items():
            if isinstance(what, Path):
                tar.add(what, to.lstrip("/"), filter=_no_caches)
            else:
                entry = tarfile.TarInfo(to.lstrip("/"))
                entry.size = len(what)
                tar.addfile(entry, io.BytesIO(what))
    return packed.getvalue()


def _no_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry


def unpack_command(release: str) -> str:
    """For the guest's shell; the tar is its stdin."""
    return f"tar -xz -C / && depmod -a {release} && sync"


def _roots(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
