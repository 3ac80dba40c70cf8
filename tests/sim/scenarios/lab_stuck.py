# SPDX-License-Identifier: GPL-2.0-only
"""A script that doesn't end well: args spin|sleep|die|raise|panic, or nap, which does."""

import os
import signal
import sys
import time
from pathlib import Path

match sys.argv[1]:
    case "spin":
        print("spinning", flush=True)
        while True:  # in simulated time no tick ever ends this
            pass
    case "sleep":
        time.sleep(1e7)
    case "die":
        os.kill(os.getpid(), signal.SIGKILL)
    case "raise":
        raise ValueError("on purpose")
    case "panic":
        Path("/proc/sysrq-trigger").write_text("c")
    case "nap":
        time.sleep(2)
