# SPDX-License-Identifier: GPL-2.0-only
"""Two mirrors by one slow wire. The local disk of the one dies, and its application reads what it
can: that is no reason to keep the other one down.

start: the other one's local disk has died, too, and it gets a new one: its new table starts.
blip: the wire is cut for a moment, and the other one's remote leg given up: it comes back for good.
large: large writes of the other one, which ask twice for an answer, are none too late. large_read:
nor if what is read is one large read, which is on its way since the wire was thought to be fast.
later: what was learned of a fast wire isn't believed of a slow one, a minute of single reads later.
crowd: eight read, each with eight readers.
assemble: the other one is stopped, and `lockstep assemble` starts it. assemble_alone: the one was
started without its local leg; assemble_never: its remote_timeout is 0; assemble_idle: there is no
other one.
examine, create, replace: what the command reads of another disk by that wire leaves room for the
other one's writes.
"""

import time
from collections.abc import Callable
from functools import partial

import clilab
import slowlab
import statelab
from locklab import base, blk, dm, mirror
from mirrorlab import Leg
from slowlab import MIB, Readers, Site, data_sectors, lose_local
from statelab import Beside


def whole(m: mirror.Mirror, most_s: float) -> None:
    base.until(lambda: (m.status().health, m.status().action) == ("AA", "idle"), "whole", most_s)


def start() -> None:
    site = Site(2)
    one, other = (site.mirror(n, "rejoin", 5) for n in range(2))
    site.slow()
    for leg, m in zip(site.locals, (one, other), strict=True):
        lose_local(leg, m.name)
    reading = Readers(other.name)
    time.sleep(20)
    base.step("another local disk for the one that isn't read")
    new = Leg("new", mib=MIB)
    statelab.meta("join", "--no-search", "--source", site.remotes[0], "--leg", "local", new.node)
    table = mirror.table(new.node, site.remotes[0], sectors=data_sectors(new.node))
    dm.load(one.name, table)
    dm.suspend(one.name, flush=False)
    began = time.monotonic()
    # As the monitor does.
    while not resumes(one.name):
        base.expect(time.monotonic() - began < 600, f"no start: {dm.status(one.name)}")
        time.sleep(10)
    print(f"  started after {time.monotonic() - began:.0f} s", flush=True)
    with blk.Disk(one.node) as disk:
        disk.write(16, blk.pattern("goes on", 8))
    reading.end()


def resumes(name: str) -> bool:
    try:
        dm.resume(name)
    except OSError:
        return False
    return True


def blip() -> None:
    site = Site(2)
    one, other = (site.mirror(n, "rejoin", 5) for n in range(2))
    site.slow()
    lose_local(site.locals[1], other.name)
    base.step("the wire is cut until the other one's remote leg is given up")
    site.line.cut()
    with blk.Disk(one.node) as disk:
        disk.write(0, blk.pattern("without it", 8))
    base.until(lambda: one.status().health == "AD", "the local leg alone", 120)
    site.line.mend("wan")
    reading = Readers(other.name)
    began = time.monotonic()
    whole(one, 300)
    print(f"  in sync after {time.monotonic() - began:.0f} s", flush=True)
    for _ in range(60):
        base.equal(one.status().health, "AA", "the other one")
        with blk.Disk(one.node) as disk:
            disk.write(0, blk.pattern("beside", 8))
        time.sleep(1)
    base.expect(reading.done, "nobody has read")
    reading.end()


def large(*reads: int) -> None:
    site = Site(2)
    one = site.mirror(0, "policy", "error")
    other = site.mirror(1, "rejoin", 5)
    lose_local(site.locals[1], other.name)
    site.slow()
    reading = Readers(other.name, *reads)
    writing = [Beside(partial(write_large, one, n)) for n in range(4)]
    for writer in writing:
        base.until(lambda: writer.done, "a writer to end", 400)  # noqa: B023
        writer.result()
    base.equal(one.status().health, "AA", "the other one")
    reading.end()


def crowd() -> None:
    site = Site(9)
    one = site.mirror(0, "policy", "error")
    others = [site.mirror(n, "rejoin", 5) for n in range(1, 9)]
    for other, leg in zip(others, site.locals[1:], strict=True):
        lose_local(leg, other.name)
    site.slow()
    reading = [Readers(other.name) for other in others]
    with blk.Disk(one.node) as disk:
        for _ in range(60):
            disk.write(0, blk.pattern("beside", 8))
            base.equal(one.status().health, "AA", "the other one")
            time.sleep(1)
    for readers in reading:
        readers.end()


def light(name: str, seconds: int) -> None:
    """What tells a window nothing of what it may be."""
    with blk.Disk(f"/dev/mapper/{name}", write=False) as disk:
        for n in range(seconds // 5):
            disk.read(n * 8, 8)
            time.sleep(5)


def later() -> None:
    site = Site(2)
    one = site.mirror(0, "policy", "error")
    other = site.mirror(1, "rejoin", 5)
    lose_local(site.locals[1], other.name)
    fast = Readers(other.name, 64)
    base.until(lambda: fast.done > 2000, "reads by a fast wire", 60)
    fast.end()
    light(other.name, 30)
    site.slow()
    light(other.name, 30)
    reading = Readers(other.name, 64)
    with blk.Disk(one.node) as disk:
        for _ in range(60):
            disk.write(0, blk.pattern("beside", 8))
            time.sleep(1)
    base.equal(one.status().health, "AA", "the other one")
    reading.end()


def write_large(m: mirror.Mirror, n: int) -> None:
    with blk.Disk(m.node) as disk:
        for _ in range(8):
            disk.write(256 * n, blk.pattern("large", 256))


def assemble(one_is: str) -> None:
    site = Site(2)
    for name, leg, remote in zip("ab", site.locals, site.remotes, strict=True):
        clilab.good("create", name, leg.node, remote, "--assume-clean", "--yes")
    if one_is == "never":
        dm.message("b", "remote_timeout 0")
    lose_local(site.locals[1], "b")
    if one_is == "alone":
        clilab.good("stop", "b")
        clilab.good("assemble", "b", "--wait", "0", "--run")
    site.slow()
    reading = Readers("b")
    time.sleep(20)
    clilab.good("stop", "a")
    began = time.monotonic()
    clilab.good("assemble", "a")
    print(f"  assembled after {time.monotonic() - began:.0f} s", flush=True)
    base.expect(reading.done, "nobody has read")
    reading.end()


def assemble_idle() -> None:
    site = Site(1)
    clilab.good("create", "a", site.locals[0].node, site.remotes[0], "--assume-clean", "--yes")
    clilab.good("stop", "a")
    site.slow()
    time.sleep(10)
    began = time.monotonic()
    clilab.good("assemble", "a")
    base.expect(time.monotonic() - began < 10, "it has waited for legs that are there")


def looks(what: str) -> None:
    slowlab.MIB = 72  # from 64 on wipefs looks for ZFS, 256 KiB at once
    site = Site(3)
    clilab.good("create", "a", site.locals[0].node, site.remotes[0], "--yes", "--assume-clean",
                "--policy", "error")  # fmt: skip
    pair = site.locals[1].node, site.remotes[1]
    if what == "replace":
        clilab.good("create", "b", *pair, "--yes", "--assume-clean")
        clilab.good("fail", "b", "remote")
    site.slow()
    words = {
        "examine": ("examine", "--json", site.remotes[1]),
        "create": ("create", "b", *pair, "--yes", "--assume-clean"),
        "replace": ("replace", "b", "remote", site.remotes[2], "--yes"),
    }[what]
    looking = Beside(lambda: base.expect(clilab.run(*words).code == (what == "examine"), what))
    began, longest = time.monotonic(), 0.0
    with blk.Disk("/dev/mapper/a") as disk:
        while not looking.done:
            asked = time.monotonic()
            disk.write(0, blk.pattern("beside", 8))
            longest = max(longest, time.monotonic() - asked)
            time.sleep(1)
    looking.result()
    print(f"  {what} took {time.monotonic() - began:.0f} s, a write {longest:.1f} s", flush=True)
    base.expect(longest < 3, f"a write took {longest:.1f} s")
    base.equal(dm.status("a").split()[0], "AA", "the other one")


PARTS: dict[str, Callable[[], None]] = {
    "start": start, "blip": blip, "large": large, "large_read": lambda: large(1, 12288),
    "assemble": lambda: assemble("running"),
    "later": later, "crowd": crowd,
    "assemble_alone": lambda: assemble("alone"), "assemble_never": lambda: assemble("never"),
    "assemble_idle": assemble_idle,
    **{what: partial(looks, what) for what in ("examine", "create", "replace")},
}  # fmt: skip
(name,) = base.words(1, PARTS)
PARTS[name]()
base.step("done")
