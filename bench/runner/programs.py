# SPDX-License-Identifier: GPL-2.0-only
"""What runs for the cells on this machine, and ends when the run is broken off."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence

import mortal

BROKEN_OFF = 143  # as of one that SIGTERM ended


class Programs:
    """From any thread. Each program takes down what it made (a guest, mappings) on SIGTERM, which
    it gets by end(), and by this program's own death."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[str]] = []
        self._over = False

    def run(
        self, words: Sequence[str], env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        with self._lock:
            if self._over:
                return subprocess.CompletedProcess(words, BROKEN_OFF, "", "broken off")
            child = subprocess.Popen(mortal.words(words, "TERM"), env=env, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
            self._running.append(child)
        try:
            out, err = child.communicate()
        finally:
            with self._lock:
                self._running.remove(child)
        return subprocess.CompletedProcess(words, child.returncode, out, err)

    def end(self) -> None:
        """What runs, and whatever would be started from now on."""
        with self._lock:
            self._over = True
            for child in self._running:
                child.terminate()
