# SPDX-License-Identifier: GPL-2.0-only
"""A file system on the mirror, at work while the link is cut and legs fail: FS [ROUNDS].

Loads that check every byte and every name (locklab.fs) and fio with verification go on without an
error while, by seed, the link is cut for a moment and for long, the local leg's writes fail, and an
admin fails a leg and lets it come back. At the end: nothing is lost, the checker finds the file
system clean, the legs are bit-identical, and each leg is mountable by itself, read-only, with the
same content.
"""

import json
import random
import subprocess
import sys
import time

from locklab import base, blk, fs, iscsi, lio, mirror, ram, wire
from mirrorlab import FIELDS, META, Leg

kind = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 4
PROFILE = "metro"
MIB = fs.MIB[kind]
FIO = """
[global]
directory={where}
ioengine=libaio
direct=1
thread=1
clocksource=clock_gettime
randseed={seed}
thinktime={think}
size={size}
verify=crc32c
verify_backlog=256
verify_fatal=1
bsrange=512-16k
blockalign=512
[random]
rw=randwrite
iodepth=4
loops={loops}
[buffered]
rw=randwrite
ioengine=psync
direct=0
fsync=16
loops={loops}
"""


class Both:
    """Both sites: the local leg can be broken, the remote one sits behind the wire."""

    def __init__(self) -> None:
        self.wire = wire.Wire()
        self.far = ram.Ram("mdata", MIB)
        self.store = lio.iblock("leg", self.far.node)
        self.target = lio.Target(self.store)
        self.session = iscsi.Session()
        self.remote = self.session.login()
        self.wire.profile(PROFILE)
        self.local = Leg("local", mib=MIB)
        legs = (self.local.node, self.remote)
        base.run(META, "create", "--local", legs[0], "--remote", legs[1], "--assume-clean")
        self.sectors = int(json.loads(base.run(META, "verdict", *legs))["data_len"])
        # A polite resync would take half an hour beside these loads.
        self.mirror = mirror.Mirror(*legs, "resync_pace", "full", sectors=self.sectors)

    def back(self, what: str) -> None:
        """A dead leg comes back by itself, unless the admin took it out."""
        status = self.mirror.in_sync()
        copied = int(status.rest[FIELDS.index("resynced")]) >> 11
        print(f"  {what}: together again, resynced {copied} MiB so far", flush=True)

    def close(self) -> None:
        self.session.close()
        self.target.remove()
        self.store.remove()
        self.local.close()
        self.far.remove()
        self.wire.close()


def short_cut(both: Both, _rng: random.Random) -> None:
    both.wire.cut()
    time.sleep(1)
    both.wire.mend(PROFILE)
    base.until(both.session.up, "the session")
    both.back("a short cut")


def long_cut(both: Both, rng: random.Random) -> None:
    both.wire.cut()
    both.mirror.wait("AD")
    time.sleep(rng.uniform(0.5, 5))
    both.wire.mend(PROFILE)
    base.until(both.session.up, "the session")
    both.back("a long cut")


def local_writes_fail(both: Both, rng: random.Random) -> None:
    both.local.fail_writes()
    both.mirror.wait("DA")
    time.sleep(rng.uniform(0.5, 3))
    both.local.well()
    both.back("failing writes of the local leg")


def admin(both: Both, rng: random.Random) -> None:
    leg = rng.choice(("local", "remote"))
    both.mirror.message(f"fail {leg}")
    time.sleep(rng.uniform(0.5, 2))
    both.mirror.message("recover")
    both.back(f"the {leg} leg, failed by hand")


EVENTS = (long_cut, local_writes_fail, short_cut, admin)


def main() -> None:
    rng = random.Random(f"fs_mirror {base.SEED}")
    both = Both()
    fs.make(kind, both.mirror.node)
    root = fs.mount(kind, both.mirror.node, "/run/fs")
    (root / "fio").mkdir()
    size, think = ("512k", 40_000) if base.CHECKED else ("4m", 4000)
    jobs = FIO.format(where=root / "fio", seed=base.SEED, loops=rounds, size=size, think=think)
    fio = subprocess.Popen(["fio", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)  # fmt: skip
    assert fio.stdin and fio.stdout
    fio.stdin.write(jobs)
    fio.stdin.close()
    workers = fs.loads(root, base.SEED)
    for worker in workers:
        worker.start()
    for number in range(rounds):
        event = EVENTS[number] if number < len(EVENTS) else rng.choice(EVENTS)
        base.step(f"round {number}: {event.__name__}")
        for worker in workers:
            worker.wait(20 if base.CHECKED else 100)
        event(both, rng)
    for worker in workers:
        worker.wait(20)
        worker.stop()
    said = fio.stdout.read()
    base.equal(fio.wait(), 0, f"fio's exit code ({said[-2000:]})")
    base.step("everything is as it was written")
    fs.verify(workers, root)
    for worker in workers:
        print(f"  {worker.where.name}: {worker.turns} operations")
    fs.settle(root)
    fs.umount(root)
    with fs.mounted(kind, both.mirror.node, "/run/fs"):
        fs.verify(workers, root)
    fs.clean(kind, both.mirror.node, "the mirror")
    both.mirror.in_sync()
    both.mirror.remove()
    blk.same(both.local.disk.node, both.far.node, both.sectors)
    base.step("each leg by itself, read-only")
    for name, node in (("the local leg", both.local.node), ("the remote leg", both.remote)):
        with fs.looked_at(kind, node, "/run/fs"):
            fs.verify(workers, root)
        print(f"  {name}: mounted read-only, and all is there", flush=True)
    blk.same(both.local.disk.node, both.far.node, both.sectors)
    both.close()


main()
