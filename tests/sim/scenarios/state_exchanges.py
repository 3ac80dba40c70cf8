# SPDX-License-Identifier: GPL-2.0-only
"""Seeded lives of a mirror whose table is exchanged, again and again: each leg by one of three
devices that are its disk, as a LUN's are by several sessions, or by none (-). Meanwhile devices
fail, take no writes, hang, or are a leg of another mirror, and are well again.

Args: how many lives, and the first seed.

What is promised:
  - What was acknowledged is read, and is on both legs at the end, which are alike.
  - No load, suspend, resume or message waits for longer than MOST seconds; what hangs is woken
    after PATIENCE.
  - Once all devices are well, a table with both legs is taken within WELL seconds, and the mirror
    gets in sync: nothing is refused or suspended for good.
  - Not a sector of the other mirror's legs changes.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable

from locklab import base, dm
from statelab import LOCAL, REMOTE, Beside, create
from statelegs import Leg, Pair

MOST, PATIENCE, WELL = 150, 45, 40
LEGS = (LOCAL, REMOTE)
OWN, DEVICES, NONE = 0, (0, 1, 2), -1
TIMES = ("remote_timeout", 2000, "local_timeout", 2000)
OPTIONS: tuple[tuple[object, ...], ...] = (
    ("remote_timeout", 2000, "rejoin", 1), (*TIMES, "rejoin", 1), (*TIMES, "rejoin", 0),
    (*TIMES, "rejoin", 1, "policy", "block"), (*TIMES, "rejoin", 1, "policy", "error"),
)  # fmt: skip
FAULTS = ("error", "nowrite")


class Life:
    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(f"exchanges {seed}")
        self.told: list[str] = []
        self.hangs, self.minus = rng.random() < 0.4, rng.random() < 0.5
        self.most_bad = rng.choice((1, 2))
        self.pair = Pair(*rng.choice(OPTIONS if self.hangs else OPTIONS[:3]))
        self.others = self._another_mirror() if rng.random() < 0.4 else {}
        self.theirs = {leg: one.image() for leg, one in self.others.items()}
        self.how = {(leg, device): "well" for leg in LEGS for device in DEVICES}
        for leg, device in self.how:
            if device != OWN:
                dm.create(self.name(leg, device), self.line(leg, "well"))
        self.at = dict.fromkeys(LEGS, OWN)  # by which device the newest table has it
        self.used: set[tuple[str, int]] = set(self.at.items())
        self.suspended = False
        self.waiting: list[Beside] = []

    def _another_mirror(self) -> dict[str, Leg]:
        legs = {leg: Leg(f"x{leg}") for leg in LEGS}
        create(*(one.node for one in legs.values()), "--assume-clean")
        return legs

    def say(self, *words: object) -> None:
        self.told.append(" ".join(str(word) for word in words))

    # The devices.

    def name(self, leg: str, device: int) -> str:
        return self.pair.legs[leg].name if device == OWN else f"{leg}{device}"

    def line(self, leg: str, how: str) -> str:
        disk = self.others[leg].disk if how == "strange" else self.pair.legs[leg].disk
        return f"0 {disk.sectors} " + {
            "well": f"linear {disk.node} 0",
            "strange": f"linear {disk.node} 0",
            "error": "error",
            "nowrite": f"flakey {disk.node} 0 0 36000 1 error_writes",
        }[how]

    def set(self, leg: str, device: int, how: str) -> None:
        name = self.name(leg, device)
        self.say(how, leg, device)
        if self.how[leg, device] == "hang":
            if how == "strange":  # what was sent to the leg never gets to another disk
                dm.load(name, self.line(leg, "error"))
            dm.resume(name)
            time.sleep(0.1)
        self.how[leg, device] = how
        if how == "hang":
            dm.suspend(name, flush=False)
            return
        dm.load(name, self.line(leg, how))
        dm.suspend(name, flush=False)
        dm.resume(name)

    def wake(self) -> None:
        for leg, device in [one for one, how in self.how.items() if how == "hang"]:
            self.set(leg, device, "well")

    # What happens.

    def fault(self) -> None:
        rng = self.rng
        bad = [one for one, how in self.how.items() if how != "well"]
        if bad and (len(bad) >= self.most_bad or rng.random() < 0.5):
            self.set(*rng.choice(bad), "well")
            return
        leg = rng.choice(LEGS)
        device = rng.choice(DEVICES)
        if self.others and rng.random() < 0.4:
            # Never one that a table has by now: whoever exchanges what is below has lost.
            if (leg, device) not in self.used:
                self.set(leg, device, "strange")
            return
        if self.at[leg] != NONE and rng.random() < 0.7:
            device = self.at[leg]
        self.set(leg, device, rng.choice((*FAULTS, "hang", "hang") if self.hangs else FAULTS))

    def put(self) -> None:
        if self.suspended:
            return
        at = self.rng.randrange(16) * 64
        write = Beside(lambda: self.pair.put(at))
        with contextlib.suppress(base.Wrong):
            base.until(lambda: write.done, "a write", 8)
        if not write.done:
            self.say("put waits", at)
            self.waiting.append(write)
            return
        try:
            write.result()
            self.say("put", at)
        except OSError as err:
            self.say("put", at, "failed", err.errno)

    def exchange(self) -> None:
        rng = self.rng
        before = dict(self.at)
        for leg in rng.choice((*((leg,) for leg in LEGS * 2), LEGS)):
            self.at[leg] = rng.choice(DEVICES)
        if self.minus and rng.random() < 0.25:
            self.at[rng.choice(LEGS)] = NONE
        if set(self.at.values()) == {NONE}:
            self.at[LOCAL] = OWN
        self.used |= set(self.at.items())
        self.perhaps(0.25, self.fault)
        if not self.does("load", lambda: dm.load(self.pair.name, self.table())):
            self.at = before
            return
        self.perhaps(0.4, self.fault)
        self.does("suspend", lambda: dm.suspend(self.pair.name, flush=False))
        self.perhaps(0.4, self.fault)
        self.used = set(self.at.items())
        self.resume()

    def perhaps(self, chance: float, what: Callable[[], None]) -> None:
        if self.rng.random() < chance:
            what()

    def table(self) -> str:
        local, remote = (
            "-" if self.at[leg] == NONE else f"/dev/mapper/{self.name(leg, self.at[leg])}"
            for leg in LEGS
        )
        return self.pair.table(local=local, remote=remote)

    def resume(self) -> None:
        self.suspended = not self.does("resume", lambda: dm.resume(self.pair.name))

    def message(self) -> None:
        word = self.rng.choice(("fail local", "fail remote", "recover", "recover", "unblock"))
        self.does(word, lambda: self.pair.message(word))

    def does(self, what: str, work: Callable[[], object]) -> bool:
        """False: it was refused."""
        beside, began = Beside(work), time.monotonic()
        while not beside.done:
            time.sleep(0.05)
            waited = time.monotonic() - began
            base.expect(waited < MOST, f"{what} takes more than {MOST} s")
            if waited > PATIENCE:
                self.wake()
        try:
            beside.result()
        except OSError as err:
            self.say(what, self.at, "refused", err.errno)
            return False
        self.say(what, self.at)
        return True

    def one(self) -> None:
        dice = self.rng.random()
        if dice < 0.3:
            self.fault()
        elif dice < 0.6:
            self.put()
        elif dice < 0.88:
            self.exchange()
        elif self.suspended:
            self.resume()
        elif dice < 0.94:
            self.message()
        else:
            time.sleep(self.rng.choice((0.5, 2, 5)))

    def live(self) -> None:
        self.put()
        self.put()
        for _ in range(self.rng.randrange(6, 16)):
            self.one()
        self.end()

    def end(self) -> None:
        pair = self.pair
        for leg, device in self.how:
            self.set(leg, device, "well")
        self.at = dict.fromkeys(LEGS, self.rng.choice(DEVICES))
        end = time.monotonic() + WELL
        self.suspended = True
        while self.suspended:
            base.expect(time.monotonic() < end, "no table is taken, and all is well")
            self.does("load", lambda: dm.load(pair.name, self.table()))
            with contextlib.suppress(OSError):
                dm.suspend(pair.name, flush=False)
            self.resume()
            time.sleep(1)
        self.does("recover", lambda: pair.message("recover"))
        for write in self.waiting:
            with contextlib.suppress(OSError):
                write.result(MOST)
        pair.in_sync()
        pair.check("at the end")
        pair.put(0)
        pair.stop()
        pair.same()
        pair.check("the remote leg's disk", pair.remote.disk.node)
        for leg, device in self.how:
            if device != OWN:
                dm.remove(self.name(leg, device))
        pair.close()
        for leg, was in self.theirs.items():
            now = self.others[leg].image()
            starts = range(0, len(was), 512)
            changed = [at // 512 for at in starts if now[at : at + 512] != was[at : at + 512]]
            base.expect(not changed, f"the other mirror's {leg} leg changed: {changed}")
            self.others[leg].close()


count, first = (int(word) for word in sys.argv[1:3])
for seed in range(first, first + count):
    life = Life(seed)
    try:
        life.live()
    except (base.Wrong, OSError) as err:
        raise base.Wrong(f"life {seed}: {'; '.join(life.told)}: {err}") from err
base.step(f"{count} lives passed")
