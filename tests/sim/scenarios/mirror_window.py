# SPDX-License-Identifier: GPL-2.0-only
"""Large writes wait for their turn on the wire to the remote leg (window.h).

wire: a burst that takes longer than remote_timeout costs no leg, and a commit beside it doesn't
      wait for the burst's end; afterwards a fast wire is used as one.
commands: so do commands of many small writes.
small: and small writes by themselves, of which a queue may be as old as a leg that hangs.
far: where each write takes long, however little is on the way, many are on the way all the same.
reads: so do reads; a wire that is far, or fast, is used as before.
legs: whatever becomes of the leg while writes are parked.
"""

import errno
import time
from collections.abc import Callable
from functools import partial

from locklab import base, blk, dm, pair
from locklab.mirror import Mirror
from locklab.wire import Wire
from mirrorlab import FIELDS, Beside, Pair
from scatterlab import Site

LARGE = 256  # sectors: as large as a write is sent in one piece
BURST = 7 << 20 >> 9  # sectors
BYTES_PER_S = {"wan": 3e6 / 8, "lan": 1e9 / 8}
# The checked kernel needs simulated time to begin: the burst is to be there before it ends.
MS = 10 if base.CHECKED else 1
TIMEOUT_MS = 4000 * MS


def told(device: Mirror, field: str) -> int:
    return int(device.status().rest[FIELDS.index(field)])


class Burst:
    """Large writes that come together, each another's neighbour."""

    def __init__(self, node: str, tag: str, sectors: int = BURST) -> None:
        self._disk = blk.Disk(node)
        self.left: dict[int, bytes] = {
            sector: blk.pattern(f"{tag} {sector}", 1) * LARGE for sector in range(0, sectors, LARGE)
        }
        self._began = time.monotonic()
        self.writes = [Beside(self._write(*one)) for one in self.left.items()]

    def _write(self, sector: int, data: bytes) -> Callable[[], object]:
        return lambda: self._disk.write(sector, data)

    @property
    def done(self) -> int:
        return sum(write.done for write in self.writes)

    def end(self) -> float:
        """Seconds since it began. When all have ended, an error of any of them is raised."""
        base.until(lambda: self.done == len(self.writes), "the end of all writes", 600)
        self._disk.close()
        for write in self.writes:
            write.result()
        return time.monotonic() - self._began

    def check(self, node: str) -> None:
        with blk.Disk(node, write=False) as disk:
            for sector, data in self.left.items():
                base.expect(disk.read(sector, LARGE) == data, f"{node}: what was written {sector}")


def commits_beside(burst: Burst, node: str) -> list[float]:
    """Small writes one after the other until it ends: what each of them takes."""
    took: list[float] = []
    with blk.Disk(node) as disk:
        while burst.done < len(burst.writes):
            data = blk.pattern(f"commit {len(took)}", 8)
            work = partial(disk.write, BURST + 8 * len(took), data, fua=True)
            took.append(blk.timed(work))
    return took


def a_burst(both: pair.Pair, device: Mirror, profile: str, most: float) -> None:
    """@most: times what its bytes take on the wire."""
    least = (BURST << 9) / BYTES_PER_S[profile]
    parked, halved = told(device, "parked"), told(device, "window_halved")
    burst = Burst(device.node, profile)
    took = commits_beside(burst, device.node)
    seconds = burst.end()
    parked, halved = told(device, "parked") - parked, told(device, "window_halved") - halved
    print(
        f"  {profile}: {seconds:.3f} s, {seconds / least:.2f} x its bytes; {len(took)} commits, "
        f"{max(took):.3f} s at most; {parked} parked, halved {halved} times", flush=True,
    )  # fmt: skip
    status = device.status()
    base.equal((status.health, status.remote_errors), ("AA", 0), "health, errors")
    base.expect(parked > len(burst.writes) / 2, "hardly any was parked")
    base.expect(least <= seconds <= most * least, "the burst's time")
    base.expect(max(took) < 2.5, "a commit waited for the burst")
    burst.check(both.local.node)
    burst.check(both.remote)


def on_the_wire() -> None:
    with pair.pair("iblock", "wan", mib=8) as both:
        device = pair.mirrored(both)
        base.step("a burst of 20 s on a slow wire, remote_timeout 10 s")
        a_burst(both, device, "wan", 1.3)
        base.step("the wire is fast now")
        both.wire.profile("lan")
        a_burst(both, device, "lan", 3)
        base.step("and slow again")
        both.wire.profile("wan")
        a_burst(both, device, "wan", 1.3)
        device.remove()
        blk.same(both.local.node, both.remote)


def commands() -> None:
    base.step("batches as commands that are large themselves")
    link = Wire("lan")
    site = Site("dcd", link)
    m = site.up("scatter", "on")
    load = blk.Load(m.of.node, writers=96, pause_us=0, max_write=16).start()
    base.until(lambda: m.count("scattered") > 0, "a command")
    link.profile("wan")
    before = [m.count(field) for field in ("parked", "scattered")]
    load.wait_writes(1000)
    parked, scattered = (
        m.count(field) - n for field, n in zip(("parked", "scattered"), before, strict=True)
    )
    print(f"  1000 writes: {scattered} commands, {parked} writes parked", flush=True)
    base.expect(parked > 32 and scattered, "hardly any was parked")
    m.end(load, site.remote)
    base.equal(m.count("scattered_again"), 0, "sent again")
    m.remove()
    site.close()
    link.close()


def small() -> None:
    base.step("400 small writes at once, four times what the wire takes within remote_timeout")
    with pair.pair("iblock", "wan", mib=8) as both:
        device = pair.mirrored(both, "nosync", "remote_timeout", 1000, "coalesce", 1)
        each = {32 * n: blk.pattern(f"small {n}", 8) for n in range(400)}
        with blk.Disk(device.node) as disk:
            began = time.monotonic()
            writes = [Beside(partial(disk.write, *one)) for one in each.items()]
            for write in writes:
                write.result()
            seconds = time.monotonic() - began
            status = device.status()
            parked = told(device, "parked")
            print(f"  {seconds:.3f} s, {parked} parked, {status.health}", flush=True)
            base.equal((status.health, status.remote_errors), ("AA", 0), "health, errors")
            base.expect(seconds > 3, "the wire took them within remote_timeout: nothing was tried")
            for sector, data in each.items():
                base.expect(disk.read(sector, 8) == data, f"what was written to {sector}")
        device.remove()
        blk.same(both.local.node, both.remote)


def far() -> None:
    base.step("a round trip of 400 ms, 155 Mbit/s")
    with pair.pair("iblock", "outsourcing-200", mib=8) as both:
        device = pair.mirrored(both)
        first, then = (Burst(device.node, f"far {n}").end() for n in range(2))
        print(f"  {first:.3f} s, then {then:.3f} s", flush=True)
        base.equal(device.status().health, "AA", "health")
        device.remove()
        blk.same(both.local.node, both.remote)
    base.expect(first < 30 and then < 10, "the bursts' times")

    base.step("a leg that takes a second for each write")
    legs = Pair("nosync")
    legs.remote.slow(1000)
    Burst(legs.mirror.node, "slow").end()
    burst = Burst(legs.mirror.node, "still slow")
    seconds = burst.end()
    print(f"  {seconds:.3f} s", flush=True)
    base.expect(seconds < 10, "the burst's time")
    whole_again(legs, burst)


def reads() -> None:
    """8 MiB from the remote leg alone, as much at once as a read-ahead of 4 MiB: twice each."""
    with pair.pair("iblock", "none", mib=8) as both:
        device = pair.mirrored(both)
        device.message("fail local")
        for profile, *most in (("outsourcing-200", 25, 10), ("lan", 2, 2), ("wan", 300, 300)):
            base.step(f"{profile}: 32 readers of 128 KiB")
            both.wire.profile(profile)
            for seconds in most:
                read_whole(device, seconds)


def read_whole(device: Mirror, most: float) -> None:
    began = time.monotonic()
    parts = iter(range(0, 16 << 10, LARGE))

    def read() -> None:
        for at in parts:
            disk.read(at, LARGE)

    with blk.Disk(device.node, write=False) as disk:
        for one in [Beside(read) for _ in range(32)]:
            one.result()
    took = time.monotonic() - began
    print(f"  {took:.3f} s, {told(device, 'parked')} parked", flush=True)
    base.equal(device.status().health, "DA", "health")
    base.expect(took < most, f"that is more than {most} s")


def parked(what: str, *, timeout_ms: int = TIMEOUT_MS, slow_ms: int = 1000) -> tuple[Pair, Burst]:
    base.step(what)
    legs = Pair("nosync", "remote_timeout", timeout_ms)
    legs.remote.slow(slow_ms * MS)
    burst = Burst(legs.mirror.node, what)
    base.until(lambda: legs.count("parked") > len(burst.writes) / 2, "most to be parked")
    return legs, burst


def whole_again(legs: Pair, burst: Burst) -> None:
    legs.remote.well()
    if legs.mirror.status().health != "AA":
        legs.recovers()
    burst.check(legs.mirror.node)
    legs.same()
    legs.close()


def hangs() -> None:
    legs, burst = parked("it hangs: nobody waits, and what was parked is never sent")
    legs.remote.hang()
    base.expect(burst.end() < 2 * TIMEOUT_MS / 1000, "they waited for longer than the timeout")
    base.equal(legs.mirror.status().health, "AD", "health")
    base.expect(legs.count("abandoned") > len(burst.writes) / 2, "abandoned")
    empty = bytes(LARGE << 9)
    with blk.Disk(legs.remote.disk.node, write=False) as disk:
        legs.remote.wake()
        time.sleep(3 * MS)
        got = sum(disk.read(sector, LARGE) != empty for sector in burst.left)
    print(f"  {got} of {len(burst.writes)} writes are on the leg", flush=True)
    base.expect(got < len(burst.writes) / 2, "what was parked has come there all the same")
    whole_again(legs, burst)


def fails() -> None:
    legs, burst = parked("a write fails there: the others go on without it")
    legs.remote.gone()
    burst.end()
    base.equal(legs.mirror.status().health, "AD", "health")
    whole_again(legs, burst)


def is_failed() -> None:
    legs, burst = parked("it is failed by hand")
    began = time.monotonic()
    legs.mirror.message("fail remote")
    burst.end()
    base.expect(time.monotonic() - began < 0.5 * MS, "they waited")
    whole_again(legs, burst)


def is_the_only_one() -> None:
    legs, burst = parked("it is the only one: all come to it in their turn", slow_ms=500)
    legs.mirror.message("fail local")
    burst.end()
    base.equal(legs.mirror.status().health, "DA", "health")
    burst.check(legs.remote.disk.node)

    base.step("and then it fails, too: errors, and nobody waits")
    more = Burst(legs.mirror.node, "more")
    # dm-delay holds nothing while it is exchanged: all of a burst of that very instant may pass.
    time.sleep(0.1)
    legs.remote.gone()
    with base.refused("the burst", errno.EIO):
        more.end()
    legs.remote.well()
    legs.close()


def is_suspended() -> None:
    legs, burst = parked("the mirror is suspended and gets a new table")
    dm.load(legs.mirror.name, legs.mirror.table)
    dm.suspend(legs.mirror.name)
    base.equal(burst.done, len(burst.writes), "writes that dm has waited for")
    dm.resume(legs.mirror.name)
    burst.end()
    whole_again(legs, burst)


def never() -> None:
    legs, burst = parked("remote_timeout 0: as with its default", timeout_ms=0, slow_ms=500 // MS)
    burst.end()
    base.equal(legs.count("window_halved"), 0, "halved")
    whole_again(legs, burst)


def legs_die() -> None:
    for part in (hangs, fails, is_failed, is_the_only_one, is_suspended, never):
        part()


PARTS = {
    "wire": on_the_wire, "commands": commands, "small": small, "far": far, "reads": reads,
    "legs": legs_die,
}  # fmt: skip
for name in base.words(1, PARTS) or ["legs"]:
    PARTS[name]()
base.step("done")
