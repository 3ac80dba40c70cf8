# SPDX-License-Identifier: GPL-2.0-only
"""What the monitor does again and again while a leg is dead."""

from __future__ import annotations

import fakes
import pytest
from fakes import Host
from lockstep import assembly, config, device, meta, watch
from lockstep.config import Config
from lockstep.errors import Refused

host = fakes.host

DEAD = "AD 1000/1024 waiting 0 9 degrade 0 24 0 0 alone timeout 30 0 - 0"


def test_the_monitor_searches_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blank device in the leg's place is refused each time it looks: with half a minute of reads
    only once, and nobody who has to unblock the mirror waits for that."""
    for node in ("/dev/a", "/dev/b", "/dev/c"):
        host.disk(node)
    config.save(Config("m", "/dev/a", "/dev/b", "u", wait=0))
    host.runs("m", DEAD, table="8:0 8:48")
    blank = {"verdict": "blank", "text": "No superblock.", "leg": "remote"}
    host.says("lockstep-meta verdict", blank)
    searched: list[bool] = []
    examine = meta.examine

    def spy(node: str, *, given: str = "", search: bool = True) -> meta.Leg:
        searched.append(search)
        if search:
            with config.locked("m"):  # Free, or this waits, and fails.
                pass
        return examine(node, given=given, search=search)

    monkeypatch.setattr(meta, "examine", spy)
    monkeypatch.setattr(config, "_PATIENCE_S", 0.0)
    done: set[device.Device] = set()
    for disk, want in (("/dev/b", [True, False, False]), ("/dev/c", [True, False])):
        host.devices["/dev/b"] = host.devices[disk]
        searched.clear()
        for _ in want:
            with pytest.raises(Refused):
                watch._give_back("m", "remote", assembly.status_of("m"), done)
        assert searched == want
    host.disk("/dev/b")
    searched.clear()
    code, _, err = host.lockstep("re-add", "m", "--device", "/dev/c")
    assert (code, "lockstep replace m remote" in err) == (3, True), err
    assert searched == [True]


GOOD = {"verdict": "ok", "text": "in sync", "set_uuid": "u", "data_len": 100}
FILLED = "aA 0/1024 resync 0 0 degrade 1024 0 0 0 together - 30 0 - 0"


@pytest.mark.parametrize(
    ("line", "failing", "given_back"),
    [
        (FILLED, "/dev/b", True),
        (FILLED, "", False),
        (FILLED + " 0 yes 1/2/0 - remote", "/dev/b", False),
        (fakes.STATUS, "/dev/b", False),
    ],
    ids=["gone", "it answers", "I/O waits for it", "the kernel will call it dead"],
)
def test_the_only_good_leg_is_another_device(
    host: Host, line: str, failing: str, given_back: bool
) -> None:
    for node in ("/dev/a", "/dev/b", "/dev/c"):
        host.disk(node)
    host.failing.add(failing)
    config.save(Config("m", "/dev/a", "/dev/c", "u", wait=0))
    host.runs("m", line)
    host.says("lockstep-meta verdict", {**GOOD, "join": True, "source": "remote"})
    now = assembly.status_of("m")
    for leg in ("local", "remote"):
        if watch._may_need(leg, now):
            watch._give_back("m", leg, now, set())
    assert len(host.calls("dmsetup load")) == given_back
    if given_back:
        assert "8:0 8:32" in host.calls("dmsetup load")[0]
