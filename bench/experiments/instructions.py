# SPDX-License-Identifier: GPL-2.0-only
"""Instructions for each 4 KiB write over two RAM disks: lockstep, md raid1, dm-mirror, bare; and
with --loopback for each write and read of a LUN at the target itself: iblock, fileio, the DCD.

Debian's stock kernel on one emulated CPU whose clock counts instructions (QEMU: TCG, icount
shift=0): a nanosecond of the guest is an instruction, of the kernel and of the load together. So
no PMU is needed, what the host does meanwhile doesn't matter, and a second run gives nearly the
same figures. A load of N writes less one of N/2 leaves out the load's own start. While the CPU
idles the clock goes on without instructions: so what is counted is the time for which tasks have
run.

The LUNs (LIO's loopback fabric) are on one RAM disk; fileio writes through (O_DSYNC), as it does by
default. dcd has its log on the other one, and its cost has the destaging to the data disk in it;
so has that of dcd-pmem, whose NVRAM is persistent memory (DAX) in the place of kernel memory.
dcd-burst destages nothing meanwhile. dcd-nocache has no read cache; with it all reads but a place's
first one are from there. Also told: how many a second one such CPU does, at one instruction a
nanosecond. The emulated CPU (qemu.TCG_CPU) has SSE4.2 and PCLMULQDQ, and crc32c-intel uses them.

With --rounds: how many a second in real time, each peer so often, in turns in one boot: the least,
the median and the most. By KVM where that works, else on an emulated CPU that runs as fast as it
can: then only the ratios mean something.

Needs `make modules-6.12 bins`. About a minute for each peer on a slow core.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import cached
import qemu
from laberror import LabError

TOP = Path(__file__).resolve().parents[2]
INIT = Path(__file__).with_name("instructions-init.sh")
PEERS = ("bare", "lockstep", "md", "dm-mirror")
LUNS = ("iblock", "fileio", "dcd-burst", "dcd", "dcd-pmem", "dcd-nocache")
PROGRAMS = ("bash", "dd", "ln", "rm", "rmdir", "mkdir", "mount", "sleep", "insmod", "dmsetup",
            "mdadm")  # fmt: skip
RAM_KIB = 65536
# As on any host, where the CPU's own modules are loaded first.
MODULES = {"crc32c-intel": "", "brd": f"rd_nr=2 rd_size={RAM_KIB}", "dm-mirror": "", "raid1": "",
           "dm-lockstep": ""}  # fmt: skip
LUN_MODULES = {"nd_e820": "", "nd_pmem": "", "sd_mod": "", "target_core_iblock": "",
               "target_core_file": "", "tcm_loop": "", "target_core_dcd": ""}  # fmt: skip
OURS = ("mirror-load", "dcd")
COUNTING_CPU = ("-accel", "tcg,thread=single", "-cpu", qemu.TCG_CPU,
                "-icount", "shift=0,align=off,sleep=off")  # fmt: skip
GUEST_S = 1800.0
IDLE_TOLD = 0.1


@dataclass(frozen=True)
class Result:
    peer: str
    depth: int
    writes: int
    instructions: float  # for each write
    a_second: float
    idle_share: float  # of the time; ends of loads wait for a timer's tick, so a few % are noise


def libraries(root: Path, program: Path) -> Iterator[Path]:
    """What the program's own loader would load for it, as paths in the root."""
    loader = root / "lib64/ld-linux-x86-64.so.2"
    where = str(root / "usr/lib/x86_64-linux-gnu")
    words = [str(loader), "--library-path", where, "--list", str(program)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for found in re.findall(r"=> (/\S+)", said):
        yield Path(found)


def modules(kernel: Path, release: str, wanted: dict[str, str]) -> list[tuple[Path, str]]:
    """Files and parameters, what a module depends on before it."""
    there = {path.name.split(".")[0].replace("-", "_"): path
             for path in (kernel / "usr/lib/modules" / release).rglob("*.ko*")}  # fmt: skip
    for path in (TOP / "build/modules" / release).glob("*.ko"):
        there[path.stem.replace("-", "_")] = path
    order: list[tuple[Path, str]] = []

    def add(name: str, parameters: str = "") -> None:
        path = there.get(name.replace("-", "_"))
        if path is None:
            raise LabError(f"no module {name} for {release}: run `make modules-6.12`")
        if any(path == one for one, _ in order):
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", b"\0" + content(path))
        for needed in depends[1].decode().split(",") if depends else ():
            if needed:
                add(needed)
        order.append((path, parameters))

    for name, parameters in wanted.items():
        add(name, parameters)
    return order


def content(module: Path) -> bytes:
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


class Cpio:
    """A newc archive, in memory."""

    def __init__(self) -> None:
        self._out = io.BytesIO()
        self._inode = 0
        self._made: set[str] = set()

    def add(self, name: str, data: bytes, mode: int = 0o100755) -> None:
        parent = os.path.dirname(name)
        if parent and parent not in self._made:
            self.add(parent, b"", 0o040755)
            self._made.add(parent)
        self._entry(name, data, mode)

    def _entry(self, name: str, data: bytes, mode: int) -> None:
        self._inode += 1
        numbers = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        head = "070701" + "".join(f"{number:08X}" for number in numbers)
        for part in (head.encode() + name.encode() + b"\0", data):
            self._out.write(part + bytes(-len(part) % 4))

    def done(self) -> bytes:
        self._entry("TRAILER!!!", b"", 0)
        return self._out.getvalue()


def initrd(root: Path, kernel: Path, release: str, wanted: dict[str, str]) -> bytes:
    archive = Cpio()
    loaded: set[Path] = set()
    for directory in ("proc", "sys", "dev", "run", "tmp"):
        archive.add(directory, b"", 0o040755)
    for name in PROGRAMS:
        found = next((root / at / name for at in ("usr/bin", "usr/sbin")
                      if (root / at / name).exists()), None)  # fmt: skip
        if found is None:
            raise LabError(f"{root} has no program {name}")
        archive.add(f"bin/{name}", found.read_bytes())
        loaded.update(libraries(root, found.resolve()))
    for library in sorted(loaded):
        archive.add(f"lib/x86_64-linux-gnu/{library.name}", library.read_bytes())
    archive.add(
        "lib64/ld-linux-x86-64.so.2", (root / "lib64/ld-linux-x86-64.so.2").read_bytes()
    )
    for name in OURS:
        program = TOP / "build/bin" / name
        if not program.exists():
            raise LabError(f"no {program}: run `make bins`")
        archive.add(f"bin/{name}", program.read_bytes())
    order = modules(kernel, release, wanted)
    for path, _ in order:
        archive.add(f"modules/{path.name.removesuffix('.xz')}", content(path))
    lines = [f"{path.name.removesuffix('.xz')} {parameters}\n" for path, parameters in order]
    archive.add("modules/order", "".join(lines).encode(), 0o100644)
    archive.add("init", INIT.read_bytes())
    return archive.done()


def real_cpu(out: Path) -> list[str]:
    """One that is as fast as it can be; says which."""
    accel = qemu.accelerator(cached.entry("vm-image"), out / "accel")
    words = qemu.accel_args(accel)
    print(f"in real time, by {accel}", flush=True)
    return words[: words.index("-smp")]


def boot(
    out: Path, peers: Sequence[str], depths: Sequence[int], writes: int, options: str, rounds: int
) -> str:
    """Runs the guest to its end; what its console said. Without rounds in counted time."""
    tools, root = cached.entry("tools"), cached.entry("rootfs")
    kernel = tools / "opt/vm-kernel"
    release = (tools / ".lockstep/kernels").read_text().split()[0]
    out.mkdir(parents=True, exist_ok=True)
    luns = any(peer in LUNS for peer in peers)
    wanted = MODULES | (LUN_MODULES if luns else {})
    (out / "initrd").write_bytes(initrd(root, kernel, release, wanted))
    shutil.copyfile(kernel / f"boot/vmlinuz-{release}", out / "vmlinuz")
    console = out / "console"
    tell = {
        "console": "ttyS0", "panic": "-1", "quiet": None,
        **({} if rounds else {"tsc": "reliable"}), "lab.rounds": str(rounds or 1),
        "lab.peers": ",".join(peers), "lab.depths": ",".join(map(str, depths)),
        "lab.writes": str(writes), "lab.lockstep": options.replace(" ", ","),
        "lab.loads": "stream,fetch" if luns else "stream",
        **({"memmap": "64M!768M"} if "dcd-pmem" in peers else {}),
    }  # fmt: skip
    words = [
        *qemu.system(), "-machine", "q35", *(real_cpu(out) if rounds else COUNTING_CPU),
        "-smp", "1", "-m", "1G", "-nodefaults",
        "-no-user-config", "-display", "none", "-no-reboot", "-kernel", str(out / "vmlinuz"),
        "-initrd", str(out / "initrd"), "-serial", f"file:{console}",
        "-append", " ".join(k if v is None else f"{k}={v}" for k, v in tell.items()),
    ]  # fmt: skip
    try:
        done = subprocess.run(words, env=qemu.environment(), timeout=GUEST_S, capture_output=True,
                              text=True, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LabError(f"no end after {GUEST_S:g} s; see {console}") from None
    if done.returncode:
        raise LabError(f"QEMU: rc {done.returncode}: {done.stderr.strip()}")
    return console.read_text(encoding="utf-8", errors="replace")


def results(said: str, console: Path) -> list[Result]:
    rows = re.findall(r"^RESULT (\S+) (\d+) (\d+) (\d+) (\d+)", said, re.MULTILINE)
    if not re.search(r"^DONE", said, re.MULTILINE):
        last = said.strip().splitlines()[-1:] or ["(nothing)"]
        raise LabError(f"the guest didn't end well, its last line: {last[0]}; see {console}")
    found = []
    for less, more in zip(rows[::2], rows[1::2], strict=True):
        writes = int(more[2]) - int(less[2])
        passed = (int(more[3]) - int(less[3])) * 1000
        ran = int(more[4]) - int(less[4])
        found.append(Result(more[0], int(more[1]), writes, ran / writes, writes * 1e9 / passed,
                            1 - ran / passed))  # fmt: skip
    return found


def real_time(found: Sequence[Result]) -> list[str]:
    """A line for each peer, load and depth: of its rounds the least, the median and the most."""
    rates: dict[tuple[str, int], list[float]] = {}
    for one in found:
        rates.setdefault((one.peer, one.depth), []).append(one.a_second)
    told = []
    for (peer, depth), each in rates.items():
        name, _, reads = peer.partition(":")
        told.append(f"{name:12}{depth:3} in flight: {reads or 'writes'} a second {min(each):.0f}, "
                    f"{statistics.median(each):.0f}, {max(each):.0f}")  # fmt: skip
    return told


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench/instructions", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("peer", nargs="*", help=f"of: {', '.join(PEERS)} (default: all); of LUNs: "
                        f"{', '.join(LUNS)}")  # fmt: skip
    parser.add_argument("--depths", default="1,32", help="writes in flight (default 1,32)")
    parser.add_argument("--writes", type=int, default=16384)
    parser.add_argument("--options", default="1 nosync", help="what follows lockstep's devices")
    parser.add_argument("--loopback", action="store_true", help="all of the LUNs")
    parser.add_argument("--rounds", type=int, default=0, help="in real time, so often each")
    parser.add_argument("--goal", action="store_true", help="exit code 1 if lockstep is above md")
    parser.add_argument("--out", type=Path, default=TOP / "build/bench/instructions")
    args = parser.parse_args()
    unknown = [name for name in args.peer if name not in PEERS + LUNS]
    if unknown:
        parser.error(f"unknown peer {unknown[0]!r}; there are: {', '.join(PEERS + LUNS)}")
    peers = args.peer or (LUNS if args.loopback else PEERS)
    depths = [int(word) for word in args.depths.split(",")]
    try:
        said = boot(args.out, peers, depths, args.writes, args.options, args.rounds)
        found = results(said, args.out / "console")
    except LabError as err:
        print(f"instructions: {err}", file=sys.stderr)
        return 1
    (args.out / "results.json").write_text(json.dumps([asdict(one) for one in found], indent=1))
    if args.rounds:
        print("\n".join(real_time(found)))
        return 0
    cost = {(one.peer, one.depth): one.instructions for one in found}
    for one in found:
        over = cost.get(("md", one.depth))
        peer, _, reads = one.peer.partition(":")
        print(f"{peer:12}{one.depth:3} in flight: {one.instructions:8.0f} instructions a "
              + (f"read, {one.a_second:.0f} a second" if reads else "write")
              + (f", {one.a_second:.0f} a second" if peer in LUNS and not reads else "")
              + (f", {one.instructions / over:.2f} of md raid1's" if over else "")
              + (f", idle {one.idle_share:.0%}" if one.idle_share > IDLE_TOLD else ""))  # fmt: skip
    above = [depth for depth in depths
             if cost.get(("lockstep", depth), 0) > cost.get(("md", depth), float("inf"))]
    for depth in above:
        print(f"above md raid1 with {depth} in flight")
    return 1 if args.goal and above else 0


if __name__ == "__main__":
    sys.exit(main())
