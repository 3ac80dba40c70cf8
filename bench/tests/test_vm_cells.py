# SPDX-License-Identifier: GPL-2.0-only
"""Cells on two hosts, as far as no host is needed: what isn't to be had, and the talk between."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cell import hosts
from cell.order import Absent, Order, Stack
from locklab import base, blk
from runner import experiment, vm
from runner.vm import Broken, Program


@pytest.mark.parametrize(("order", "says"), [
    (Order("nfs"), "both sites in one kernel"),
    (Order("fio", Stack(software="md-behind", remote="lan")), "md-behind: udev"),
    (Order("fio", Stack(mib=1025)), "1025 MiB: the hosts have memory for 1024"),
    (Order("fio", Stack(cache="dcd", remote="lan", mib=1000)), "1128 MiB"),
])  # fmt: skip
def test_what_the_lab_cannot_do_is_told(order: Order, says: str) -> None:
    assert says in (hosts.why_not(order) or "")


def test_the_trace_and_the_peers_can_be_had() -> None:
    for name in ("trace-mirror", "peers-mirror", "initiator-cpu"):
        cells = {one.name: one.order for one in experiment.cells(name, quick=True)}
        assert [name for name, order in cells.items() if hosts.why_not(order)] == []


def asked(monkeypatch: pytest.MonkeyPatch, answer: str, *words: Any, **more: Any) -> Any:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    return hosts.ask(*words, **more)


def test_the_primary_asks_in_a_line_and_takes_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(monkeypatch, '{"told": {"a": 1}}\n', "digests", sectors=8) == {"a": 1}
    assert json.loads(capsys.readouterr().out) == {"ask": "digests", "sectors": 8}
    with pytest.raises(Absent, match="no module"):
        asked(monkeypatch, '{"absent": "no module"}\n', "counters")
    for answer, says in (('{"error": "it died"}\n', "it died"), ("", "nobody answers")):
        with pytest.raises(base.Wrong, match=says):
            asked(monkeypatch, answer, "counters")


def program(script: str, patience: float = 60.0) -> Program:
    return Program("primary", [sys.executable, "-c", script], patience)


def test_a_program_is_asked_and_takes_its_things_down_at_the_end() -> None:
    script = """
import sys
print("chatter")
for line in sys.stdin:
    print(line.replace("ask", "told"), flush=True)
print("took it down", file=sys.stderr)"""
    with program(script) as one:
        assert one.answer({"ask": 3}) == {"told": 3}
    assert one._errors == ["took it down"]


@pytest.mark.parametrize(("script", "says"), [
    ("raise SystemExit('no such disk')", "primary: no such disk"),
    ("raise SystemExit(7)", "primary: rc 7"),
    ("", "primary: rc 0"),
])  # fmt: skip
def test_a_program_that_ends_without_an_answer_is_an_error(script: str, says: str) -> None:
    with pytest.raises(Broken, match=says), program(script) as one:
        one.said()


def test_one_that_fails_at_the_end_is_an_error_too() -> None:
    script = "print('{\"result\": 1}', flush=True); raise SystemExit('a path was lost')"
    with pytest.raises(Broken, match="a path was lost"), program(script) as one:
        assert one.said() == {"result": 1}


def test_one_that_takes_too_long_is_killed_and_said_to() -> None:
    sleeping = program("import time; time.sleep(600)", 0.5)
    with pytest.raises(Broken, match=r"no end after 0\.5 s"), sleeping as one:
        one.said()


class Lab:
    """One that says what it was asked for, and whose cells end as they are told."""

    hosts = ("primary", "mirror")

    def __init__(self) -> None:
        self.did: list[str] = []

    def restore(self) -> None:
        self.did.append("restore")

    def push(self) -> None:
        self.did.append("push")

    def send(self, name: str, files: dict[str, Path]) -> None:
        for one in files.values():
            assert one.exists(), one

    def ssh(self, name: str, command: str) -> None:
        pass


def test_the_hosts_are_new_after_a_cell_that_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lab = Lab()
    answers: list[dict[str, Any]] = [
        {"result": {}}, {"error": "x"}, {"result": {}}, {"absent": "y"}, {"result": {}},
    ]  # fmt: skip
    one = vm.Vm(lab)  # type: ignore[arg-type]
    monkeypatch.setattr(one, "_carried_out", lambda order, patience: answers[len(rows)])
    monkeypatch.setattr(one, "_fetch", lambda place: None)
    cell = experiment.cells("guard-random", quick=False)[0]
    rows: list[dict[str, Any]] = []
    restored = []
    for _ in answers:
        lab.did.clear()
        rows.append(one(cell, tmp_path))
        restored.append("restore" in lab.did)
    assert restored == [True, False, True, False, True]
    assert all(row["limits"] == {} for row in rows)
    assert [row.get("error") for row in rows] == [None, "x", None, None, None]


def test_digests_tell_where_legs_differ(tmp_path: Path) -> None:
    class Disk:
        def __init__(self, data: bytes) -> None:
            self.data = data

        def read(self, sector: int, count: int) -> bytes:
            return self.data[512 * sector : 512 * (sector + count)]

    data = bytearray(3 << 20)
    data[(2 << 20) + 7] = 1
    found = blk.digests(Disk(bytes(data)), (3 << 11) - 1)  # type: ignore[arg-type]
    assert found[:2] == ["0", "0"] and len(found) == 3 and len(found[2]) == 64
    data[(2 << 20) + 7] = 2
    assert blk.digests(Disk(bytes(data)), (3 << 11) - 1)[2] != found[2]  # type: ignore[arg-type]
