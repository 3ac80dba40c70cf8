# SPDX-License-Identifier: GPL-2.0-only
"""Table lines, status lines and configuration files: read, changed, written, refused."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from lockstep import config, report, show, status, watch
from lockstep.config import Config
from lockstep.errors import Failed, Refused
from lockstep.table import OPTIONS, Table

KERNEL = Path(__file__).resolve().parents[2]


def line(words: str) -> status.Status:
    return status.parse(f"0 2097152 lockstep {words}")


@pytest.mark.parametrize(
    "text",
    [
        "0 100 lockstep 8:0 8:16",
        "0 100 lockstep 8:0 - 2 policy block",
        "0 100 lockstep 8:0 8:16 3 nosync policy error",
        "0 100 lockstep - 8:16 4 resync_rate 0 policy error",
    ],
)
def test_a_table_comes_back_as_it_was(text: str) -> None:
    assert Table.parse(text).line() == text


@pytest.mark.parametrize(
    "text", ["", "0 100 linear 8:0 0", "0 100 lockstep 8:0", "0 100 lockstep 8:0 8:1 2 policy",
             "0 x lockstep 8:0 8:1"]
)  # fmt: skip
def test_what_is_no_table_of_a_mirror(text: str) -> None:
    with pytest.raises(Failed):
        Table.parse(text)


def test_a_table_with_other_words() -> None:
    now = Table.parse("0 100 lockstep 8:0 8:16 4 policy block resync_jobs 2")
    then = now.with_device("remote", "8:32").with_options({"resync_jobs": "4"})
    assert then.line() == "0 100 lockstep 8:0 8:32 4 policy block resync_jobs 4"
    assert now.line().startswith("0 100 lockstep 8:0 8:16")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("AA 1024/1024 idle 0 0 block 0 0 0 0 together - 0 0 - 0", status.OK),
        ("AA 1024/1024 verify 0 0 block 0 0 0 0 together - 3 0 10/1024 0", status.OK),
        ("Aa 1000/1024 resync 0 0 degrade 0 24 0 0 together - 30 512 - 0", status.DEGRADED),
        ("AD 1000/1024 waiting 0 9 degrade 0 24 0 0 alone timeout 30 0 - 0", status.DEGRADED),
        ("A- 1000/1024 waiting 0 9 degrade 0 24 0 0 alone absent 30 0 - 0", status.DEGRADED),
        ("AD 1024/1024 idle 0 9 degrade 0 0 0 0 parting failed 0 0 - 0", status.DEGRADED),
        ("AD 1024/1024 idle 0 9 block 0 0 0 0 blocked failed 0 0 - 0", status.UNUSABLE),
        ("AD 1024/1024 idle 0 9 error 0 0 0 0 refusing failed 0 0 - 0", status.UNUSABLE),
        ("DD 1024/1024 idle 1 9 degrade 0 0 0 0 alone failed 0 0 - 0", status.UNUSABLE),
    ],
)
def test_exit_codes_as_mdadm_has_them(words: str, code: int) -> None:
    assert line(words).code == code


def test_progress_rate_and_time_left() -> None:
    now = line("Aa 768/1024 resync 0 3 degrade 0 256 0 1 together - 300 2048 - 0 7 8 9")
    assert (now.left_sectors, now.seconds_left) == (2097152 // 4, 128)
    assert now.counters["writes"] == 7
    assert now.errors == {"local": 0, "remote": 3}
    told = now.json()
    assert told["resync"] == {
        "rate_kib_s": 2048, "left_sectors": 524288, "seconds_left": 128, "held_back_by": None,
    }  # fmt: skip
    assert told["legs"]["remote"]["health"] == "stale"
    assert told["legs"]["remote"]["reason"] is None


def test_memory_comes_after_the_counters() -> None:
    counters = " ".join("0" for _ in status.COUNTERS)
    head = "AA 1/1 idle 0 0 degrade 0 0 0 0 together - 0 0 - 0"
    now = line(f"{head} {counters} yes 512/1024/3")
    assert (now.scatter, now.memory) == ("yes", status.Memory(512, 1024, 3))
    assert now.json()["memory"] == {"used_kib": 512, "limit_kib": 1024, "waiting": 3}
    assert "3 wait" in report.text_of("m", now, "0 1 lockstep - -", counters=False)
    assert line(f"{head} {counters} -").memory is None


def test_the_activity_log_comes_last() -> None:
    counters = " ".join("0" for _ in status.COUNTERS)
    head = f"AA 9/9 idle 0 0 degrade 0 0 0 0 together - 3 0 - 0 {counters} yes 512/1024/0 - -"
    now = line(f"{head} 12/4096/full")
    assert now.log == status.Log(12, 4096, True)
    assert now.json()["dirty_log"] == {"now_mib": 12, "most_mib": 4096, "full": True}
    told = report.text_of("m", now, "0 1 lockstep - -", counters=False)
    assert "12 MiB of 4 GiB to resync" in told and "waits for room" in told
    now = line(f"{head} 12/4096")
    assert now.log == status.Log(12, 4096, False)
    assert "to resync" not in report.text_of("m", now, "0 1 lockstep - -", counters=False)
    assert line(f"{head} -").log is None and line(head).log is None


def test_what_holds_a_resync_is_told_with_the_word_that_changes_it() -> None:
    counters = " ".join("0" for _ in status.COUNTERS)
    head = "Aa 768/1024 resync 0 3 degrade 0 256 0 1 together - 300 2048 - 0"
    for word, option in (("application", "resync_least="), ("rate", "resync_rate=")):
        now = line(f"{head} {counters} yes 512/1024/0 {word}")
        assert now.held_by == word
        assert option in report.text_of("m", now, "0 1 lockstep - -", counters=False)
    assert line(f"{head} {counters} yes 512/1024/0 -").held_by is None


@pytest.mark.parametrize(
    ("health", "silent", "says"),
    [
        ("aA", "remote", "it has what the other leg lacks"),
        ("DA", "remote", "it has what the other leg lacks"),
        ("AA", "local", "lockstep fail m local"),
        ("aA", "local,remote", "the local leg and the remote leg"),
    ],
)
def test_a_leg_that_is_waited_for_makes_the_mirror_unusable(
    health: str, silent: str, says: str
) -> None:
    counters = " ".join("0" for _ in status.COUNTERS)
    head = f"{health} 1000/1024 idle 0 0 degrade 24 0 0 0 together - 0 0 - 0 {counters} - 0/1/0 -"
    before, now = line(f"{head} -"), line(f"{head} {silent}")
    assert line(head).silent == before.silent == ()
    assert before.code != status.UNUSABLE
    assert now.code == status.UNUSABLE
    text = report.text_of("m", now, "0 1 lockstep - -", counters=False)
    assert "m: UNUSABLE: I/O waits for the " in text
    assert says in text
    told = now.json()["legs"]
    assert [leg for leg in ("local", "remote") if told[leg]["silent"]] == silent.split(",")
    legs = ", ".join(f"{leg} leg" for leg in silent.split(","))
    assert list(watch.changes(before, now)) == [("doesn't answer", "none", legs)]


def test_counters_of_a_newer_kernel_are_told_by_their_number() -> None:
    many = " ".join(str(n) for n in range(len(status.COUNTERS) + 2))
    now = line(f"AA 1/1 idle 0 0 degrade 0 0 0 0 together - 0 0 - 0 {many}")
    assert now.counters[f"counter_{len(status.COUNTERS) + 1}"] == len(status.COUNTERS)


def test_the_counters_are_those_of_the_kernel() -> None:
    head = (KERNEL / "status.h").read_text().split("#include")[0]
    told = re.search(r"counters in the order of\s+\*?\s*counters\.h:([\w\s*]+?)\n \*\n", head)
    assert told
    assert list(status.COUNTERS) == re.findall(r"\w+", told[1])
    assert len(status.COUNTERS) == (KERNEL / "counters.h").read_text().count("\n\tCOUNT_")


def test_the_options_are_those_of_the_kernel() -> None:
    known = re.findall(r'\{ "(\w+)", OPT_', (KERNEL / "table.c").read_text())
    assert set(known) - {"region_size", "sync", "nosync"} == set(OPTIONS)
    told = (KERNEL / "message.c").read_text()
    for name in known:
        if name in OPTIONS and OPTIONS[name].live:
            assert f'{{ "{name}", ' in told, name


def kernel_number(word: str) -> int:
    """A number of table.c, or the constant that it names."""
    if word.isdigit():
        return int(word)
    if word == "UINT_MAX / 2":
        return (1 << 31) - 1
    heads = "".join(head.read_text() for head in [*KERNEL.glob("*.h"), KERNEL / "table.c"])
    (found,) = set(re.findall(rf"#define {word}\s+\(?([\du* ]+)", heads))
    return math.prod(int(factor.strip(" u")) for factor in found.split("*"))


def option_of(field: str) -> str:
    """The option that is kept in a field of struct table_options."""
    leg = re.fullmatch(r"timeout\[LEG_(\w+)\]", field)
    return f"{leg[1].lower()}_timeout" if leg else field


def test_the_bounds_are_those_of_the_kernel() -> None:
    """A number that only the command takes makes a mirror that never starts."""
    source = (KERNEL / "table.c").read_text()
    found = re.findall(r"parse_number\(&o->([\w\[\]]+), value, (\w+), ([^)]+)\)", source)
    bounds = [(option_of(field), least, most) for field, least, most in found]
    numbers = {name for name, option in OPTIONS.items() if not option.values and not option.path}
    assert {name for name, _, _ in bounds} == numbers | {"region_size"}
    for name, least, most in bounds:
        if name in OPTIONS:
            want = (kernel_number(least), kernel_number(most))
            assert (OPTIONS[name].least, OPTIONS[name].most) == want, name


def test_the_defaults_are_those_of_the_kernel() -> None:
    source = (KERNEL / "table.c").read_text().split("void table_defaults")[1].split("\n}")[0]
    found = re.findall(r"\.([\w\[\]]+) = (\w+),", source)
    told = {option_of(field): value for field, value in found}
    assert len(told) > 3
    for name, option in OPTIONS.items():
        want = kernel_number(told.pop(name)) if name in told else 0
        assert option.usual == want, name
    assert not told
    text = re.sub(r"\s*\n \*\s*", " ", (KERNEL / "table.h").read_text())
    for name, option in OPTIONS.items():
        if option.values:
            part = text.split(f" {name} ")[1]
            assert f"{option.default} (default)" in part or f"{option.default} (default):" in part


def test_the_manual_tells_the_defaults_and_the_bounds() -> None:
    page = (KERNEL / "lockstep" / "lockstep.8").read_text().replace("\\-", "-")
    told = page.split(".SH OPTIONS OF A MIRROR")[1].split(".SH ")[0].split(".TP")
    for name, option in OPTIONS.items():
        (part,) = (one for one in told if f"\\fB{name}\\fR" in one.split("\n")[1])
        assert f"default \\fB{option.default}\\fR" in part, name
        for value in option.values:
            assert f"\\fB{value}\\fR" in part, (name, value)
        if not option.values and not option.path and name != "resync_rate":
            assert f"{option.least} to {option.most}" in part, name


@pytest.mark.parametrize(
    "words",
    ["AA 1/1 idle 0 0 degrade 0 0 0 0", "AA x/1 idle 0 0 degrade 0 0 0 0 together - 0 0 - 0"],
)
def test_a_status_that_is_not_understood(words: str) -> None:
    with pytest.raises(Failed):
        line(words)


def test_what_an_event_says() -> None:
    before = line("AA 1024/1024 idle 0 0 degrade 0 0 0 0 together - 0 0 - 0")
    after = line("AD 1000/1024 idle 0 9 degrade 0 24 0 0 alone timeout 9 0 - 0")
    assert list(watch.changes(before, after)) == [
        ("remote leg", "in sync", "dead"),
        ("standing", "together", "alone"),
        ("remote leg reason", "none", "timeout"),
    ]
    assert list(watch.changes(before, before)) == []
    assert list(watch.changes(before, None)) == [("mirror", "running", "stopped")]
    assert list(watch.changes(None, before)) == [("mirror", "stopped", "running")]


# --- configuration ---


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "FOLDER", tmp_path)
    return tmp_path


def test_a_configuration_comes_back_as_it_was(etc: Path) -> None:
    one = Config("m", "/dev/a", "/dev/b", "u", 'iqn."x"', "10.0.0.1:3260", 5, True,
                 {"policy": "block", "resync_rate": "100"})  # fmt: skip
    config.save(one)
    assert config.load("m") == one
    assert config.names() == ["m"]
    assert [file.name for file in etc.iterdir()] == ["m.toml"]


def test_a_change_keeps_what_somebody_wrote(etc: Path) -> None:
    text = (
        '# mine\nlocal = "/dev/a"  # the fast one\nremote = "/dev/b"\n\n[options]\n'
        'policy = "block"   # never alone\n# the end\n'
    )
    (etc / "m.toml").write_text(text)
    one = config.load("m")
    config.change(one.with_device("local", "/dev/c"))
    config.change(
        Config("m", "/dev/c", "/dev/b", wait=7, options={"policy": "error", "resync_jobs": "3"})
    )
    assert (etc / "m.toml").read_text() == (
        '# mine\nlocal = "/dev/c"  # the fast one\nremote = "/dev/b"\nwait = 7\n\n[options]\n'
        'policy = "error"   # never alone\n# the end\nresync_jobs = 3\n'
    )


def test_a_change_of_a_file_without_options(etc: Path) -> None:
    (etc / "m.toml").write_text('local = "/dev/a"\nremote = "/dev/b"\n')
    config.change(Config("m", "/dev/a", "/dev/b", options={"policy": "block"}))
    assert config.load("m").options == {"policy": "block"}


def test_a_file_that_cannot_be_changed_safely_is_not(etc: Path) -> None:
    text = "local = '/dev/a'\nremote = '/dev/b'\noptions = { policy = 'block' }\n"
    (etc / "m.toml").write_text(text)
    with pytest.raises(Failed, match="by hand"):
        config.change(Config("m", "/dev/a", "/dev/b", options={"policy": "error"}))
    assert (etc / "m.toml").read_text() == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('remote = "/dev/b"\n', "local is missing"),
        ('local = "/dev/a"\nremote = "/dev/b"\nlokal = 1\n', "no key lokal"),
        ('local = "/dev/a"\nremote = 2\n', "remote must be a str"),
        ('local = "/dev/a"\nremote = "/dev/b"\nwait = true\n', "wait must be a int"),
        ('local = "/dev/a"\nremote = "/dev/b"\n[options]\nregion = 1\n', "no option region"),
        ('local = "/dev/a"\nremote = "/dev/b"\n[options]\npolicy = "x"\n', "policy is 'x'"),
        (
            'local = "/dev/a"\nremote = "/dev/b"\n[options]\nresync_digests = "sdc"\n',
            "it must be a device's path, or - for none",
        ),
        ('local = "/dev/a\nremote = 1\n', "m.toml"),
    ],
)
def test_a_configuration_that_is_wrong(etc: Path, text: str, says: str) -> None:
    (etc / "m.toml").write_text(text)
    with pytest.raises(Refused, match=re.escape(says)):
        config.load("m")


def test_names() -> None:
    for good in ("m", "db-1", "a.b", "x" * 63):
        config.check_name(good)
    for bad in ("", "-m", ".m", "a/b", "a b", "x" * 64, "ä", "a\n"):
        with pytest.raises(Refused):
            config.check_name(bad)


def test_sizes_and_times() -> None:
    assert [show.size(n) for n in (1, 2, 2048, 3 << 20, 1 << 31)] == [
        "512 B", "1 KiB", "1 MiB", "1.5 GiB", "1 TiB",
    ]  # fmt: skip
    assert show.duration(3725) == "1:02:05"
    assert show.duration(90000) == "1 d 1:00:00"
    assert show.percent(1023, 1024) == "99.9 %"
    assert show.bar(0, 10).count("=") == 0
    assert show.bar(10, 10) == "[" + "=" * 24 + "]"
