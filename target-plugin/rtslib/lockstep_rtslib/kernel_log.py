# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel has said since some moment, as far as this process may know it."""

from __future__ import annotations

import os

_LEVEL_ERROR = 3


class KernelLog:
    """Begins where the log ends now. Where it can't be read it is simply empty."""

    def __init__(self) -> None:
        try:
            self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self._fd = -1

    def errors(self, prefix: str) -> list[str]:
        """The new messages of level error or worse that start so, without that start."""
        found = []
        for record in self._records():
            head, _, text = record.partition(";")
            level = int(head.split(",")[0]) & 7
            if level <= _LEVEL_ERROR and text.startswith(prefix):
                found.append(text.splitlines()[0].removeprefix(prefix))
        return found

    def _records(self) -> list[str]:
        records: list[str] = []
        while self._fd >= 0:
            try:
                records.append(os.read(self._fd, 8192).decode(errors="replace"))
            except BrokenPipeError:  # some were overwritten; go on with the next
                continue
            except OSError:
                break
        return records

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
