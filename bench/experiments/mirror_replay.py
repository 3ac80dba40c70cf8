# SPDX-License-Identifier: GPL-2.0-only
"""One configuration of the remote-mirroring paper, in the sim lab: a trace replayed on a mirror.

Both sites' disks are the modelled spindle with its write cache off: an answer means that the data
are on the platter. Prints one JSON object: what the replayer says, what it cost on the wire, and
how the legs compare.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from locklab import base, blk, count, dm, iscsi, lio, media, mirror, wire

REPLAY = "/lockstep/build/bin/replay"
DCD_TOOL = "/lockstep/build/bin/dcd"
NVRAM_KIB = 32 << 10  # the paper's 32 MB
LOG_MIB = 128
# A burst of 128 writes is many seconds of a slow wire: the initiator's ping behind them, a
# command's own time limit (30 s) and the target's for a command's data (3 s) would each take that
# for a dead link, and the mirror would go on alone.
PATIENT = {"node.conn[0].timeo.noop_out_interval": "0", "node.conn[0].timeo.noop_out_timeout": "0"}
COMMAND_SECONDS = 600
DATA_SECONDS = 60  # the most that LIO takes
INITIATOR = "iqn.2026-11.org.lockstep:primary"


def spindle(name: str, mib: int) -> str:
    return media.disk(name, mib, write_cache="off", spread="on")


def backstore(cache: str, mib: int) -> tuple[lio.Backstore, str]:
    data = spindle("mdata", mib)
    if cache == "none":
        return lio.iblock("leg", data), data
    log = spindle("mlog", LOG_MIB)
    nvram = media.nvram("mnvram", NVRAM_KIB)
    base.run(DCD_TOOL, "format", "--data", data, "--log", log, "--nvram", nvram)
    return lio.dcd("leg", data, log, "lab:mnvram"), data


@contextlib.contextmanager
def patient_target(store: lio.Backstore) -> Iterator[None]:
    """The target, with an access list of its own: only there the time limit can be set."""
    target = lio.Target(store)
    acl = base.made(target.tpg / "acls" / INITIATOR)
    base.put(acl / "attrib/dataout_timeout", DATA_SECONDS)
    lun = base.made(acl / "lun_0")
    (lun / "lun").symlink_to(target.tpg / "lun/lun_0")
    yield
    (lun / "lun").unlink()
    lun.rmdir()
    acl.rmdir()
    target.remove()


@contextlib.contextmanager
def mirrored(software: str, local: str, remote: str, options: Sequence[str]) -> Iterator[str]:
    """The mirror device over two equal legs. Each reads from the local leg only."""
    sectors = min(dm.sectors(local), dm.sectors(remote))
    if software == "lockstep":
        one = mirror.Mirror(local, remote, "nosync", *options)
        yield one.node
        one.remove()
    elif software == "dm-mirror":
        legs = f"2 {local} 0 {remote} 0"
        yield dm.create("peer", f"0 {sectors} mirror core 2 1024 nosync {legs}")
        base.expect(" AA " in f" {dm.status('peer')} ", f"dm-mirror: {dm.status('peer')}")
        dm.remove("peer")
    else:
        md = ("mdadm", "--build", "/dev/md0", "--level=1", "--raid-devices=2", "--assume-clean")
        base.run(*md, local, "--write-mostly", remote)
        yield "/dev/md0"
        degraded = Path("/sys/block/md0/md/degraded").read_text().strip()
        base.equal(degraded, "0", "legs that md raid1 has given up")
        base.run("mdadm", "--stop", "/dev/md0")


def replay(node: str, trace: str, args: argparse.Namespace) -> dict[str, Any]:
    log = str(base.OUT / "requests.csv")
    words = [REPLAY, "--slots", str(args.slots), "--batch", str(args.batch), "--grace", "900"]
    words += ["--seed", str(base.SEED), "--log", log, trace, node]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise base.Wrong(f"{' '.join(words)}: rc {done.returncode}: {done.stdout}{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def answered(result: Mapping[str, Any]) -> int:
    """Writes that ended well."""
    found: int = result["writes"]["response"]["count"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--software", choices=("lockstep", "md", "dm-mirror"), default="lockstep")
    parser.add_argument("--remote", choices=("local", "lan", "wan"), required=True)
    parser.add_argument("--cache", choices=("none", "dcd"), default="none")
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--options", default="", help="words of lockstep's table line")
    parser.add_argument("--mib", type=int, default=512)
    args = parser.parse_args()

    local = spindle("local", args.mib)
    link = session = store = None
    site = contextlib.ExitStack()
    if args.remote == "local":
        remote = far = spindle("second", args.mib)
    else:
        link = wire.Wire()
        store, far = backstore(args.cache, args.mib)
        site.enter_context(patient_target(store))
        session = iscsi.Session(**PATIENT)
        remote = session.login()
        base.put(Path("/sys/block") / Path(remote).name / "device/timeout", COMMAND_SECONDS)
        link.profile(args.remote)
    with mirrored(args.software, local, remote, args.options.split()) as node:
        legs = {"local": local, "remote": remote}
        before = count.snapshot(link, store, legs)
        result = replay(node, args.trace, args)
        after = count.snapshot(link, store, legs)
        if args.software == "lockstep":
            result["status"] = dm.status("mirror")
            health = mirror.parse(result["status"]).health
            base.equal(health, "AA", "the mirror's health after the replay")
    # Disks and memory are new in each boot, so what one replay writes can't be there before it.
    base.expect(answered(result) > 0, "no write was answered: equal legs would prove nothing")
    result["wire"] = count.spent(before, after)
    with contextlib.ExitStack() as stack:
        leg = far
        if store and args.cache == "dcd":  # with what is still in its NVRAM and log
            leg = stack.enter_context(lio.look(store))
        at = blk.difference(local, leg)
    result["legs_differ_at"] = at
    if link and session and store:
        session.close()
        site.close()
        store.remove()
        link.close()
    print(json.dumps(result, sort_keys=True), flush=True)
    # The peers don't order writes that overlap one another in flight; theirs is only told.
    if args.software == "lockstep":
        base.equal(at, None, "first sector in which the legs differ")


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    main()
