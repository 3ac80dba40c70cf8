# SPDX-License-Identifier: GPL-2.0-only
"""The cache: an entry is whole or not there, and there is one for each key."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

CACHE = Path(__file__).resolve().parent / "cache"
RECIPE = """
inputs() {{ echo {inputs}; }}
build() {{ echo run >>"$HOOK/runs"; {body} }}
"""


class Lab:
    """A copy of the cache program with a recipe of the test's own for `venv`."""

    def __init__(self, base: Path) -> None:
        self.base = base
        (base / "lab/recipes").mkdir(parents=True)
        shutil.copy(CACHE, base / "lab/cache")
        self.env = os.environ | {"XDG_CACHE_HOME": str(base / "xdg"), "HOOK": str(base)}
        self.recipe()

    def recipe(self, inputs: str = "one", body: str = 'echo whole >"$1/file";') -> None:
        text = RECIPE.format(inputs=inputs, body=body)
        (self.base / "lab/recipes/venv.sh").write_text(text, encoding="utf-8")

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.base / "lab/cache", "path", "venv"],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def path(self) -> Path:
        process = self.start()
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return Path(out.strip())

    def runs(self) -> int:
        record = self.base / "runs"
        return len(record.read_text(encoding="utf-8").splitlines()) if record.exists() else 0

    def entries(self) -> list[str]:
        return sorted(p.name for p in (self.base / "xdg/lockstep").iterdir() if p.is_dir())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_hit_is_not_built_again(lab: Lab) -> None:
    first = lab.path()
    assert (first / "file").read_text(encoding="utf-8") == "whole\n"
    assert lab.path() == first
    assert lab.runs() == 1


@pytest.mark.parametrize("change", [{"inputs": "two"}, {"body": 'echo other >"$1/file";'}])
def test_another_input_or_recipe_is_another_entry(lab: Lab, change: dict[str, str]) -> None:
    first = lab.path()
    lab.recipe(**change)
    assert lab.path() != first
    assert lab.runs() == 2


def test_a_failed_build_leaves_no_entry_and_shows_its_log(lab: Lab) -> None:
    lab.recipe(body='echo half >"$1/file"; echo the reason; false; echo not reached;')
    process = lab.start()
    out, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert out == ""
    assert "the reason" in err
    assert "not reached" not in err
    assert lab.entries() == []


def test_an_interrupted_build_is_done_again(lab: Lab) -> None:
    lab.recipe(body='echo half >"$1/file"; touch "$HOOK/started"; sleep 60;')
    process = lab.start()
    while not (lab.base / "started").exists():
        assert process.poll() is None
        time.sleep(0.01)
    # The hardest way: nothing can tidy up.
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert len(lab.entries()) == 1
    lab.recipe()
    path = lab.path()
    assert (path / "file").read_text(encoding="utf-8") == "whole\n"
    assert lab.entries() == [path.name]


def test_two_at_once_build_once(lab: Lab) -> None:
    lab.recipe(body='sleep 0.5; echo whole >"$1/file";')
    both = [lab.start(), lab.start()]
    paths = {process.communicate(timeout=60)[0] for process in both}
    assert len(paths) == 1
    assert lab.runs() == 1


def test_an_unknown_entry_is_named(lab: Lab) -> None:
    result = subprocess.run(
        [lab.base / "lab/cache", "path", "vnev"],
        env=lab.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    assert "vnev" in result.stderr
    assert "uml-plain" in result.stderr
