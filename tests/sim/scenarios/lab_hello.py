# SPDX-License-Identifier: GPL-2.0-only
"""The smallest run: where am I, what is loaded, what time is it."""

import os
import sys
import time
from pathlib import Path

print("seed", os.environ["LAB_SEED"], "kernel", os.environ["LAB_KERNEL"], "args", sys.argv[1:])
modules = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()]
print("modules", sorted(modules))
Path(os.environ["LAB_OUT"], "left-behind").write_text("kept\n")
before = time.monotonic()
time.sleep(3600)
print(f"slept {time.monotonic() - before:.3f} s")
print("to stderr", file=sys.stderr)
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
