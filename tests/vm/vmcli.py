# SPDX-License-Identifier: GPL-2.0-only
"""The command tests/vm/lab."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vmlab import DISK_MIB, STATE, Lab, LabError

EPILOG = """\
In the guests: /dev/disk/by-id/virtio-data on both, /dev/disk/by-id/virtio-log and /dev/pmem0 on the
mirror, link0 between them (10.9.0.1 primary, 10.9.0.2 mirror). The disks have a volatile write
cache. Consoles are in build/vm/HOST/console.log.
`make clean` wants the lab down. LAB_ACCEL=tcg or kvm overrides the choice.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/vm/lab",
        description="Two virtual hosts with Debian 13, primary and mirror, and the wire between.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--state", type=Path, default=STATE, metavar="DIR",
        help="another lab of this tree: build/vm-test is that of the tests (default build/vm)",
    )  # fmt: skip
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
    one = commands.add_parser("restore", help="back to the clean snapshot, with blank disks")
    one.add_argument("hosts", nargs="*", metavar="HOST", help="default: both")
    one = commands.add_parser("power-cut", help="a host loses its power, and boots again")
    one.add_argument("host")
    one.add_argument("--seed", type=int, default=1, help="decides which unflushed writes are left")
    one.add_argument(
        "--keep", choices=("none", "some", "all"), default="some",
        help="of the writes after a disk's last flush (default some, by the seed)",
    )  # fmt: skip
    one.add_argument("--stay-down", action="store_true", help="don't boot it again")
    one = commands.add_parser("boot", help="power on a host that is off")
    one.add_argument("host")
    one = commands.add_parser("wire", help="shape the link: a profile of tests/lab/wires.json")
    one.add_argument("profile")
    one.add_argument("--seed", type=int, default=1)
    commands.add_parser("push", help="copy build/modules and build/bin into both hosts")
    commands.add_parser("inventory", help="print the path of the Ansible inventory")
    return parser


def _run(args: argparse.Namespace, lab: Lab) -> int:
    if args.command == "up":
        lab.up(disk_mib=args.disk_mib)
    elif args.command == "down":
        lab.down()
    elif args.command == "restore":
        lab.restore(*args.hosts)
    elif args.command == "power-cut":
        lab.power_cut(args.host, seed=args.seed, keep=args.keep, stay_down=args.stay_down)
    elif args.command == "boot":
        lab.boot(args.host)
    elif args.command == "wire":
        lab.wire(args.profile, seed=args.seed)
    elif args.command == "push":
        lab.push()
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
        return _run(args, Lab(args.state))
    except LabError as err:
        print(f"lab: {err}", file=sys.stderr)
        return 1
