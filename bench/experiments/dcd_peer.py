# SPDX-License-Identifier: GPL-2.0-only
"""One LUN under 4 KiB random I/O through open-iscsi over the LAN wire, for bench/dcd-random.

Run in the sim lab. Every disk is the modelled spindle with its write cache off: an answer of the
disk means that the data are on the platter. All peers have the same data disk; log and cache disk
are the same disk, too, not stretched: what is sequential on it is so on the platter. The data disk
is stretched over the whole stroke, or not (packed); or all of them are the modelled SSD.

Loads, one after the other on one LUN: `burst` is so many writes, `steady` so many simulated seconds
of them, each after a pause. Then reads, so many of each: a first time for a cache to learn them, a
second time with another seed to be measured; `after` is the first of them again, when a sequence of
64 KiB reads over a quarter of the disk has gone by. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locklab import base, dm, fio, iscsi, lio, media, wire

DCD_TOOL = "/lockstep/build/bin/dcd"
IDLE_S = 30.0
# A command that waits for a full cache isn't a dead link.
PATIENT = {"node.conn[0].timeo.noop_out_interval": "0", "node.conn[0].timeo.noop_out_timeout": "0"}
COMMAND_SECONDS = 600
TRACING = Path("/sys/kernel/tracing")
# fio's own hot spot is the seed's; at a place of ours another seed has the same.
PLACES = {
    "uniform": "random",
    "zipf 0.8": "zipf:0.8:0",
    "zipf 1.2": "zipf:1.2:0",
    "hot spot": "zoned:90/10:10/90",  # of the writes, of the disk
}


def disk(name: str, mib: int, kind: str) -> str:
    if kind == "ssd":
        return media.disk(name, mib, "ssd", write_cache="off")
    spread = kind == "spread" and name == "data"
    return media.disk(name, mib, write_cache="off", spread="on" if spread else "off")


class Peer:
    """The LUN's backstore, and when it has nothing left to do."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.kind = args.peer
        data = disk("data", args.data_mib, args.disks)
        if args.peer == "iblock":
            self.store = lio.iblock("leg", data)
            return
        log = disk("log", args.log_mib, args.disks)
        if args.peer.startswith("dcd"):
            nvram = media.nvram("nvram", args.nvram_mib << 10)
            base.run(DCD_TOOL, "format", "--data", data, "--log", log, "--nvram", nvram)
            more = [word for word in args.settings.split(",") if word]
            more += ["read_cache_bytes=0"] if args.peer == "dcd-nocache" else []
            self.store = lio.dcd("leg", data, log, "lab:nvram", *more)
        else:
            # Its own answer to a write isn't durable (the LUN says so): that takes FUA.
            node = dm.create("cached", f"0 {args.data_mib << 11} writecache s {data} {log} 4096 0")
            self.store = lio.iblock("leg", node)

    def told(self) -> dict[str, int]:
        if self.kind.startswith("dcd"):
            return {k: int(n) for k, n in re.findall(r"\b([a-z_]+) (\d+)\b", self.store.info())}
        if self.kind.startswith("writecache"):
            words = [int(word) for word in dm.status("cached").split()[:4]]
            return dict(zip(("error", "blocks", "free", "writing_back"), words, strict=True))
        return {}


class Watch:
    """Twice a second what the DCD's `info` says, and its batches at the end, to files in OUT."""

    def __init__(self, peer: Peer) -> None:
        self._peer, self._end = peer, threading.Event()
        self._thread = threading.Thread(target=self._run)
        base.put(TRACING / "buffer_size_kb", "16384")
        base.put(TRACING / "events/dcd/dcd_batch/enable", "1")
        self._thread.start()

    def _run(self) -> None:
        with (base.OUT / "watch.jsonl").open("w", encoding="ascii") as kept:
            while not self._end.wait(0.5):
                kept.write(json.dumps({"at": time.monotonic()} | self._peer.told()) + "\n")

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        (base.OUT / "batches.txt").write_text((TRACING / "trace").read_text())


def load(
    node: str, peer: Peer, way: str, more: Mapping[str, object], seed: int = base.SEED
) -> dict[str, Any]:
    job = {"rw": f"rand{way}", "percentile_list": "50:99:99.9", **more}
    if way == "write" and peer.kind == "writecache-fua":
        job["sync"] = "dsync"
    before = peer.told()
    began = time.monotonic()
    side = fio.run(node, job, seed=seed)[0][way]
    took = time.monotonic() - began
    after = peer.told()
    times = side["clat_ns"]
    parts = {float(key): value for key, value in times["percentile"].items()}
    return {
        "count": side["total_ios"], "seconds": side["runtime"] / 1e3, "wall": round(took, 1),
        "mean_ns": times["mean"], "p50_ns": parts[50.0], "p99_ns": parts[99.0],
        "p999_ns": parts[99.9], "max_ns": times["max"],
        "counters": {key: after[key] - before[key] for key in after},
    }  # fmt: skip


def write_loads(node: str, peer: Peer, args: argparse.Namespace) -> dict[str, Any]:
    loads: dict[str, dict[str, object]] = {}
    if args.burst:
        loads["burst"] = {"number_ios": args.burst}
    if args.seconds:
        loads["steady"] = {"time_based": 1, "runtime": args.seconds}
    watch = Watch(peer) if args.watch else None
    found = {}
    for name, much in loads.items():
        time.sleep(IDLE_S)
        where = {"iodepth": args.depth, "random_distribution": PLACES[args.places]}
        found[name] = load(node, peer, "write", much | where)
    if watch:
        watch.close()
    return found


def read_loads(node: str, peer: Peer, args: argparse.Namespace) -> dict[str, Any]:
    def at(places: str, seed: int) -> dict[str, Any]:
        job = {"iodepth": args.depth, "number_ios": args.reads,
               "random_distribution": PLACES[places]}  # fmt: skip
        return load(node, peer, "read", job, seed)

    found = {}
    for name in PLACES:
        at(name, base.SEED)
        found[name] = at(name, base.SEED + 1)
    first = "zipf 1.2"
    at(first, base.SEED)
    fio.run(node, {"rw": "read", "bs": "64k", "iodepth": 2, "size": f"{args.data_mib // 4}m"})
    found["after"] = at(first, base.SEED + 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=("iblock", "dcd", "dcd-nocache", "writecache",
                                         "writecache-fua"))  # fmt: skip
    parser.add_argument("--data-mib", type=int, required=True)
    parser.add_argument("--log-mib", type=int, required=True)
    parser.add_argument("--nvram-mib", type=int, required=True)
    parser.add_argument("--depth", type=int, required=True)
    parser.add_argument("--burst", type=int, required=True, metavar="WRITES")
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--reads", type=int, required=True, metavar="EACH")
    parser.add_argument("--places", choices=PLACES, default="uniform", help="of the writes")
    parser.add_argument("--settings", default="", help="more keys of the dcd's control")
    parser.add_argument("--disks", choices=("spread", "packed", "ssd"), default="spread")
    parser.add_argument("--watch", action="store_true")
    args = parser.parse_args()

    link = wire.Wire()
    peer = Peer(args)
    target = lio.Target(peer.store)
    session = iscsi.Session(**PATIENT)
    node = session.login()
    base.put(Path("/sys/block") / Path(node).name / "device/timeout", COMMAND_SECONDS)
    link.profile("lan")

    found = write_loads(node, peer, args)
    if args.reads:
        found |= read_loads(node, peer, args)
    base.equal(session.up(), True, "the session lives")
    session.close()
    target.remove()
    peer.store.remove()
    link.close()
    print(json.dumps(found, sort_keys=True), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    main()
