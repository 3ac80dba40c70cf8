# SPDX-License-Identifier: GPL-2.0-only
"""PostgreSQL on ext4 on the device, under pgbench: the run in the place of the papers' TPC-C.

pgbench's own transactions are TPC-B's (three updates, a select, an insert), not TPC-C's; what the
mirror sees is alike: a write-ahead log that is flushed for every commit, pages behind it. `scale`
(a scale is 100,000 accounts), `clients`, `transactions` of each client. PostgreSQL is as Debian has
it, but for checkpoints often enough to fall into a short run (`checkpoint_s`).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cell import ground, times
from cell.order import Absent
from locklab import base

_SOCKETS = "/tmp"
_USER = "postgres"


@contextlib.contextmanager
def ready(node: str, params: Mapping[str, Any], seed: int) -> Iterator[Path]:
    """A running server with the accounts loaded; the directory of its programs."""
    there = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not there:
        raise Absent("PostgreSQL: not installed")
    programs = there[-1].parent
    with ground.made(node, int(params.get("ram_mib", 512))) as where:
        owner = pwd.getpwnam(_USER)
        data = where / "data"
        data.mkdir(mode=0o700)
        os.chown(data, owner.pw_uid, owner.pw_gid)
        _as_user(programs / "initdb", "-D", data, "-A", "trust", "--no-locale", "-E", "UTF8")
        with _server(programs, data, params):
            _as_user(*_pgbench(programs), "-i", "-s", params.get("scale", 1), "--no-vacuum")
            _as_user(programs / "psql", "-h", _SOCKETS, "-qc", "checkpoint", "postgres")
            yield programs


@contextlib.contextmanager
def _server(programs: Path, data: Path, params: Mapping[str, Any]) -> Iterator[None]:
    settings = {
        "listen_addresses": "", "unix_socket_directories": _SOCKETS, "autovacuum": "off",
        "checkpoint_timeout": f"{params.get('checkpoint_s', 30)}s", "jit": "off",
        "max_parallel_workers": 0, "max_parallel_maintenance_workers": 0,
    }  # fmt: skip
    words = [f"-c{key}={value}" for key, value in settings.items()]
    log = Path("/tmp/postgres.log")
    with log.open("w") as out:
        server = subprocess.Popen(
            [str(programs / "postgres"), "-D", str(data), *words], user=_USER, group=_USER,
            extra_groups=[], cwd=_SOCKETS, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        base.until(lambda: _answers(programs), "PostgreSQL to answer")
        yield
    except Exception as err:
        raise base.Wrong(f"{err}; the server says: {log.read_text()[-1500:]}") from err
    finally:
        server.terminate()
        server.wait()


def _pgbench(programs: Path) -> list[str]:
    return [str(programs / "pgbench"), "-h", _SOCKETS, "-n", "postgres"]


def run(programs: Path, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    clients, each = int(params.get("clients", 8)), int(params["transactions"])
    prefix = f"{_SOCKETS}/pgbench_log"
    began = time.monotonic()
    _as_user(*_pgbench(programs), "-c", clients, "-t", each, f"--random-seed={seed}", "-l",
             f"--log-prefix={prefix}")  # fmt: skip
    seconds = time.monotonic() - began
    taken = []
    for path in sorted(Path(_SOCKETS).glob("pgbench_log.*")):
        taken += [1000 * int(line.split()[2]) for line in path.read_text().splitlines()]
    base.equal(len(taken), clients * each, "transactions in pgbench's log")
    return {"transaction": times.told(taken, 0, seconds), "elapsed_s": seconds,
            "transactions_per_s": len(taken) / seconds}  # fmt: skip


def _answers(programs: Path) -> bool:
    words = [str(programs / "pg_isready"), "-q", "-h", _SOCKETS]
    return subprocess.run(words, check=False).returncode == 0


def _as_user(*words: object) -> None:
    line: Sequence[str] = [str(word) for word in words]
    done = subprocess.run(line, user=_USER, group=_USER, extra_groups=[], cwd=_SOCKETS,
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        raise base.Wrong(f"{' '.join(line)}: rc {done.returncode}: {done.stdout}{done.stderr}")
