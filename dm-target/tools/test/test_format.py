# SPDX-License-Identifier: GPL-2.0-only
"""Superblocks and map sectors: damaged, torn, arbitrary (format-test.c); and as bytes."""

import struct
import subprocess
from pathlib import Path

import metalab
import pytest
from metalab import HERE, SLOT, Meta, compile_c, crc32c

# Fixtures.
meta = metalab.meta
pair = metalab.pair
program = metalab.program


@pytest.fixture(scope="module")
def format_test(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c([HERE / "format-test.c"], tmp_path_factory.mktemp("format") / "format-test")


@pytest.mark.parametrize("what", ["slots", "refused", "moves", "maps", "layout", "fuzz"])
def test_promises(format_test: Path, what: str) -> None:
    done = subprocess.run([format_test, what], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_layout_is_what_the_header_draws(pair: Meta) -> None:
    """Read by offsets that are written down here once more: a format doesn't change by accident."""
    data = (pair.folder / "b").read_bytes()
    leg = pair.leg("b")
    assert len(data) == (4 << 20) + 8192 + 512
    start = len(data) // SLOT * SLOT - 2 * SLOT
    slot = data[start : start + SLOT]
    assert data[start + SLOT : start + 2 * SLOT] == slot
    assert crc32c(b"123456789") == 0xE3069283 ^ 0xFFFFFFFF
    assert struct.unpack_from("<II8s", slot) == (crc32c(slot[4:]), 2, b"LSTEPLG1")
    assert struct.unpack_from("<IIII", slot, 16) == (0, 0, 0, 0)
    assert struct.unpack_from("<QQ", slot, 32) == (start // 512, 1)
    assert slot[48:64].hex() == leg["set_uuid"].replace("-", "")
    assert slot[64:80].hex() == leg["leg_uuid"].replace("-", "")
    assert slot[80:144] == b"m".ljust(64, b"\0")
    assert struct.unpack_from("<QQ", slot, 144) == (leg["created"], leg["updated"])
    assert struct.unpack_from("<QQII", slot, 160) == (
        leg["data_len"], leg["map_start"], leg["map_sectors"], 11)  # fmt: skip
    assert struct.unpack_from("<II", slot, 184) == (1, 1)  # remote, SYNC
    epoch = int(leg["map_epoch"], 16)
    assert struct.unpack_from("<QQ", slot, 192) == (epoch, epoch)
    cur = (int(leg["cur"]["id"], 16), 1, 0)
    assert struct.unpack_from("<QII", slot, 208) == cur
    assert not any(slot[224:240])
    assert struct.unpack_from("<QIIQII", slot, 240) == (*cur, leg["created"], 1, 0)
    assert not any(slot[272:])
    # One page of bits, four of the activity log: empty, they look the same.
    assert leg["map_start"] * 512 == start - 5 * SLOT
    for i in range(40):
        at = start - 5 * SLOT + i * 512
        sector = data[at : at + 512]
        assert struct.unpack_from("<IIQ", sector) == (crc32c(sector[4:]), i, epoch)
        assert not any(sector[16:])
