# SPDX-License-Identifier: GPL-2.0-only
"""The real verdict and events (life-driver.c), asked with plain tuples."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

SYNC, ALONE, TARGET, NEW = 1, 2, 3, 4
LOCAL, REMOTE = 0, 1


class Super(NamedTuple):
    """A superblock. Generations are numbers, 0: none; history begins with the newest."""

    leg: int
    state: int
    cur: int
    base: int = 0
    epoch: int = 1
    epochs: int = 1
    history: tuple[int, ...] = ()
    active: int = 0
    set_uuid: int = 1
    uuid: int = 0
    sectors: int = 80000
    shift: int = 11
    adopted: int = 0
    seq: int = 1
    other_seq: int = 0
    alone_seq: int = 0

    def text(self) -> str:
        numbers = (self.leg, self.state, self.active, self.cur, self.base, self.epoch,
                   self.epochs, self.set_uuid, self.uuid or 2 + self.leg, self.sectors,
                   self.shift, self.adopted, self.seq, self.other_seq, self.alone_seq)  # fmt: skip
        return "/".join(map(str, numbers)) + "/" + ".".join(map(str, self.history))

    def parsed(self, text: str) -> Super:
        """What an event has made of it."""
        *numbers, history = text.split("/")
        leg, state, active, cur, base, epoch, epochs = map(int, numbers[:7])
        return self._replace(
            leg=leg, state=state, active=active, cur=cur, base=base, epoch=epoch, epochs=epochs,
            adopted=int(numbers[11]), seq=int(numbers[12]), other_seq=int(numbers[13]),
            alone_seq=int(numbers[14]),
            history=tuple(map(int, history.split("."))) if history else (),
        )  # fmt: skip


class Verdict(NamedTuple):
    word: str
    leg: int
    source: int
    alone: bool
    full: bool
    join: bool
    crashed: bool

    @property
    def good(self) -> bool:
        return self.word == "ok"


def verdict_of(line: str) -> Verdict:
    word, leg, source, *flags = line.split()
    return Verdict(word, int(leg), int(source), *(flag == "1" for flag in flags))


def leg_text(leg: Super | str) -> str:
    return leg if isinstance(leg, str) else leg.text()


class Driver:
    """Asks each question once."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.known: dict[str, str] = {}

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()

    def ask(self, line: str) -> str:
        if line not in self.known:
            assert self.process.stdin and self.process.stdout
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            assert answer.endswith("\n"), f"the driver died of: {line}"
            self.known[line] = answer.strip()
        return self.known[line]

    def verdict(self, local: Super | str, remote: Super | str) -> Verdict:
        return verdict_of(self.ask(f"verdict {leg_text(local)} {leg_text(remote)}"))

    def event(self, name: str, s: Super, other: Super, number: int = 0) -> Super:
        code, after = self.ask(f"{name} {s.text()} {other.text()} {number}").split()
        assert int(code) >= 0, f"{name} isn't allowed to {s} (other: {other})"
        return s.parsed(after)
