# SPDX-License-Identifier: GPL-2.0-only
"""What the metadata cost: one load on a mirror with them and on one without, for bench/metadata.

    bench_metadata.py MIB REGION_SECTORS|0 replay TRACE_FILE
    bench_metadata.py MIB REGION_SECTORS|0 stream DEPTH WRITES

The legs are sparse disks in memory of MIB, with the latency of an SSD here and of one behind a LAN.
Data and tail of the local leg are devices of their own below it, so that what is written to the
metadata is also counted by the kernel where it arrives, apart from the mirror's own counters: the
two have to agree. Prints one JSON object.
"""

import json
import sys
import time
from dataclasses import dataclass

from locklab import base, count, dm, mirror, ram
from mirrorlab import FIELDS, META, load

REPLAY = "/lockstep/build/bin/replay"
LATENCY_US = {"local": 100, "remote": 400}
PAGE_SECTORS = 8
SHOWN = ("writes", "marked", "map_writes", "super_writes", "cleaned", "dirty")


@dataclass
class Leg:
    """A disk with a device for its data and one for its tail; one device over both is the leg."""

    name: str
    mib: int

    def __post_init__(self) -> None:
        self.disk = ram.Ram(f"{self.name}disk", self.mib, latency_us=LATENCY_US[self.name])
        self.node = dm.create(self.name, f"0 {self.disk.sectors} linear {self.disk.node} 0")

    def split(self, data: int) -> None:
        tail = self.disk.sectors - data
        head = dm.create(f"{self.name}-data", f"0 {data} linear {self.disk.node} 0")
        end = dm.create(f"{self.name}-tail", f"0 {tail} linear {self.disk.node} {data}")
        dm.reload(self.name, f"0 {data} linear {head} 0\n{data} {tail} linear {end} 0")

    def parts(self) -> dict[str, str]:
        return {part: f"/dev/mapper/{self.name}-{part}" for part in ("data", "tail")}


def work(node: str, sectors: int) -> dict[str, object]:
    """The load, and its response times if it tells any."""
    if sys.argv[3] == "replay":
        said = base.run(REPLAY, "--slots", "256", sys.argv[4], node)
        writes = json.loads(said)["writes"]
        base.equal((writes["errors"], writes["skipped"]), (0, 0), "errors and skipped writes")
        return {key: writes["response"][key] for key in ("mean_ns", "p50_ns", "p99_ns", "max_ns")}
    began = time.monotonic()
    load("stream", node, int(sys.argv[5]), span=sectors, depth=int(sys.argv[4]))
    return {"mean_ns": (time.monotonic() - began) * 1e9 * int(sys.argv[4]) / int(sys.argv[5])}


legs = {name: Leg(name, int(sys.argv[1])) for name in LATENCY_US}
nodes = [leg.node for leg in legs.values()]
region = ["--region-size", sys.argv[2]] if sys.argv[2] != "0" else []
base.run(META, "create", "--local", nodes[0], "--remote", nodes[1], "--assume-clean", *region)
told = json.loads(base.run(META, "verdict", *nodes))
data = int(told["data_len"])
for leg in legs.values():
    leg.split(data)

device = mirror.Mirror(nodes[0], nodes[1], "nosync", sectors=data)
plain = work(device.node, data)
device.remove()

# Without any word of the table's that has a default: what the legs say holds.
device = mirror.Mirror(*nodes, "rejoin", 5, sectors=data)
base.equal(device.status().health, "AA", "health before the load")
before = device.status().rest
tails = {name: leg.parts() for name, leg in legs.items()}
counted = {name: count.snapshot(disks=parts) for name, parts in tails.items()}
with_metadata = work(device.node, data)
after = device.status().rest
spent = {name: count.spent(counted[name], count.snapshot(disks=parts))
         for name, parts in tails.items()}  # fmt: skip
# What is gauged (dirty) is told as it is, what is counted as what the load added.
own = {key: int(after[FIELDS.index(key)]) for key in SHOWN}
own |= {key: own[key] - int(before[FIELDS.index(key)]) for key in SHOWN if key != "dirty"}
pages = {name: one["tail_write_sectors"] // PAGE_SECTORS for name, one in spent.items()}
print(json.dumps({
    "regions": device.status().regions, "region_sectors": int(told["region_size"]),
    "without": plain, "with": with_metadata, "counters": own, "tail_pages": pages,
    "data_writes": spent["local"]["data_writes"],
}), flush=True)  # fmt: skip
base.equal(device.status().health, "AA", "health after the load")
base.equal(pages["local"] + pages["remote"], own["map_writes"] + 2 * 2 * own["super_writes"],
           "pages written to the tails, by their own count and by the mirror's")  # fmt: skip
device.remove()
