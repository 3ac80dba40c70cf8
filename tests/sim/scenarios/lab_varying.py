# SPDX-License-Identifier: GPL-2.0-only
"""The varying wire keeps to the speeds of its profile, and uses more than one of them."""

import socket
import threading
import time

import wires
from locklab import base, wire

BURSTS, BURST = 200, 4
FRAME_BITS = 8 * (1400 + 8 + 20 + 14)
# A burst's datagrams at the slowest speed take a little longer than this.
PAUSE_S = 0.25

link = wire.Wire("wan-varying")
low, high = wires.load("wan-varying").to_mirror.vary_bit or (0, 0)
with base.inside(wire.NETNS):
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind((wire.MIRROR_IP, 7))
times: list[float] = []


def receive() -> None:
    for _ in range(BURSTS * BURST):
        sink.recv(2048)
        times.append(time.monotonic())


thread = threading.Thread(target=receive)
thread.start()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
    for _ in range(BURSTS):
        for _ in range(BURST):
            source.sendto(bytes(1400), (wire.MIRROR_IP, 7))
        time.sleep(PAUSE_S)
thread.join(120)
link.close()
base.equal(len(times), BURSTS * BURST, "datagrams that arrived")

# The last gap of each burst is one datagram's time on the wire.
speeds = [
    FRAME_BITS / (times[at + BURST - 1] - times[at + BURST - 2])
    for at in range(0, BURSTS * BURST, BURST)
]
base.expect(min(speeds) > 0.98 * low, f"slowest {min(speeds):.0f} bit/s, profile from {low}")
base.expect(max(speeds) < 1.02 * high, f"fastest {max(speeds):.0f} bit/s, profile to {high}")
different = sorted({round(speed, -3) for speed in speeds})
base.expect(len(different) >= 5, f"speeds seen: {different}")
print("kbit/s:", *(f"{speed / 1000:.0f}" for speed in speeds))
