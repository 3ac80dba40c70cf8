# SPDX-License-Identifier: GPL-2.0-only
"""A leg is given up with a write on its way, which the other one has; the policy lets nobody go on
alone. What a reader gets of that write stays, though it ends with an error: what comes next takes
the leg that was read, and the legs are alike.

Args: the policy, the leg, and what comes next: stop, crash, held (a crash before the write has
ended), reload (the leg by another device).
"""

import errno

from locklab import base, blk, dm
from statelab import LOCAL, REMOTE, Beside, content, sector, version_in
from statelegs import Copies, Pair

PARTED = {"block": "blocked", "error": "refusing"}
NEXT = ("stop", "crash", "held", "reload")


def get(node: str, what: str) -> int:
    with blk.Disk(node, write=False) as disk:
        raw = disk.read(0, 8)
    version = version_in(raw, 0)
    base.expect(raw == b"".join(sector(version, at) for at in range(8)), f"{what}: one version")
    print(f"  {what}: version {version}", flush=True)
    return version


def given_up(pair: Pair, leg: str, policy: str) -> tuple[Beside, int]:
    """The write under way, and what a reader gets then."""
    pair.put(0, fua=True)
    pair.legs[leg].gone()
    write = Beside(lambda: pair.put(0))
    pair.wait("DA" if leg == LOCAL else "AD", PARTED[policy])
    return write, get(pair.node, "while the leg is away")


def ended(pair: Pair, write: Beside, policy: str) -> int:
    if policy == "block":
        pair.message("fail_held")
    with base.refused("the write", errno.EIO):
        write.result(5)
    return get(pair.node, "after the write's end")


def stopped(pair: Pair, leg: str) -> int:
    pair.stop()
    pair.legs[leg].well()
    pair.start()
    return get(pair.node, "after the start")


def crashed(pair: Pair) -> int:
    copies = Copies(pair.sectors)
    copies.put([one.image() for one in pair.legs.values()])
    node = copies.start()
    found = get(node, "after the crash")
    pair.history.fork().check(content(node, pair.sectors), "after the crash")
    copies.in_sync()
    copies.stop()
    one, two = copies.data()
    base.expect(one == two, "the legs differ after the crash")
    copies.close()
    return found


def reloaded(pair: Pair, leg: str) -> int:
    """Nothing says of the other device that its leg was given up."""
    disk = pair.legs[leg].disk
    other = dm.create("other", f"0 {disk.sectors} linear {disk.node} 0")
    dm.reload("mirror", pair.table(local=other) if leg == LOCAL else pair.table(remote=other))
    return get(pair.node, "with the other table")


policy, leg, then = base.words(1, (*PARTED, LOCAL, REMOTE, *NEXT))
base.step(f"policy {policy}: a write that one leg has, the {leg} leg is away; {then}")
pair = Pair("remote_timeout", 2000, "rejoin", 1, "policy", policy)
write, seen = given_up(pair, leg, policy)
base.equal(seen, pair.versions.last, "the leg that is left has the write, and is read")
if then != "held":
    seen = ended(pair, write, policy)
if then in ("crash", "held"):
    found = crashed(pair)
    if then == "held":
        ended(pair, write, policy)
    base.equal(found, seen, "what was read has vanished")
    base.equal(stopped(pair, leg), seen, "what was read has vanished")
else:
    found = stopped(pair, leg) if then == "stop" else reloaded(pair, leg)
    base.equal(found, seen, "what was read has vanished")
pair.in_sync()
base.equal(get(pair.node, "in sync"), seen, "what was read has vanished")
if then == "reload":
    pair.check("with the other table")
    pair.stop()
    dm.remove("other")
    pair.same()
else:
    pair.good_end("in the end")
base.step("done")
