# SPDX-License-Identifier: GPL-2.0-only
"""What takes hours: `make test-long`. The same scenarios as in `make test`, with many seeds.

LOCKSTEP_LONG=N (default 1.0) scales the numbers of seeds.
"""

from __future__ import annotations

import os
import re

import pytest
from labrun import lab
from test_search import ANEW, DCD_LATE, IN_PART, LATE, LOG_IN_PART, PLAIN

pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * 3600)]

SCALE = float(os.environ.get("LOCKSTEP_LONG", "1"))
HOURS = ("--timeout", str(3 * 3600), "--sim-timeout", "1e9")
# A run is one of so many that may be at work at the same time.
PARTS = 8


def seeds(whole: int) -> int:
    """Of each part."""
    return max(1, round(whole * SCALE / PARTS))


every_part = pytest.mark.parametrize("part", range(PARTS))


@every_part
def test_lives_of_the_mirror(part: int) -> None:
    count = seeds(6000)
    run = lab("state_schedules.py", str(count), str(10_000 + part * count), options=HOURS)
    assert run.rc == 0, run.text


@every_part
def test_lives_of_a_leg_that_two_hosts_use(part: int) -> None:
    count = seeds(6000)
    run = lab("state_hosts.py", str(count), str(10_000 + part * count), options=HOURS)
    assert run.rc == 0, run.text


@every_part
def test_lives_of_a_map_of_many_pages(part: int) -> None:
    count = seeds(3000)
    run = lab("state_pages.py", str(count), str(10_000 + part * count), options=HOURS)
    assert run.rc == 0, run.text


@every_part
def test_lives_of_legs_that_strangers_use(part: int) -> None:
    count = seeds(3000)
    run = lab("state_strangers.py", str(count), str(10_000 + part * count), options=HOURS)
    assert run.rc == 0, run.text


@every_part
def test_lives_of_a_mirror_whose_table_is_exchanged(part: int) -> None:
    count = seeds(3000)
    run = lab("state_exchanges.py", str(count), str(10_000 + part * count), options=HOURS)
    assert run.rc == 0, run.text


@every_part
def test_lives_of_a_mirror_without_metadata(part: int) -> None:
    count = seeds(3000)
    run = lab("core_lives.py", str(count), str(10_000 + part * count), options=HOURS)
    assert run.rc == 0, run.text


@every_part
def test_lives_of_disks_with_bad_sectors(part: int) -> None:
    count = seeds(3000)
    run = lab("state_sectors.py", str(count), str(10_000 + part * count), options=HOURS)
    assert run.rc == 0, run.text


@every_part
def test_lives_of_a_dcd_whose_devices_are_exchanged(part: int) -> None:
    count = seeds(800)
    run = lab("dcd_exchanged.py", str(count), str(10_000 + part * count), options=HOURS)
    assert run.rc == 0, run.text


@every_part
def test_lives_of_a_dcd_over_a_leg(part: int) -> None:
    count = seeds(4000)
    run = lab("dcd_legs.py", str(count), str(10_000 + part * count), options=HOURS)
    assert run.rc == 0, run.text


@every_part
def test_schedules_of_failing_legs(part: int) -> None:
    count = seeds(1000)
    run = lab("mirror_churn.py", str(count), str(10_000 + part * count), options=HOURS)
    assert run.rc == 0, run.text


@every_part
@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("cut_mirror", ("--backstore", "dcd", "--offline")),
        ("cut_mirror", ("--nvram", "none", "--offline")),
        ("cut_primary", ("--backstore", "dcd")),
        ("cut_batches", ("--nvram", "lab")),
    ],
)
def test_power_cuts(scenario: str, words: tuple[str, ...], part: int) -> None:
    count = seeds(1000)
    cuts = ("--cuts", str(count), "--first", str(10_000 + part * count))
    run = lab(f"{scenario}.py", *cuts, *words, options=HOURS)
    assert run.rc == 0, run.text


@every_part
@pytest.mark.parametrize(
    ("axis", "of"),
    [
        (f"shorter=1 {PLAIN}", 1), (f"queue=few {PLAIN}", 10), (f"cache=on {PLAIN}", 10),
        (f"with={IN_PART}", 60), (f"with={ANEW}", 60), (f"with={LATE}", 60),
        ("policy=block", 40), ("policy=error", 80), ("log=small", 40), ("size=more", 40),
        ("map=many", 40),
        ("size=more policy=block log=small", 80), ("queue=few policy=block log=small", 80),
    ],
)  # fmt: skip
def test_every_order_of_three_events(axis: str, of: int, part: int) -> None:
    every = max(1, round(of / SCALE))
    words = ("3", str(part), str(PARTS), f"every={every}", *axis.split())
    run = lab("search_mirror.py", *words, options=HOURS)
    assert run.rc == 0, run.text
    assert re.search(rb"\d+ histories passed", run.stdout), run.text


@every_part
@pytest.mark.parametrize(("of", "axis"), [
    *(("mirror", axis) for axis in (
        "", "queue=few", "cache=on", "cache=local", "policy=block", "policy=error", "log=small",
        "size=more", "queue=few policy=block log=small", "size=more policy=error cache=on",
        "map=many", "map=many cache=local log=small")),
    *(("dcd", f"nvram={nvram} ring={ring}") for nvram in ("lab", "none", "dram")
      for ring in ("idle", "full")),
])  # fmt: skip
def test_histories_of_many_events(of: str, axis: str, part: int) -> None:
    count = seeds(8000 if of == "mirror" else 4000)
    words = (f"lives={10_000 + part * count},{count}", "length=16", *axis.split())
    run = lab(f"search_{of}.py", *words, options=HOURS)
    assert run.rc == 0, run.text


@pytest.mark.parametrize(
    ("scenario", "words", "kernel", "options"),
    [
        ("fs_mirror", ("ext4", "20"), "plain", ()),
        ("fs_mirror", ("xfs", "20"), "plain", ()),
        ("fs_mirror", ("ext4", "5"), "checked", ()),
        (
            "mirror_scatter", ("scsi_debug",), "plain",
            ("--boot", "scsi_debug.sector_size=4096", "--boot", "scsi_debug.dev_size_mb=8"),
        ),
        ("dcd_bad_log_place", (), "checked", ("--param", "dcd.test_never_move=1")),
        ("dcd_zeroing", (), "checked", ()),
    ],
)  # fmt: skip
def test_all_of_what_the_short_tests_have_less_of(
    scenario: str, words: tuple[str, ...], kernel: str, options: tuple[str, ...]
) -> None:
    run = lab(f"{scenario}.py", *words, kernel=kernel, options=(*HOURS, *options))
    assert run.rc == 0, run.text


def test_sixteen_tib_are_discarded() -> None:
    run = lab("dcd_huge.py", options=HOURS)
    assert run.rc == 0, run.text


@every_part
@pytest.mark.parametrize("axis", [
    "policy=block", "policy=error", "log=small", "size=more", "map=many",
])  # fmt: skip
def test_every_order_of_two_events_with(axis: str, part: int) -> None:
    every = max(1, round(1 / SCALE))
    run = lab("search_mirror.py", "2", str(part), str(PARTS), f"every={every}", axis, options=HOURS)
    assert run.rc == 0, run.text


@every_part
@pytest.mark.parametrize(("most", "of"), [(2, 1), (3, 180)])
@pytest.mark.parametrize("axis", [
    "nvram=lab", "nvram=none", "nvram=dram",
    *(f"nvram={nvram} ring=full with={some}"
      for some in (LOG_IN_PART, DCD_LATE) for nvram in ("lab", "none", "dram")),
])  # fmt: skip
def test_every_order_of_events_of_a_dcd(axis: str, most: int, of: int, part: int) -> None:
    every = max(1, round(of / SCALE))
    words = (str(most), str(part), str(PARTS), f"every={every}", *axis.split())
    run = lab("search_dcd.py", *words, options=HOURS)
    assert run.rc == 0, run.text
    assert re.search(rb"\d+ histories passed", run.stdout), run.text
