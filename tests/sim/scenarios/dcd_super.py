# SPDX-License-Identifier: GPL-2.0-only
"""One sector of the log can't be read, and it is in one of the two copies of the superblock: the
other one is enough, for the module and for `dcd`.

Args: none.
"""

import subprocess

from dcdlab import TOOL, Box, Model, filled
from locklab import base

HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99,read_cache_bytes=0"
DAMAGED_COPY = 4


def tool(box: Box, *words: str) -> int:
    line = [TOOL, words[0], "--data", box.data.node, "--log", box.log.node, *words[1:]]
    if box.view != "none":
        line += ["--nvram", box.view]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    print(f"  dcd {' '.join(words)}: {done.returncode} {done.stderr.strip()}")
    return done.returncode


for nvram in ("lab", "none"):
    for copy in (0, 1):
        base.step(f"{nvram}: copy {copy} can't be read")
        box = Box(nvram=nvram, settings=HELD)
        model = Model(box.data.sectors)
        with box.disk() as disk:
            filled(disk, model, 0, 1000, "acknowledged", 8)
        sector = 8 * copy
        box.log.fail_here(((sector, sector), "error_reads"))
        base.equal(tool(box, "check"), DAMAGED_COPY, "exit code of check")
        for words in (("recover", "--dry-run"), ("recover", "--salvage", "--dry-run")):
            base.equal(tool(box, *words), 0, f"exit code of {' '.join(words)}")
        with box.disk() as disk:
            model.check(disk, "opened")
        box.log.heal()
        with box.disk() as disk:
            model.check(disk, "it can be read again")
        box.away()
base.step("done")
