# SPDX-License-Identifier: GPL-2.0-only
"""What `lockstep_mirror` does with what it finds: a fake command stands for `lockstep`."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

MODULE = Path(__file__).parents[1] / "plugins/modules/lockstep_mirror.py"
MIB = 1 << 20
REMOTE = "/dev/disk/by-path/ip-10.9.0.2:3260-iscsi-iqn.x:m0-lun-0"


class Failure(Exception):
    pass


class Done(Exception):
    pass


class Site:
    """A host, as the module sees it."""

    def __init__(self, found: Any, folder: Path) -> None:
        self.found = found
        self.folder = folder
        self.commands: list[str] = []
        self.login = 0
        self.legs: list[dict[str, Any]] = [{"kind": "blank"}, {"kind": "blank"}]
        self.params: dict[str, Any] = {
            "name": "m0", "local": "/dev/vdb", "target": "iqn.x:m0", "portal": "10.9.0.2:3260",
            "lun": 0, "initial_sync": "none", "region_size": "", "options": {"policy": "degrade"},
            "start_alone": False, "wait": 60, "program": "/bin/true",
        }  # fmt: skip
        self.check_mode = False

    def run_command(self, words: list[str]) -> tuple[int, str, str]:
        self.commands.append(" ".join(words[1:]))
        if words[0] == "iscsiadm":
            return self.login, "", "no route"
        if words[1] == "examine":
            return 1, json.dumps(self.legs), ""
        if words[1] in ("create", "assemble"):
            self.describe()
        return 0, "", ""

    def describe(self, local: str = "/dev/vdb", more: str = "", policy: str = "degrade") -> None:
        text = f'local = "{local}"\nremote = "{REMOTE}"\n{more}\n[options]\npolicy = "{policy}"\n'
        (self.folder / "m0.toml").write_text(text)

    def run(self, **params: Any) -> list[str]:
        """What was done; the commands that did it are in `commands`."""
        self.commands.clear()
        with pytest.raises(Done) as done:
            self.found.Mirror(self.module(params)).run()
        answer: dict[str, Any] = done.value.args[0]
        assert answer["changed"] == bool(answer["actions"])
        actions: list[str] = answer["actions"]
        return actions

    def failure(self, **params: Any) -> str:
        self.commands.clear()
        with pytest.raises(Failure) as failure:
            self.found.Mirror(self.module(params)).run()
        return str(failure.value)

    def module(self, params: dict[str, Any]) -> Any:
        def fail_json(msg: str, actions: list[str]) -> None:
            raise Failure(msg)

        def exit_json(**answer: Any) -> None:
            raise Done(answer)

        return SimpleNamespace(
            params=self.params | params, check_mode=self.check_mode, run_command=self.run_command,
            fail_json=fail_json, exit_json=exit_json,
        )  # fmt: skip


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    # pytest has given this folder's parent the name of the package that the module imports.
    monkeypatch.delitem(sys.modules, "ansible", raising=False)
    spec = importlib.util.spec_from_file_location("lockstep_mirror", MODULE)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    monkeypatch.setattr(found, "CONFIG", tmp_path)
    monkeypatch.setattr(found, "size", lambda path: MIB)
    monkeypatch.setattr(found.Mirror, "must_be_blank", lambda self, path: None)
    return Site(found, tmp_path)


def test_nothing_is_created_without_permission(site: Site) -> None:
    assert "to make one was not allowed" in site.failure()
    assert site.commands == [f"examine --json /dev/vdb {REMOTE}"]


def test_a_mirror_is_created_once(site: Site) -> None:
    assert site.run(initial_sync="local_to_remote") == ["create the mirror m0 (local_to_remote)"]
    assert site.commands[1:] == [
        f"create --yes --no-start --keep-data --policy degrade m0 /dev/vdb {REMOTE}"
    ]
    assert site.run(initial_sync="local_to_remote") == [] and not site.login
    assert not [one for one in site.commands if one.startswith("create")]


def test_identical_legs_are_taken_at_their_word(site: Site) -> None:
    site.run(initial_sync="identical", region_size="64K", options={"resync_rate": 100})
    assert site.commands[1] == (
        "create --yes --no-start --keep-data --assume-clean --region-size 64K --resync-rate 100"
        f" m0 /dev/vdb {REMOTE}"
    )


def test_nothing_is_ever_forced(site: Site) -> None:
    for kind in ("local_to_remote", "identical"):
        (site.folder / "m0.toml").unlink(missing_ok=True)
        site.run(initial_sync=kind)
        assert "force" not in " ".join(site.commands)


def test_legs_that_are_this_mirror_are_taken_over(site: Site) -> None:
    """After the host was installed anew: whatever initial_sync says, nothing is created."""
    site.legs = [{"kind": "superblock", "name": "m0", "leg": leg} for leg in ("local", "remote")]
    for kind in ("none", "local_to_remote"):
        (site.folder / "m0.toml").unlink(missing_ok=True)
        assert site.run(initial_sync=kind) == ["take over the mirror m0"]
        assert site.commands[1] == f"assemble m0 --local /dev/vdb --remote {REMOTE} --wait 60"


def test_another_mirrors_legs_are_refused(site: Site) -> None:
    site.legs = [{"kind": "superblock", "name": "db", "leg": leg} for leg in ("local", "remote")]
    assert "the local leg of the mirror db" in site.failure(initial_sync="local_to_remote")
    assert len(site.commands) == 1


@pytest.mark.parametrize("kind", ["superblock", "bad"])
@pytest.mark.parametrize("leg", [0, 1])
def test_one_leg_of_a_mirror_is_refused(site: Site, kind: str, leg: int) -> None:
    site.legs[leg] = {"kind": kind, "name": "m0", "leg": "local"}
    assert "isn't for this role to decide" in site.failure(initial_sync="local_to_remote")
    assert len(site.commands) == 1


def test_legs_that_have_grown_are_refused(site: Site) -> None:
    site.legs = [{"kind": "grown", "reason": "it has grown"} for _ in range(2)]
    said = site.failure(initial_sync="local_to_remote")
    assert "(it has grown)" in said and "has to grow" in said
    assert len(site.commands) == 1


def test_another_device_than_the_described_one_is_refused(site: Site) -> None:
    site.describe(local="/dev/vdc")
    said = site.failure(initial_sync="local_to_remote")
    assert "says that the local leg is /dev/vdc, and the role is told /dev/vdb" in said
    assert site.commands == []


def test_another_name_of_the_described_device(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`lockstep create` keeps the name that stays longest with the device."""
    numbers = {"/dev/vdb": 1, "/dev/mapper/vg0-db": 1, "/dev/vdc": 2}
    monkeypatch.setattr(site.found, "device_number", numbers.get)
    site.describe(local="/dev/mapper/vg0-db")
    assert site.run() == []
    for other in ("/dev/vdc", "/dev/gone"):
        site.describe(local=other)
        assert f"says that the local leg is {other}" in site.failure()
    site.describe(local="/dev/gone")
    assert "the local leg is /dev/gone" in site.failure(local="/dev/gone too")


def test_truth_values_of_yaml(site: Site) -> None:
    """A bare `on` in an inventory is one."""
    site.describe(more="wait = 60")
    assert site.run(options={"resync_compare": True, "verify": False}) == [
        "set resync_compare=on verify=off"
    ]
    text = f'local = "/dev/vdb"\nremote = "{REMOTE}"\n[options]\nresync_compare = "on"\n'
    (site.folder / "m0.toml").write_text(text)
    assert site.run(options={"resync_compare": True}) == []


def test_options_that_differ_are_set_and_others_stay(site: Site) -> None:
    site.describe(more="wait = 5\nstart_alone = true", policy="block")
    want = "policy=degrade resync_rate=100 start_alone=false wait=60"
    assert site.run(options={"policy": "degrade", "resync_rate": 100}) == [f"set {want}"]
    assert site.commands == [f"set m0 {want}"]
    site.describe(more="wait = 60", policy="degrade")
    assert site.run(options={}) == []


def test_check_mode_changes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.check_mode = True
    assert site.run(initial_sync="local_to_remote") == ["create the mirror m0 (local_to_remote)"]
    assert site.commands == [f"examine --json /dev/vdb {REMOTE}"]
    monkeypatch.setattr(site.found, "size", lambda path: 0)
    assert site.run() == ["log in, then assemble or create the mirror m0"] and not site.commands
    site.describe(policy="block")
    assert site.run() == ["set policy=degrade"] and not site.commands


def test_a_login(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused one is a failure always; a site that is away only if the mirror is yet to be."""
    monkeypatch.setattr(site.found, "size", lambda path: 0)
    site.login = 8
    assert "can't log in to iqn.x:m0 at 10.9.0.2:3260: no route" in site.failure()
    site.describe()
    assert site.run() == []
    assert site.commands == ["-m node -T iqn.x:m0 -p 10.9.0.2:3260 --login"]
    site.login = 24
    assert "refuses this host: CHAP name or secret is wrong" in site.failure()
    site.login = 15
    assert site.run() == []
    (site.folder / "m0.toml").unlink()
    assert "didn't appear within 0 s" in site.failure(wait=0)


@pytest.mark.parametrize("at", [None, 0, MIB - 1, 2 * MIB + 4096, 3 * MIB + 4095])
def test_a_remote_leg_with_data_is_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int | None
) -> None:
    monkeypatch.undo()
    disk = tmp_path / "disk"
    there = bytearray(3 * MIB + 4096)
    if at is not None:
        there[at] = 1
    disk.write_bytes(there)
    mirror = site.found.Mirror(site.module({}))
    if at is None:
        mirror.must_be_blank(str(disk))
    else:
        with pytest.raises(Failure, match="would be overwritten, and it carries data, at byte"):
            mirror.must_be_blank(str(disk))
