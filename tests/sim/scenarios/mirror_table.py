# SPDX-License-Identifier: GPL-2.0-only
"""Table lines: what is refused and how, what comes back, and what the device then can do."""

import errno
import json
import time
from pathlib import Path

from locklab import base, blk, dm, mirror, ram
from mirrorlab import FIELDS, META, SECTORS, Leg, Pair


def refused_tables() -> None:
    base.step("wrong table lines: each refused with a reason, and nothing is left")
    local, remote = ram.Ram("one", 8), ram.Ram("two", 8)
    small = ram.Ram("small", 4)
    Path("/dev/alias").symlink_to(local.node)
    a, b, n = local.node, remote.node, SECTORS
    lines = [
        (f"0 {n} lockstep {a}", errno.EINVAL, "Not enough arguments"),
        (f"0 {n} lockstep {a} /dev/none", errno.ENOENT, "remote leg: can't open /dev/none"),
        (f"0 {n} lockstep {a} {a}", errno.EINVAL, "Both legs are the same device"),
        (f"0 {n} lockstep {a} /dev/alias", errno.EINVAL, "Both legs are the same device"),
        (f"0 {n} lockstep {a} {small.node}", errno.EINVAL, "Remote leg is smaller"),
        (f"0 {n} lockstep {small.node} {b}", errno.EINVAL, "Local leg is smaller"),
        (f"0 {n} lockstep {a} {b} nosync", errno.EINVAL, "comes the number of option words"),
        (f"0 {n} lockstep {a} {b} 2 nosync", errno.EINVAL, "number of option words is wrong"),
        (f"0 {n} lockstep {a} {b} 1 nosync policy", errno.EINVAL, "option words is wrong"),
        (f"0 {n} lockstep {a} {b} 1 bogus", errno.EINVAL, "option bogus: unknown"),
        (f"0 {n} lockstep {a} {b} 2 nosync nosync", errno.EINVAL, "nosync: given twice"),
        (f"0 {n} lockstep {a} {b} 2 sync nosync", errno.EINVAL, "contradict"),
        (f"0 {n} lockstep {a} {b} 1 policy", errno.EINVAL, "policy: its value is missing"),
        (f"0 {n} lockstep {a} {b} 2 policy maybe", errno.EINVAL, "degrade, block or error"),
        (f"0 {n} lockstep {a} {b} 2 region_size 1000", errno.EINVAL, "power of two"),
        (f"0 {n} lockstep {a} {b} 2 region_size 4", errno.EINVAL, "bad value 4"),
        (f"0 {n} lockstep {a} {b} 2 region_size 99999999999", errno.EINVAL, "bad value"),
        (f"0 {n} lockstep {a} {b} 2 resync_jobs 0", errno.EINVAL, "from 1 to 16"),
        (f"0 {n} lockstep {a} {b} 2 resync_rate -1", errno.EINVAL, "KiB/s"),
        (f"0 {n} lockstep {a} {b} 2 remote_cache none", errno.EINVAL, "fua or trust"),
        (f"0 {n} lockstep {a} {b} 2 local_cache trust", errno.EINVAL, "plain or fua"),
        (f"0 {n} lockstep {a} {b} 2 rejoin soon", errno.EINVAL, "rejoin must be"),
        (f"0 {n} lockstep {a} {b}", errno.EINVAL, "superblock"),
        (f"0 {n} lockstep {a} - 1 nosync", errno.EINVAL, "not with sync or nosync"),
        (f"0 {n} lockstep - -", errno.EINVAL, 'Both legs are "-"'),
        (f"0 1024 lockstep {a} {b} 1 sync\n1024 1024 lockstep {a} {b} 1 sync", errno.EINVAL,
         "alone in table"),
        (f"0 1024 lockstep {a} {b} 1 sync\n1024 1024 zero", errno.EINVAL, "alone in table"),
    ]
    for table, want, says in lines:
        what = " | ".join(line.split(maxsplit=2)[2] for line in table.splitlines())
        with base.refused(what, want, kernel=says):
            dm.create("bad", table)
        base.expect(not dm.exists("bad"), f"{what}: left a device behind")

    huge = [dm.create(name, f"0 {1 << 33} zero") for name in ("hugea", "hugeb")]
    line = f"0 {1 << 33} lockstep {huge[0]} {huge[1]}"
    with base.refused("too many regions", errno.E2BIG, kernel="Too many regions"):
        dm.create("bad", f"{line} 3 sync region_size 8")
    dm.remove(mirror.Mirror(huge[0], huge[1], "nosync", name="good").name)
    for name in ("hugea", "hugeb"):
        dm.remove(name)

    base.step("a leg of another mirror is refused")
    good = mirror.Mirror(a, b)
    for table in (f"0 8192 lockstep {small.node} {b} 1 sync", f"0 {n} lockstep {b} {a} 1 sync"):
        with base.refused(table, errno.EBUSY, kernel="already belongs to another lockstep device"):
            dm.create("bad", table)

    base.step("unknown messages are refused by name")
    for text, says in (
        ("fial remote", "fial"), ("fail", "fail"), ("fail both", "neither local nor remote"),
        ("recover local now", "recover"), ("resync_rate fast", "isn't a number"),
    ):  # fmt: skip
        with base.refused(text, errno.EINVAL, kernel=says):
            good.message(text)
    base.equal(good.status().health, "AA", "health")
    good.remove()
    Path("/dev/alias").unlink()
    for disk in (local, remote, small):
        disk.remove()


def round_trip() -> None:
    base.step("what dmsetup table shows makes the same mirror again")
    pair = Pair("nosync")
    names = " ".join(dm.table("mirror").split()[:2])
    for words in ("1 sync", "1 nosync", "3 sync region_size 128", "3 sync policy error",
                  "3 sync policy block", "3 sync remote_cache trust",
                  "5 sync remote_cache trust local_cache fua", "3 nosync rejoin 0",
                  "9 nosync region_size 8 policy error resync_jobs 16 resync_rate 77"):  # fmt: skip
        table = f"{names} {words}".strip()
        dm.reload("mirror", f"0 {SECTORS} lockstep {table}")
        base.equal(dm.table("mirror"), table, "table")
        dm.reload("mirror", f"0 {SECTORS} lockstep {dm.table('mirror')}")
        base.equal(dm.table("mirror"), table, "table")
    dm.reload("mirror", f"0 {SECTORS} lockstep {names} 9 sync policy DEGRADE remote_cache fua"
              " local_cache plain rejoin 5")
    base.equal(dm.table("mirror"), f"{names} 1 sync", "defaults are left out")
    for words in ("policy block", "resync_rate 77", "remote_timeout 3000", "coalesce 3",
                  "resync_pace full", "resync_compare on", "scatter off",
                  "scatter on"):  # fmt: skip
        pair.mirror.message(words)
        base.expect(words in dm.table("mirror"), f"message {words}: {dm.table('mirror')}")
    dm.reload("mirror", f"0 {SECTORS} lockstep {dm.table('mirror')}")
    base.equal(len(pair.mirror.status().rest), len(FIELDS), "fields of the status line")
    pair.close()


def flags() -> None:
    base.step("flush and FUA reach both legs")
    for words, fua in (
        ((), (False, True)),
        (("remote_cache", "trust"), (False, False)),
        (("remote_cache", "trust", "local_cache", "fua"), (True, False)),
    ):
        legs = [ram.Ram(name, 8, cache_mib=8) for name in ("one", "two")]
        logs = [ram.Ram(name, 16) for name in ("logone", "logtwo")]
        seen = []
        for leg, log in zip(legs, logs, strict=True):
            seen.append(
                dm.create(f"w{leg.name}", f"0 {leg.sectors} log-writes {leg.node} {log.node}")
            )
        made = mirror.Mirror(seen[0], seen[1], "nosync", *words)
        with blk.Disk(made.node) as disk:
            disk.write(0, blk.pattern("plain", 8))
            disk.write(8, blk.pattern("fua", 8), fua=True)
            disk.write(16, blk.pattern("plain", 8))
            disk.flush()
        made.remove()
        for leg in legs:
            dm.remove(f"w{leg.name}")
        for log, each, name in zip(logs, fua, ("local", "remote"), strict=True):
            plain = "wF" if each else "w"
            # log-writes logs a write that wasn't FUA when the next flush makes it durable
            found = entries(log.node)
            writes = sorted(entry for entry in found if entry[1] != "f")
            base.equal(writes, [(0, plain), (8, "wF"), (16, plain)], f"writes of the {name} leg")
            base.expect((0, "f") in found, f"no flush reached the {name} leg: {found}")
        for under in (*legs, *logs):
            under.remove()


def entries(log: str) -> list[tuple[int, str]]:
    """Sector and kind (w write, f flush, F with FUA) of each entry of a dm-log-writes log."""
    found = []
    with blk.Disk(log, write=False) as disk:
        sector_size = int.from_bytes(disk.read(0, 1)[24:28], "little")
        count = int.from_bytes(disk.read(0, 1)[16:24], "little")
        base.equal(sector_size, 512, "the log's sector size")
        at = 1
        for _ in range(count):
            entry = disk.read(at, 1)
            where, length, bits, _ = (
                int.from_bytes(entry[n : n + 8], "little") for n in (0, 8, 16, 24)
            )
            at += 1 + (0 if bits & 4 else length)
            if bits & 8:  # a mark
                continue
            kind = ("f" if bits & 1 and not length else "w") + ("F" if bits & 2 else "")
            found.append((where, kind))
    return found


def zeroes() -> None:
    base.step("discard and write-zeroes: zeroes on both legs")
    files = [Path("/tmp/a.img"), Path("/tmp/b.img")]
    loops = []
    for file in files:
        file.write_bytes(blk.pattern("junk", 64) * (SECTORS // 64))
        loops.append(base.run("losetup", "--find", "--show", "--direct-io=off", str(file)).strip())
    blk.say_cached(loops[1], False)
    made = mirror.Mirror(loops[0], loops[1], "nosync", "region_size", 64)
    with blk.Disk(made.node) as disk:
        disk.discard(100, 1000)
        disk.zero(5000, 77)
        base.equal(disk.read(100, 1000), bytes(1000 * 512), "what was discarded")
        base.equal(disk.read(5000, 77), bytes(77 * 512), "what was zeroed")
        base.equal(
            disk.read(99, 1), blk.pattern("junk", 64)[35 * 512 : 36 * 512], "the sector before"
        )
        made.message("fail remote")
        disk.discard(3000, 640)
        base.equal(made.status().rest[FIELDS.index("stale_remote")], "11", "regions stale by it")
        made.message("recover")
        made.in_sync()
    blk.same(loops[0], loops[1])
    made.remove()
    for loop in loops:
        base.run("losetup", "--detach", loop)

    base.step("legs without write-zeroes: discard isn't offered")
    pair = Pair("nosync")
    with (
        blk.Disk(pair.mirror.node) as disk,
        base.refused("discard", errno.EOPNOTSUPP),
    ):
        disk.discard(0, 8)
    pair.close()


def read_only() -> None:
    base.step("a read-only table on read-only legs")
    legs = [Leg("llocal"), Leg("lremote")]
    for leg in legs:
        base.run("blockdev", "--setro", leg.node)
    with base.refused("a writable table", errno.EROFS, kernel="is read-only"):
        dm.create("mirror", mirror.table(legs[0].node, legs[1].node, "nosync"))
    node = dm.create("mirror", mirror.table(legs[0].node, legs[1].node, "nosync"), readonly=True)
    with blk.Disk(node, write=False) as disk:
        base.equal(disk.read(0, 8), bytes(4096), "content")
    dm.remove("mirror")
    for leg in legs:
        leg.close()


def read_only_metadata() -> None:
    base.step("a read-only table on legs with metadata: read right, and not a byte is written")
    legs = [Leg("llocal"), Leg("lremote")]
    both = (legs[0].node, legs[1].node)
    base.run(META, "create", "--local", both[0], "--remote", both[1], "--region-size", "64")
    sectors = int(json.loads(base.run(META, "verdict", *both))["data_len"])
    device = mirror.Mirror(*both, "rejoin", 0, sectors=sectors)
    device.in_sync()
    new = blk.pattern("new", 8)
    with blk.Disk(device.node) as disk:
        disk.write(0, blk.pattern("old", 8))
        device.message("fail remote")
        disk.write(0, new)
    device.remove()
    before = [base.run("sha256sum", leg.disk.node) for leg in legs]
    for leg in legs:
        base.run("blockdev", "--setro", leg.node)
    for table in (both, (both[0], "-")):
        line = f"0 {sectors} lockstep {table[0]} {table[1]}"
        node = dm.create("mirror", line, readonly=True)
        with blk.Disk(node, write=False) as disk:
            base.equal(disk.read(0, 8), new, "content")
        time.sleep(70)
        dm.remove("mirror")
    base.equal([base.run("sha256sum", leg.disk.node) for leg in legs], before, "the legs")
    for leg in legs:
        leg.close()


refused_tables()
round_trip()
flags()
zeroes()
read_only()
read_only_metadata()
