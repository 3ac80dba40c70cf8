# SPDX-License-Identifier: GPL-2.0-only
"""The import hook: it reaches every copy of rtslib, and nobody else notices it.

The rtslib here is a fake with the names that the hook's parts use; the real one is run in the sim
lab (tests/sim/test_rtslib.py).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TCM = """\
class RTSLibError(Exception): pass
class StorageObject: pass
so_mapping = {}
bs_params = {}
"""


@dataclass(frozen=True)
class Site:
    """A directory whose .pth files Python obeys, like the system's dist-packages."""

    path: Path

    def run(self, program: str) -> subprocess.CompletedProcess[str]:
        start = f"import site; site.addsitedir({str(self.path)!r})\n"
        return subprocess.run(
            [sys.executable, "-I", "-B", "-c", start + program],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def says(self, program: str, stderr: str = "") -> list[str]:
        done = self.run(program)
        assert (done.returncode, done.stderr) == (0, stderr)
        return done.stdout.split()

    def add(self, name: str, text: str = "") -> None:
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    shutil.copytree(HERE / "lockstep_rtslib", tmp_path / "lockstep_rtslib")
    shutil.copy(HERE / "lockstep-rtslib.pth", tmp_path)
    found = Site(tmp_path)
    for copy in ("rtslib", "rtslib_fb"):
        found.add(f"{copy}/__init__.py")
        found.add(f"{copy}/tcm.py", TCM)
    return found


def test_a_program_without_rtslib_gets_one_module_and_no_more(site: Site) -> None:
    modules = "import sys, json; print(*sorted(m for m in sys.modules))"
    with_it = site.says(modules)
    (site.path / "lockstep-rtslib.pth").unlink()
    assert set(with_it) - set(site.says(modules)) == {"lockstep_rtslib"}


@pytest.mark.parametrize("content", [None, "not Python", "raise OSError('broken')"])
def test_a_missing_or_broken_package_is_no_matter(site: Site, content: str | None) -> None:
    if content is None:
        shutil.rmtree(site.path / "lockstep_rtslib")
    else:
        site.add("lockstep_rtslib/__init__.py", content)
    assert site.says("print('fine')") == ["fine"]


def test_both_copies_get_a_class_of_their_own(site: Site) -> None:
    said = site.says(
        "import rtslib.tcm as a, rtslib_fb.tcm as b\n"
        "for tcm in a, b:\n"
        "    cls = tcm.so_mapping['dcd']\n"
        "    print(issubclass(cls, tcm.StorageObject), tcm.bs_params[cls]['name'])\n"
        "print(a.so_mapping['dcd'] is b.so_mapping['dcd'])"
    )
    assert said == ["True", "dcd", "True", "dcd", "False"]


def test_a_copy_that_is_only_another_name(site: Site) -> None:
    site.add("rtslib_fb/__init__.py", "import sys, rtslib.tcm\n"
             "sys.modules['rtslib_fb.tcm'] = tcm = rtslib.tcm\n")  # fmt: skip
    program = "import rtslib_fb.tcm as t; print(len(t.bs_params), 'dcd' in t.so_mapping)"
    assert site.says(program) == ["1", "True"]


def test_a_dcd_of_rtslib_s_own_is_left_alone(site: Site) -> None:
    site.add("rtslib/tcm.py", TCM.replace("so_mapping = {}", "so_mapping = {'dcd': 'theirs'}"))
    assert site.says("import rtslib.tcm as t; print(t.so_mapping['dcd'])") == ["theirs"]


def test_imported_by_hand_after_rtslib(site: Site) -> None:
    (site.path / "lockstep-rtslib.pth").unlink()
    program = "import rtslib.tcm as t, lockstep_rtslib; print('dcd' in t.so_mapping)"
    assert site.says(program) == ["True"]


def test_an_rtslib_that_is_too_strange_still_works_and_says_so(site: Site) -> None:
    site.add("rtslib/tcm.py", "own = 1\n")
    said = "lockstep: rtslib.tcm doesn't know the backstore dcd: AttributeError("
    done = site.run("import rtslib.tcm; print(rtslib.tcm.own)")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr.startswith(said) and done.stderr.count("\n") == 1


def test_an_error_of_rtslib_s_own_is_told_as_ever(site: Site) -> None:
    site.add("rtslib/tcm.py", "import nothing_of_that_name\n")
    done = site.run("import rtslib.tcm")
    assert done.returncode == 1
    assert "ModuleNotFoundError: No module named 'nothing_of_that_name'" in done.stderr
    assert "lockstep:" not in done.stderr


def test_rtslib_that_is_not_there(site: Site) -> None:
    shutil.rmtree(site.path / "rtslib")
    done = site.run("import rtslib.tcm")
    assert "No module named 'rtslib'" in done.stderr


@pytest.mark.parametrize("first", [True, False])
def test_another_finder_that_asks_all_others(site: Site, first: bool) -> None:
    other = (
        "import sys\n"
        "class Other:\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        for finder in sys.meta_path:\n"
        "            if finder is not cls:\n"
        "                spec = finder.find_spec(name, path, target)\n"
        "                if spec is not None:\n"
        "                    return spec\n"
        f"sys.meta_path.insert({0 if first else 1}, Other)\n"
    )
    program = "import rtslib.tcm as t; print(len(t.bs_params), 'dcd' in t.so_mapping)"
    assert site.says(other + program) == ["1", "True"]
