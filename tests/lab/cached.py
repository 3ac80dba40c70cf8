# SPDX-License-Identifier: GPL-2.0-only
"""The cache of what is expensive (tests/lab/cache), for the labs' Python programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from laberror import LabError

_TOOL = Path(__file__).resolve().parent / "cache"


def entry(name: str) -> Path:
    """A finished entry; built when it is missing, which may take minutes."""
    try:
        done = subprocess.run([_TOOL, "path", name], check=True, stdout=subprocess.PIPE, text=True)
    except (OSError, subprocess.CalledProcessError) as err:
        raise LabError(f"no {name} in the lab's cache: {err}; try `make lab`") from err
    return Path(done.stdout.strip())
