# SPDX-License-Identifier: GPL-2.0-only
"""The demo's parts that need no host: the trace's layout, the legs, the verdict's seeds."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import yaml
from demo_vm import acked, main, outage, plan, provision, spindles
from demo_vm.sites import TOP, Sites
from demo_vm.tell import Failed, Tell
from lockstep import status
from report import responses
from traces import spc


def placed(*rows: tuple[int, int, bool]) -> list[spc.Placed]:
    return [spc.Placed(sector, count, write, 0) for sector, count, write in rows]


def test_what_a_trace_writes_is_merged_and_reads_are_left_out() -> None:
    rows = placed((100, 8, True), (0, 4, True), (4, 4, True), (102, 2, True), (50, 8, False))
    assert plan.written(rows) == ((0, 8), (100, 8))
    assert plan.written(placed((5, 1, False))) == ()


def test_the_trace_fits_the_legs_and_says_its_name(tmp_path: Path) -> None:
    path = tmp_path / "t.spc"
    path.write_text("0,0,512,w,0.0\n0,1,512,w,1.5\n0,0,512,w,9.0\n", encoding="ascii")
    load = plan.load(str(path), 2)
    assert load.seconds == 1.5
    assert load.written == ((0, 2),)
    assert str(path) in load.what
    assert "first 2" in load.what
    with pytest.raises(spc.BadTrace, match="don't fit"):
        plan.load(str(narrow(tmp_path)), 100)


def narrow(tmp_path: Path) -> Path:
    """So many ASUs that a large request has no room in its share."""
    path = tmp_path / "n.spc"
    lines = [f"{asu},0,512,w,0.0" for asu in range(64)] + [f"0,0,{16 << 20},w,0.0"]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


def test_parts_of_one_disk_do_not_overlap() -> None:
    assert plan.LEG_MIB > plan.DATA_MIB
    for disks in ([one.local for one in plan.MIRRORS], [one.data for one in plan.MIRRORS]):
        ends = 0
        for disk in sorted(disks, key=lambda one: one.first_mib):
            assert disk.first_mib >= ends
            ends = disk.first_mib + disk.mib
    names = [s.name for s in (*(m.local for m in plan.MIRRORS), *(m.data for m in plan.MIRRORS))]
    assert len(set(names)) == len(names)
    assert spindles.table([plan.LOG]) == f"mirror-log /dev/disk/by-id/virtio-log 0 {plan.LOG_MIB}\n"


def test_lateness_is_from_the_trace_to_the_issue(tmp_path: Path) -> None:
    log = tmp_path / "requests.csv"
    head = "record,due_ns,issued_ns,done_ns,op,sector,bytes,result\n"
    rows = [f"{n},{n * 1000},{n * 1000 + late},0,w,0,512,512\n" for n, late in
            enumerate([0, 1_000_000, 5_000_000])]  # fmt: skip
    log.write_text(head + "".join(rows), encoding="ascii")
    late = responses.lateness(log)
    assert (late.mean, late.p99, late.longest) == pytest.approx((0.002, 0.005, 0.005))


class Primary:
    """Tells a mirror's state as dmsetup does."""

    def __init__(self) -> None:
        self.words = ""

    def status(self, mirror: plan.Mirror) -> status.Status:
        return status.parse(f"0 264128 lockstep {self.words} 0 0 {'0 ' * 13}2048")


@pytest.mark.parametrize(("words", "alone", "whole"), [
    ("AA 2064/2064 idle 0 0 degrade 0 0 0 0 together - 3 0 -", False, True),
    ("Aa 2060/2064 resync 0 0 degrade 0 4 0 0 together - 4 99 -", False, False),
    ("AD 2064/2064 waiting 0 9 degrade 0 0 0 0 parting timeout 9 0 -", False, False),
    ("AD 2060/2064 waiting 0 9 degrade 0 4 0 0 alone timeout 9 0 -", True, False),
])  # fmt: skip
def test_the_watch_knows_when_the_mirror_is_alone_and_whole(
    words: str, alone: bool, whole: bool
) -> None:
    primary, one = Primary(), outage.Outage()
    watch = outage.Watch(Tell(steps=1), cast(Sites, primary), plan.DCD, one)
    primary.words = words
    assert (watch.alone(), watch.whole()) == (alone, whole)
    assert len(one.lines) == 1 and words.split()[1] in one.lines[0]


def test_what_a_resync_copied_is_counted_by_one_table() -> None:
    """A table that the monitor loads for the LUN of a new session counts from zero."""

    def look(resynced: int) -> status.Status:
        words = "AA 2064/2064 idle 0 0 degrade 0 0 0 0 together - 0 0 - 0"
        return status.parse(f"0 264128 lockstep {words} {'0 ' * 12}{resynced}")

    assert outage.copied(look(100), look(356)) == 256
    assert outage.copied(None, look(256)) == 256
    with pytest.raises(Failed, match="went back, by 44"):
        outage.copied(look(300), look(256))


def test_each_mirror_has_its_own_target_disks_and_secrets() -> None:
    plain, dcd = (provision.variables(one, "10.9.0.2") for one in plan.MIRRORS)
    for key in ("mirror_site_target_iqn", "mirror_site_data", "primary_local", "primary_name",
                "primary_chap_password"):  # fmt: skip
        assert plain[key] != dcd[key]
    assert plain["mirror_site_backstore"] == "iblock"
    assert "mirror_site_format" not in plain
    for one in (plain, dcd):
        assert one["mirror_site_chap_password"] == one["primary_chap_password"]
        assert one["mirror_site_chap_password"] != one["mirror_site_mutual_password"]
        assert one["mirror_site_target_iqn"] == one["primary_target_iqn"]


@pytest.mark.parametrize("role", ["mirror_site", "primary"])
def test_a_role_is_told_all_that_it_has_to_be(role: str) -> None:
    specs = TOP / "ansible/roles" / role / "meta/argument_specs.yml"
    wanted = yaml.safe_load(specs.read_text())["argument_specs"]["main"]["options"]
    required = {name for name, option in wanted.items() if option.get("required")}
    for mirror in plan.MIRRORS:
        told = {n for n in provision.variables(mirror, "10.9.0.2") if n.startswith(f"{role}_")}
        assert required <= told <= wanted.keys()


def test_the_task_of_a_playbook_is_found_in_what_it_says(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("PLAY [x] ***\n\nTASK [lockstep.mirror.primary : Name this host] ****\nok\n")
    assert provision.task(log) == "Name this host"


LOG = (
    "record,due_ns,issued_ns,done_ns,op,sector,bytes,result\n"
    "0,0,0,10,w,0,1024,1024\n1,20,20,30,w,8,512,512\n2,40,40,90,w,16,512,512\n"
)
CUT = next(one for one in plan.CONFIGURATIONS if one.cut)
EARLIER = [one for one in plan.CONFIGURATIONS[: plan.CONFIGURATIONS.index(CUT)]
           if one.mirror is CUT.mirror]  # fmt: skip


def judged(out: Path, written_by: plan.Configuration, cut_ns: int) -> list[int]:
    """What the demo finds lost, if the site holds what that configuration's replay wrote."""
    log = out / CUT.place / "requests.csv"
    log.parent.mkdir()
    log.write_text(LOG, encoding="ascii")
    held = {
        sector: acked.digest(acked.content(written_by.seed, one, sector))
        for one in acked.writes(log)
        for sector in range(one.sector, one.sector + one.sectors)
    }
    lost = outage.Outage(cut_ns=cut_ns, moments={"cut": 0.0}, held=held)
    told = main.told(Tell(steps=1), CUT, lost, {"started_ns": 1000})
    assert told["acknowledged_before_cut"] == 2
    found: list[int] = told["sectors_lost"]
    return found


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(main, "OUT", tmp_path)
    return tmp_path


def test_a_site_with_this_rows_bytes_has_lost_nothing(out: Path) -> None:
    assert judged(out, CUT, 1050) == []


@pytest.mark.parametrize("earlier", EARLIER, ids=lambda one: one.name)
def test_a_site_with_an_earlier_rows_bytes_has_lost_all(
    out: Path, earlier: plan.Configuration
) -> None:
    """Both replay the same trace onto the same mirror."""
    assert judged(out, earlier, 1050) == [0, 1, 8]


def test_nothing_acknowledged_before_the_cut_proves_nothing(out: Path) -> None:
    with pytest.raises(Failed, match="no write was acknowledged before the cut"):
        judged(out, CUT, 1005)


def test_each_configuration_writes_bytes_of_its_own() -> None:
    assert len(EARLIER) >= 2
    seeds = [one.seed for one in plan.CONFIGURATIONS]
    assert len(set(seeds)) == len(seeds)
    for one in plan.CONFIGURATIONS:
        words = main.command(one).split()
        assert words[words.index("--seed") + 1] == str(one.seed)
        assert words[-1] == f"/dev/mapper/{one.mirror.name}"


@pytest.mark.parametrize("count", [0, 1])
def test_legs_that_no_write_reached_are_not_identical_for_it(count: int) -> None:
    result = {"writes": {"issued": 3, "response": {"count": count}}}
    if count:
        main.some_written(CUT, result)
        return
    with pytest.raises(Failed, match="no write was acknowledged"):
        main.some_written(CUT, result)
