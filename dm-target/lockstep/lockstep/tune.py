# SPDX-License-Identifier: GPL-2.0-only
"""`set`: options of a mirror, at once if it runs, and for every later start."""

from __future__ import annotations

import argparse
from dataclasses import replace

from . import config, dm, table
from .errors import Refused

# Keys of the file that concern this command only.
_OWN = {"wait": int, "start_alone": bool}


def set_options(args: argparse.Namespace) -> None:
    own: dict[str, object] = {}
    asked: dict[str, object] = {}
    for pair in args.pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise Refused(f"{pair!r}: it must be KEY=VALUE")
        if key in _OWN:
            own[key] = _own(key, value)
        else:
            asked[key] = value
    options = table.check_options(asked)
    kept = config.load(args.name)
    new = replace(kept, options={**kept.options, **options}, **own)  # type: ignore[arg-type]
    if dm.exists(args.name):
        _change_running(new, options)
    config.change(new)
    print(f"{args.name}: {' '.join(args.pairs)}")


def _change_running(new: config.Config, options: dict[str, str]) -> None:
    """By messages; if there is an option that has none, by a new table, which has them all."""
    dm.running(new.name)
    if all(table.OPTIONS[key].live for key in options):
        for key, value in options.items():
            dm.message(new.name, f"{key} {value}")
    else:
        now = table.Table.parse(dm.table(new.name))
        dm.reload(new.name, now.with_options(new.options).line())


def _own(key: str, value: str) -> int | bool:
    if _OWN[key] is bool:
        if value not in ("true", "false"):
            raise Refused(f"{key} is {value!r}: it must be true or false")
        return value == "true"
    if not value.isascii() or not value.isdigit():
        raise Refused(f"{key} is {value!r}: it must be a number")
    return int(value)
