# SPDX-License-Identifier: GPL-2.0-only
"""Seeded lives of a mirror whose map has many pages, and of a second host that stands by: it has a
read-only table on the same legs, and takes over, or goes away.

Arguments: how many lives, and the first seed; `verbose` tells each step.

The places that are written are some hundred sectors of tens or hundreds of GiB: at the edges of the
map's pages, and anywhere. Each life has some acts. In an act writers write, and things happen: a
leg fails, hangs, takes no writes, is slow, or can't read or write some pages of the map; messages,
suspends, reloads, ticks of the cleaner, grown devices. It ends with a crash, maybe amid something,
with a stop, or with neither, and the mirror goes on: on the same host or on the one that stands by.
One leg at most has had trouble since both were in sync.

What is promised:
  - What was acknowledged is there after each start; of what the power cut took from the local disk,
    what was flushed or written with FUA.
  - No write fails: there is always a good leg.
  - No write takes longer than a leg's timeout and GRACE_S, besides what was suspended on purpose.
  - Every start, resume, suspend and message ends; a start on legs that are well is taken.
  - Once all is well both legs get in sync, and are alike then wherever anything was ever written,
    and in the rest of those regions.
"""

from __future__ import annotations

import contextlib
import errno
import random
import sys
import time
from collections.abc import Callable

from locklab import base, blk, dm, mirror
from mirrorlab import FIELDS
from placeslab import PLACE, Places, Waits, choose
from statelab import (
    LOCAL,
    LOG_SECTORS,
    MAP_PAGE,
    PAGE,
    REGION,
    REMOTE,
    SLOTS,
    Beside,
    History,
    Versions,
    Writers,
    gets_in_sync,
    meta,
)
from statelegs import TWO_MIRRORS
from twohosts import LEGS, Host, TwoHosts

# One, what one request of the map has, a run of them, a change (map-image.h, transfer.h), and so
# many that each bitmap takes megabytes: and one more or less than those.
PAGES = (2, 3, 15, 16, 17, 63, 64, 65, 66, 66, 66, 66, 127, 129, 255, 256, 257)
HUGE = (1023, 1024, 1025)
TIMEOUT_MS, GRACE_S = 2000, 1.5
TICK_S = 30
ENDS_S = 25  # what an admin does: a message may wait for two joins (join.h)


class Life(TwoHosts):
    def __init__(self, seed: int) -> None:
        rng = random.Random(f"pages {seed}")
        self.seed = seed
        self.pages = rng.choice(HUGE if rng.random() < 0.03 else PAGES)
        edge = rng.choice((-PAGE, 0, PAGE, MAP_PAGE // 2)) if self.pages > 2 else 0
        tail = SLOTS + LOG_SECTORS + (self.pages + 1) * PAGE
        self.spare = rng.choice((2 * tail, MAP_PAGE // 16))  # more than the metadata take
        self.grown = False  # the devices are
        cached = {leg: rng.random() < 0.6 for leg in LEGS}
        sectors = self.pages * MAP_PAGE + tail - edge
        super().__init__(rng, cached, sectors // PAGE * PAGE, self.spare)
        self.waits, self.versions = Waits(), Versions()
        self.where = choose(rng, rng.choice((6, 40, 40, 160)), self.sectors)
        self.truth = History(len(self.where) * PLACE)
        self.writers: Writers | None = None
        self.acked = 0
        local = ("local_timeout", TIMEOUT_MS) if rng.random() < 0.5 else ()
        self.local_hangs = bool(local)
        self.options: tuple[object, ...] = ("remote_timeout", TIMEOUT_MS, "rejoin", 1, *local)
        self.limit = rng.choice((1, 4096, 4096, 4096))
        self.without = ""  # a leg that isn't in the table
        self.slowest, self.slow = 0.0, ""  # of what an admin does
        self.say(f"{self.pages} pages, {len(self.where)} places, caches {cached}")

    # The mirror.

    def table(self, host: Host | None = None) -> str:
        legs = dict((host or self.host).wires.legs)
        if self.without and not host:
            legs[self.without] = "-"
        return mirror.table(legs[LOCAL], legs[REMOTE], *self.options, "dirty_limit", self.limit,
                            sectors=self.sectors)  # fmt: skip

    def ends(self, work: Callable[[], object], what: str) -> None:
        beside, began = Beside(work), time.monotonic()
        base.until(lambda: beside.done, f"{what} to end", ENDS_S)
        took = time.monotonic() - began
        if took > self.slowest:
            self.slowest, self.slow = took, what
        beside.result()

    def message(self, text: str) -> None:
        self.say(text)
        with contextlib.suppress(OSError):
            self.ends(lambda: dm.message(self.host.name, text), text)

    def suspend(self) -> None:
        flush = self.rng.random() < 0.7
        self.ends(lambda: dm.suspend(self.host.name, flush=flush), "a suspend")

    def resume(self, what: str = "a resume") -> None:
        """With a leg that hangs it may be refused, and another table's is tried then."""
        for _ in range(20):
            try:
                self.ends(lambda: dm.resume(self.host.name), what)
            except OSError as err:
                self.say(f"refused: {err}")
                if self.truth.frozen:
                    raise
                base.expect(self.trouble or self.unreached,
                            f"{what} is refused, and all is well")  # fmt: skip
                time.sleep(0.5)
                self.mend_idle(self.unreached)  # in one kernel it counts here, too
                with contextlib.suppress(OSError):
                    dm.load(self.host.name, self.table())
            else:
                return
        self.mend()
        self.ends(lambda: dm.resume(self.host.name), f"{what}, all being well")

    def reload(self, pause: float = 0, *, between: Callable[[], None] | None = None) -> None:
        if self.rng.random() < 0.3:
            self.limit = self.rng.choice((1, 8, 1024))
        try:
            self.ends(lambda: dm.load(self.host.name, self.table()), "a load")
        except OSError as err:
            self.say(f"no load: {err}")
            base.expect(self.trouble, f"a table is refused, and all is well: {err}")
            return
        self.suspend()
        if pause:
            self.waits.hold(pause)
        if between:
            between()
        self.resume()

    def faulty(self) -> None:
        """For a while; it may stay until the end of the act."""
        self.fault()
        time.sleep(self.rng.choice((0.01, 0.1, 0.5, 3)))
        if self.rng.random() < 0.7:
            self.say("mended")
            self.mend()

    def mirror_power(self) -> None:
        if self.leg_for_fault() != REMOTE:
            return
        self.say("power of the mirror site")
        self.power(REMOTE)

    # What happens.

    def loses_a_leg(self) -> None:
        leg = self.leg_for_fault()
        if leg:
            self.message(f"fail {leg}")

    def recover(self) -> None:
        self.message(self.rng.choice(("recover", *(f"recover {leg}" for leg in LEGS))))

    def bounce(self) -> None:
        self.say("bounce")
        self.suspend()
        self.waits.hold(self.rng.choice((0, 0.05, 1)))
        self.resume()

    def reloads(self) -> None:
        self.say("reload")
        self.reload(self.rng.choice((0, 0, 0.1)))
        if self.rng.random() < 0.3:
            self.say("again")
            self.reload()

    def faulty_reload(self) -> None:
        """A leg fails before the suspend, behind it, or amid the one or the other."""
        rng, when = self.rng, self.rng.choice(("before", "between", "amid"))
        self.say(f"reload, and a fault {when}")
        if when == "before":
            self.fault()
            self.reload()
        elif when == "between":
            self.reload(between=self.fault)
        else:
            if not self.trouble and rng.random() < 0.7:
                self.drag()
            beside = Beside(self.reload)
            time.sleep(rng.random() * rng.choice((0.001, 0.02, 0.3)))
            self.fault()
            beside.result()
        time.sleep(rng.choice((0, 0.1, 3)))
        self.mend()

    def leave_out(self) -> None:
        """A table without a leg, or one that has both again."""
        leg = self.leg_for_fault()
        if self.without:
            self.put_back()
        elif leg:
            self.say(f"without the {leg} leg")
            self.without = leg
            self.reload()

    def put_back(self) -> None:
        self.say("both legs again")
        self.mend()
        self.without = ""
        self.reload()

    def tick(self) -> None:
        """The cleaner's, and something amid it: its leg takes a while for each page."""
        rng = self.rng
        self.say("until a tick")
        self.bounce()
        if rng.random() < 0.5:
            self.wires.slow(rng.choice(LEGS), rng.choice((1, 5, 30)))
        self.rest(TICK_S - 0.02 + rng.random() * rng.choice((0.05, 0.5)))
        rng.choice((self.reloads, self.bounce, self.loses_a_leg, self.faulty, self.pause))()
        self.mend()

    def ticks(self) -> None:
        self.say("some ticks")
        self.rest(self.rng.choice((TICK_S + 1, 2 * TICK_S + 5)))

    def pause(self) -> None:
        time.sleep(self.rng.choice((0.01, 0.1, 0.5)))

    def fresh(self) -> None:
        """All is clean when the other host looks at the map: it knows nothing of what is written
        from now on, and no superblock tells it."""
        if self.stands_by:
            self.stand_by(away=1)
        self.mend()
        self.end_writers()
        self.synced()
        time.sleep(2 * TICK_S + 5)
        self.stand_by()
        self.write()
        self.pause()

    def sync(self) -> None:
        self.say("in sync?")
        self.mend()
        self.synced()

    def longer(self) -> bool:
        """Both devices are. A table that stands by wouldn't know where the metadata are by then."""
        if not self.spare or self.trouble or not self.well():
            return False
        if self.stands_by:
            self.stand_by(away=1)
        more = self.sites.sectors + self.spare
        self.spare, self.grown = 0, True
        for host in (self.host, self.idle):
            host.wires.grow(more)
        return True

    def metadata_move(self) -> None:
        self.message("grow")

    def grow(self) -> None:
        if not self.longer():
            return
        self.metadata_move()
        room = min(self.sites.super(leg).map_start for leg in LEGS)
        if room > self.sectors and self.rng.random() < 0.8:
            self.sectors = room // PAGE * PAGE
            self.reload()

    def stand_by(self, away: float = 0.3) -> None:
        """The other host has a table, as of now, or gives it up."""
        name = self.idle.name
        if self.stands_by and self.rng.random() < away:
            self.say("the other host goes away")
            self.mend_idle(self.unreached)
            dm.remove(name)
            self.stands_by = False
        elif not self.stands_by:
            self.say("the other host stands by")
            try:
                dm.create(name, self.table(self.idle), readonly=True)
            except OSError as err:
                raise base.Wrong(f"no table stands by: {err}") from err
            self.stands_by = True

    def idle_fault(self) -> None:
        """Who stands by can't read a leg for a while, and gives it up: maybe the one with which
        the mirror goes on."""
        leg = self.rng.choice(LEGS)
        if len(self.trouble) == 1 and self.rng.random() < 0.5:
            leg = REMOTE if LOCAL in self.trouble else LOCAL
        self.idle_loses(leg)

    def idle_loses(self, leg: str) -> None:
        if not self.stands_by or self.unreached or (leg == LOCAL and not self.local_hangs):
            return
        self.say(f"the other host doesn't reach the {leg} leg")
        self.idle.wires.hang(leg)
        reader = Beside(self.idle_reads)
        time.sleep(TIMEOUT_MS / 1000 + GRACE_S)
        if reader.done and self.rng.random() < 0.5:
            self.say("for longer")
            self.unreached = leg
        else:
            self.idle.wires.mend(leg)
        base.until(lambda: reader.done, "the other host's reads to end", ENDS_S)

    def other_sight(self) -> None:
        """The mirror goes on with the one leg, and who stands by has given that up; who takes over
        has to find out."""
        left = self.rng.choice((LOCAL, REMOTE) if self.local_hangs else (REMOTE,))
        lost = REMOTE if left == LOCAL else LOCAL
        self.stand_by(away=0)
        if self.trouble or self.unreached or not self.well():
            return
        self.say(f"without the {lost} leg, and the other host without the {left} one")
        self.trouble.add(lost)
        first = self.rng.random() < 0.5
        if first:
            self.idle_loses(left)
        self.wires.fail(lost)
        self.rest(0.1)
        if not first:
            self.idle_loses(left)
        self.rest(0.1)

    def only_reads(self) -> None:
        """For a while, and a leg may fail meanwhile. If it was dead before, which a leg has said,
        nothing waits for it."""
        self.say("only reads")
        self.end_writers()
        now, leg = self.status(), ""
        dead = "D" in now.health and now.rest[FIELDS.index("standing")] == "alone"
        dm.load(self.host.name, self.table(), readonly=True)
        self.suspend()
        if not dead and self.rng.random() < 0.3:
            self.fault()
        self.resume("a resume to read")
        if dead or self.rng.random() < 0.3:
            leg = self.leg_for_fault()
            self.fault()
        if leg and self.rng.random() < 0.2:
            self.message(f"fail {leg}")
        self.pause()
        self.say("writes again")
        self.ends(lambda: dm.load(self.host.name, self.table()), "a load")
        self.suspend()
        if dead:
            self.ends(lambda: dm.resume(self.host.name), "a resume to write")
        else:
            self.resume("a resume to write")
        self.write()

    def idle_reads(self) -> None:
        node = f"/dev/mapper/{self.idle.name}"
        with contextlib.suppress(OSError), blk.Disk(node, write=False) as disk:
            for at in self.where[:8]:
                disk.read(at, PLACE)

    # Writers.

    def opened(self, node: str) -> Places:
        return Places(node, self.where, self.waits)

    def write(self) -> None:
        rng = self.rng
        many, pause = rng.choice(
            ((1, (0.001, 0.004)), (2, (0.002, 0.01)), (3, (0.004, 0.02)), (24, (0.04, 0.1))))
        self.writers = Writers(
            self.node, self.truth, self.versions, seed=f"{self.seed} {self.versions.last}",
            writers=min(many, len(self.where) // 2), pause=pause,
            fua=rng.choice((0.15, 0.6)), most=PLACE, opened=self.opened,
        )  # fmt: skip

    def end_writers(self) -> None:
        writers, self.writers = self.writers, None
        assert writers
        writers.told_to_stop()
        try:
            base.until(lambda: not any(one.is_alive() for one in writers.threads),
                       "writers to end", ENDS_S)  # fmt: skip
        except base.Wrong as err:
            raise base.Wrong(f"{err}: {dm.status(self.host.name)}") from None
        self.acked += writers.acked
        if self.truth.frozen:
            return
        told = f"trouble with {self.trouble}: {dm.status(self.host.name)}"
        base.expect(not writers.failed, f"{writers.failed} writes: {writers.errors}, {told}")
        base.expect(self.waits.longest < TIMEOUT_MS / 1000 + GRACE_S,
                    f"{self.waits.what} took {self.waits.longest:.1f} s")  # fmt: skip

    def rest(self, seconds: float) -> None:
        """Without writes."""
        self.end_writers()
        time.sleep(seconds)
        self.write()

    # Ends of an act.

    def synced(self) -> None:
        if self.without:
            self.put_back()
        self.message("resync_pace full")
        gets_in_sync(self.status, self.message, 300)
        self.trouble.clear()

    def quiet(self) -> None:
        """All is well, and both legs are in sync and alike."""
        self.mend()
        self.end_writers()
        self.synced()
        with blk.Disk(self.node) as disk:
            disk.flush()
        self.check("in sync")
        self.alike()

    def check(self, what: str, *, volatile: bool = False) -> None:
        with Places(self.node, self.where, self.waits, write=False) as disk:
            data = disk.read(0, self.truth.sectors)
        self.truth.check(data, what, volatile=volatile)

    def alike(self) -> None:
        regions = {(at + end) // REGION for at in self.where for end in (0, PLACE - 1)}
        with contextlib.ExitStack() as stack:
            disks = [stack.enter_context(blk.Disk(self.sites.media[leg], write=False))
                     for leg in LEGS]  # fmt: skip
            for region in sorted(regions):
                at = region * REGION
                count = min(REGION, self.sectors - at)
                one, two = (disk.read(at, count) for disk in disks)
                if one != two:
                    pages = at / MAP_PAGE
                    raise base.Wrong(f"the legs differ in region {region}, in page {pages:.2f}")

    def act(self) -> None:
        self.write()
        events = (
            self.faulty, self.faulty, self.faulty, self.mirror_power, self.loses_a_leg,
            self.recover, self.recover, self.bounce, self.reloads, self.reloads,
            self.faulty_reload, self.faulty_reload, self.leave_out, self.tick, self.ticks,
            self.pause, self.pause, self.sync, self.sync, self.grow, self.stand_by, self.stand_by,
            self.idle_fault, self.idle_fault, self.only_reads, self.only_reads,
        )  # fmt: skip
        for _ in range(self.rng.randint(1, 6)):
            time.sleep(self.rng.choice((0.003, 0.02, 0.1)))
            self.rng.choice(events)()

    def crash(self) -> None:
        """Of the host that has the mirror, maybe amid something, and maybe with its disk's power.
        What is under way to a leg may arrive or not."""
        rng = self.rng
        amid = rng.choice((None, None, self.reloads, self.bounce, self.recover, self.loses_a_leg))
        if rng.random() < 0.15 and self.longer():
            amid = self.metadata_move
        beside = None
        if amid:
            self.say("amid")
            if not self.trouble and rng.random() < 0.5:
                self.drag()
            beside = Beside(amid)
            time.sleep(rng.random() * rng.choice((0.001, 0.01, 0.03, 0.3)))
        power = rng.random() < 0.5
        self.say("the host's power goes" if power else "the host crashes")
        if rng.random() < 0.7:
            self.wires.hang(rng.choice((REMOTE, REMOTE, LOCAL)))  # lost
            time.sleep(rng.choice((0, 0.005, 0.02)))
        self.truth.frozen = self.waits.over = True
        self.wires.hang(REMOTE)
        if power:
            self.sites.cut(LOCAL, rng.randrange(1 << 30))
        for leg in LEGS:
            self.wires.fail(leg)
        self.bury(beside)
        if power:
            self.sites.power_on(LOCAL)
        bad = self.bad if rng.random() < 0.5 else None
        self.mend()
        self.mend_idle(LOCAL if power else "")
        if bad:
            self.say("whose bad places stay")
            self.bad = bad
            self.host.wires.fail_places(*bad)
            if bad[0] != self.unreached:
                self.idle.wires.fail_places(*bad)
        if power:
            self.sites.drop(LOCAL)
        self.truth.frozen = self.waits.over = False
        self.goes_on(volatile=power and self.sites.cached[LOCAL])

    def bury(self, beside: Beside | None) -> None:
        """What is left of a host that isn't there any more."""
        name = self.host.name
        if beside:
            with contextlib.suppress(OSError, base.Wrong):
                beside.result()
        with contextlib.suppress(OSError):
            dm.load(name, f"0 {self.sectors} error")
            dm.suspend(name, flush=False)
        with contextlib.suppress(OSError):
            dm.resume(name)
        self.end_writers()
        base.until(lambda: dm.opens(name) == 0, "nobody to have it open")
        dm.remove(name)

    def stop(self) -> None:
        """It may stand by from now on, if the other host takes over."""
        self.end_writers()
        self.mend()
        if self.stands_by and self.rng.random() < 0.5:
            self.say("a read-only table in its place")
            dm.load(self.host.name, self.table(), readonly=True)
            dm.suspend(self.host.name)
            self.resume()
            self.goes_on(volatile=False, demoted=True)
            return
        self.say("stop")
        self.ends(lambda: dm.remove(self.host.name), "a stop")
        self.goes_on(volatile=False)

    def goes_on(self, *, volatile: bool, demoted: bool = False) -> None:
        """The mirror isn't there any more: here again, or on the other host, if that stands by."""
        if self.stands_by and (demoted or self.rng.random() < 0.8):
            self.say("the other host takes over")
            self.without = ""
            self.host, self.idle = self.idle, self.host
            self.stands_by = demoted
            self.take_over()
        else:
            self.say("start")
            self.without = ""
            self.start()
        self.check("after a start", volatile=volatile)

    def start(self) -> None:
        name = self.host.name
        if self.grown:
            # The devices are longer, and a mirror may have stopped before that was done.
            try:
                meta("grow", *self.wires.legs.values())
            except base.Wrong as err:
                self.say(str(err))
            self.sectors = max(self.sites.super(leg).data_sectors for leg in LEGS)
        table = self.table()
        self.begins(lambda: dm.create(name, table), "a start")

    def take_over(self) -> None:
        """By another table in the place of the read-only one; or anew, as that is refused if the
        leg that it reads has another superblock since, or it did without one that has been used."""
        name = self.host.name
        self.ends(lambda: dm.load(name, self.table()), "a load")
        self.ends(lambda: dm.suspend(name), "a suspend")
        try:
            self.begins(lambda: dm.resume(name), "a takeover")
        except OSError as err:
            base.expect(err.errno in (errno.ESTALE, errno.EINVAL), f"a takeover: {err}")
            self.say("anew")
            self.ends(lambda: dm.remove(name), "a stop")
            self.mend()
            self.start()

    def begins(self, work: Callable[[], object], what: str) -> None:
        """Maybe a leg hangs amid it: then it is refused, or goes on with the other one."""
        rng, leg = self.rng, self.unreached
        if leg:
            self.trouble.add(leg)
            self.may_refuse(work, what)
            return
        leg = rng.choice(sorted(self.trouble) or LEGS)
        if rng.random() < 0.6 or len(self.trouble) == 2 or (leg == LOCAL and not self.local_hangs):
            self.ends(work, what)
            return
        self.trouble.add(leg)
        self.drag()
        beside = Beside(lambda: self.may_refuse(work, what))
        time.sleep(rng.random() * rng.choice((0.005, 0.05, 0.3)))
        self.say(f"the {leg} leg hangs amid it")
        self.wires.hang(leg)
        try:
            beside.result()
        finally:
            self.mend()

    def may_refuse(self, work: Callable[[], object], what: str) -> None:
        """As a leg hangs."""
        try:
            self.ends(work, what)
        except OSError as err:
            self.say(f"refused: {err}")
            if err.errno == errno.ESTALE:
                raise
            self.mend()
            self.mend_idle(self.unreached)  # in one kernel it counts here, too
            self.ends(work, f"{what}, all being well")

    def live(self) -> None:
        rng = self.rng
        dm.create(self.host.name, self.table())
        for _ in range(rng.randint(2, 5)):
            self.act()
            dice = rng.random()
            if rng.random() < 0.2:
                self.other_sight()
                dice /= 2
            if rng.random() < 0.4 and len(self.trouble) < 2:
                self.fresh()
                dice /= 2
            if dice < 0.55:
                self.crash()
            elif dice < 0.75:
                self.stop()
            else:
                self.end_writers()
            if rng.random() < 0.6:
                self.write()
                time.sleep(0.02)
                self.quiet()
        self.write()
        self.quiet()
        self.mend_idle(self.unreached)
        for host in (self.host, self.idle):
            if dm.exists(host.name):
                dm.remove(host.name)
        self.alike()

    def close(self) -> None:
        self.host, self.idle = sorted((self.host, self.idle), key=lambda one: one.name)
        self.idle.wires.remove()
        self.sites.close()


count, first = (int(word) for word in sys.argv[1:3])
base.put(TWO_MIRRORS, 1)
for seed in range(first, first + count):
    life = Life(seed)
    try:
        life.live()
    except (base.Wrong, OSError) as err:
        raise base.Wrong(f"life {seed}: {'; '.join(life.log)}: {err}") from err
    print(f"life {seed}: {life.pages} pages, {life.acked} writes, the longest"
          f" {life.waits.longest:.2f} s, {life.slow} {life.slowest:.2f} s", flush=True)  # fmt: skip
    life.close()
base.step(f"{count} lives passed")
