# SPDX-License-Identifier: GPL-2.0-only
"""What a 4 KiB write costs the CPU, over two RAM disks: of a mirror (lockstep, md raid1, dm-mirror,
and bare: one disk), and with a read of a LUN at the target itself (iblock, fileio, the DCD). All in
one boot, one after another; with --rounds in turns.

Debian's stock kernel on one emulated CPU whose clock counts instructions (QEMU: TCG, icount
shift=0): a nanosecond of the guest is an instruction, of the kernel and of the load together. So
no PMU is needed, what the host does meanwhile doesn't matter, and a second run gives nearly the
same figures; how far they are apart is what the guest's own timing makes of the same work. A load
of N writes less one of N/2 leaves out the load's own start. While the CPU idles the clock goes on
without instructions: so what is counted is the time for which tasks have run.

The LUNs (LIO's loopback fabric) are on one RAM disk; fileio writes through (O_DSYNC), as it does by
default. dcd has its log on the other one, and its cost has the destaging to the data disk in it;
so has that of dcd-pmem, whose NVRAM is persistent memory (DAX) in the place of kernel memory.
dcd-burst destages nothing while it is measured. dcd-nocache has no read cache; with it all reads
but a place's first one are from there. The emulated CPU (qemu.TCG_CPU) has SSE4.2 and PCLMULQDQ,
and crc32c-intel uses them.

A line for each peer, kind and number in flight: the mean of the rounds, the least, the most, and
how many times that of the control (md raid1 for a mirror, iblock for a LUN); how many a second one
such CPU does, at one instruction a nanosecond. With --real-time the figures are how many a second,
the median in the place of the mean: by KVM where that works, else on an emulated CPU that runs as
fast as it can: then only the ratios mean something.

The same in CPU seconds, for the mirrors, where the host does disturb: tests/sim/cpu-cost.

Needs `make modules-6.12 bins`. About a minute for each peer on a slow core.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import cached
import qemu
from laberror import LabError

TOP = Path(__file__).resolve().parents[2]
INIT = Path(__file__).with_name("instructions-init.sh")
MIRRORS = ("bare", "lockstep", "md", "dm-mirror")
LUNS = ("iblock", "fileio", "dcd-burst", "dcd", "dcd-pmem", "dcd-nocache")
GROUPS = {"mirrors": MIRRORS, "luns": LUNS}
CONTROL = {**dict.fromkeys(MIRRORS, "md"), **dict.fromkeys(LUNS, "iblock")}
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
BLOCK_KIB = 4
# What a burst may put into the log, which is destaged from 97 % on; its entries take room, too.
BURST_KIB = RAM_KIB * 3 // 4
ROUND_S = 1800.0
FILE = "results.json"
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
    archive.add("lib64/ld-linux-x86-64.so.2", (root / "lib64/ld-linux-x86-64.so.2").read_bytes())
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
    out: Path, peers: Sequence[str], depths: Sequence[int], writes: int, options: str,
    rounds: int, in_real_time: bool,
) -> str:  # fmt: skip
    """Runs the guest to its end; what its console said."""
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
        **({} if in_real_time else {"tsc": "reliable"}), "lab.rounds": str(rounds),
        "lab.peers": ",".join(peers), "lab.depths": ",".join(map(str, depths)),
        "lab.writes": str(writes), "lab.lockstep": options.replace(" ", ","),
        "lab.loads": "stream,fetch" if luns else "stream",
        **({"memmap": "64M!768M"} if "dcd-pmem" in peers else {}),
    }  # fmt: skip
    words = [
        *qemu.system(), "-machine", "q35", *(real_cpu(out) if in_real_time else COUNTING_CPU),
        "-smp", "1", "-m", "1G", "-nodefaults",
        "-no-user-config", "-display", "none", "-no-reboot", "-kernel", str(out / "vmlinuz"),
        "-initrd", str(out / "initrd"), "-serial", f"file:{console}",
        "-append", " ".join(k if v is None else f"{k}={v}" for k, v in tell.items()),
    ]  # fmt: skip
    try:
        done = subprocess.run(words, env=qemu.environment(), timeout=ROUND_S * rounds,
                              capture_output=True, text=True, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LabError(f"no end after {ROUND_S * rounds:g} s; see {console}") from None
    if done.returncode:
        raise LabError(f"QEMU: rc {done.returncode}: {done.stderr.strip()}")
    return console.read_text(encoding="utf-8", errors="replace")


def results(said: str, console: Path, in_real_time: bool = False) -> list[Result]:
    """Of the second half of each load. In real time, where a busy host can make that the shorter
    one, of the whole: its own start is little beside what the host does."""
    rows = re.findall(r"^RESULT (\S+) (\d+) (\d+) (\d+) (\d+)", said, re.MULTILINE)
    if not re.search(r"^DONE", said, re.MULTILINE):
        last = said.strip().splitlines()[-1:] or ["(nothing)"]
        raise LabError(f"the guest didn't end well, its last line: {last[0]}; see {console}")
    found = []
    for less, more in zip(rows[::2], rows[1::2], strict=True):
        half = (0, 0, 0) if in_real_time else tuple(map(int, less[2:]))
        writes, passed_us, ran = (int(all) - some for all, some in zip(more[2:], half, strict=True))
        passed = passed_us * 1000
        if passed <= 0:
            raise LabError(f"{more[0]}: {writes} writes are too few to tell their time")
        found.append(Result(more[0], int(more[1]), writes, ran / writes, writes * 1e9 / passed,
                            1 - ran / passed))  # fmt: skip
    return found


def figures(found: Iterable[Result], in_real_time: bool) -> dict[tuple[str, int], list[float]]:
    """By name and number in flight, one of each round."""
    each: dict[tuple[str, int], list[float]] = {}
    for one in found:
        value = one.a_second if in_real_time else one.instructions
        each.setdefault((one.peer, one.depth), []).append(value)
    return each


def table(found: Sequence[Result], in_real_time: bool) -> list[str]:
    each = figures(found, in_real_time)
    middle = statistics.median if in_real_time else statistics.fmean
    what = "a second" if in_real_time else "instructions"
    told = [f"{'':20}{'in flight':>9}{what:>14}{'least':>9}{'most':>9}{'x control':>11}"
            + ("" if in_real_time else f"{'a second':>10}")]  # fmt: skip
    for (peer, depth), values in each.items():
        name, _, kind = peer.partition(":")
        control = each.get((CONTROL[name] + peer.removeprefix(name), depth))
        own = [one for one in found if (one.peer, one.depth) == (peer, depth)]
        idle = statistics.fmean(one.idle_share for one in own)
        line = f"{name:12}{kind or 'writes':8}{depth:9}"
        line += f"{middle(values):14.0f}{min(values):9.0f}{max(values):9.0f}"
        line += f"{middle(values) / middle(control):11.2f}" if control else f"{'-':>11}"
        if not in_real_time:
            line += f"{statistics.fmean(one.a_second for one in own):10.0f}"
        told.append(line + (f"  idle {idle:.0%}" if idle > IDLE_TOLD else ""))
    return told


def save(file: Path, found: Sequence[Result], in_real_time: bool) -> None:
    told = {"real_time": in_real_time, "results": [asdict(one) for one in found]}
    file.write_text(json.dumps(told, indent=1) + "\n", "ascii")


def saved(file: Path) -> list[str]:
    """The table of what save() wrote."""
    told = json.loads(file.read_text("ascii"))
    return table([Result(**one) for one in told["results"]], told["real_time"])


def above_md(found: Sequence[Result]) -> list[int]:
    """With so many in flight lockstep takes more instructions than md."""
    mean = {key: statistics.fmean(each) for key, each in figures(found, False).items()}
    return [
        depth for peer, depth in mean
        if peer == "lockstep" and mean[peer, depth] > mean.get(("md", depth), math.inf)
    ]  # fmt: skip


def chosen(words: Sequence[str]) -> list[str]:
    """The peers that are named, each once. Raises ValueError."""
    named = [peer for word in words for peer in GROUPS.get(word, (word,))]
    if unknown := [peer for peer in named if peer not in CONTROL]:
        raise ValueError(f"unknown peer {unknown[0]!r}; there are: {', '.join(CONTROL)}")
    return list(dict.fromkeys(named or CONTROL))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench/instructions", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("peer", nargs="*", help=f"of: {', '.join(MIRRORS)} (together: mirrors); "
                        f"{', '.join(LUNS)} (together: luns); default: all")  # fmt: skip
    parser.add_argument("--depths", default="1,32", help="writes in flight (default 1,32)")
    parser.add_argument("--writes", type=int, default=8192, help="(default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="so often each (default 1)")
    parser.add_argument("--real-time", action="store_true", help="how many a second instead")
    parser.add_argument("--options", default="1 nosync", help="what follows lockstep's devices")
    parser.add_argument("--goal", action="store_true", help="exit code 1 if lockstep is above md")
    parser.add_argument("--out", type=Path, default=TOP / "build/bench/instructions")
    args = parser.parse_args()
    try:
        peers = chosen(args.peer)
        depths = [int(word) for word in args.depths.split(",")]
    except ValueError as err:
        parser.error(str(err))
    if args.goal and args.real_time:
        parser.error("--goal is about instructions")
    if "dcd-burst" in peers and args.writes * BLOCK_KIB > BURST_KIB:
        parser.error(f"dcd-burst's log has room for {BURST_KIB // BLOCK_KIB} writes")
    try:
        said = boot(args.out, peers, depths, args.writes, args.options, args.rounds, args.real_time)
        found = results(said, args.out / "console", args.real_time)
    except LabError as err:
        print(f"instructions: {err}", file=sys.stderr)
        return 1
    save(args.out / FILE, found, args.real_time)
    print("\n".join(table(found, args.real_time)))
    above = [] if args.real_time else above_md(found)
    for depth in above:
        print(f"above md raid1 with {depth} in flight")
    return 1 if args.goal and above else 0


if __name__ == "__main__":
    sys.exit(main())
