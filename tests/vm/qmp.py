# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's control channel (QMP): one connection, one command at a time."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from laberror import LabError

REPLY_S = 120.0
POLL_S = 0.05


class Qmp:
    """Connects at once; raises OSError while nobody listens."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(REPLY_S)
            self._socket.connect(str(path))
            self._file = self._socket.makefile("rw", encoding="utf-8")
            self._read()
            self.run("qmp_capabilities")
        except BaseException:
            self._socket.close()
            raise

    def run(self, command: str, **arguments: Any) -> Any:
        """The command's result; events on the way are dropped."""
        try:
            self._file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
            self._file.flush()
            while True:
                reply = self._read()
                if "error" in reply:
                    raise LabError(f"QEMU refused {command}: {reply['error']['desc']}")
                if "return" in reply:
                    return reply["return"]
        except (OSError, ValueError) as err:
            raise LabError(f"QEMU at {self._path} gave no answer to {command}: {err}") from err

    def until_status(self, *wanted: str, seconds: float = REPLY_S) -> str:
        """Waits for one of these run states."""
        return self._until("query-status", wanted, seconds)

    def until_migrated(self, seconds: float = REPLY_S) -> None:
        if self._until("query-migrate", ("completed", "failed"), seconds) == "failed":
            raise LabError(f"QEMU at {self._path}: {self.run('query-migrate')}")

    def _until(self, query: str, wanted: tuple[str, ...], seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while (status := str(self.run(query).get("status"))) not in wanted:
            if time.monotonic() > deadline:
                raise LabError(
                    f"QEMU at {self._path}: {query} still says {status} after {seconds:g} s"
                )
            time.sleep(POLL_S)
        return status

    def _read(self) -> dict[str, Any]:
        line = self._file.readline()
        if not line:
            raise ValueError("it closed the connection")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def __enter__(self) -> Qmp:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._socket.close()
