# SPDX-License-Identifier: GPL-2.0-only
"""The manual and the completion know every command and option that there is, and no other."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from lockstep import main, table

HERE = Path(__file__).resolve().parents[1]


def commands() -> dict[str, argparse.ArgumentParser]:
    for action in main.parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("no subcommands")


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (word for word in action.option_strings if word.startswith("--"))


def sections() -> dict[str, str]:
    """What the manual says of each command, under its own head."""
    text = (HERE / "lockstep.8").read_text().replace("\\-", "-")
    told = text.split(".SH COMMANDS")[1].split(".SH ")[0]
    found = {}
    for part in told.split("\n.TP\n")[1:]:
        head, _, body = part.partition("\n")
        for name in re.findall(r"(?:^|, )\\fB([\w-]+)", head.split("\\fI")[0]):
            found[name] = f"{head}\n{body}"
    return found


# `resolve` says it for both; a section that is told together with another one.
_ELSEWHERE = {("grow", "--wait"), ("grow", "--yes")}


def test_the_manual_has_every_command_and_option() -> None:
    told = sections()
    text = (HERE / "lockstep.8").read_text().replace("\\-", "-")
    assert set(told) == set(commands())
    for name, parser in commands().items():
        assert re.search(rf"^\\fBlockstep [a-z\\|fBR-]*{name}\b", text, re.M), f"{name}: synopsis"
        for option in options(parser):
            known = option.removeprefix("--").replace("-", "_") in table.OPTIONS
            if option == "--help" or known or (name, option) in _ELSEWHERE:
                continue
            assert f"\\fB{option}\\fR" in told[name], f"{name} {option}"
    for name in table.OPTIONS:
        assert f"\\fB{name}\\fR" in text, name


def test_every_command_tells_its_options() -> None:
    for name, parser in {"lockstep": main.parser(), **commands()}.items():
        told = parser.format_help()
        assert all(option in told for option in options(parser)), name


def test_the_completion_has_every_command_and_option() -> None:
    text = (HERE / "completion/lockstep").read_text()
    top = re.search(r"words='(create .*?)'", text, re.S)
    assert top
    assert {word for word in top[1].split() if word[0] != "-"} == set(commands())
    cases = dict(re.findall(r"^\t([a-z| -]+)\)\s+words='(--.*?)'", text, re.M | re.S))
    told = {}
    for names, words in cases.items():
        told.update({name: set(words.split()) for name in names.split(" | ")})
    for name, parser in commands().items():
        assert set(options(parser)) - {"--help"} == told.get(name, set()), name


def test_the_completion_knows_what_can_be_set() -> None:
    text = (HERE / "completion/lockstep").read_text()
    found = re.search(r"set:\*\)\s+words='(.*?)'", text, re.S)
    assert found
    words = {word.rstrip("=") for word in found[1].split()}
    assert words == {*table.OPTIONS, "wait", "start_alone"}
