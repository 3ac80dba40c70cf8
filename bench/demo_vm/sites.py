# SPDX-License-Identifier: GPL-2.0-only
"""The two hosts of the demo: what it puts there beside the roles, and what it asks of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from demo_vm import plan, spindles
from demo_vm.tell import Failed
from lockstep import status
from lockstep.status import Status
from vmlab import Lab

TOP = Path(__file__).resolve().parents[2]
# Of the lab's own, gone with the host's power: installed again after it.
TOOLS = "/run/lockstep-demo"
TOOL_FILES = {
    "tests/sim/guest/locklab": "locklab",
    "tests/lab/wires.py": "wires.py",
    "tests/lab/wires.json": "wires.json",
    "bench/demo_vm/acked.py": "demo_vm/acked.py",
    "bench/demo_vm/guest.py": "demo_vm/guest.py",
    "build/bin/replay": "replay",
}
SPINDLES = {
    "primary": [one.local for one in plan.MIRRORS],
    "mirror": [*(one.data for one in plan.MIRRORS), plan.LOG],
}
GUEST = f"PYTHONPATH={TOOLS} PYTHONDONTWRITEBYTECODE=1 python3 -m demo_vm.guest"


class Sites:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def run(self, host: str, command: str, timeout: float = 300.0) -> str:
        return self.lab.ssh(host, command, timeout=timeout).stdout

    def both(self, command: str) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda host: self.run(host, command), ("primary", "mirror")))

    # What the demo puts there.

    def send_tools(self, host: str, load: plan.Load) -> None:
        files: dict[str, bytes | Path] = {
            f"{TOOLS}/{to}": TOP / source for source, to in TOOL_FILES.items()
        }
        ranges = "".join(f"{start} {count}\n" for start, count in load.written)
        files |= {f"{TOOLS}/trace.bin": load.packed, f"{TOOLS}/written": ranges.encode()}
        self.lab.send(host, files)

    def install_spindles(self, host: str) -> None:
        """Writes them to the root file system for good, and starts them."""
        release = self.run(host, "uname -r").strip()
        module = TOP / "build/modules" / release / "dm-media.ko"
        if not module.exists():
            raise Failed(f"{host} runs Linux {release}, and there is no {module}: make modules-vm")
        self.lab.send(host, {
            f"{spindles.MODULE_DIR}/dm-media.ko": module,
            "/etc/lab-spindles": spindles.table(SPINDLES[host]).encode(),
            "/usr/local/sbin/lab-spindles": spindles.FILES / "lab-spindles",
            "/etc/systemd/system/lab-spindles.service": spindles.FILES / "lab-spindles.service",
        })  # fmt: skip
        self.run(host, "systemctl daemon-reload; systemctl enable --now lab-spindles && sync")

    # What it asks.

    def status(self, mirror: plan.Mirror) -> Status:
        """By dmsetup: `lockstep status` itself would cost the replay seconds of emulated CPU."""
        return status.parse(self.run("primary", f"dmsetup status --noflush {mirror.name}"))

    def table(self, mirror: plan.Mirror) -> str:
        """Another one, as the monitor loads for a LUN of a new session, counts from zero."""
        return self.run("primary", f"dmsetup table {mirror.name}")

    def serves(self, mirror: plan.Mirror) -> bool:
        """Whether the mirror site exports its LUN."""
        group = f"/sys/kernel/config/target/iscsi/{plan.IQN}:{mirror.name}/tpgt_1"
        command = f"test -d {group}/lun/lun_0 && cat {group}/enable"
        return self.lab.ssh("mirror", command, check=False).stdout.strip() == "1"

    def hold_route(self, hold: bool) -> None:
        """The primary's way to the mirror site: no session comes back while it is held."""
        word = "replace" if hold else "delete"
        self.run("primary", f"ip route {word} unreachable {plan.MIRROR_ADDRESS}/32")

    def clock_ns(self, host: str) -> int:
        """Its monotonic clock, the one that the replayer uses."""
        return int(self.run(host, "python3 -c 'import time; print(time.monotonic_ns())'"))

    def sent_bytes(self) -> int:
        """By the primary to the mirror site, with all headers, since the boot."""
        return int(self.run("primary", "cat /sys/class/net/link0/statistics/tx_bytes"))

    def difference(self, mirror: plan.Mirror) -> int | None:
        """First sector of the first MiB in which the legs' data differ, read by its own site: the
        local one as it is, the other through LIO, with what only NVRAM and log have. Behind the
        data each leg has metadata of its own."""
        node = f"/dev/mapper/{mirror.name}"
        sectors = int(self.run("primary", f"sync {node}; blockdev --getsz {node}"))
        places = (("primary", mirror.local.node), ("mirror", f"{mirror.kind}/{mirror.name}"))
        with ThreadPoolExecutor() as pool:
            legs = [
                pool.submit(self.run, host, f"{GUEST} legs {what} {sectors}", 600.0)
                for host, what in places
            ]
            local, remote = (leg.result().split() for leg in legs)
        if sectors < plan.DATA_MIB << 11 or {len(local), len(remote)} != {-(-sectors >> 11)}:
            raise Failed(
                f"mirror {mirror.name}: it has {sectors} sectors, and the trace needs "
                f"{plan.DATA_MIB} MiB; read were {len(local)} MiB of the local leg and "
                f"{len(remote)} of the remote one"
            )
        for mib, (one, other) in enumerate(zip(local, remote, strict=True)):
            if one != other:
                return mib << 11
        return None

    def held(self, mirror: plan.Mirror) -> dict[int, str]:
        """At the mirror site, by the site itself: the digest of each sector the trace writes."""
        what = f"{mirror.kind}/{mirror.name}"
        lines = self.run("mirror", f"{GUEST} sectors {what} <{TOOLS}/written", 600.0).split("\n")
        return {int(line.split()[0]): line.split()[1] for line in lines if line}
