# SPDX-License-Identifier: GPL-2.0-only
"""A block device: its size and names, what it carries, who uses it. Nothing here writes."""

from __future__ import annotations

import errno
import json
import mmap
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from . import program
from .errors import Failed, Refused

SECTOR = 512
_LOOK = 1 << 20
# As in tools/device.h: bytes that are read at once, and when they came soon. The first ones, to see
# how far the way is, are less.
_FIRST, _LEAST = 4 << 10, 16 << 10
_SOON_S = 0.625
_LABEL = 256 << 10  # of ZFS: two at the begin, two at the end
# States of SCSI and NVMe devices that answer.
_UP = ("running", "live")
_SESSION_EXISTS = 15  # iscsiadm's exit code
# Names that stay with the disk or its place. Not by-uuid and by-label: both legs and the mirror
# itself have the same. The more a name says, the earlier it comes.
_STABLE = (
    ("by-id", ("wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nguid.", "scsi-3", "dm-uuid-", "md-uuid-")),
    ("by-path", ("",)),
    ("by-partuuid", ("",)),
    ("by-id", ("",)),
)


@dataclass(frozen=True)
class Device:
    """A device as it is now. `given` is the name that was asked for, `kernel` the kernel's.
    `sequence` is the kernel's count of disks: another disk under the same name has another one."""

    given: str
    kernel: str
    number: str
    sectors: int
    sysfs: Path
    sequence: str = ""

    @property
    def node(self) -> str:
        return f"/dev/{self.kernel}"

    def disk(self) -> Path:
        """sysfs of the whole disk, if this is a partition; else its own."""
        return self.sysfs.parent if (self.sysfs / "partition").exists() else self.sysfs


@dataclass(frozen=True)
class Sign:
    """A signature that wipefs knows. `end`: the first sector behind what it describes, None if
    that isn't known."""

    kind: str
    label: str
    end: int | None

    def __str__(self) -> str:
        return f"{self.kind} {self.label!r}" if self.label else self.kind


def look(given: str) -> Device:
    try:
        found = os.stat(given)
    except FileNotFoundError:
        raise Failed(f"{given}: there is no such device") from None
    except OSError as err:
        raise Failed(f"{given}: {err.strerror}") from err
    if not stat.S_ISBLK(found.st_mode):
        raise Refused(f"{given} is no block device")
    number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    sysfs = Path("/sys/dev/block") / number
    try:
        sectors = int((sysfs / "size").read_text())
    except (OSError, ValueError):
        raise Failed(f"{given}: the kernel doesn't know a device {number} any more") from None
    sysfs = sysfs.resolve()
    # Where a kernel name has a slash, sysfs has an exclamation mark.
    at = Device(given, sysfs.name.replace("!", "/"), number, sectors, sysfs)
    with suppress(OSError):
        return replace(at, sequence=(at.disk() / "diskseq").read_text().strip())
    return at


def present(node: str) -> bool:
    """There is a device behind the name, it has a size, and (SCSI) its session is up: asking one
    whose session is down takes minutes."""
    try:
        at = look(node)
        state = at.disk() / "device/state"
        return at.sectors > 0 and (not state.exists() or state.read_text().strip() in _UP)
    except (Failed, Refused, OSError):
        return False


def answers(number: str) -> bool:
    """The device MAJOR:MINOR is there, its session is up, and its first block can be read from it.
    That takes as long as the kernel lets a read wait: not for under a lock."""
    node = by_number(number)
    if not present(node):
        return False
    try:
        disk = os.open(node, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        try:
            with mmap.mmap(-1, mmap.PAGESIZE) as block:
                return os.preadv(disk, [block], 0) > 0
        finally:
            os.close(disk)
    except OSError:
        return False


def by_number(number: str) -> str:
    """The node of a device MAJOR:MINOR; the number itself if the device is gone."""
    place = Path("/sys/dev/block") / number
    if not place.exists():
        return number
    with suppress(OSError):
        return f"/dev/mapper/{(place / 'dm/name').read_text().strip()}"
    return f"/dev/{place.resolve().name.replace('!', '/')}"


def stable_name(device: Device) -> tuple[str, bool]:
    """A name by which the device is found after a reboot, and whether it is one."""
    given = Path(os.path.abspath(device.given))
    if given.parts[:3] == ("/", "dev", "disk") and given.parent.name not in ("by-uuid", "by-label"):
        return str(given), True
    if (device.sysfs / "dm").is_dir():
        name = (device.sysfs / "dm/name").read_text().strip()
        return f"/dev/mapper/{name}", True
    for folder, begins in _STABLE:
        for begin in begins:
            for link in sorted(Path("/dev/disk", folder).glob(f"{begin}*")):
                with suppress(OSError):
                    if link.stat().st_rdev == _rdev(device.number):
                        return str(link), True
    return device.node, False


def _rdev(number: str) -> int:
    major, minor = number.split(":")
    return os.makedev(int(major), int(minor))


# --- what it carries ---


def signs(device: Device) -> list[Sign]:
    """All signatures: file systems, partition tables, LVM, RAID, swap."""
    with _labels_read(device):
        return _signs(device)


def _signs(device: Device) -> list[Sign]:
    said = program.run("wipefs", "--no-act", "--json", device.node)
    try:
        found = json.loads(said)["signatures"] if said.strip() else []
        kinds = {str(one["type"]): str(one.get("label") or "") for one in found}
    except (ValueError, KeyError, TypeError) as err:
        raise Failed(f"`wipefs --json {device.node}` says what isn't understood: {err}") from err
    if not kinds:
        return []
    main, end = _extent(device)
    return [Sign(kind, label, end if kind == main else None) for kind, label in kinds.items()]


def _extent(device: Device) -> tuple[str, int | None]:
    """Type and end of what blkid takes the content for."""
    said = program.ask("blkid", "--probe", "--output", "export", device.node)
    words = dict(line.split("=", 1) for line in said.out.splitlines() if "=" in line)
    kind = words.get("TYPE", "")
    with suppress(KeyError, ValueError):
        return kind, -(-int(words["FSLASTBLOCK"]) * int(words["FSBLOCKSIZE"]) // SECTOR)
    if kind in ("ext2", "ext3", "ext4"):  # the blkid of Debian 12 doesn't tell
        said = program.ask("dumpe2fs", "-h", device.node)
        words = dict(line.split(":", 1) for line in said.out.splitlines() if ":" in line)
        with suppress(KeyError, ValueError):
            return kind, -(-int(words["Block count"]) * int(words["Block size"]) // SECTOR)
    return kind, None


def has_data(device: Device) -> bool:
    """Whether the first or the last MiB holds anything but zeroes."""
    return _any(device, 0) or has_tail(device, 0)


def has_tail(device: Device, start: int) -> bool:
    """The same of the sectors from `start` on, but of the last MiB at most."""
    return _any(device, max(start * SECTOR, device.sectors * SECTOR - _LOOK, 0))


def _any(device: Device, place: int) -> bool:
    end = min(place + _LOOK, device.sectors * SECTOR)
    with _opened(device, os.O_DIRECT) as disk:
        return any(any(piece) for piece in _pieces(disk, place, end))


@contextmanager
def _opened(device: Device, how: int = 0) -> Iterator[int]:
    """For reading; what goes wrong is said of the device."""
    try:
        disk = os.open(device.node, os.O_RDONLY | os.O_CLOEXEC | how)
        try:
            yield disk
        finally:
            os.close(disk)
    except OSError as err:
        raise Failed(f"{device.given} can't be read: {err.strerror}") from err


def _pieces(disk: int, place: int, end: int) -> Iterator[bytes]:
    """All that lies there, a piece after the other. Other mirrors' legs may be reached by the same
    wire, and what fills that for seconds makes their writes late."""
    size, least_s = _FIRST, float("inf")
    with mmap.mmap(-1, _LOOK) as block:
        while place < end:
            began = time.monotonic()
            with memoryview(block)[: min(size, end - place)] as to:
                read = os.preadv(disk, [to], place)
            took = time.monotonic() - began
            if not read:
                return
            yield block[:read]
            place += read
            least_s = min(least_s, took)
            soon = took <= least_s + _SOON_S
            size = min(max(size * 2, _LEAST), _LOOK) if soon else max(size // 2, _LEAST)


@contextmanager
def _labels_read(device: Device) -> Iterator[None]:
    """wipefs and blkid read single blocks, but for ZFS four times 256 KiB, each of them at once:
    meanwhile the page cache has those."""
    end = device.sectors * SECTOR // _LABEL * _LABEL
    with _opened(device) as disk:
        os.posix_fadvise(disk, 0, 0, os.POSIX_FADV_RANDOM)  # no more than is asked for
        for place in (0, max(end - 2 * _LABEL, 0)):
            for _ in _pieces(disk, place, min(place + 2 * _LABEL, end)):
                pass
        yield


# --- who uses it ---


# It may be for a moment: who looks at each disk that appears holds it while he does.
HELD = "held by the kernel or a program (it can't be opened exclusively)"


def uses(device: Device, *, besides: str = "") -> list[str]:
    """Who has the device, a part of it or the disk that it is a part of; empty if nobody has.
    `besides`: a mapped device that doesn't count. While it has the device, nobody else can have it
    exclusively, so nobody is asked for that."""
    ours = bool(besides) and besides in (dm for _, dm in _holders(device.sysfs))
    found = [*_mounts(device), *_swaps(device), *_parts(device, besides)]
    if not found and not ours:
        try:
            os.close(os.open(device.node, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError as err:
            if err.errno != errno.EBUSY:
                raise Failed(f"{device.given} can't be opened: {err.strerror}") from err
            found.append(HELD)
    return found


def read_only(device: Device) -> bool:
    return (device.sysfs / "ro").read_text().strip() == "1"


def _numbers(device: Device) -> dict[str, str]:
    """Number and kernel name of the device and of its partitions."""
    found = {device.number: device.kernel}
    for part in device.sysfs.glob("*/partition"):
        found[(part.parent / "dev").read_text().strip()] = part.parent.name
    return found


def _mounts(device: Device) -> Iterator[str]:
    numbers = _numbers(device)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        words, source = before.split(), after.split()[1:2]
        name = numbers.get(words[2])
        if name is None and source and source[0].startswith("/dev/"):
            # btrfs and the like have a device number of their own.
            with suppress(OSError):
                rdev = os.stat(source[0]).st_rdev
                name = numbers.get(f"{os.major(rdev)}:{os.minor(rdev)}")
        if name is not None:
            yield f"{name} is mounted on {words[4]}"


def _swaps(device: Device) -> Iterator[str]:
    numbers = _numbers(device)
    for line in Path("/proc/swaps").read_text().splitlines()[1:]:
        with suppress(OSError):
            rdev = os.stat(line.split()[0]).st_rdev
            name = numbers.get(f"{os.major(rdev)}:{os.minor(rdev)}")
            if name is not None and rdev:
                yield f"{name} is swapped on"


def _parts(device: Device, besides: str) -> Iterator[str]:
    places = [device.sysfs, *(part.parent for part in device.sysfs.glob("*/partition"))]
    for place in places:
        for name, dm in _holders(place):
            if not dm or dm != besides or place != device.sysfs:
                yield f"{place.name} is part of {name}" + (f" ({dm})" if dm else "")


def _holders(place: Path) -> Iterator[tuple[str, str]]:
    """Kernel name, and name of a mapped device."""
    for holder in sorted((place / "holders").glob("*")):
        dm = ""
        with suppress(OSError):
            dm = (holder / "dm/name").read_text().strip()
        yield holder.name, dm


# --- iSCSI ---


def iscsi(device: Device) -> tuple[str, str] | None:
    """Target and portal (ADDRESS:PORT) of the session whose LUN the device is; None otherwise."""
    for place in device.disk().parents:
        for session in place.glob("iscsi_session/session*"):
            with suppress(OSError):
                target = (session / "targetname").read_text().strip()
                for link in sorted(place.glob("connection*/iscsi_connection/connection*")):
                    address = (link / "persistent_address").read_text().strip()
                    port = (link / "persistent_port").read_text().strip()
                    address = f"[{address}]" if ":" in address else address
                    return target, f"{address}:{port}"
    return None


def iscsi_disks(place: Path) -> Iterator[Path]:
    """iSCSI disks at the bottom of a disk (its sysfs folder), by way of multipath, LVM, MD."""
    below = sorted((place / "slaves").glob("*"))
    for one in below:
        real = one.resolve()
        yield from iscsi_disks(real.parent if (real / "partition").exists() else real)
    if not below and any(one.name.startswith("session") for one in place.parents):
        yield place


def over_a_network(device: Device) -> bool:
    """As far as that can be seen: iSCSI, or NVMe over fabrics."""
    disk = device.disk()
    if any(True for _ in iscsi_disks(disk)):
        return True
    for file in [disk / "device/transport", *sorted((disk / "device").glob("nvme*/transport"))]:
        with suppress(OSError):
            return file.read_text().strip() != "pcie"
    return False


def log_in(target: str, portal: str, seconds: float | None = None) -> None:
    """To a site that is down it takes minutes until iscsiadm says so. After `seconds` this doesn't
    wait any longer; the initiator's daemon goes on trying."""
    said = program.ask("iscsiadm", "-m", "node", "-T", target, "-p", portal, "--login",
                       seconds=seconds)  # fmt: skip
    if said.code == 24:
        raise Refused(
            f"{target} at {portal} refuses this host: the CHAP name or secret is wrong, or"
            " /etc/iscsi/initiatorname.iscsi isn't the name that it expects"
        )
    if said.code not in (0, _SESSION_EXISTS):
        raise Failed(f"can't log in to {target} at {portal}: {said.why}")
    if said.code == _SESSION_EXISTS:
        # One that was there before its LUN was (a target that was restored in two steps, say)
        # shows it only when it is asked again.
        program.ask("iscsiadm", "-m", "node", "-T", target, "-p", portal, "--rescan")
