# SPDX-License-Identifier: GPL-2.0-only
"""What the demo does: the remote-mirroring paper's configurations, and the disks they stand on."""

from __future__ import annotations

from dataclasses import dataclass

from demo_vm.spindles import Spindle
from traces import named, spc

DATA_MIB = 128  # of each mirror, that the trace is spread over
LEG_MIB = DATA_MIB + 1  # so that there is room for the metadata at the end
LOG_MIB = 128
RECORDS = 3000  # 86 s at the trace's own speed; its last seconds are a burst beyond the WAN
SLOTS = 16  # outstanding requests, the paper's threads
CHANCE = 1  # seed of the wire and of the power cut


@dataclass(frozen=True)
class Mirror:
    """One mirrored device: a local leg, and a LUN on one of LIO's backstores as the remote one."""

    name: str
    kind: str  # of the backstore
    local: Spindle
    data: Spindle
    about: str


# One leg after the other on each host's data disk.
PLAIN = Mirror(
    "plain", "iblock",
    Spindle("local-plain", "/dev/disk/by-id/virtio-data", 0, LEG_MIB),
    Spindle("mirror-plain", "/dev/disk/by-id/virtio-data", 0, LEG_MIB),
    "iSCSI LUN on a plain disk",
)  # fmt: skip
DCD = Mirror(
    "dcd", "dcd",
    Spindle("local-dcd", "/dev/disk/by-id/virtio-data", LEG_MIB, LEG_MIB),
    Spindle("mirror-dcd", "/dev/disk/by-id/virtio-data", LEG_MIB, LEG_MIB),
    "iSCSI LUN on a disk-caching-disk: NVRAM, log disk, data disk",
)  # fmt: skip
MIRRORS = (PLAIN, DCD)
LOG = Spindle("mirror-log", "/dev/disk/by-id/virtio-log", 0, LOG_MIB)
NVRAM = "/dev/pmem0"
MIRROR_ADDRESS = "10.9.0.2"
IQN = "iqn.2026-11.org.lockstep"


@dataclass(frozen=True)
class Configuration:
    """One replay. `cut`: the mirror's power is cut in the middle of it."""

    name: str
    mirror: Mirror
    wire: str
    cut: bool = False

    @property
    def place(self) -> str:
        """Its folder under build/demo."""
        return self.name.replace(",", "").replace(" ", "-")

    @property
    def seed(self) -> int:
        """Of what it writes. No other configuration's: they replay one trace onto the same
        mirrors, and a site that still held an earlier one's bytes has to differ."""
        return CONFIGURATIONS.index(self) + 1


CONFIGURATIONS = (
    Configuration("S-iL", PLAIN, "lan"),
    Configuration("S-iDL", DCD, "lan"),
    Configuration("S-iW", PLAIN, "wan"),
    Configuration("S-iDW", DCD, "wan"),
    Configuration("S-iDW, power cut", DCD, "wan", cut=True),
)


@dataclass(frozen=True)
class Load:
    """The trace as it is replayed: what to call it, and the replay file's bytes."""

    what: str
    requests: list[spc.Request]
    packed: bytes
    written: tuple[tuple[int, int], ...]  # ranges of sectors that some write touches

    @property
    def seconds(self) -> float:
        return (self.requests[-1].time_ns - self.requests[0].time_ns) / 1e9


def load(path: str | None, records: int) -> Load:
    """Raises spc.BadTrace, which names what is wrong with the file."""
    what, requests = named.trace_of(path, records)
    placed = spc.place(requests, DATA_MIB << 11)
    return Load(what, requests, spc.pack(placed), written(placed))


def written(placed: list[spc.Placed]) -> tuple[tuple[int, int], ...]:
    """First sector and number of sectors of each stretch that is written, in order."""
    stretches: list[tuple[int, int]] = []
    for start, end in sorted((one.sector, one.sector + one.sectors) for one in placed if one.write):
        if stretches and start <= stretches[-1][1]:
            stretches[-1] = stretches[-1][0], max(end, stretches[-1][1])
        else:
            stretches.append((start, end))
    return tuple((start, end - start) for start, end in stretches)
