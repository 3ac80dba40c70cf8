# SPDX-License-Identifier: GPL-2.0-only
"""Both sites in one kernel, made so that either can lose its power.

The mirror site (media, NVRAM, DCD, iSCSI target in the namespace `mirror`) and
the primary (local medium, iSCSI session, lockstep mirror) are objects that can
be torn down and put together again on what a power cut has left. What is done
for each cut is done by ioctl and by writing files: a process costs more than
the whole recovery.
"""

import argparse
import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import statelab
from locklab import base, dm, lio, media, mirror, wire
from locklab.base import Wrong, made, put, run
from locklab.media import MIRROR_SITE
from mirrorlab import FIELDS

TORTURE = os.environ.get("TORTURE", "/lockstep/build/bin/torture")
DCD_TOOL = os.environ.get("DCD_TOOL", "/lockstep/build/bin/dcd")
COPIES = Path("/run/copies")
ORPHANS = Path("/proc/sys/net/ipv4/tcp_max_orphans")
MIRROR_SYSFS = Path("/run/mirror-sysfs")
SERIAL = "6c6f636b-7374-6570-0000-000000000001"

LEG_MIB = 8
LEG = LEG_MIB << 11  # sectors of a leg
LOG_MIB = 8
NVRAM_KIB = 1024


class Wire(wire.Wire):
    """The wire, which can also be cut by writing a file.

    The mirror's end goes down, so what is on the way is lost on both ways and
    the primary's end sees only silence; and it happens within the one system
    call, as the instant of a power cut wants it.
    """

    def __init__(self) -> None:
        super().__init__("lan")
        made(MIRROR_SYSFS)
        run("nsenter", f"--net={wire.NETNS}", "mount", "-t", "sysfs", "sysfs", str(MIRROR_SYSFS))
        self.flags = MIRROR_SYSFS / "class/net/v1/flags"

    @property
    def cut_control(self) -> str:
        return f"{self.flags}=0x1002"

    def plug_in(self) -> None:
        put(self.flags, "0x1003")


def site_cut(site: int, seed: int) -> str:
    """The same as media.cut(), for the torture program to write."""
    return f"{media.CONTROL}/cut={site} {seed}"


class Site:
    """The mirror site: media, NVRAM, backstore and target, as often as its power comes back."""

    def __init__(self, backstore: str, model: str, lie: bool, nvram: str = "lab") -> None:
        self.kind, self.model, self.lie, self.nvram = backstore, model, lie, nvram
        self.cache = False  # an iblock backstore's disk has a volatile one, and its LUN says so
        self.offline = False  # `dcd recover` shows on copies what the module has to come to
        self._nodes: dict[str, str] = {}
        self._store: lio.Backstore | None = None
        self._target: lio.Target | None = None

    @property
    def store(self) -> lio.Backstore:
        assert self._store, "the mirror site has no power"
        return self._store

    def node(self, name: str) -> str:
        return self._nodes[name]

    def power_on(self, fresh: bool) -> None:
        """Media, NVRAM and backstore; @fresh: new ones, formatted."""
        if fresh:
            for name in ("m-data", "m-log", "m-nvram"):
                media.forget(name)
        data = self._disk("m-data", LEG_MIB)
        if self.kind == "iblock":
            self._store = lio.Backstore("iblock", "leg", f"udev_path={data}", SERIAL)
            return
        log = self._disk("m-log", LOG_MIB)
        view = nvram = "none"
        if self.nvram == "lab":
            self._nodes["m-nvram"] = view = media.nvram("m-nvram", NVRAM_KIB, site=MIRROR_SITE)
            nvram = "lab:m-nvram"
        if fresh:
            run(DCD_TOOL, "format", "--data", data, "--log", log, "--nvram", view)
        elif self.offline:
            self._recover_copies(data, log, view)
        control = f"data={data},log={log},nvram={nvram},nvram_bytes={NVRAM_KIB << 10}"
        self._store = lio.Backstore("dcd", "leg", control, SERIAL)

    def _recover_copies(self, *nodes: str) -> None:
        """What `dcd recover` makes of the same disks and NVRAM, before the module opens them."""
        made(COPIES)
        if (COPIES / "data").exists():
            (COPIES / "data").replace(COPIES / "data.before")
        words = []
        for name, node in zip(("data", "log", "nvram"), nodes, strict=True):
            words += [f"--{name}", "none" if node == "none" else str(COPIES / name)]
            if node != "none":
                shutil.copyfile(node, COPIES / name)
        run(DCD_TOOL, "recover", *words)
        run(DCD_TOOL, "check", *words)

    def same_as_offline(self, node: str, twice: bool) -> None:
        """The LUN as the module has recovered it is the data disk that `dcd recover` has made.

        @twice: and what that made at the first of two cuts, without a write between them.
        """
        if not self.offline:
            return
        if twice and (COPIES / "data").read_bytes() != (COPIES / "data.before").read_bytes():
            raise Wrong("dcd recover makes something else after a cut in the module's recovery")
        with open(node, "rb") as lun, open(COPIES / "data", "rb") as copy:
            for at in range(0, LEG_MIB << 20, 1 << 16):
                if lun.read(1 << 16) != copy.read(1 << 16):
                    raise Wrong(f"module and dcd recover differ behind byte {at}")

    def power_off(self) -> None:
        """What is left of a site after its cut, or an orderly end.

        Its sockets have to be gone before the wire is mended: else TCP would still deliver
        what the site answered after the cut, from writes that it doesn't have.
        """
        if self._target:
            orphans = ORPHANS.read_text()
            put(ORPHANS, "-1")
            self._target.remove()
            put(ORPHANS, orphans)
            self._target = None
        self.store.remove()
        self._store = None
        for name in reversed(self._nodes):
            dm.remove(name)
        self._nodes.clear()

    def export(self) -> None:
        """Gives the leg to the primary, by iSCSI."""
        self._target = lio.Target(self.store)

    def _disk(self, name: str, mib: int) -> str:
        node = media.disk(
            name, mib, self.model, site=MIRROR_SITE,
            write_cache="off" if self.kind == "iblock" and not (self.lie or self.cache) else "on",
            flush="lie" if self.lie else "honest",
        )  # fmt: skip
        self._nodes[name] = node
        return node


@dataclass
class Load:
    """The torture program at work."""

    device: str
    seed: int
    cut_us: int
    cuts: list[str]
    more: int = 0
    depth: int = 16
    pause_us: int = 200
    state: str = "/run/torture.state"
    process: subprocess.Popen[str] | None = None
    lines: list[str] = field(default_factory=list)

    def start(self) -> None:
        words = [TORTURE, "load", "--device", self.device, "--state", self.state]
        words += ["--seed", str(self.seed), "--cut-after-us", str(self.cut_us * base.PATIENCE)]
        words += ["--depth", str(self.depth), "--pause-us", str(self.pause_us)]
        if self.more:
            words += ["--more", str(self.more)]
        for cut in self.cuts:
            words += ["--cut", cut]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _read(self, kind: str) -> str:
        assert self.process and self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith(kind):
                return line.strip()
        assert self.process.stderr
        raise Wrong(f"torture ended: {self.lines} {self.process.stderr.read()}")

    def wait_cut(self) -> str:
        """Returns at the instant of the cut."""
        return self._read("cut:")

    def wait_end(self) -> str:
        assert self.process
        line = self._read("end:")
        code = self.process.wait()
        if code:
            raise Wrong(f"torture saw errors after the cut: {self.lines}")
        return line


def create(local: str, remote: str, rng: random.Random) -> None:
    """Metadata on two new legs: the remote one is to be filled, or blank like the local one."""
    statelab.create(local, remote, *(["--assume-clean"] if rng.random() < 0.5 else []))


def assembled(local: str, remote: str) -> mirror.Mirror:
    """As the legs' metadata say, nothing else; a dead leg comes back by itself. One batch on the
    way, so that as many writes as can wait in the next one."""
    sectors = statelab.super_of(local).data_sectors
    words = ("rejoin", 1, "coalesce_pipeline", 1)
    return mirror.Mirror(local, remote, *words, sectors=sectors)


def number(device: mirror.Mirror, field: str) -> int:
    return int(device.status().rest[FIELDS.index(field)])


@contextlib.contextmanager
def data_of(node: str) -> Iterator[str]:
    """A leg's data, without its metadata: a device of the mirror's size."""
    name = f"data-{Path(node).name}"
    yield dm.create(name, f"0 {statelab.super_of(node).data_sectors} linear {node} 0")
    dm.remove(name)


def check(node: str, state: str, promise: str) -> None:
    done = subprocess.run(
        [TORTURE, "check", "--device", node, "--state", state, "--promise", promise],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise Wrong(f"{done.stdout}{done.stderr}".strip())


def check_leg(node: str, state: str, promise: str) -> None:
    with data_of(node) as data:
        check(data, state, promise)


def compare_legs(a: str, b: str) -> None:
    with data_of(a) as one, data_of(b) as two:
        done = subprocess.run([TORTURE, "compare", one, two], capture_output=True, text=True)
    if done.returncode:
        raise Wrong(f"legs differ: {done.stdout}{done.stderr}".strip())


def arguments() -> argparse.ArgumentParser:
    """Those that cuts of either site have."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuts", type=int, default=10)
    parser.add_argument("--first", type=int, default=int(os.environ.get("LAB_SEED", "1")))
    parser.add_argument("--backstore", choices=("dcd", "iblock"), default="dcd")
    parser.add_argument("--nvram", choices=("lab", "none"), default="lab", help="of a DCD")
    parser.add_argument("--model", choices=("null", "ssd", "spindle"), default="ssd")
    parser.add_argument("--lie", action="store_true")
    return parser


def cut_loop(name: str, first: int, count: int, one: Callable[[int, random.Random], str]) -> int:
    """Runs the seeds, a line each; exit code 1 if one failed, and it stops there."""
    for seed in range(first, first + count):
        try:
            told = one(seed, random.Random(seed))
        except (Wrong, OSError) as e:
            print(f"{name} seed {seed}: FAIL {e}", flush=True)
            return 1
        print(f"{name} seed {seed}: {told}", flush=True)
    print(f"{name}: {count} cuts passed", flush=True)
    return 0
