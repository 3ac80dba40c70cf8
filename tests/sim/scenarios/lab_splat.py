# SPDX-License-Identifier: GPL-2.0-only
"""One deliberate kernel fault: args KIND [TEXT TO EXPECT OF IT]."""

import errno
import os
import sys
from pathlib import Path

from locklab import base

modules = Path("/lockstep/build/modules")
(module,) = modules.glob(f"*-{os.environ['LAB_KERNEL']}/lab-splat.ko")
if len(sys.argv) > 2:
    (base.OUT / "expect-splat").write_text("\n".join(sys.argv[2:]) + "\n")
with base.refused(f"the module that does {sys.argv[1]}", errno.ECANCELED):
    base.insmod(module, f"kind={sys.argv[1]}")
