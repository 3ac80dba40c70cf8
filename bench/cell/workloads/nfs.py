# SPDX-License-Identifier: GPL-2.0-only
"""NFS beside the mirror: the same disk and wire, but the file system is at the other site.

The device becomes ext4 at the mirror site, the kernel's NFS server in that site's namespace exports
it (sync), and the primary mounts it over the wire and runs PostMark in it. `wire` is a name in
tests/lab/wires.json, `version` NFS' (4.1: the lab's kernel has no 4.2); the rest is PostMark's.
There is one copy of the data and no mirror: this is what sharing files instead of blocks costs,
nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cell import ground
from cell.order import Absent
from cell.workloads import postmark
from locklab import account, base, count, wire

_EXPORT, _MOUNT, _STATE = "/mnt/work", "/mnt/nfs", Path("/var/lib/nfs")


def run(node: str, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    if not Path("/usr/sbin/rpc.nfsd").exists():
        raise Absent("the NFS server's programs: not installed")
    link = wire.Wire()
    with ground.made(node, int(params.get("ram_mib", 512))), _served(), _mounted(params) as where:
        link.profile(str(params["wire"]))
        packets = account.Packets("v0")
        before = count.snapshot(link) | packets.counters()
        result = postmark.run(where, params, seed)
        result["cost"] = count.spent(before, count.snapshot(link) | packets.counters())
        packets.close()
        link.profile("none")
    link.close()
    return result


def _there(*words: str, check: bool = True) -> None:
    """In the mirror site's network namespace."""
    base.run("nsenter", f"--net={wire.NETNS}", *words, check=check)


@contextlib.contextmanager
def _served() -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, where in (("nfsd", "/proc/fs/nfsd"), ("rpc_pipefs", "/run/rpc_pipefs")):
        os.makedirs(where, exist_ok=True)
        with base.inside(wire.NETNS):  # it shows the server of the namespace it is mounted in
            if libc.mount(kind.encode(), where.encode(), kind.encode(), 0, None):
                raise Absent(f"{kind}: {os.strerror(ctypes.get_errno())}")
    _STATE.mkdir(parents=True, exist_ok=True)
    for name in ("etab", "rmtab"):
        (_STATE / name).touch()
    _there("exportfs", "-o", "rw,sync,no_root_squash,no_subtree_check,fsid=0",
           f"{wire.PRIMARY_IP}:{_EXPORT}")  # fmt: skip
    # Nobody had locks before; simulated seconds of grace would only be waited for.
    base.put(Path("/proc/fs/nfsd/nfsv4gracetime"), 10)
    words = ["nsenter", f"--net={wire.NETNS}", "rpc.mountd", "--foreground", "-N", "3"]
    mountd = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    _there("rpc.nfsd", "-N", "3", "-U", "8")
    try:
        yield
    finally:
        _there("rpc.nfsd", "0")
        mountd.terminate()
        mountd.wait()
        _there("exportfs", "-au")
        for where in ("/proc/fs/nfsd", "/run/rpc_pipefs"):
            libc.umount2(where.encode(), 2)


@contextlib.contextmanager
def _mounted(params: Mapping[str, Any]) -> Iterator[Path]:
    where = Path(_MOUNT)
    where.mkdir(parents=True, exist_ok=True)
    options = (
        f"addr={wire.MIRROR_IP},clientaddr={wire.PRIMARY_IP},vers={params.get('version', '4.1')},"
        "proto=tcp,hard,sec=sys"
    )
    libc = ctypes.CDLL(None, use_errno=True)
    source = f"{wire.MIRROR_IP}:/"
    if libc.mount(source.encode(), _MOUNT.encode(), b"nfs4", 0, options.encode()):
        raise base.Wrong(f"mount -t nfs4 -o {options}: {os.strerror(ctypes.get_errno())}")
    try:
        yield where
    finally:
        os.chdir("/")
        libc.umount2(_MOUNT.encode(), 0)
