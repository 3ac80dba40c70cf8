# SPDX-License-Identifier: GPL-2.0-only
"""What the workloads make of their programs' words; the work itself runs in the lab."""

from __future__ import annotations

import pytest
from cell import times
from cell.workloads import fio, postmark, replay

# PostMark 1.53's report.
POSTMARK = """\
Time:
\t3 seconds total
\t2 seconds of transactions (150 per second)

Files:
\t251 created (83 per second)
\t\tCreation alone: 100 files (100 per second)
\t\tMixed with transactions: 151 files (75 per second)
\t147 read (73 per second)
\t153 appended (76 per second)
\t251 deleted (83 per second)
\t\tDeletion alone: 102 files (102 per second)
\t\tMixed with transactions: 149 files (74 per second)

Data:
\t607.14 kilobytes read (202.38 kilobytes per second)
\t1.50 megabytes written (0.50 megabytes per second)
"""


def test_postmarks_report_is_read() -> None:
    got = postmark.told(POSTMARK)
    assert got["files"] == {"created": 251, "read": 147, "appended": 153, "deleted": 251}
    assert got["transaction"]["count"] == 300
    assert got["bytes_read"] == round(607.14 * 1024)
    assert got["bytes_written"] == 3 << 19


def test_a_report_that_lacks_something_is_refused() -> None:
    for gone in ("appended", "kilobytes read"):
        with pytest.raises(AssertionError, match="doesn't tell"):
            postmark.told(POSTMARK.replace(gone, "lost"))


def test_times_are_ranked() -> None:
    got = times.told(list(range(1000, 0, -1)), 4096, 2.0)
    assert (got["p50_ns"], got["p99_ns"], got["p999_ns"], got["max_ns"]) == (500, 990, 999, 1000)
    assert got["min_ns"] == 1
    assert got["mean_ns"] == 500.5
    assert times.told([], 0, 1.0) == {"count": 0, "bytes": 0, "seconds": 1.0}


def test_fios_times_include_the_submission() -> None:
    """Of two writes of 5 and 7 ms in flight, whose submission waited for 1 and 3."""
    parts = {"50.000000": 6e6, "99.000000": 10e6, "99.900000": 10e6}
    side = {"total_ios": 2, "io_bytes": 8192, "runtime": 16, "clat_ns": {"mean": 6e6, "max": 7e6},
            "lat_ns": {"min": 6e6, "mean": 8e6, "max": 10e6, "percentile": parts}}  # fmt: skip
    got = fio.told({"write": side, "read": {"total_ios": 0}})
    assert list(got) == ["write"]
    assert (got["write"]["mean_ns"], got["write"]["max_ns"]) == (8e6, 10e6)
    assert (got["write"]["min_ns"], got["write"]["p99_ns"]) == (6e6, 10e6)


def test_fios_sizes() -> None:
    assert [fio.number(word) for word in ("512", "4k", "64K", "1m")] == [512, 4096, 65536, 1 << 20]


def test_batches_are_told_of_batches_only() -> None:
    side = {"issued": 1, "skipped": 2, "response": {"count": 1}}
    said = {"reads": dict(side), "writes": dict(side), "batches": {"count": 9}}
    assert "batch" not in replay.told({**said, "batch": 1})
    got = replay.told({**said, "batch": 8})
    assert got["batch"] == {"count": 9}
    assert got["writes_skipped"] == 2


def test_what_a_cache_learns_from_is_the_job_at_other_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[tuple[int, list[dict[str, object]]]] = []
    monkeypatch.setattr("locklab.fio.run", lambda _, *jobs, seed: ran.append((seed, list(jobs))))
    params = {"rw": "randread", "idle_s": 3, "before": [{}, {"rw": "read", "bs": "64k"}]}
    with fio.ready("/dev/x", params, 1):
        assert ran == [(2, [{"rw": "randread"}, {"rw": "read", "bs": "64k"}])]
    ran.clear()
    with fio.ready("/dev/x", {"rw": "randread"}, 1):
        assert not ran
