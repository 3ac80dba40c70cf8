# SPDX-License-Identifier: GPL-2.0-only
"""The command tests/vm/lab."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from vmlab import DISK_MIB, Lab, LabError

EPILOG = """\
In the guests: /dev/disk/by-id/virtio-data on both, /dev/disk/by-id/virtio-log and /dev/pmem0 on the
mirror, link0 between them (10.9.0.1 primary, 10.9.0.2 mirror). The disks have a volatile write
cache. Consoles are in build/vm/HOST/console.log. LAB_ACCEL=tcg or kvm overrides the choice.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/vm/lab",
        description="Two virtual hosts with Debian 13, primary and mirror, and the wire between.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser("up", help="both hosts run and take ssh")
    one.add_argument(
        "--disk-mib", type=int, default=DISK_MIB, metavar="N",
        help=f"size of each data and log disk (default {DISK_MIB})",
    )  # fmt: skip
    commands.add_parser("down", help="end both hosts")
    commands.add_parser("status", help="what runs; exit code 0 when both hosts are ready")
    one = commands.add_parser("ssh", help="a command, or a shell, as root on a host")
    one.add_argument("host")
    one.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD")
    commands.add_parser("inventory", help="print the path of the Ansible inventory")
    return parser


def _run(args: argparse.Namespace, lab: Lab) -> int:
    if args.command == "up":
        lab.up(disk_mib=args.disk_mib)
    elif args.command == "down":
        lab.down()
    elif args.command == "status":
        return _status(lab)
    elif args.command == "ssh":
        machine = lab.machine(args.host)
        machine.check_alive()
        sys.stdout.flush()
        machine.shell.attach(args.words)
    elif args.command == "inventory":
        lab.machines()
        print(lab.inventory_path)
    return 0


def _status(lab: Lab) -> int:
    status = lab.status()
    for name, word in status.items():
        where = "" if word == "off" else f"  ssh port {lab.machine(name).shell.port}, {lab.accel}"
        print(f"{name:8} {word:8}{where}")
    return 0 if set(status.values()) == {"ready"} else 1


def main(argv: Sequence[str]) -> int:
    args = _parser().parse_args(argv)
    try:
        return _run(args, Lab())
    except LabError as err:
        print(f"lab: {err}", file=sys.stderr)
        return 1
