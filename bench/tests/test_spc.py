# SPDX-License-Identifier: GPL-2.0-only
"""Traces: what a line may be, what is refused and how, the layout, the generator's statistics."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from traces import convert, generate, models, named, spc

GOOD = "0,100,3584,w,0.000000\n1,5,512,R,0.5\n0,107,1000,W,0.5,extra\n"


def a_trace(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "t.spc"
    path.write_text(text, encoding="ascii")
    return path


def test_reads_plain_and_xz(tmp_path: Path) -> None:
    want = [
        spc.Request(0, 100, 3584, True, 0),
        spc.Request(1, 5, 512, False, 500_000_000),
        spc.Request(0, 107, 1000, True, 500_000_000),
    ]
    assert spc.read(a_trace(tmp_path, GOOD)) == want
    packed = tmp_path / "t.spc.xz"
    packed.write_bytes(lzma.compress(GOOD.encode()))
    assert spc.read(packed) == want
    assert spc.read(packed, 2) == want[:2]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("0,100,3584,w", "4 fields"),
        ("0,x,512,w,1", "LBA 'x'"),
        ("0,-1,512,w,1", "LBA '-1'"),
        ("0,1,0,w,1", "size 0"),
        ("0,1,99999999,w,1", "size 99999999"),
        ("0,1,512,d,1", "opcode 'd'"),
        ("0,1,512,w,nan", "timestamp 'nan'"),
        ("0,1,512,w,-1", "timestamp '-1'"),
        ("0,1,512,w,0.1", "earlier than the line before"),
        ("", "1 fields"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    path = a_trace(tmp_path, GOOD + line + "\n")
    with pytest.raises(spc.BadTrace) as error:
        spc.read(path)
    assert f"{path}: line 4: " in str(error.value)
    assert says in str(error.value)


def test_truncated_plain_file_is_refused(tmp_path: Path) -> None:
    # "0.5" cut from "0.512345" is a number: only the missing newline tells.
    with pytest.raises(spc.BadTrace, match=r"line 4: .*truncated"):
        spc.read(a_trace(tmp_path, GOOD + "0,1,512,w,0.5"))


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress, gzip.compress])
def test_truncated_packed_file_is_refused_at_every_length(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    suffix = {lzma.compress: "xz", bz2.compress: "bz2", gzip.compress: "gz"}[pack]
    whole = pack(GOOD.encode())
    path = tmp_path / f"t.spc.{suffix}"
    path.write_bytes(whole)
    assert len(spc.read(path)) == 3
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(spc.BadTrace, match=rf"t\.spc\.{suffix}"):
            spc.read(path)
    path.write_bytes(b"0,1,512,w,0.5\n" * 9)
    with pytest.raises(spc.BadTrace, match=rf"t\.spc\.{suffix}"):
        spc.read(path)


def test_missing_and_empty_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(spc.BadTrace, match=r"no\.spc: No such file"):
        spc.read(tmp_path / "no.spc")
    with pytest.raises(spc.BadTrace, match="empty"):
        spc.read(a_trace(tmp_path, ""))


def test_places_asus_side_by_side(tmp_path: Path) -> None:
    placed = spc.place(spc.read(a_trace(tmp_path, GOOD)), 1024)
    assert [(one.sector, one.sectors) for one in placed] == [(100, 7), (512 + 5, 1), (107, 2)]


def test_folds_what_lies_beyond_a_share() -> None:
    far = spc.Request(0, 64 + 63, 1024, True, 0)  # would end one sector behind the share
    assert spc.place([far], 64) == [spc.Placed(62, 2, True, 0)]
    with pytest.raises(spc.BadTrace, match="record 1: 65536 bytes don't fit"):
        spc.place([spc.Request(0, 0, 65536, True, 0)], 64)


def test_converter_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    bad = a_trace(tmp_path, "0,1,512,q,0\n")
    assert convert.main([str(bad), str(out), "--sectors", "1024"]) == 1
    assert "line 1: opcode 'q'" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("name", sorted(models.MODELS))
def test_generator_has_the_published_characteristics(name: str) -> None:
    told = models.MODELS[name].published
    got = spc.statistics(generate.requests(name, 30_000, 1))
    assert got.requests / got.seconds == pytest.approx(told.rate, rel=0.01)
    assert got.writes / got.requests == pytest.approx(told.writes / told.requests, abs=0.03)
    assert got.mean_bytes == pytest.approx(told.mean, rel=0.05)
    assert got.mean_write_bytes == pytest.approx(told.mean_write, rel=0.05)
    assert got.largest_bytes <= told.largest


def test_generated_financial_1_is_like_the_real_slice() -> None:
    # Measured on the first 10,000 records: 45.4 %, 45.2 %, 53.8 %.
    got = spc.statistics(generate.requests("financial-1", 30_000, 1))
    assert got.same_instant == pytest.approx(0.454, abs=0.05)
    assert got.sequential == pytest.approx(0.452, abs=0.08)
    assert got.rewritten == pytest.approx(0.538, abs=0.1)
    assert got.cv_gap > 2


def test_a_whole_trace_has_its_giants(monkeypatch: pytest.MonkeyPatch) -> None:
    # As many as in 2,452,167 records, in a trace a hundred times shorter.
    short = dataclasses.replace(models.FINANCIAL_1.published, requests=24_000, writes=14_700)
    model = dataclasses.replace(models.FINANCIAL_1, published=short, giants=1e-3)
    monkeypatch.setitem(cast(dict[str, models.Model], models.MODELS), "financial-1", model)
    sizes = [one.size for one in generate.requests("financial-1", 24_000, 3)]
    assert sizes.count(17_116_160) == 1
    assert sum(size > 64 << 10 for size in sizes) == pytest.approx(14.7, abs=10)
    assert all(size % 512 == 0 and 0 < size <= spc.MAX_BYTES for size in sizes)


def test_generator_is_a_function_of_the_seed(tmp_path: Path) -> None:
    one = list(generate.requests("financial-1", 500, 7))
    assert list(generate.requests("financial-1", 500, 7)) == one
    assert list(generate.requests("financial-1", 500, 8)) != one
    spc.write(tmp_path / "t.spc", one)
    assert spc.read(tmp_path / "t.spc") == one


def test_published_figures_stand_beside() -> None:
    text = "\n".join(generate.beside("tpcc20", spc.statistics(generate.requests("tpcc20", 99, 1))))
    assert "10000000" in text
    assert "47063" in text
    assert "not from Table 1: " in text


def test_a_trace_is_named_or_a_file(tmp_path: Path) -> None:
    sectors = 512 << 11
    for trace in ("financial-2", str(a_trace(tmp_path, GOOD))):
        one = named.source(trace, 3)
        got = named.prepare(one, sectors, tmp_path / "out.bin")
        want = spc.pack(spc.place(list(one.requests()), sectors)) if "/" in trace else None
        assert got.requests == 3
        assert want is None or (tmp_path / "out.bin").read_bytes() == want
    with pytest.raises(spc.BadTrace, match="no such file; traces have the names financial-1,"):
        named.source("financial-9")


def test_the_users_own_trace_takes_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = a_trace(tmp_path, GOOD)
    monkeypatch.setenv("TRACE", f"financial-2={own}")
    assert named.source("financial-2").path == own
    assert named.source("financial-1").path is None
    monkeypatch.setenv("TRACE", str(own))
    assert named.source("financial-1", 2).path == own
    first = named.laid_out("financial-1", 2, 64, tmp_path)
    assert named.laid_out("financial-1", 2, 64, tmp_path) == first
    a_trace(tmp_path, GOOD.replace("3584", "4096"))
    assert named.laid_out("financial-1", 2, 64, tmp_path).sha256 != first.sha256


def test_ideal_pipe() -> None:
    # 1000 bytes take 8 ms at 1 Mbit/s; the second write waits for the first, the read for nothing.
    burst = [
        spc.Request(0, 0, 1000, True, 0),
        spc.Request(0, 0, 1000, False, 0),
        spc.Request(0, 0, 1000, True, 0),
    ]
    pipe = spc.ideal_pipe(burst, 1e6, 0.010)
    assert (pipe.p50, pipe.longest) == pytest.approx((0.018, 0.026))
    assert pipe.mean == pytest.approx(0.022)
