# SPDX-License-Identifier: GPL-2.0-only
"""The table of verdict.h, over all combinations of what can be found on two legs.

`expected` is that table again, from its words alone: generations are looked at
as sets, in another order, and without a line of the C.
"""

import itertools
import subprocess
from pathlib import Path
from typing import Any

import metalab
import pytest
from driver import ALONE, LOCAL, NEW, REMOTE, SYNC, TARGET, Super, Verdict, leg_text, verdict_of

# Fixtures.
life_driver = metalab.life_driver

Found = Super | str
# Newest first: a lineage 1 2 3, branches off it, and others' histories.
HISTORIES = [(1,), (2, 1), (3, 2, 1), (4, 1), (5, 4, 1), (6,), (1, 2), (3, 4)]
BASES = [0, 1, 2, 4, 9]


def lineages(leg: int) -> list[Super]:
    """Every consistent superblock over these generations."""
    found = [Super(leg, NEW, 0, base) for base in BASES if base]
    for history, active in itertools.product(HISTORIES, (0, 1)):
        cur = history[0]
        found += [
            Super(leg, state, cur, history=history, active=active) for state in (SYNC, TARGET)
        ]
        found += [
            Super(leg, ALONE, cur, base, history=history, active=active)
            for base in BASES
            if base != cur
        ]
    return found


def ok(source: int, join: bool, full: bool = False) -> tuple[object, ...]:
    return ("ok", source, False, full, join)


def expected(left: Super, right: Super) -> tuple[object, ...]:
    """Of two superblocks of one set, each in its place."""
    states = {left.state, right.state}
    if NEW in states:
        source, new, other = (REMOTE, left, right) if left.state == NEW else (LOCAL, right, left)
        if other.state not in (SYNC, ALONE):
            return ("incomplete",)
        return ok(source, True, True) if new.base in other.history else ("outdated", source)
    if left.cur == right.cur:
        table: dict[tuple[int, int], tuple[object, ...]] = {
            (SYNC, SYNC): ok(LOCAL, False), (SYNC, TARGET): ok(LOCAL, True),
            (ALONE, TARGET): ok(LOCAL, True), (TARGET, SYNC): ok(REMOTE, True),
            (TARGET, ALONE): ok(REMOTE, True), (TARGET, TARGET): ("incomplete",),
        }  # fmt: skip
        return table.get((left.state, right.state), ("both",))
    went_on = {leg for leg, (one, two) in enumerate([(left, right), (right, left)])
               if one.base == two.cur}  # fmt: skip
    if len(went_on) == 2:
        return ("both",)
    if went_on:
        (ahead,) = went_on
        behind = (left, right)[1 - ahead]
        return ("both",) if behind.state == ALONE else ok(ahead, True)
    older = {leg for leg, (one, two) in enumerate([(left, right), (right, left)])
             if one.cur in two.history}  # fmt: skip
    if len(older) == 2:
        return ("both",)
    if older:
        return ("outdated", *older)
    common = set(left.history) & set(right.history)
    return ("split-brain",) if common else ("unrelated",)


def told(v: Verdict) -> tuple[object, ...]:
    if v.good:
        return ("ok", v.source, v.alone, v.full, v.join)
    return (v.word, v.leg) if v.word == "outdated" else (v.word,)


def ask(program: Path, pairs: list[tuple[Found, Found]]) -> list[Verdict]:
    lines = "".join(f"verdict {leg_text(a)} {leg_text(b)}\n" for a, b in pairs)
    done = subprocess.run([program], input=lines, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return [verdict_of(line) for line in done.stdout.splitlines()]


def test_all_pairs(life_driver: Path) -> None:
    pairs: list[tuple[Found, Found]] = list(itertools.product(lineages(LOCAL), lineages(REMOTE)))
    answers = ask(life_driver, pairs)
    assert len(answers) == len(pairs) > 10000
    seen = set()
    for (left, right), answer in zip(pairs, answers, strict=True):
        assert isinstance(left, Super) and isinstance(right, Super)
        assert told(answer) == expected(left, right), (left, right)
        # Of a leg that was left behind nobody could say that it was stopped.
        asked = [(left, right)[answer.source]] if answer.join else [left, right]
        assert answer.crashed == (answer.good and any(s.active for s in asked))
        seen.add(answer.word)
    assert seen == {"ok", "both", "incomplete", "outdated", "split-brain", "unrelated"}


@pytest.mark.parametrize("longer", [LOCAL, REMOTE])
def test_a_growth_that_was_cut_short(life_driver: Path, longer: int) -> None:
    """The longer one has to be the source; of two in sync it is."""
    pairs: list[tuple[Found, Found]] = [
        tuple(s._replace(sectors=80000 + 8 * (s.leg == longer)) for s in pair)  # type: ignore[misc]
        for pair in itertools.product(lineages(LOCAL)[::3], lineages(REMOTE)[::3])
    ]
    seen = set()
    for (left, right), answer in zip(pairs, ask(life_driver, pairs), strict=True):
        assert isinstance(left, Super) and isinstance(right, Super)
        want = expected(left, right)
        if want[0] == "ok":
            _, source, _, full, join = want
            alike = ok(longer, True)
            want = alike if not join else ok(longer, True, bool(full)) if source == longer else (
                "geometry",)  # fmt: skip
        assert told(answer)[: len(want)] == want, (left, right)
        seen.add(answer.word)
    assert {"ok", "geometry", "both"} <= seen


def test_mirror_image(life_driver: Path) -> None:
    """Exchanging the legs exchanges the answer, but that equals prefer the local one."""
    left, right = lineages(LOCAL), lineages(REMOTE)
    pairs: list[tuple[Found, Found]] = list(itertools.product(left, right))
    swapped: list[tuple[Found, Found]] = [
        (b._replace(leg=LOCAL), a._replace(leg=REMOTE)) for a, b in itertools.product(left, right)
    ]
    for pair, one, two in zip(
        pairs, ask(life_driver, pairs), ask(life_driver, swapped), strict=True
    ):
        assert one.word == two.word, pair
        if one.good and one.join:
            assert one.source != two.source, pair


def test_one_absent(life_driver: Path) -> None:
    for leg in (LOCAL, REMOTE):
        found = lineages(leg)
        pairs: list[tuple[Found, Found]] = [
            (s, "absent") if leg == LOCAL else ("absent", s) for s in found
        ]
        for s, answer in zip(found, ask(life_driver, pairs), strict=True):
            if s.state in (SYNC, ALONE):
                assert told(answer) == ("ok", leg, True, False, False)
            else:
                assert (answer.word, answer.leg) == ("incomplete", leg)


def test_what_is_no_superblock(life_driver: Path) -> None:
    kinds: list[Found] = ["absent", "blank", "bad", Super(LOCAL, SYNC, 1, history=(1,))]
    pairs = [
        (a, b._replace(leg=REMOTE) if isinstance(b, Super) else b)
        for a, b in itertools.product(kinds, kinds)
    ]
    for (a, b), answer in zip(pairs, ask(life_driver, pairs), strict=True):
        if a in ("blank", "bad"):
            assert (answer.word, answer.leg) == (a, LOCAL)
        elif b in ("blank", "bad"):
            assert (answer.word, answer.leg) == (b, REMOTE)
        elif a == b == "absent":
            assert answer.word == "nothing"
        else:
            assert answer.good


@pytest.mark.parametrize("states", list(itertools.product((SYNC, ALONE, TARGET, NEW), repeat=2)))
def test_they_must_belong_together(life_driver: Path, states: tuple[int, int]) -> None:
    def of(which: int, **fields: Any) -> Super:
        new = Super(which, NEW, 0, base=1)
        other = Super(which, states[which], 1, history=(1,))
        return (new if states[which] == NEW else other)._replace(**fields)

    left, right = of(LOCAL), of(REMOTE)
    cases: list[tuple[Found, Found, str, int]] = [
        (left, of(REMOTE, set_uuid=7), "foreign", REMOTE),
        (of(LOCAL, leg=REMOTE), of(REMOTE, leg=LOCAL), "swapped", LOCAL),
        (of(LOCAL, leg=REMOTE, uuid=9), right, "wrong-leg", LOCAL),
        (left, of(REMOTE, leg=LOCAL, uuid=9), "wrong-leg", REMOTE),
        (of(LOCAL, leg=REMOTE), "absent", "wrong-leg", LOCAL),
        ("absent", of(REMOTE, leg=LOCAL), "wrong-leg", REMOTE),
        (left, of(REMOTE, uuid=2), "wrong-leg", REMOTE),
        (left, of(REMOTE, shift=12), "geometry", REMOTE),
    ]
    answers = ask(life_driver, [(a, b) for a, b, _, _ in cases])
    for (a, b, word, leg), answer in zip(cases, answers, strict=True):
        assert (answer.word, answer.leg) == (word, leg), (a, b)


def test_what_contradicts_itself_is_bad(life_driver: Path) -> None:
    good = Super(LOCAL, SYNC, 2, history=(2, 1))
    bad = [
        good._replace(state=0), good._replace(state=5), good._replace(base=1),
        good._replace(state=TARGET, base=1), good._replace(state=ALONE, base=2),
        good._replace(cur=1), good._replace(cur=0), good._replace(cur=0, history=()),
        good._replace(state=NEW), good._replace(epoch=2, epochs=1),
        good._replace(shift=5), good._replace(shift=41), good._replace(sectors=0),
        good._replace(sectors=90001), good._replace(sectors=1 << 60), good._replace(leg=2),
    ]  # fmt: skip
    for s, answer in zip(bad, ask(life_driver, [(s, "absent") for s in bad]), strict=True):
        assert answer.word == "bad", s
    (answer,) = ask(life_driver, [(good, "absent")])
    assert answer.good
