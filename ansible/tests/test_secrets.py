# SPDX-License-Identifier: GPL-2.0-only
"""The roles refuse secrets that can't be used, before they do anything else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
GOOD, OTHER = "twelve-or-more", "another-one-of-these"
ROLES = ("mirror_site", "primary")
# What the roles must be given, and none of which is looked at.
REST = {
    "mirror_site": ("modules_dir", "dcd_program", "rtslib_dir", "programs_dir", "lockstep_dir",
                    "data", "log", "target_iqn", "initiator_iqn"),
    "primary": ("modules_dir", "programs_dir", "lockstep_dir", "local", "initiator_iqn",
                "target_iqn", "portal"),
}  # fmt: skip


def play(folder: Path, role: str, secrets: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """In check mode, on this host: where nothing is refused it ends at the first package."""
    book = folder / "book.yml"
    tasks = {"hosts": "localhost", "connection": "local", "gather_facts": False,
             "roles": [f"lockstep.mirror.{role}"]}  # fmt: skip
    book.write_text(json.dumps([tasks]))
    given: dict[str, object] = {f"{role}_{name}": "/nonexistent" for name in REST[role]}
    given |= {f"{role}_{name}": value for name, value in secrets.items()}
    given |= {f"{role}_packages": [], f"{role}_portals": []}
    return subprocess.run(
        [str(TREE / "ansible/play"), "--check", "-i", "localhost,", "-e", json.dumps(given),
         str(book)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "secrets",
    [
        {"chap_password": ""},
        {"chap_password": "eleven-long"},
        {"chap_password": f"{GOOD} and more"},
        {"chap_password": GOOD, "mutual_password": ""},
        {"chap_password": GOOD, "mutual_password": GOOD},
    ],
    ids=["empty", "short", "white", "empty mutual", "the same"],
)
def test_a_secret_that_can_not_be_used(role: str, secrets: dict[str, str], tmp_path: Path) -> None:
    done = play(tmp_path, role, secrets)
    assert done.returncode == 2, done.stdout
    assert "LOCKSTEP_CHAP_PASSWORD" in done.stdout
    assert ": Ask which packages are there]" not in done.stdout
    for secret in secrets.values():
        assert not secret or secret not in done.stdout


@pytest.mark.parametrize("role", ROLES)
def test_good_ones(role: str, tmp_path: Path) -> None:
    done = play(tmp_path, role, {"chap_password": GOOD, "mutual_password": OTHER})
    assert ": Ask which packages are there]" in done.stdout, done.stdout
