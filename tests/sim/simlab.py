# SPDX-License-Identifier: GPL-2.0-only
"""The sim lab's runner: one script, one kernel, one verdict. tests/sim/lab is its command.

A run boots a UML kernel (kcsan: one in QEMU) on the lab's root file system (never written: an
overlay in the guest's memory takes what it writes), loads the project's modules, runs the script,
and judges: the script's exit code, then the kernel's console. The guest's side is
tests/sim/guest/init.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import BinaryIO

import cached
import splat
from emulated import Emulated
from laberror import LabError
from uml import Sink, Uml, folder

TREE = Path(__file__).resolve().parents[2]
# By the cache's names; the modules of a kernel are in build/modules/ under the same name.
KERNELS = {
    "plain": "uml-plain", "checked": "uml-checked", "smp": "uml-smp", "kcsan": "x86-kcsan",
}  # fmt: skip
# Without simulated time, which has one CPU only.
REALTIME_KERNELS = ("smp", "kcsan")
EMULATED_KERNELS = ("kcsan",)
# How many CPUs such a kernel gets: as many as the machines have that the tests are made for.
CPUS = 2
# Order matters: each may use symbols of those before it. Modules not named here follow by name.
MODULE_ORDER = ("dcd", "target_core_dcd", "dm-media", "lab-nvram", "dm-lockstep")
# Built for the lab's own tests; loaded by them only.
NOT_LOADED = ("lab-splat",)
# Simulated time starts here, so that a run never depends on the date: 2023-11-14 22:13:20 UTC.
EPOCH_NS = 1_700_000_000 * 10**9

RC_SPLAT = 86
RC_TIMEOUT = 124
RC_LAB = 125

EPILOG = f"""\
exit code: the script's own; {RC_SPLAT} when the kernel splatted in a run that was good otherwise;
{RC_TIMEOUT} after --timeout or --sim-timeout; {RC_LAB} when the lab itself failed (no kernel, no
boot, the guest died).

stdout is the script's stdout and nothing else; with simulated time it is a function of the script,
its arguments, the kernel and the seed. In the guest: LAB_SEED, LAB_OUT (files left there are in
the output directory afterwards), LAB_KERNEL, the project at /lockstep (read only), its Python
library on PYTHONPATH. A script that makes a splat on purpose writes substrings of it, one a line,
to $LAB_OUT/expect-splat.

Looking for leaks: --boot slab_debug=U, and locklab.faults.slabs_of(MODULE) in the script. (kmemleak
is in the checked kernel and off: its scan ends with a panic.)
"""


@dataclass(frozen=True)
class Job:
    """What to run and how; all that decides a run's outcome."""

    script: Path
    args: tuple[str, ...] = ()
    kernel: str = "plain"
    realtime: bool = False
    seed: int = 1
    timeout_s: float = 300.0
    sim_timeout_s: float = 86_400.0
    memory: str = "2G"
    params: tuple[str, ...] = ()
    boot: tuple[str, ...] = ()
    modules: bool = True
    linux: Path | None = None


@dataclass(frozen=True)
class Verdict:
    rc: int
    complaints: tuple[str, ...]
    simulated_s: float | None
    wall_s: float
    cpu_s: float  # of the guest, on the host: user and system, its programs included


def run(job: Job, out: Path, stdout: BinaryIO, stderr: BinaryIO) -> Verdict:
    """Runs the job; `out` (existing, empty) gets console.log, stdout, stderr and the script's own
    files."""
    started, cpu_before = time.monotonic(), _cpu_of_children()
    guest_modules = _modules(job) if job.modules else []
    order = {
        "script": str(Path("/lockstep") / _inside_tree(job.script)),
        "args": list(job.args),
        "seed": job.seed,
        "kernel": job.kernel,
        "realtime": job.realtime,
        "sim_timeout_s": job.sim_timeout_s,
        "modules": [
            {"path": str(Path("/lockstep") / m.relative_to(TREE)), "params": _params(job, m)}
            for m in guest_modules
        ],
    }
    (out / "job.json").write_text(json.dumps(order, indent=1) + "\n", encoding="utf-8")
    control = bytearray()
    with (
        (out / "console.log").open("wb") as console,
        (out / "stdout").open("wb") as out_copy,
        (out / "stderr").open("wb") as err_copy,
    ):

        def tee(copy: BinaryIO, live: BinaryIO, data: bytes) -> None:
            copy.write(data)
            live.write(data)
            live.flush()

        def log(data: bytes) -> None:
            console.write(data)
            console.flush()

        guest = _guest(
            job, out,
            {
                "console": log,
                "stdout": lambda data: tee(out_copy, stdout, data),
                "stderr": lambda data: tee(err_copy, stderr, data),
                "control": control.extend,
            },
        )  # fmt: skip
        status = guest.run()
    wall_s, cpu_s = time.monotonic() - started, _cpu_of_children() - cpu_before
    return _judge(job, out, guest, status, control.decode(), wall_s, cpu_s)


def _guest(job: Job, out: Path, sinks: dict[str, Sink]) -> Uml:
    folders = (cached.entry("rootfs"), TREE / "tests" / "sim" / "guest", TREE, out)
    linux = job.linux or _linux(job.kernel)
    if job.kernel in EMULATED_KERNELS:
        cmdline = _emulated_cmdline(job)
        return Emulated(linux, cmdline, folders, sinks, job.timeout_s, False, job.memory, CPUS)
    return Uml(linux, _cmdline(job), folders, sinks, job.timeout_s)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _judge(
    job: Job, out: Path, guest: Uml, status: int, control: str, wall_s: float, cpu_s: float
) -> Verdict:
    said = dict(line.split(" ", 1) for line in control.splitlines() if " " in line)
    simulated = float(said["uptime"]) if "uptime" in said else None
    console = (out / "console.log").read_text(encoding="utf-8", errors="replace").splitlines()
    expect_file = out / "expect-splat"
    expected = None
    if expect_file.exists():
        expected = expect_file.read_text(encoding="utf-8").splitlines()
    complaints = splat.judge(splat.find(console), expected)
    if guest.timed_out:
        rc = RC_TIMEOUT
        complaints.insert(0, f"no end after {job.timeout_s:g} s of wall time: killed")
    elif "error" in said:
        rc = RC_LAB
        complaints.insert(0, f"the guest's init: {said['error']}")
    elif "rc" not in said:
        rc = RC_LAB
        last = console[-1] if console else "(nothing on the console)"
        complaints.insert(0, f"the guest died (status {status}); its last line: {last}")
    else:
        rc = int(said["rc"])
        if "late" in said:
            complaints.insert(0, f"no end after {said['late']} s of simulated time: killed")
        if rc == 0 and complaints:
            rc = RC_SPLAT
    return Verdict(rc, tuple(complaints), simulated, wall_s, cpu_s)


def _cmdline(job: Job) -> list[str]:
    # Nothing here may depend on the machine or the run: the guest's random numbers come from it.
    # The root is mounted before anything of ours can be reached, so the first program is the
    # root's own python, told in one line (no '=', no space that the kernel would cut at) to mount
    # the guest folder and go on there.
    root, guest, tree, out = (folder(number) for number in range(4))
    boot = (
        f"import ctypes;ctypes.CDLL(None).mount(b'guest',b'/mnt',b'hostfs',1,b'{guest}');"
        "exec(compile(open('/mnt/init').read(),'init','exec'))"
    )
    # kmemleak doubles the time of a run and can't scan (see EPILOG).
    leaks = [] if any(arg.startswith("kmemleak=") for arg in job.boot) else ["kmemleak=off"]
    cpus = [f"ncpus={CPUS}"] if job.kernel in REALTIME_KERNELS else []
    clock = [] if job.realtime else ["time-travel=inf-cpu", f"time-travel-start={EPOCH_NS}"]
    return [
        f"mem={job.memory}",
        "root=/dev/root",
        "rootfstype=hostfs",
        f"rootflags={root}",
        "ro",
        "seccomp=on",
        "loglevel=7",
        "kasan_multi_shot",
        "norandmaps",
        f"initcall_blacklist={_host_random(job)}",
        "scsi_debug.add_host=0",  # a script makes its own
        f"lab.seed={job.seed}",
        *cpus,
        *clock,
        *leaks,
        *job.boot,
        # Otherwise the interpreter waits for random numbers before init can see to them.
        "PYTHONHASHSEED=0",
        "init=/usr/bin/python3",
        "--",
        "-s",
        "-P",
        "-S",
        "-c",
        f'"{boot}"',
        tree,
        out,
    ]


def _emulated_cmdline(job: Job) -> list[str]:
    # As _cmdline(), by the tags of the shares.
    boot = (
        "import ctypes;ctypes.CDLL(None).mount(b'guest',b'/mnt',b'9p',1,None);"
        "exec(compile(open('/mnt/init').read(),'init','exec'))"
    )
    return [
        "console=ttyS0", "root=root", "rootfstype=9p", "rootflags=trans=virtio,msize=262144", "ro",
        "loglevel=7", "panic=-1", "mitigations=off", "scsi_debug.add_host=0",
        *job.boot, "init=/usr/bin/python3", "--", "-I", "-S", "-c", f'"{boot}"', "tree", "out",
    ]  # fmt: skip


def _host_random(job: Job) -> str:
    """The start of the driver of the host's /dev/random, as the kernel calls it to itself."""
    name = "rng_init"
    symbols = (job.linux or _linux(job.kernel)).parent / "build" / "System.map"
    if symbols.exists():
        # The checked kernel has no names for what is only needed at its start.
        for line in symbols.read_text(encoding="ascii").splitlines():
            address, _, symbol = line.split()
            if symbol == name:
                return f"{name},{int(address, 16):#x}"
    return name


def _linux(kernel: str) -> Path:
    entry = cached.entry(KERNELS[kernel])
    path = entry / ("bzImage" if kernel in EMULATED_KERNELS else "linux")
    if not path.exists():
        raise LabError(f"{entry} holds no kernel; remove it and run `make lab`")
    return path


def _modules(job: Job) -> list[Path]:
    where = TREE / "build" / "modules" / KERNELS[job.kernel]
    there = {path.stem.replace("-", "_"): path for path in sorted(where.glob("*.ko"))}
    first = [name.replace("-", "_") for name in MODULE_ORDER]
    skip = {name.replace("-", "_") for name in NOT_LOADED}
    names = [name for name in first if name in there]
    names += [name for name in there if name not in first and name not in skip]
    return [there[name] for name in names]


def _params(job: Job, module: Path) -> str:
    name = module.stem.replace("-", "_")
    mine = []
    for param in job.params:
        owner, dot, rest = param.partition(".")
        if not dot or "=" not in rest:
            raise LabError(f"--param {param!r}: want MODULE.PARAMETER=VALUE")
        if owner.replace("-", "_") == name:
            mine.append(rest)
    return " ".join(mine)


def _inside_tree(script: Path) -> Path:
    try:
        return script.resolve(strict=True).relative_to(TREE)
    except FileNotFoundError as err:
        raise LabError(f"no script {script}") from err
    except ValueError as err:
        raise LabError(f"{script} is outside {TREE}: the guest sees nothing else") from err


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/sim/lab",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser(
        "run", help="run a script", epilog=EPILOG, usage="%(prog)s SCRIPT [options] [-- ARGS...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("script", type=Path, help="Python (*.py) or shell script inside the project")
    one.add_argument("--kernel", choices=KERNELS, default="plain")
    one.add_argument(
        "--realtime", action="store_true",
        help="the host's clock, not simulated time (smp, kcsan: always)",
    )
    one.add_argument("--seed", type=int, default=1, help="decides all that is random (default 1)")
    one.add_argument("--timeout", type=float, default=300.0, metavar="S", help="wall time")
    one.add_argument("--sim-timeout", type=float, default=86_400.0, metavar="S")
    one.add_argument("--out", type=Path, metavar="DIR", help="keep the output here (emptied first)")
    one.add_argument("--mem", default="2G", help="the guest's memory (default 2G)")
    one.add_argument(
        "--param", action="append", default=[], metavar="MODULE.PARAMETER=VALUE",
        help="module parameter at load time",
    )
    one.add_argument("--boot", action="append", default=[], metavar="ARG", help="kernel argument")
    one.add_argument("--linux", type=Path, metavar="FILE", help="a kernel of your own build")
    one.add_argument("--no-modules", action="store_true", help="load none of the project's modules")
    return parser


def _fresh_out(wanted: Path | None, job: Job) -> Path:
    if wanted is not None:
        if wanted.exists():
            if any(wanted.iterdir()) and not (wanted / "job.json").exists():
                raise LabError(f"--out {wanted}: not empty and not of an earlier run")
            shutil.rmtree(wanted)
        wanted.mkdir(parents=True)
        return wanted.resolve()
    parent = TREE / "build" / "sim"
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{job.script.stem}-{job.kernel}-", dir=parent))


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _on_signal(number: int, _frame: FrameType | None) -> None:
    for one in SIGNALS:  # another one must not end what this one begins
        signal.signal(one, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main(argv: Sequence[str]) -> int:
    ours, scripts = list(argv), list[str]()
    if "--" in ours:
        cut = ours.index("--")
        ours, scripts = ours[:cut], ours[cut + 1 :]
    args = _parser().parse_args(ours)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _on_signal)
    job = Job(
        script=args.script,
        args=tuple(scripts),
        kernel=args.kernel,
        realtime=args.realtime or args.kernel in REALTIME_KERNELS,
        seed=args.seed,
        timeout_s=args.timeout,
        sim_timeout_s=args.sim_timeout,
        memory=args.mem,
        params=tuple(args.param),
        boot=tuple(args.boot),
        modules=not args.no_modules,
        linux=args.linux,
    )
    try:
        out = _fresh_out(args.out, job)
        verdict = run(job, out, sys.stdout.buffer, sys.stderr.buffer)
    except LabError as err:
        print(f"lab: {err}", file=sys.stderr)
        return RC_LAB
    for line in verdict.complaints:
        print(f"lab: {line}", file=sys.stderr)
    simulated = "" if verdict.simulated_s is None else f"{verdict.simulated_s:.3f} s inside, "
    print(
        f"lab: {job.script.name} on {job.kernel}, seed {job.seed}: rc {verdict.rc}, "
        f"{simulated}{verdict.wall_s:.1f} s wall, {verdict.cpu_s:.2f} s CPU",
        file=sys.stderr,
    )
    if args.out is None and verdict.rc == 0 and not os.environ.get("LAB_KEEP"):
        shutil.rmtree(out)
    else:
        print(f"lab: console and files in {os.path.relpath(out)}", file=sys.stderr)
    return verdict.rc
