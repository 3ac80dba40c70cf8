# SPDX-License-Identifier: GPL-2.0-only
"""The command `lockstep` on real devices."""

from __future__ import annotations

import pytest
from labrun import knobs, lab

# On the plain kernel alone: what they make the module do other scenarios do on the checked one,
# where a start of Python takes seconds, and these start it a hundred times.
LONG = ("cli_samelun", "cli_stalled", "cli_nowrite")
SCENARIOS = [
    "cli_devices", "cli_create", "cli_iscsi", "cli_life", "cli_verify", "cli_guess", "cli_takeover",
    *(pytest.param(one, marks=pytest.mark.long) for one in LONG),
]  # fmt: skip


@pytest.mark.parametrize("part", [
    "readd", "lost", "busy", "together",
    *(pytest.param(one, marks=pytest.mark.long) for one in ("san", "made", "bare")),
])  # fmt: skip
def test_writes_that_arrive_late(part: str) -> None:
    run = lab("cli_late.py", part, options=("--timeout", "900"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("leg", ["local", "remote"])
def test_a_start_with_a_leg_that_gives_errors(leg: str) -> None:
    run = lab("cli_boot.py", leg)
    assert run.rc == 0, run.text


@pytest.mark.parametrize("who", ["re-add", "monitor", "hangs"])
def test_writes_are_held_until_the_leg_is_back(who: str) -> None:
    run = lab("cli_held.py", who)
    assert run.rc == 0, run.text


@pytest.mark.parametrize("part", ["reload", "monitor", "lun", "both"])
def test_what_comes_amid_an_exchange(part: str) -> None:
    run = lab("cli_blip.py", part, options=("--timeout", "900"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("other", ["filled", "dead"])
def test_the_only_good_leg_is_another_device(other: str) -> None:
    run = lab("cli_source.py", other, options=("--timeout", "900"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("what", ["foreign", "filled", "older"])
def test_the_name_of_the_only_good_leg_leads_to_another(what: str) -> None:
    run = lab("cli_strange.py", what, options=("--timeout", "900"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_by_the_command(scenario: str) -> None:
    run = lab(f"{scenario}.py", options=("--timeout", "900"))
    assert run.rc == 0, run.text


@pytest.mark.parametrize("part", [
    "read", "reload", "beside", "advanced", "hangs",
    *(pytest.param(one, marks=pytest.mark.long) for one in ("resync", "area", "worn", "flaps")),
])  # fmt: skip
def test_a_bad_sector_behind_a_crash(part: str) -> None:
    disk = ("--boot", "scsi_debug.dev_size_mb=8", "--boot", "scsi_debug.physblk_exp=3")
    more = disk if part == "advanced" else ()
    run = lab("cli_crash.py", part, options=("--sim-timeout", "600", *more))
    assert run.rc == 0, run.text


@pytest.mark.control
def test_a_repair_behind_a_crash_takes_back_what_was_read() -> None:
    run = lab("cli_crash.py", "beside", options=knobs("dm_lockstep", "repairs_beside"))
    assert run.rc == 1 and "what was acknowledged" in run.stderr, run.text


@pytest.mark.control
def test_a_leg_that_hangs_in_a_repair_loses_what_it_has() -> None:
    run = lab("cli_crash.py", "hangs", options=knobs("dm_lockstep", "mute_is_bad"))
    assert run.rc == 1 and "what was acknowledged" in run.stderr, run.text


@pytest.mark.control
def test_a_worn_sector_behind_a_crash_is_an_error() -> None:
    run = lab("cli_crash.py", "worn", options=knobs("dm_lockstep", "unmended_fails"))
    assert run.rc == 1 and "Input/output error" in run.stderr, run.text


@pytest.mark.control
def test_a_bad_sector_behind_a_crash_stalls_the_resync() -> None:
    options = ("--sim-timeout", "30", *knobs("dm_lockstep", "crash_forgets"))
    run = lab("cli_crash.py", "resync", options=options)
    assert run.rc == 124 and "lockstep assemble m" in run.text, run.text
