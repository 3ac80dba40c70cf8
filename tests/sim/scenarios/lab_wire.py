# SPDX-License-Identifier: GPL-2.0-only
"""Each wire profile is what it says: round trip of a small packet, speed of a bulk transfer; and
packets are counted by their size."""

import socket
import sys
import threading
import time

import wires
from locklab import account, base, wire

PORT = 7
# Ethernet, IP, TCP with timestamps: of 1514 bytes on the wire 1448 are payload.
PAYLOAD = 1448 / 1514
BULK_S = 20.0


def echo_server() -> socket.socket:
    """At the mirror site: datagrams go back; of a connection it says when the last byte came."""
    with base.inside(wire.NETNS):
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    udp.bind((wire.MIRROR_IP, PORT))
    tcp.bind((wire.MIRROR_IP, PORT))
    tcp.listen()

    def echo() -> None:
        while True:
            data, peer = udp.recvfrom(2048)
            udp.sendto(data, peer)

    threading.Thread(target=echo, daemon=True).start()
    return tcp


def round_trip(size: int) -> float:
    """Seconds for a datagram there and back, the least of five."""
    least = float("inf")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(30)
        for _ in range(5):
            before = time.monotonic()
            sock.sendto(bytes(size), (wire.MIRROR_IP, PORT))
            sock.recv(2048)
            least = min(least, time.monotonic() - before)
    return least


def counted(link: wire.Wire) -> None:
    """Datagrams on both sides of each class's edge, there and back; each is in one class."""
    headers = 14 + 20 + 8  # Ethernet, IP, UDP
    packets = account.Packets("v0")
    before, first = link.counters(), packets.counters()
    frames = (64, 65, 127, 128, 255, 256, 511, 512, 1023, 1024, 1514)
    for frame in frames:
        round_trip(frame - headers)
    got = {key: value - first[key] for key, value in packets.counters().items()}
    for way in ("to_mirror", "to_primary"):
        for name in ("64", "127", "255", "511", "1023", "more"):
            key = f"{way}_packets_{name}"
            base.equal(got[key], 5 if name == "64" else 10, key)
        total = link.counters()[f"{way}_packets"] - before[f"{way}_packets"]
        base.equal(total, 5 * len(frames), f"{way}: the wire's own count")
    packets.close()


def bulk(listener: socket.socket, total: int) -> float:
    """Bits a second of payload towards the mirror site, at its end, after the first tenth."""
    times: list[tuple[float, int]] = []

    def sink() -> None:
        peer, _ = listener.accept()
        got = 0
        while data := peer.recv(1 << 16):
            got += len(data)
            times.append((time.monotonic(), got))
        peer.close()

    thread = threading.Thread(target=sink)
    thread.start()
    with socket.create_connection((wire.MIRROR_IP, PORT)) as sock:
        sock.sendall(bytes(total))
    thread.join()
    first = next(entry for entry in times if entry[1] >= total // 10)
    last = times[-1]
    return 8 * (last[1] - first[1]) / (last[0] - first[0])


def near(got: float, want: float, tolerance: float, what: str) -> None:
    print(f"  {what}: {got:.6g}, want {want:.6g} within {100 * tolerance:g} %")
    base.expect(abs(got - want) <= tolerance * want, f"{what}: got {got:.6g}, want {want:.6g}")


def main() -> None:
    link = wire.Wire()
    listener = echo_server()
    for name in sys.argv[1:] or ["lan", "metro", "wan", "outsourcing-4"]:
        print(name)
        link.profile(name)
        profile = wires.load(name)
        ways = (profile.to_mirror, profile.to_primary)
        frame = 8 * (64 + 8 + 20 + 14)  # a 64-byte datagram with UDP, IP and Ethernet headers
        serial = sum(frame / way.rate_bit for way in ways if way.rate_bit)
        near(round_trip(64), profile.rtt_us / 1e6 + serial, 0.01, "round trip, s")
        rate = profile.to_mirror.rate_bit
        assert rate is not None
        total = min(int(rate / 8 * BULK_S), 8 << 20)
        near(bulk(listener, total), rate * PAYLOAD, 0.03, "throughput, bit/s")
    link.cut()
    try:
        round_trip(64)
    except TimeoutError:
        print("cut: nothing comes back")
    else:
        raise base.Wrong("a cut wire carried a datagram")
    link.mend("lan")
    base.expect(round_trip(64) < 0.001, "the mended wire")
    print("mended")
    counted(link)
    print("packets counted by size")


main()
