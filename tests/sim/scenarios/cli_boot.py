# SPDX-License-Identifier: GPL-2.0-only
"""The start of a mirror of which a leg has its name, and gives I/O errors: for a moment, or for
good; then the other one, which went on alone, is all that there is. Args: which leg.
"""

import os
import threading
import time

import clilab
from clilab import good, refused, run
from locklab import base, blk, dm
from statelab import LOCAL, REMOTE
from statelegs import Leg

NODE = "/dev/mapper/m"


def put(tag: str) -> None:
    with blk.Disk(NODE) as disk:
        disk.write(0, blk.pattern(tag, 8), fua=True)


def has(tag: str, node: str = NODE) -> None:
    with blk.Disk(node, write=False) as disk:
        base.expect(disk.read(0, 8) == blk.pattern(tag, 8), f"{node} has {tag!r}")


(leg,) = base.words(1, (LOCAL, REMOTE))
rest = REMOTE if leg == LOCAL else LOCAL
legs = {name: Leg(f"l{name}") for name in (LOCAL, REMOTE)}
good("create", "m", *(one.node for one in legs.values()), "--yes")
clilab.in_sync()
put("both")
good("stop", "m")

base.step("for three seconds: it is waited for")
legs[leg].gone()
threading.Timer(3, legs[leg].well).start()
good("assemble", "m", "--wait", "20")
clilab.in_sync()

base.step("for longer than that is waited for: to be tried again, as with a leg that isn't there")
good("stop", "m")
legs[leg].gone()
before = time.monotonic()
refused(1, "assemble", "m", "--wait", "5",
        says=(f"the {leg} leg {legs[leg].node} can't be read", "with --run"))  # fmt: skip
base.expect(time.monotonic() - before < 8, "it waited for as long as it was told")
legs[leg].well()

base.step("it hangs: as with a leg that isn't there, and it doesn't take longer")
dm.suspend(legs[leg].name, flush=False)
before = time.monotonic()
refused(1, "assemble", "m", "--wait", "5", says=("with --run",))
base.expect(time.monotonic() - before < 15, "it waited for as long as it was told")
dm.resume(legs[leg].name)

base.step("meanwhile the other one can't be read for a while: that is looked at again")
dm.suspend(legs[leg].name, flush=False)
legs[rest].gone()
threading.Timer(3, legs[rest].well).start()
refused(1, "assemble", "m", "--wait", "8", says=("with --run",))
dm.resume(legs[leg].name)

base.step("somebody holds it: he may let it go, so the unit at boot tries it again")
holds = os.open(legs[leg].node, os.O_RDONLY | os.O_EXCL)
refused(1, "assemble", "m", "--wait", "0", "--run", says=(f"{legs[leg].node} is in use: held",))
os.close(holds)

base.step("for good, and the other one knows that it has everything: by a word, or for always")
good("assemble", "m")
clilab.in_sync()
legs[leg].gone()
put("alone")
clilab.wait(standing="alone")
good("stop", "m")
good("assemble", "m", "--wait", "0", "--run")
has("alone")
good("stop", "m")
good("set", "m", "start_alone=true")
good("assemble", "m", "--wait", "0")
has("alone")

base.step("it can be read again: as a leg that is back")
legs[leg].well()
print("  re-add says:", run("re-add", "m", leg).text.strip())
clilab.in_sync()
good("stop", "m")
for one in legs.values():
    has("alone", one.disk.node)
base.step("for a while, and it alone has everything: nobody has said that this may be given up")
good("assemble", "m")
clilab.in_sync()
legs[rest].gone()
put("newer")
clilab.wait(standing="alone")
good("stop", "m")
legs[rest].well()
legs[leg].gone()
refused(1, "assemble", "m", "--wait", "0", says=("start_alone is for one that isn't there",))
legs[leg].well()
good("assemble", "m")
has("newer")
clilab.in_sync()
good("stop", "m")
base.step("done")
