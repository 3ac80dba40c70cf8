# SPDX-License-Identifier: GPL-2.0-only
"""The two hosts of the VM lab: what each is made of."""

from __future__ import annotations

from dataclasses import dataclass

from laberror import LabError


@dataclass(frozen=True)
class Host:
    """`disks` are seen as /dev/disk/by-id/virtio-NAME; an NVDIMM as /dev/pmem0 (fsdax)."""

    name: str
    index: int
    disks: tuple[str, ...]
    nvdimm_mib: int = 0

    @property
    def address(self) -> str:
        """On the link between the hosts; the image's /etc/hosts says the same."""
        return f"10.9.0.{self.index}"


PRIMARY = Host("primary", 1, ("data",))
MIRROR = Host("mirror", 2, ("data", "log"), nvdimm_mib=256)
HOSTS = (PRIMARY, MIRROR)
LINK = "link0"


def find(name: str) -> Host:
    for host in HOSTS:
        if host.name == name:
            return host
    raise LabError(f"no host '{name}' in the VM lab; there are: {', '.join(h.name for h in HOSTS)}")
