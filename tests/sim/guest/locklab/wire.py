# SPDX-License-Identifier: GPL-2.0-only
"""The wire: the primary is the root namespace, the mirror site the namespace `mirror`.

A veth pair with static neighbours (no ARP to be lost or to be first), packets of the size a real
link carries (no segmentation offload), and netem at both ends as wires.json says. There may be
several, each with addresses of its own: independent ways from site to site.
"""

from __future__ import annotations

import threading
from pathlib import Path

import wires

from . import base

NETNS = Path("/run/netns/mirror")


def primary_ip(number: int) -> str:
    """Of the wire of that number."""
    return f"10.9.{number}.1"


def mirror_ip(number: int) -> str:
    return f"10.9.{number}.2"


PRIMARY_IP, MIRROR_IP = primary_ip(0), mirror_ip(0)


class Wire:
    def __init__(self, profile: str = "none", seed: int = base.SEED, number: int = 0) -> None:
        self._seed = seed + (number << 16)
        self._changing: threading.Event | None = None
        self._near, self._far = f"v{2 * number}", f"v{2 * number + 1}"
        self._shaped = {self._near: False, self._far: False}
        here, there = primary_ip(number), mirror_ip(number)
        mac_here, mac_there = (f"02:00:0a:09:{number:02x}:{end:02x}" for end in (1, 2))
        if not NETNS.exists():
            _ip("netns add mirror")
            _ip("link set lo up", "-n", "mirror")
        _ip(
            f"""\
            link add {self._near} address {mac_here} gso_max_segs 1 type veth \
peer name {self._far} address {mac_there} gso_max_segs 1 netns mirror
            addr add {here}/24 dev {self._near}
            link set {self._near} up
            neigh replace {there} lladdr {mac_there} dev {self._near} nud permanent"""
        )
        _ip(
            f"""\
            addr add {there}/24 dev {self._far}
            link set {self._far} up
            neigh replace {here} lladdr {mac_here} dev {self._far} nud permanent""",
            "-n", "mirror",
        )
        self.profile(profile)

    def profile(
        self, name: str, loss_percent: float = 0.0, reorder_percent: float = 0.0
    ) -> None:
        """Takes effect at once, also under load."""
        self._stop_changing()
        found = wires.load(name)
        bad = (None, loss_percent, reorder_percent)
        self._shape(self._near, wires.netem(found.to_mirror, 2 * self._seed, *bad))
        self._shape(self._far, wires.netem(found.to_primary, 2 * self._seed + 1, *bad))
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
        for device in self._shaped:
            _tc("qdisc", "replace", device, "handle", "9:", "root", "netem", "loss", "100%")
            self._shaped[device] = True

    def hold(self, seconds: float) -> None:
        """What the primary sends arrives so much later, all of it, in its order."""
        self._stop_changing()
        delay = ("delay", f"{seconds}s", "limit", "100000")
        _tc("qdisc", "replace", self._near, "handle", "9:", "root", "netem", *delay)
        self._shaped[self._near] = True

    def mend(self, name: str) -> None:
        """Plugs it in again, with that profile."""
        for device in self._shaped:
            _tc("qdisc", "del", device, "root")
            self._shaped[device] = False
        self.profile(name)

    def close(self) -> None:
        self._stop_changing()

    def counters(self) -> dict[str, int]:
        """Packets and bytes that each end has sent, retransmissions included."""
        return counters(self._near)

    def _shape(self, device: str, netem: list[str]) -> None:
        if netem:
            _tc("qdisc", "replace", device, "root", "netem", *netem)
        elif self._shaped[device]:
            _tc("qdisc", "del", device, "root")
        self._shaped[device] = bool(netem)

    def _vary(self, way: wires.Direction, loss: float, stop: threading.Event) -> None:
        for seconds, rate_bit in wires.schedule(way, 2 * self._seed):
            self._shape(self._near, wires.netem(way, 2 * self._seed, rate_bit, loss))
            if stop.wait(seconds):
                return

    def _stop_changing(self) -> None:
        if self._changing is not None:
            self._changing.set()
            self._changing = None


def counters(device: str) -> dict[str, int]:
    """Packets and bytes that have passed the primary's end of a wire."""
    said = {}
    for key in ("packets", "bytes"):
        path = Path("/sys/class/net") / device / "statistics"
        said[f"to_mirror_{key}"] = int((path / f"tx_{key}").read_text())
        said[f"to_primary_{key}"] = int((path / f"rx_{key}").read_text())
    return said


def _ip(lines: str, *options: str) -> None:
    base.run("ip", *options, "-batch", "-", stdin=lines + "\n")


def _tc(what: str, verb: str, device: str, *rest: str) -> None:
    where = ["-n", "mirror"] if int(device[1:]) % 2 else []
    base.run("tc", *where, what, verb, "dev", device, *rest)
