# SPDX-License-Identifier: GPL-2.0-only
"""A verify waits for the range of a write that policy block holds: "verify stop" ends, though."""

from __future__ import annotations

import time

from locklab import base
from statelab import Beside
from statelegs import Pair

NEVER_MS = 3_600_000

pair = Pair("policy", "block", "remote_timeout", 2000, "rejoin", 1)
pair.remote.set(data=f"stall:{NEVER_MS}")
write = Beside(lambda: pair.put(0))
time.sleep(0.1)
pair.message("verify start")
pair.wait("AD", "blocked")
stop = Beside(lambda: pair.message("verify stop"))
base.until(lambda: stop.done, "verify stop", 5)
pair.remote.well()
base.until(lambda: write.done, "the write", 30)
write.result()
pair.good_end("the end")
pair.close()
base.step("done")
