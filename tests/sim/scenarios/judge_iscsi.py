# SPDX-License-Identifier: GPL-2.0-only
"""An outside judge: all of iscsi-test-cu (libiscsi) on a DCD LUN and on LIO's own iblock.

    tests/sim/lab run tests/sim/scenarios/judge_iscsi.py -- [SUITE ...]

Both LUNs are of one size, on disks of one kind, behind one target. What a test said (passed,
skipped a part, failed) is compared with judge_iscsi.dcd and judge_iscsi.iblock: each test that
isn't simply passed is there with the reason, and whatever differs from those files is an error, a
failure that has gone too. And whatever isn't simply passed on the DCD has to be so on iblock.
What is unjudged there isn't run: the judge would never end (in simulated time nothing ends a
program that asks again and again without a pause), and it has nothing to do with the backstore.

What was said at each check that failed is in the output directory, a file for each LUN and suite.
"""

import re
import subprocess
from pathlib import Path

import dcdlab
from locklab import base, lio, ram, wire

HERE = Path(__file__).parent
INITIATORS = ("iqn.2026-11.org.lockstep:judge-1", "iqn.2026-11.org.lockstep:judge-2")
MIB = 64
LUNS = ("dcd", "iblock")


def suites() -> dict[str, list[str]]:
    """What iscsi-test-cu has: tests by suite."""
    found: dict[str, list[str]] = {}
    for line in base.run("iscsi-test-cu", "--list").splitlines():
        family, _, rest = line.partition(".")
        suite, _, test = rest.partition(".")
        if family == "ALL" and test:
            found.setdefault(suite, []).append(test)
    return found


def judge(lun: int, name: str) -> dict[str, str]:
    """SUITE.TEST of what is in `name` (a suite, or one test): what became of it."""
    url = f"iscsi://{lio.PORTAL}/{lio.IQN}/{lun}"
    done = subprocess.run(
        ["iscsi-test-cu", "--dataloss", f"--initiator-name={INITIATORS[0]}",
         f"--initiator-name-2={INITIATORS[1]}", f"--test=ALL.{name}", url],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    (base.OUT / f"{LUNS[lun]}.{name}").write_text(done.stdout + done.stderr)
    suite = name.partition(".")[0]
    # "  Test: NAME ...", what the test says, "passed" or "FAILED" and the checks that failed.
    found = {}
    for part in re.split(r"^  Test: ", done.stdout, flags=re.MULTILINE)[1:]:
        verdict = re.search(r"(?:^|\.\.\.)(passed|FAILED)", part, re.MULTILINE)
        if verdict:
            outcome = "skipped" if "[SKIPPED]" in part else "passed"
            test = f"{suite}.{part.partition(' ')[0]}"
            found[test] = "failed" if verdict[1] == "FAILED" else outcome
    return found


def known(lun: str) -> dict[str, str]:
    """The file of a LUN: OUTCOME SUITE.TEST: REASON."""
    found = {}
    for line in (HERE / f"judge_iscsi.{lun}").read_text().splitlines():
        if line and not line.startswith("#"):
            words = re.fullmatch(r"(skipped|failed|unjudged) ([\w.-]+): \S.*", line)
            base.expect(words, f"judge_iscsi.{lun}: not OUTCOME SUITE.TEST: REASON: {line}")
            assert words
            found[words[2]] = words[1]
    return found


def compare(got: dict[str, str], want: dict[str, str], what: str) -> list[str]:
    wrong = []
    for test, outcome in got.items():
        expected = want.get(test, "passed")
        if outcome != expected:
            wrong.append(f"{what}: {test}: {outcome}, known as {expected}")
    return wrong


def main() -> None:
    wire.Wire()
    wanted = base.words(1, suites())
    disks = {name: ram.Ram(name, MIB) for name in ("data", "log", "plain")}
    dcdlab.format_log(disks["data"].node, disks["log"].node)
    dcd = lio.dcd("d", disks["data"].node, disks["log"].node, "dram:battery")
    stock = lio.iblock("i", disks["plain"].node)
    # As able as it can be: what it could do counts, not what it is set to at first.
    for name in ("emulate_tpu", "emulate_tpws"):
        stock.attribute(name, 1)
    for store, serial in ((dcd, "d" * 32), (stock, "e" * 32)):
        base.put(store.path / "wwn/vpd_unit_serial", serial)
    # Where the target keeps reservations.
    Path("/var/target/pr").mkdir(parents=True, exist_ok=True)
    target = lio.Target(dcd)
    target.add(stock, 1)
    results: list[dict[str, str]] = []
    for number, lun in enumerate(LUNS):
        base.step(f"{lun}: LUN {number}")
        got: dict[str, str] = {}
        left_out = {test for test, outcome in known(lun).items() if outcome == "unjudged"}
        for suite, tests in suites().items():
            if wanted and suite not in wanted:
                continue
            every = {f"{suite}.{test}" for test in tests}
            for part in sorted(every - left_out) if every & left_out else [suite]:
                got |= judge(number, part)
            missing = every - left_out - set(got)
            base.expect(not missing, f"{lun}: no verdict on {sorted(missing)}")
        counts = {kind: list(got.values()).count(kind) for kind in ("passed", "skipped", "failed")}
        print(f"  {lun}: {counts}, left out: {sorted(left_out)}", flush=True)
        results.append(got)
    ours, theirs = results
    wrong = [
        f"{test}: {outcome} on the DCD, {theirs[test]} on iblock"
        for test, outcome in ours.items()
        if outcome != "passed" and theirs[test] != outcome
    ]
    for lun, got in zip(LUNS, results, strict=True):
        wrong += compare(got, known(lun), lun)
    base.expect(not wrong, "\n".join(["not as it has to be:", *wrong]))
    base.step("done")


main()
