# SPDX-License-Identifier: GPL-2.0-only
"""The command line. lockstep(8) is its manual."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

from . import (
    __version__,
    assembly,
    config,
    create,
    grow,
    legs,
    report,
    show,
    status,
    table,
    tune,
    watch,
)
from .errors import DONE, FAILED, Failed, Refused

_EPILOG = """\
exit codes: 0 done, 1 failed (the same may work later), 2 usage, 3 refused (needs a decision).
status: 0 both legs in sync, 1 degraded, 2 unusable or not running, 4 error.
"""
_DAY_S = 86400
# Between two looks of the monitor.
_LEAST_S = 0.1
Work = Callable[[argparse.Namespace], int | None]


def _alone(work: Work) -> Work:
    """One command at a time on a mirror. Not so those that only send a message, by which writes go
    on or fail: another one may be reading a leg that hangs (legs.fail looks again then)."""

    def locked(args: argparse.Namespace) -> int | None:
        with config.locked(args.name):
            return work(args)

    return locked


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="lockstep",
        description="Synchronous mirrors of a local and a remote block device.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"lockstep {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(word: str, what: str, work: Work) -> argparse.ArgumentParser:
        # No abbreviations: half of --force would be --force-local.
        one = commands.add_parser(word, help=what, description=what, allow_abbrev=False)
        one.set_defaults(work=work)
        return one

    _add_makers(add)
    _add_running(add)
    _add_looking(add)
    return top


Add = Callable[[str, str, Work], argparse.ArgumentParser]


def _yes(one: argparse.ArgumentParser) -> None:
    one.add_argument("-y", "--yes", action="store_true", help="don't ask")


def _force(one: argparse.ArgumentParser, what: str) -> None:
    one.add_argument("-f", "--force", action="store_true", help=what)


def _add_makers(add: Add) -> None:
    one = add("create", "make a mirror; REMOTE is overwritten", _alone(create.create))
    one.add_argument("name", metavar="NAME")
    one.add_argument("local", metavar="LOCAL", help="device at this site: its content is kept")
    one.add_argument("remote", metavar="REMOTE", help="device at the other site: it is overwritten")
    one.add_argument("--assume-clean", action="store_true", help="they are identical: copy nothing")
    one.add_argument("--keep-data", action="store_true", help="LOCAL's content is wanted")
    _force(one, "overwrite a REMOTE that carries anything")
    one.add_argument("--force-local", action="store_true",
                     help="LOCAL may lose its last sectors, whatever it carries")  # fmt: skip
    one.add_argument("--swapped", action="store_true",
                     help="LOCAL is reached over a network, REMOTE isn't: meant so")  # fmt: skip
    _yes(one)
    one.add_argument("--no-start", action="store_true", help="create only")
    one.add_argument("--region-size", metavar="SIZE", type=_sectors,
                     help="unit of the dirty map: a power of two from 32K, e.g. 4M")  # fmt: skip
    more = one.add_argument_group("options of the mirror, which `lockstep set` changes")
    for name, option in table.OPTIONS.items():
        what = option.what.replace("%", "%%")
        more.add_argument(f"--{name.replace('_', '-')}", dest=name, choices=option.values or None,
                          metavar="|".join(option.values) or ("DEVICE" if option.path else "N"),
                          help=f"{what} (default {option.default})")  # fmt: skip

    one = add("assemble", "start a mirror", assembly.assemble)
    one.add_argument("name", metavar="NAME", nargs="?")
    one.add_argument("--all", action="store_true", help="all that are configured")
    one.add_argument("--run", action="store_true", help="start, even if one leg isn't there")
    one.add_argument("--wait", metavar="S", type=_seconds, help="seconds to wait for the legs")
    one.add_argument(
        "--local", metavar="DEV", help="take over a mirror of another host; -: this leg isn't here"
    )
    one.add_argument("--remote", metavar="DEV", help="likewise")
    one.add_argument("--stay", action="store_true",
                     help="end with the mirror, stop it at SIGTERM; for its unit")  # fmt: skip
    one.add_argument("--log-lost", action="store_true",
                     help="a leg here is the disk below a DCD, and what only the DCD's log has may"
                     " be lost")  # fmt: skip
    _yes(one)

    one = add("stop", "take a mirror down", assembly.stop)
    one.add_argument("name", metavar="NAME", nargs="?")
    one.add_argument("--all", action="store_true", help="all that run")

    one = add("replace", "another disk for a leg; it is overwritten", _alone(create.replace_leg))
    one.add_argument("name", metavar="NAME")
    one.add_argument("leg", choices=table.LEGS)
    one.add_argument("device", metavar="DEVICE")
    _force(one, "overwrite a DEVICE that carries anything")
    one.add_argument("--lost", action="store_true",
                     help="what only the old leg has may be lost if it can't be asked")  # fmt: skip
    _yes(one)

    one = add("resolve", "end a split brain: keep one leg", _alone(assembly.resolve))
    one.add_argument("name", metavar="NAME")
    one.add_argument("--keep", choices=table.LEGS, required=True,
                     help="what was written only to the other one is lost")  # fmt: skip
    one.add_argument("--wait", metavar="S", type=_seconds, help="seconds to wait for the legs")
    _yes(one)

    one = add("grow", "the devices have become larger; running or stopped", _alone(grow.grow))
    one.add_argument("name", metavar="NAME")
    one.add_argument("--wait", metavar="S", type=_seconds, help="seconds to wait for the legs")
    _yes(one)

    one = add("wipe", "make a leg an ordinary device; its data stays", create.wipe)
    one.add_argument("device", metavar="DEVICE")
    _force(one, "even where the device's end was once, or what it says of a log")
    _yes(one)


def _add_running(add: Add) -> None:
    one = add("fail", "give a leg up", legs.fail)
    one.add_argument("name", metavar="NAME")
    one.add_argument("leg", choices=table.LEGS)

    one = add("re-add", "a dead leg is back, as the same or as another device", _alone(legs.re_add))
    one.add_argument("name", metavar="NAME")
    one.add_argument("leg", choices=table.LEGS, nargs="?")
    one.add_argument("--device", metavar="DEV", help="its name now")

    one = add("set", "change options, at once and for good", _alone(tune.set_options))
    one.add_argument("name", metavar="NAME")
    one.add_argument("pairs", metavar="KEY=VALUE", nargs="+",
                     help=f"{', '.join(table.OPTIONS)}, wait, start_alone")  # fmt: skip

    one = add("resync", "copy the local leg to the remote one again", _alone(legs.resync))
    one.add_argument("name", metavar="NAME")
    one.add_argument(
        "--full", action="store_true", help="everything, whatever the map says; needed"
    )

    one = add("verify", "compare the legs while they are in use", watch.verify)
    one.add_argument("what", choices=("start", "stop", "status"))
    one.add_argument("name", metavar="NAME")
    one.add_argument("--wait", action="store_true", help="start: until the end; exit 1 if unequal")
    one.add_argument("--check", action="store_true",
                     help="start: only tell what differs; without it the local leg's content is"
                     " copied there")  # fmt: skip
    one.add_argument("--json", action="store_true", help="status: for programs")

    one = add("unblock", "policy block: go on alone with the held writes", legs.unblock)
    one.add_argument("name", metavar="NAME")
    one = add("fail-held", "policy block: fail the held writes", legs.fail_held)
    one.add_argument("name", metavar="NAME")


def _add_looking(add: Add) -> None:
    one = add("status", "the state of mirrors", report.show_status)
    one.add_argument("names", metavar="NAME", nargs="*", help="all, if none is given")
    one.add_argument("--json", action="store_true", help="for programs")
    one.add_argument("-c", "--counters", action="store_true", help="and the counters")

    one = add("events", "a line for each change of state, until interrupted", watch.events)
    one.add_argument("names", metavar="NAME", nargs="*", help="all, if none is given")
    one.add_argument("--json", action="store_true", help="for programs")

    one = add("monitor", "events of a mirror, and give back a leg that has a new device",
              watch.monitor)  # fmt: skip
    one.add_argument("name", metavar="NAME")
    one.add_argument("--interval", metavar="S", type=_interval, default=10.0,
                     help="seconds between two looks for a missing leg")  # fmt: skip

    one = add("examine", "what a device's metadata says", report.examine)
    one.add_argument("devices", metavar="DEV", nargs="+")
    one.add_argument("--json", action="store_true", help="for programs")


def _seconds(text: str) -> float:
    # A number that is none would never be over.
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _DAY_S:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 to {_DAY_S}")
    return seconds


def _interval(text: str) -> float:
    seconds = _seconds(text)
    if seconds < _LEAST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is less than {_LEAST_S} s")
    return seconds


def _sectors(text: str) -> int:
    units = {"K": 2, "M": 2 << 10, "G": 2 << 20}
    number, unit = text[:-1], text[-1:].upper()
    if unit not in units or not number.isascii() or not number.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 512K, 4M or 1G")
    sectors = int(number) * units[unit]
    if sectors < 64 or sectors & (sectors - 1):
        raise argparse.ArgumentTypeError(f"{text!r} is no power of two from 32K")
    return sectors


def main(words: list[str] | None = None) -> int:
    with redirect_stdout(show.Safe(sys.stdout)), redirect_stderr(show.Safe(sys.stderr)):
        code = _main(words)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone. Python must not complain about that at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code or FAILED
    return code


def _main(words: list[str] | None) -> int:
    args = parser().parse_args(words)
    try:
        return args.work(args) or DONE
    except (Failed, Refused) as err:
        print(f"lockstep: {args.command}: {err}", file=sys.stderr)
        return status.ERROR if args.command == "status" else err.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return FAILED
    except OSError as err:
        print(f"lockstep: {args.command}: {err}", file=sys.stderr)
        return status.ERROR if args.command == "status" else FAILED
