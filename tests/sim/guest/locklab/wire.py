# SPDX-License-Identifier: GPL-2.0-only
"""The wire: the primary is the root namespace, the mirror site the namespace `mirror`.

A veth pair with static neighbours (no ARP to be lost or to be first), packets of the size a real
link carries (no segmentation offload), and netem at both ends as wires.json says.
"""

from __future__ import annotations

import threading
from pathlib import Path

import wires

from . import base

PRIMARY_IP = "10.9.0.1"
MIRROR_IP = "10.9.0.2"
NETNS = Path("/run/netns/mirror")
_MAC = {"v0": "02:00:0a:09:00:01", "v1": "02:00:0a:09:00:02"}


class Wire:
    def __init__(self, profile: str = "none", seed: int = base.SEED) -> None:
        self._seed = seed
        self._changing: threading.Event | None = None
        self._shaped = {"v0": False, "v1": False}
        _ip(
            f"""\
            netns add mirror
            link add v0 address {_MAC['v0']} gso_max_segs 1 type veth \
peer name v1 address {_MAC['v1']} gso_max_segs 1 netns mirror
            addr add {PRIMARY_IP}/24 dev v0
            link set v0 up
            neigh replace {MIRROR_IP} lladdr {_MAC['v1']} dev v0 nud permanent"""
        )
        _ip(
            f"""\
            addr add {MIRROR_IP}/24 dev v1
            link set lo up
            link set v1 up
            neigh replace {PRIMARY_IP} lladdr {_MAC['v0']} dev v1 nud permanent""",
            "-n", "mirror",
        )
        self.profile(profile)

    def profile(self, name: str, loss_percent: float = 0.0) -> None:
        """Takes effect at once, also under load."""
        self._stop_changing()
        found = wires.load(name)
        self._shape("v0", wires.netem(found.to_mirror, 2 * self._seed, None, loss_percent))
        self._shape("v1", wires.netem(found.to_primary, 2 * self._seed + 1, None, loss_percent))
        if found.to_mirror.vary_bit is not None:
            stop = self._changing = threading.Event()
            args = (found.to_mirror, loss_percent, stop)
            threading.Thread(target=self._vary, args=args, daemon=True).start()

    def cut(self) -> None:
        """As if unplugged: what is on the way is lost, nothing says so to either end.

        (Loss of all packets, not link down: a link that is down would fail the sender's packets
        and flush its routes, which a cut somewhere on the way never does.)
        """
        self._stop_changing()
        for device in ("v0", "v1"):
            _tc("qdisc", "replace", device, "handle", "9:", "root", "netem", "loss", "100%")
            self._shaped[device] = True

    def mend(self, name: str) -> None:
        """Plugs it in again, with that profile."""
        for device in ("v0", "v1"):
            _tc("qdisc", "del", device, "root")
            self._shaped[device] = False
        self.profile(name)

    def close(self) -> None:
        self._stop_changing()

    def counters(self) -> dict[str, int]:
        """Packets and bytes that each end has sent, retransmissions included."""
        said = {}
        for key in ("packets", "bytes"):
            path = Path("/sys/class/net/v0/statistics")
            said[f"to_mirror_{key}"] = int((path / f"tx_{key}").read_text())
            said[f"to_primary_{key}"] = int((path / f"rx_{key}").read_text())
        return said

    def _shape(self, device: str, netem: list[str]) -> None:
        if netem:
            _tc("qdisc", "replace", device, "root", "netem", *netem)
        elif self._shaped[device]:
            _tc("qdisc", "del", device, "root")
        self._shaped[device] = bool(netem)

    def _vary(self, way: wires.Direction, loss: float, stop: threading.Event) -> None:
        for seconds, rate_bit in wires.schedule(way, 2 * self._seed):
            self._shape("v0", wires.netem(way, 2 * self._seed, rate_bit, loss))
            if stop.wait(seconds):
                return

    def _stop_changing(self) -> None:
        if self._changing is not None:
            self._changing.set()
            self._changing = None


def _ip(lines: str, *options: str) -> None:
    base.run("ip", *options, "-batch", "-", stdin=lines + "\n")


def _tc(what: str, verb: str, device: str, *rest: str) -> None:
    where = ["-n", "mirror"] if device == "v1" else []
    base.run("tc", *where, what, verb, "dev", device, *rest)
