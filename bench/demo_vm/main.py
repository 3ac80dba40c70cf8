# SPDX-License-Identifier: GPL-2.0-only
"""The main job end to end, on two virtual hosts: a trace mirrored over LAN and WAN, a power cut.

Takes about a quarter of an hour once the lab's caches are built. Everything is in build/demo
afterwards: the table's figures (results.jsonl), the picture, and each request's times.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from demo_vm import acked, outage, plan, provision, table
from demo_vm.sites import TOOLS, TOP, Sites
from demo_vm.tell import Failed, Tell
from lockstep.report import summary
from report import responses
from traces import spc
from vmlab import Lab, LabError

OUT = TOP / "build/demo"
GRACE_S = 120
CUT_AT = 0.15  # of the trace: the rest is long enough to see the mirror site come back
SYNC_S = 900.0
SET_UP_S, COMPARE_S = 300.0, 40.0  # as seen on two slow cores without KVM
LATE_MS = 1.0  # below this the replayer's own delay isn't worth a line


def command(one: plan.Configuration) -> str:
    """The replayer's, in the primary."""
    return (
        f"{TOOLS}/replay --slots {plan.SLOTS} --seed {one.seed} --grace {GRACE_S} "
        f"--log {TOOLS}/requests.csv {TOOLS}/trace.bin /dev/mapper/{one.mirror.name}"
    )


class Replay(threading.Thread):
    """The replayer in the primary, at the trace's own speed; its answer or its error."""

    def __init__(self, sites: Sites, one: plan.Configuration, seconds: float) -> None:
        super().__init__(daemon=True)
        self._sites, self._one = sites, one
        self._limit = seconds + 2 * GRACE_S
        self.answer: dict[str, Any] | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.answer = self._replayed()
        except Exception as err:  # told by the main thread
            self.error = err

    def result(self) -> dict[str, Any]:
        if self.error:
            raise self.error
        if self.answer is None:
            raise Failed(f"{self._one.name}: the replay hasn't ended")
        return self.answer

    def _replayed(self) -> dict[str, Any]:
        said = self._sites.run("primary", command(self._one), self._limit)
        answer: dict[str, Any] = json.loads(said)
        place = OUT / self._one.place
        place.mkdir(parents=True, exist_ok=True)
        log = self._sites.run("primary", f"cat {TOOLS}/requests.csv")
        (place / "requests.csv").write_text(log, encoding="ascii")
        return answer


def replayed(tell: Tell, sites: Sites, one: plan.Configuration, load: plan.Load) -> dict[str, Any]:
    """One row of the table: the trace replayed, then both legs read and compared."""
    sites.lab.wire(one.wire, seed=plan.CHANCE)
    sent = sites.sent_bytes()
    replay = Replay(sites, one, load.seconds)
    began = time.monotonic()
    replay.start()
    lost: outage.Outage | None = None
    if one.cut:
        due = began + CUT_AT * load.seconds
        tell.wait("replaying, until the cut", lambda: time.monotonic() > due, 3600.0,
                  CUT_AT * load.seconds)  # fmt: skip
        lost = outage.cut(tell, sites, one.mirror, load)
    tell.wait("replaying", lambda: not replay.is_alive(), load.seconds + 2 * GRACE_S, load.seconds)
    result = replay.result()
    some_written(one, result)
    result["wire"] = {"to_mirror_bytes": sites.sent_bytes() - sent}
    sites.lab.wire("none")
    status = sites.status(one.mirror)
    if not status.whole:
        raise Failed(f"{one.name}: after the replay the mirror isn't whole: {summary(status)}")
    tell.say("reading and comparing the legs, each whole, at its own site")
    result["legs_differ_at"] = sites.difference(one.mirror)
    if lost:
        result["outage"] = told(tell, one, lost, result)
    result["issued_late"] = lateness(tell, one)
    return result


def some_written(one: plan.Configuration, result: Mapping[str, Any]) -> None:
    """Legs that no write reached are equal, and that would prove nothing."""
    if not result["writes"]["response"]["count"]:
        raise Failed(
            f"{one.name}: no write was acknowledged, so equal legs would prove nothing: use a "
            "trace with writes, or more of it (--records)"
        )


def told(
    tell: Tell, one: plan.Configuration, lost: outage.Outage, result: Mapping[str, Any]
) -> dict[str, Any]:
    """The judgement over what the mirror site had before anything was resynced to it."""
    log = acked.writes(OUT / one.place / "requests.csv")
    cut_ns = lost.cut_ns - int(result["started_ns"])
    verdict = acked.judge(log, cut_ns, one.seed, lost.held)
    if not verdict.acknowledged:
        raise Failed(
            f"{one.name}: no write was acknowledged before the cut, {cut_ns / 1e9:.1f} s after the "
            "replay's start, so nothing could be lost: use a trace with writes before that, or "
            "more of it (--records)"
        )
    tell.say(
        f"{verdict.acknowledged} writes were acknowledged before the cut; of the "
        f"{verdict.sectors} sectors they wrote, {len(verdict.lost)} were lost at the mirror site "
        "(looked at after the DCD's recovery, before the resync)"
    )
    at = lost.moments["cut"]
    return {
        "cut_s": cut_ns / 1e9,
        "acknowledged_before_cut": verdict.acknowledged,
        "sectors_judged": verdict.sectors,
        "sectors_lost": list(verdict.lost),
        "sectors_resynced": lost.resynced,
        "seconds_after_cut": {name: when - at for name, when in lost.moments.items()},
        "status": lost.lines,
    }


def lateness(tell: Tell, one: plan.Configuration) -> dict[str, float]:
    """How late the replayer itself issued its requests; a line about it if that is material."""
    late = responses.lateness(OUT / one.place / "requests.csv")
    if late.p99 * 1e3 >= LATE_MS:
        tell.say(
            f"the replayer itself was late behind the trace by {late.mean * 1e3:.1f} ms on average,"
            f" {late.p99 * 1e3:.1f} ms at p99, {late.longest * 1e3:.0f} ms at most (its CPU, not "
            "the mirror; responses count from the issue)"
        )
    return {"mean_s": late.mean, "p99_s": late.p99, "max_s": late.longest}


def for_the_eye(sites: Sites, mirror: plan.Mirror) -> str:
    """A file system made, mounted, written, read back from the disk, and unmounted."""
    node = f"/dev/mapper/{mirror.name}"
    return sites.run("primary", f"""
        set -eu
        mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 {node}
        mkdir -p /mnt/{mirror.name}
        mount {node} /mnt/{mirror.name}
        head -c 4M /dev/urandom >/mnt/{mirror.name}/file
        one=$(sha256sum </mnt/{mirror.name}/file)
        umount /mnt/{mirror.name}
        mount {node} /mnt/{mirror.name}
        two=$(sha256sum </mnt/{mirror.name}/file)
        df -h --output=source,size,used,target /mnt/{mirror.name} | tail -n 1
        umount /mnt/{mirror.name}
        [ "$one" = "$two" ] || {{ echo "the file reads back differently" >&2; exit 1; }}
    """).strip()  # fmt: skip


def demo(tell: Tell, lab: Lab, load: plan.Load, configurations: list[plan.Configuration]) -> int:
    sites = Sites(lab)
    with tell.step("Two hosts", "Debian 13 in QEMU, with data disks, a log disk and NVRAM"):
        # Blank disks, whatever an earlier run left; a lab of its own, none that you have up.
        lab.down()
        lab.up()
        if lab.accel == "tcg":
            tell.say(
                "no usable KVM: the guests' CPUs are emulated (TCG). Disks and wire keep their "
                "modelled times, but each request also costs milliseconds of emulated CPU: that, "
                "not our code, is most of a LAN row, and a burst queues for it"
            )
    with tell.step("Disks", "both sites' disks become the paper's 15,000-rpm spindle (a model)"):
        for host in lab.hosts:
            sites.install_spindles(host)
            sites.send_tools(host, load)
    with tell.step("Ansible", "modules, disks, LUNs and ACL at the mirror site; session, mirrors"):
        provision.run(tell, lab, OUT)
        sites.both("sync")
    with tell.step("First sync", f"each mirror copies its {plan.LEG_MIB} MiB to the mirror site"):
        for mirror in plan.MIRRORS:
            watch = outage.Watch(tell, sites, mirror, outage.Outage())
            tell.wait(f"mirror {mirror.name}", watch.whole, SYNC_S, state=watch.how_far)
    with tell.step("A file system, for the eye", "made, mounted, written, read back, unmounted"):
        for mirror in plan.MIRRORS:
            tell.say(for_the_eye(sites, mirror))
        tell.say("the replays overwrite them")
    results = {}
    with (OUT / "results.jsonl").open("w", encoding="ascii") as lines:
        for one in configurations:
            about = f"{one.mirror.about}, over the {one.wire.upper()}; {load.seconds:.0f} s"
            with tell.step(f"Replay {one.name}", about):
                results[one.name] = replayed(tell, sites, one, load)
            row = {
                "configuration": one.name, "trace": load.what, "seed": one.seed,
                "wire_profile": one.wire, "backstore": one.mirror.kind, "accel": lab.accel,
            }  # fmt: skip
            lines.write(json.dumps(row | results[one.name], sort_keys=True) + "\n")
            lines.flush()
    return finish(tell, load, results)


def finish(tell: Tell, load: plan.Load, results: Mapping[str, Mapping[str, Any]]) -> int:
    tell.console.print(table.table(results), markup=False)
    tell.console.print(table.pipe_line(load.requests), markup=False)
    places = {one.name: OUT / one.place for one in plan.CONFIGURATIONS if one.name in results}
    spans = {}
    wrong = []
    for name, result in results.items():
        if result["legs_differ_at"] is not None:
            wrong.append(f"{name}: the legs differ, see the table")
        if "outage" not in result:
            continue
        spans[name] = shaded(result["outage"])
        alone = result["outage"]["seconds_after_cut"]["alone"]
        tell.console.print(
            f"{name}: the requests in flight waited {alone:.0f} s, until the primary gave the "
            "mirror site up (remote_timeout); what was due meanwhile was skipped",
            markup=False,
        )
        if result["outage"]["sectors_lost"]:
            wrong.append(f"{name}: acknowledged writes were lost, see results.jsonl")
    picture = OUT / "responses.png"
    responses.draw(places, load.what, picture, spans)
    tell.console.print(f"trace: {load.what}", markup=False)
    tell.console.print(f"results: {OUT / 'results.jsonl'}\npicture: {picture}", markup=False)
    if wrong:
        raise Failed("; ".join(wrong))
    return 0


def shaded(one: Mapping[str, Any]) -> list[responses.Span]:
    at, after = one["cut_s"], one["seconds_after_cut"]
    return [
        responses.Span(at, at + after["booted"], "#c0504d", "mirror site without power"),
        responses.Span(at + after["booted"], at + after["whole"], "#f0c060", "recovery and resync"),
    ]


def main() -> int:
    names = [one.name for one in plan.CONFIGURATIONS]
    parser = argparse.ArgumentParser(prog="bench/demo", description=__doc__)
    parser.add_argument("configuration", nargs="*", help=f"of: {'; '.join(names)} (default: all)")
    parser.add_argument("--trace", default=os.environ.get("TRACE"), help="an SPC file, also .xz")
    parser.add_argument(
        "--records", type=int, default=int(os.environ.get("RECORDS") or plan.RECORDS),
        help=f"only so many from the trace's start (default {plan.RECORDS})",
    )  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="leave the hosts running at the end")
    args = parser.parse_args()
    unknown = [name for name in args.configuration if name not in names]
    if unknown:
        parser.error(f"unknown configuration {unknown[0]!r}; there are: {', '.join(names)}")
    if args.records < 2:
        parser.error("--records: at least 2")
    wanted = args.configuration or names
    chosen = [one for one in plan.CONFIGURATIONS if one.name in wanted]

    tell = Tell(steps=5 + len(chosen))
    lab = Lab(TOP / "build/vm-demo", say=tell.say)
    began = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    try:
        load = plan.load(args.trace, args.records)
        tell.console.print(f"trace: {load.what}", markup=False)
        for line in spc.statistics(load.requests).lines():
            tell.say(line)
        minutes = (SET_UP_S + len(chosen) * (load.seconds + COMPARE_S)) / 60
        tell.say(f"this will take about {minutes:.0f} minutes without KVM, on a machine of its own")
        code = demo(tell, lab, load, chosen)
        tell.console.print(f"all of it took {(time.monotonic() - began) / 60:.1f} minutes")
        return code
    except (Failed, LabError, spc.BadTrace, OSError, ValueError) as err:
        print(f"demo: failed in the step '{tell.now}': {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"demo: interrupted in the step '{tell.now}'", file=sys.stderr)
        return 130
    finally:
        if args.keep:
            tell.say(f"the hosts are left running; their ssh ports and key: {lab.inventory_path}")
        else:
            lab.down()


if __name__ == "__main__":
    sys.exit(main())
