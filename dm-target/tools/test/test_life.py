# SPDX-License-Identifier: GPL-2.0-only
"""life.h's orders and verdict.h's table, played through (life_model.py has the rules).

All short stories, many long ones by chance, and for each wrong order a story
that shows it, so that a model that sees nothing doesn't pass.
LOCKSTEP_LIFE_WALKS in the environment: how many long stories.
"""

import os
import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import metalab
import pytest
from driver import ALONE, LOCAL, NEW, REMOTE, SYNC, TARGET, Driver, Super
from life_model import Model, World, Wrong, created, new_generation
from life_same import canonical

# Fixtures.
life_driver = metalab.life_driver

WALKS = int(os.environ.get("LOCKSTEP_LIFE_WALKS", "300"))
STATES = 8000
# What happens seldom in a long story, or it would never come to an end of a resync.
SELDOM = ("crash", "lost", "fails", "replaced", "put back", "another host", "resolve")


@pytest.fixture(scope="module")
def driver(life_driver: Path) -> Iterator[Driver]:
    one = Driver(life_driver)
    yield one
    one.close()


def told(path: list[str], err: Wrong) -> str:
    return "\n  ".join([str(err), *path])


@pytest.mark.parametrize("clean", [True, False])
def test_all_short_stories(driver: Driver, clean: bool) -> None:
    """Breadth first: no story that ends in one of the first STATES worlds breaks a rule."""
    model = Model(driver)
    start = canonical(created(driver, clean=clean))
    seen: dict[World, tuple[World, str] | None] = {start: None}
    todo = deque([start])
    while len(seen) < STATES:
        world = todo.popleft()
        try:
            for name, after in model.changes(world):
                after = canonical(after)
                if after not in seen:
                    seen[after] = (world, name)
                    todo.append(after)
        except Wrong as err:
            path: list[str] = []
            step = seen[world]
            while step:
                path.insert(0, step[1])
                step = seen[step[0]]
            pytest.fail(told(path, err))
    assert model.accepted > 500 and model.refused > 100


def test_long_stories(driver: Driver) -> None:
    model = Model(driver)
    most = 0
    for seed in range(WALKS):
        rng = random.Random(seed)
        seldom = rng.random() / 4
        world = created(driver, clean=rng.random() < 0.5)
        path: list[str] = []
        try:
            for _ in range(100):
                changes = list(model.changes(world))
                chances = [
                    seldom if any(word in name for word in SELDOM) else 1.0 for name, _ in changes
                ]
                ((name, world),) = rng.choices(changes, chances)
                path.append(name)
                world = canonical(world)
        except Wrong as err:
            pytest.fail(told([f"seed {seed}", *path], err))
        most = max(most, new_generation(world))
    assert most > 3
    assert model.accepted > 10 * WALKS and model.refused > WALKS


# A wrong order, whether the mirror was created with --assume-clean, and a story that shows it.
FAULTS = {
    "target_first": (False, "4", """assemble LR, adopt 0, map 0, join 1, forget_base 0,
        region 0 is copied, region 1 is copied, resync is complete, in_sync 1 fails, was done,
        leg 1 is back"""),
    "join_before_map": (False, "5", "assemble LR, adopt 0, join 1, map 0, forget_base 0"),
    "no_adopt": (True, "1", """leg 0 is replaced, assemble LR, map 1, join 0, forget_base 1,
        write 1, write lands on 0, write lands on 1, acknowledge, crash,
        the old disk 0 is put back"""),
    "lazy_alone": (True, "1", "assemble LR, write 0, write lands on 1, crash, assemble R, read 0"),
    "lazy_join": (True, "1", """assemble LR, write 0, write lands on 0, crash, assemble LR, read 0,
        map 0 fails, was done, assemble R, alone 1, leg 0 is back"""),
    "no_target_when_equal": (True, "3", """assemble LR, write 2, crash, assemble LR, write 2,
        write lands on 1, leg 0 is lost"""),
    "home_without_map": (True, "2", """assemble R, leg 0 is replaced, leg 1 is lost, leg 1 is back,
        assemble LR, adopt 1, map 1, join 0, forget_base 1, region 1 is copied,
        region 0 is copied, resync is complete, new_map 0, write 1, write lands on 0, in_sync 1,
        in_sync 0, leg 0 is lost, alone_new_map 1, leg 0 is back, leg 1 is lost,
        leg 1 is back"""),
    "early_ack": (True, "1", """assemble LR, write 2, leg 0 is lost, write lands on 1,
        leg 0 is back, acknowledge"""),
    "forget_targets_map": (True, "5", """assemble LR, write 0, write lands on 0, crash, assemble R,
        alone 1, leg 0 rejoins, map 1, join 0"""),
    "join_what_is_ahead": (True, "1", """assemble LR, leg 1 is lost, another host writes on leg 1,
        leg 1 is back, leg 1 rejoins, map 0, join 1, crash"""),
}  # fmt: skip


def names(story: str) -> list[str]:
    """Commas separate, but for those within a step."""
    words = " ".join(story.split()).replace("fails, was done", "fails; was done")
    return [word.replace(";", ",") for word in words.split(", ")]


def follow(model: Model, clean: bool, story: str) -> bool:
    """Raises Wrong where the story breaks a rule. False: it can't happen."""
    world = created(model.driver, clean=clean)
    for name in names(story):
        options = dict(reversed(list(model.changes(world))))
        if name not in options:
            return False
        world = options[name]
    list(model.changes(world))
    return True


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_order_is_found(driver: Driver, fault: str) -> None:
    clean, rule, story = FAULTS[fault]
    with pytest.raises(Wrong, match=f"rule {rule}"):
        follow(Model(driver, frozenset({fault})), clean, story)
    follow(Model(driver), clean, story)


def test_a_whole_life(driver: Driver) -> None:
    """The ordinary one, so that it is certain that the model's mirror gets everywhere."""
    story = """assemble LR, adopt 0, map 0, join 1, forget_base 0, write 0, write lands on 0,
        write lands on 1, acknowledge, region 0 is copied, region 1 is copied, resync is complete,
        in_sync 0, in_sync 1, clean bits are cleared, leg 0 is lost, map_ahead 1, alone_new_map 1,
        write 2, write lands on 1, acknowledge, crash, assemble R, leg 0 is back, leg 0 rejoins,
        map 1, join 0, forget_base 1, region 1 is copied, resync is complete, map_ahead 0,
        new_map 0, in_sync 1, in_sync 0, leg 1 is lost, alone 0, write 0, write lands on 0,
        acknowledge, crash, leg 1 is back, assemble LR, map 0, join 1, forget_base 0,
        region 0 is copied, region 1 is copied, resync is complete, in_sync 0, in_sync 1, crash,
        assemble LR"""
    assert follow(Model(driver), False, story)


@pytest.mark.parametrize(
    ("local", "remote"),
    [
        (Super(LOCAL, SYNC, 5, history=(5,)), Super(REMOTE, SYNC, 5, history=(5,))),
        (Super(LOCAL, ALONE, 6, base=5, history=(6, 5)), Super(REMOTE, SYNC, 5, history=(5,))),
        (Super(LOCAL, SYNC, 5, history=(5,)), Super(REMOTE, ALONE, 6, base=5, history=(6, 5))),
        (Super(LOCAL, ALONE, 6, base=5, history=(6, 5)),
         Super(REMOTE, TARGET, 6, history=(6, 5))),
    ],
)  # fmt: skip
def test_an_older_copy(driver: Driver, local: Super, remote: Super) -> None:
    """Each leg as it is known to the other one, later, or older than that."""
    local, remote = local._replace(seq=10), remote._replace(seq=20)
    good = driver.verdict(local, remote)
    assert good.good
    for of_local, of_remote in ((0, 0), (10, 20), (9, 19)):
        known = (local._replace(other_seq=of_remote), remote._replace(other_seq=of_local))
        assert driver.verdict(*known) == good
    said = driver.verdict(local._replace(other_seq=21), remote)
    assert (said.word, said.leg) == ("outdated", REMOTE)
    said = driver.verdict(local, remote._replace(other_seq=11))
    assert (said.word, said.leg) == ("outdated", LOCAL)
    said = driver.verdict(local._replace(other_seq=21), remote._replace(other_seq=11))
    assert said.word == "both"


def test_what_is_known_of_a_leg_ends_with_it(driver: Driver) -> None:
    """Of one that is given up, of one that another takes the place of."""
    local = Super(LOCAL, SYNC, 5, history=(5,), seq=10, other_seq=20)
    remote = Super(REMOTE, SYNC, 5, history=(5,), seq=3, other_seq=9)
    assert driver.verdict(local, remote).word == "outdated"
    given_up = driver.event("give_up", remote, local)
    assert (given_up.state, given_up.other_seq) == (NEW, 0)
    assert driver.verdict(local, given_up).full
    adopted = driver.event("adopt", local, given_up, 6)
    assert adopted.other_seq == 0
    target = driver.event("join", given_up, adopted)
    assert driver.event("know", adopted, target, 0).other_seq == 0
    known = driver.event("know", adopted, target, target.seq)
    assert known.other_seq == target.seq
    assert driver.verdict(known, target).good
    # An image of it from before that is filled, too.
    assert driver.event("adopt", known, given_up, 7).other_seq == 0


def test_an_older_copy_that_goes_on_alone(driver: Driver) -> None:
    """However far it has come by then."""
    for leg in (LOCAL, REMOTE):
        copy = Super(leg, SYNC, 5, history=(5,), seq=10, other_seq=3)
        left = Super(1 - leg, SYNC, 5, history=(5,), seq=20, other_seq=10)
        alone = driver.event("go_alone", copy, left, 6)._replace(seq=30)
        assert (alone.state, alone.base, alone.alone_seq) == (ALONE, 5, 10)
        for known, word in ((10, "ok"), (11, "both")):
            pair = (alone, left._replace(other_seq=known))
            assert driver.verdict(*(pair if leg == LOCAL else pair[::-1])).word == word
        for event in ("forget_base", "in_sync", "give_up"):
            assert driver.event(event, alone, left).alone_seq == 0
