# SPDX-License-Identifier: GPL-2.0-only
"""`set`: options of a mirror, at once if it runs, and for every later start."""

from __future__ import annotations

import argparse
from dataclasses import replace

from . import config, digests, dm, table
from .errors import Failed, Usage

# Keys of the file that concern this command only.
_OWN = {"wait": int, "start_alone": bool}


def set_options(args: argparse.Namespace) -> None:
    own: dict[str, object] = {}
    asked: dict[str, object] = {}
    pairs = [pair.partition("=") for pair in args.pairs]
    for key, equals, value in pairs:
        if not equals:
            raise Usage(f"{key!r}: it must be KEY=VALUE")
        if key in _OWN:
            own[key] = _own(key, value)
        else:
            asked[key] = value
    options = digests.checked(table.check_options(asked))
    kept = config.load(args.name)
    new = replace(kept, options={**kept.options, **options}, **own)  # type: ignore[arg-type]
    running = dm.exists(args.name)
    if running:
        _change_running(kept, new, options)
    try:
        config.change(new)
    except Failed as err:
        counts = "It counts until the mirror stops. " if running and options else ""
        raise Failed(f"{err}. {counts}Mend that, and set it again") from err
    taken = [f"{key}={options.get(key, value)}" for key, _, value in pairs]
    print(f"{args.name}: {' '.join(taken)}")


def _change_running(kept: config.Config, new: config.Config, options: dict[str, str]) -> None:
    """By messages; if there is an option that has none, by a new table, which has them all. What
    the kernel has taken when it refuses one stays, and is kept: the file and the mirror agree."""
    dm.running(new.name)
    if not all(table.OPTIONS[key].live for key in options):
        now = table.Table.parse(dm.table(new.name))
        dm.reload(new.name, now.with_options(new.options).line())
        return
    done: dict[str, str] = {}
    for key, value in options.items():
        try:
            dm.message(new.name, f"{key} {value}")
        except Failed as err:
            config.change(replace(kept, options={**kept.options, **done}))
            counts = f"Set and kept: {_words(done)}. " if done else ""
            left = {key: value for key, value in options.items() if key not in done}
            raise Failed(f"{key}={value}: {err}. {counts}Not set: {_words(left)}") from err
        done[key] = value


def _words(options: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in options.items())


def _own(key: str, value: str) -> int | bool:
    if _OWN[key] is bool:
        if value not in ("true", "false"):
            raise Usage(f"{key} is {value!r}: it must be true or false")
        return value == "true"
    if not value.isascii() or not value.isdigit():
        raise Usage(f"{key} is {value!r}: it must be a number of seconds")
    return int(value)
