# SPDX-License-Identifier: GPL-2.0-only
"""Cells in the VM lab: two QEMU hosts with Debian's kernel, in real time (cell/hosts.py).

One after another on one pair of hosts; each takes down what it built, and after one that didn't end
well both hosts go back to their snapshot. Without KVM their CPUs are emulated: each request costs
milliseconds of that, which no model has, so the models' limits aren't told, and rows compare with
those of the same run only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import shlex
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cached
from cell import hosts
from cell.order import LOCAL, NOWHERE, Order
from laberror import LabError
from runner import cells, results
from runner.experiment import TOP, Cell
from runner.results import Row
from vmlab import Lab

STATE = TOP / "build/vm-bench"
TREE = Path("/lockstep")  # in the hosts, as in the sim lab
FILES = ("bench/cell", "tests/sim/guest/locklab", "tests/lab/wires.py", "tests/lab/wires.json")
OUT = "/out"
# What either host needs; the rest is loaded by its name when it is wanted.
READY = {
    "primary": """
        systemctl stop iscsid.socket iscsid.service open-iscsi.service
        modprobe -a dm-media iscsi_tcp raid1 dm-mirror dm-multipath dm-round-robin drbd dm-lockstep
        """,
    "mirror": """
        modprobe -a dm-media configfs iscsi_target_mod target_core_iblock target_core_dcd tcm_loop
        modprobe -a nd_pmem dm-writecache bcache drbd
        mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
        # The mirror site of the sim lab is a namespace; here it is the host's own one.
        ip netns attach mirror 1
        """,
}


class Broken(Exception):
    """The cell didn't end well; the text says why."""


class Vm:
    """A pair of hosts that is up. The caller ends it."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._ready = False

    def __call__(self, cell: Cell, out: Path) -> Row:
        began = time.time()
        ready = cells.prepared(cell, TREE)
        row: Row = {"order": dataclasses.asdict(ready.order), **ready.about}
        row["limits"] = {}  # the models' limits aren't an emulated CPU's
        why = hosts.why_not(cell.order)
        row |= {"absent": why} if why else self._answer(ready.order, cell, out)
        row["wall"] = {"began": round(began), "seconds": round(time.time() - began, 2)}
        return row

    def end(self) -> None:
        self._lab.down()

    def versions(self) -> dict[str, str]:
        release = self._lab.release
        found = {"kernel": release, "accel": self._lab.accel,
                 "image": cached.entry("vm-image").name}  # fmt: skip
        return found | results.modules(release)

    def _answer(self, order: Order, cell: Cell, out: Path) -> Row:
        place = out / cell.experiment / cell.place
        answer: Row = {}
        try:
            if not self._ready:
                self._make_ready()
            answer = self._carried_out(order, cell.patience)
            self._fetch(place)
        except (Broken, LabError) as err:
            answer = {"error": " ".join(str(err).splitlines()[-2:])}
        self._ready = "result" in answer
        return answer

    def _make_ready(self) -> None:
        self._lab.restore()
        self._lab.push()
        for name in self._lab.hosts:
            self._lab.send(name, {str(TREE / one): TOP / one for one in FILES})
            bins = f"mkdir -p {TREE}/build; ln -s /usr/local/bin {TREE}/build/bin"
            self._lab.ssh(name, f"set -e; {bins}\n{READY[name]}")

    def _carried_out(self, order: Order, patience: float) -> Row:
        replayed = Path(str(order.params.get("file", "")))
        if replayed.is_relative_to(TREE):
            self._lab.send("primary", {str(replayed): TOP / replayed.relative_to(TREE)})
        for name in self._lab.hosts:
            self._lab.ssh(name, f"rm -rf {OUT}/*; ip link set link0 mtu {order.stack.mtu}")
        with contextlib.ExitStack() as both:
            site: Program | None = None
            if order.stack.remote not in (LOCAL, NOWHERE):
                site = both.enter_context(self._program("mirror", "site", order, patience))
                first = site.said()
                if "told" not in first:
                    return first
            primary = both.enter_context(self._program("primary", "main", order, patience))
            while "ask" in (said := primary.said()):
                if said["ask"] == "wire":
                    self._lab.wire(said["profile"], order.seed, said["loss"])
                    primary.tell({"told": None})
                else:
                    primary.tell(site.answer(said) if site else {"error": "there is no site"})
            return said

    @contextlib.contextmanager
    def _program(self, host: str, name: str, order: Order, patience: float) -> Iterator[Program]:
        paths = ":".join(f"{TREE}/{one}" for one in ("tests/sim/guest", "tests/lab"))
        command = (
            f"cd / && PYTHONPATH={paths} LAB=vm LAB_OUT={OUT} LAB_SEED={order.seed} "
            f"python3 {TREE}/bench/cell/{name}.py {shlex.quote(order.text())}"
        )
        machine = self._lab.machine(host)
        machine.check_alive()
        with Program(host, machine.shell.words(command), patience) as one:
            yield one

    def _fetch(self, place: Path) -> None:
        """What the cell left in its folder in the primary."""
        place.mkdir(parents=True, exist_ok=True)
        words = self._lab.machine("primary").shell.words(f"tar -cz -C {OUT} .")
        done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise Broken(f"{OUT} of the primary: {done.stderr.decode(errors='replace').strip()}")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
            tar.extractall(place, filter="data")


class Program:
    """One in a host that says lines of JSON and takes some; killed if it takes too long."""

    def __init__(self, host: str, words: list[str], patience: float) -> None:
        self._host, self._patience = host, patience
        self._late = False
        self._errors: list[str] = []
        self._child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)  # fmt: skip
        self._timer = threading.Timer(patience, self._too_late)
        self._reader = threading.Thread(target=self._read_errors, daemon=True)

    def __enter__(self) -> Program:
        self._timer.start()
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Lets it take down what it built, unless something went wrong."""
        if kind:
            self._child.kill()
        assert self._child.stdin and self._child.stdout
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()
        self._child.stdout.read()
        code = self._child.wait()
        self._timer.cancel()
        self._reader.join()
        if code and not kind:
            raise self._broken(f"rc {code}")

    def said(self) -> Row:
        """The next line; what isn't JSON is somebody's chatter."""
        assert self._child.stdout
        for line in self._child.stdout:
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    return found
        raise self._broken(f"rc {self._child.wait()}")

    def tell(self, answer: Mapping[str, Any]) -> None:
        assert self._child.stdin
        with contextlib.suppress(BrokenPipeError):  # its own words tell why
            print(json.dumps(answer), file=self._child.stdin, flush=True)

    def answer(self, request: Mapping[str, Any]) -> Row:
        self.tell(request)
        return self.said()

    def _broken(self, how: str) -> Broken:
        self._reader.join()
        if self._late:
            return Broken(f"{self._host}: no end after {self._patience:g} s")
        return Broken(f"{self._host}: {' '.join(self._errors[-2:]) or how}")

    def _too_late(self) -> None:
        self._late = True
        self._child.kill()

    def _read_errors(self) -> None:
        assert self._child.stderr
        self._errors += [line.strip() for line in self._child.stderr if line.strip()]


@contextlib.contextmanager
def up() -> Iterator[Vm]:
    """A pair of hosts of the bench's own, whatever other labs of this tree are up. They end with
    this program, or with the thread of it that restored them."""
    lab = Lab(STATE, mortal=True)
    try:
        lab.up()
        yield Vm(lab)
    finally:
        lab.down()
