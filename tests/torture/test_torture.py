# SPDX-License-Identifier: GPL-2.0-only
"""The oracle and the torture program under the sanitizers, on plain files.

A checker that finds nothing may be blind, so most of these tests damage a good
image in a way that a storage stack could, and want the damage named.
"""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from sanitized import compile_c

HERE = Path(__file__).resolve().parent
PROGRAM = ["oracle.c", "sectors.c", "state.c", "device.c", "load.c", "check.c", "torture.c"]
SECTOR = 512
SECTORS = 8192


@pytest.fixture(scope="session")
def torture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("torture") / "torture"
    return compile_c(to, *(HERE / name for name in PROGRAM))


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(w) for w in words], capture_output=True, text=True)


class Image:
    """A device image that was loaded, with the state of its run."""

    def __init__(self, torture: Path, where: Path, seed: int = 7) -> None:
        self.torture = torture
        self.path = where / "image"
        self.state = where / "state"
        self.before = where / "before"
        with open(self.path, "wb") as f:
            f.truncate(SECTORS * SECTOR)
        self.load(seed - 1)  # so that the baseline isn't empty
        shutil.copy(self.path, self.before)
        self.load(seed)

    def load(self, seed: int) -> None:
        done = run(
            self.torture, "load", "--device", self.path, "--state", self.state,
            "--seed", str(seed), "--cut-after-us", "600000000", "--ops", "800",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def check(self, promise: str = "stable") -> tuple[int, str]:
        end = f"{self.state}.end"
        done = run(
            self.torture, "check", "--device", self.path, "--state", end, "--promise", promise
        )
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout

    def edit(self, change: Callable[[bytearray, bytearray], None]) -> None:
        now, before = bytearray(self.path.read_bytes()), bytearray(self.before.read_bytes())
        change(now, before)
        self.path.write_bytes(now)

    def written(self) -> list[int]:
        """Sectors whose last writer is of this run."""
        now, before = self.path.read_bytes(), self.before.read_bytes()
        size = SECTOR
        return [
            s
            for s in range(SECTORS)
            if now[s * size : (s + 1) * size] != before[s * size : (s + 1) * size]
            and any(now[s * size : (s + 1) * size])
        ]


@pytest.fixture
def image(torture: Path, tmp_path: Path) -> Image:
    return Image(torture, tmp_path)


def sector(data: bytearray, s: int) -> bytearray:
    return data[s * SECTOR : (s + 1) * SECTOR]


def test_oracle_unit_tests(tmp_path: Path) -> None:
    done = run(compile_c(tmp_path / "test_oracle", HERE / "oracle.c", HERE / "test_oracle.c"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_whole_image_passes(image: Image) -> None:
    assert image.written()
    code, out = image.check()
    assert code == 0, out
    assert f"ok {SECTORS}" in out


def test_lost_sector_is_named(image: Image) -> None:
    s = image.written()[5]

    def lose(now: bytearray, before: bytearray) -> None:
        now[s * SECTOR : (s + 1) * SECTOR] = sector(before, s)

    image.edit(lose)
    code, out = image.check()
    assert code == 1
    assert re.search(rf"^lost: sector {s} holds .* op \d+ .* is missing$", out, re.M), out


def test_sector_at_the_wrong_place_is_misplaced(image: Image) -> None:
    a, b = image.written()[:2]

    def move(now: bytearray, before: bytearray) -> None:
        now[b * SECTOR : (b + 1) * SECTOR] = sector(now, a)

    image.edit(move)
    code, out = image.check()
    assert code == 1
    assert f"misplaced: sector {b}" in out


@pytest.mark.parametrize("cut", [16, 64, 256, 504])  # the first word is the same in all
def test_sector_torn_inside_is_mixed(image: Image, cut: int) -> None:
    s = image.written()[9]

    def tear(now: bytearray, before: bytearray) -> None:
        old = sector(before, s)
        now[s * SECTOR + cut : (s + 1) * SECTOR] = old[cut:]

    image.edit(tear)
    code, out = image.check()
    assert code == 1
    assert f"mixed: sector {s}" in out


def test_one_flipped_bit_is_mixed(image: Image) -> None:
    s = image.written()[3]

    def flip(now: bytearray, before: bytearray) -> None:
        now[s * SECTOR + 300] ^= 0x10

    image.edit(flip)
    code, out = image.check()
    assert code == 1
    assert f"mixed: sector {s}" in out


def test_wiped_sector_is_lost(image: Image) -> None:
    s = image.written()[1]

    def wipe(now: bytearray, before: bytearray) -> None:
        now[s * SECTOR : (s + 1) * SECTOR] = bytes(SECTOR)

    image.edit(wipe)
    code, out = image.check()
    assert code == 1
    assert re.search(rf"^(lost|stale): sector {s} holds zeroes", out, re.M), out


def test_other_runs_sector_is_foreign(image: Image, torture: Path, tmp_path: Path) -> None:
    other_dir = tmp_path / "other"
    other_dir.mkdir()
    other = Image(torture, other_dir, seed=99)
    theirs = bytearray(other.path.read_bytes())
    s = other.written()[0]

    def mingle(now: bytearray, before: bytearray) -> None:
        now[s * SECTOR : (s + 1) * SECTOR] = sector(theirs, s)

    image.edit(mingle)
    code, out = image.check()
    assert code == 1
    assert f"foreign: sector {s}" in out


def test_volatile_device_may_lose_what_was_not_flushed(image: Image) -> None:
    """The whole run rolled back loses on both; the last unflushed writes only on a stable one."""
    image.edit(lambda now, before: now.__setitem__(slice(None), before))
    assert image.check("stable")[0] == 1
    assert image.check("volatile")[0] == 1


def test_compare_names_the_sector(image: Image, torture: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copy(image.path, copy)
    done = run(torture, "compare", image.path, copy)
    assert (done.returncode, "differ 0" in done.stdout) == (0, True)
    s = image.written()[0]
    image.edit(lambda now, before: now.__setitem__(s * SECTOR, now[s * SECTOR] ^ 1))
    done = run(torture, "compare", image.path, copy)
    assert done.returncode == 1
    assert f"differ: sector {s}:" in done.stdout


def test_cut_control_is_written_at_the_instant(torture: Path, tmp_path: Path) -> None:
    control, device = tmp_path / "control", tmp_path / "device"
    control.write_text("")
    with open(device, "wb") as f:
        f.truncate(SECTORS * SECTOR)
    done = run(
        torture, "load", "--device", device, "--state", tmp_path / "s", "--seed", "1",
        "--cut-after-us", "20000", "--cut", f"{control}=3 77",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert control.read_text() == "3 77"
    assert re.search(r"^cut: issued \d+ acknowledged \d+", done.stdout, re.M)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["load", "--device", "x"], "an option is missing"),
        (["load", "--seed", "x"], "bad option or value"),
        (["load", "--depth", "65"], "bad option or value"),
        (["check", "--device", "x", "--state", "y", "--promise", "maybe"], "unknown command"),
        (["compare", "/nonexistent", "/nonexistent"], "/nonexistent: No such file"),
        (["check", "--device", "x", "--state", "/none", "--promise", "stable"], "/none: No such"),
    ],
)
def test_bad_use_is_told(torture: Path, words: list[str], message: str) -> None:
    done = run(torture, *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_truncated_state_is_refused(image: Image, torture: Path) -> None:
    end = Path(f"{image.state}.end")
    end.write_bytes(end.read_bytes()[:-100])
    done = run(torture, "check", "--device", image.path, "--state", end, "--promise", "stable")
    assert done.returncode == 2
    assert "is cut short" in done.stderr
