# SPDX-License-Identifier: GPL-2.0-only
"""/backstores/dcd in targetcli."""

from __future__ import annotations

import functools
import stat
import sys
from types import ModuleType
from typing import Any

from .storage import PLUGIN


def register(targetcli: ModuleType) -> None:
    """`targetcli` is its module ui_backstore, which names its backstores in one method."""
    backstore = backstore_node(targetcli, object_node(targetcli))
    refresh = targetcli.UIBackstores.refresh

    @functools.wraps(refresh)
    def with_dcd(self: Any) -> None:
        refresh(self)
        backstore(self)

    targetcli.UIBackstores.refresh = with_dcd


def object_node(targetcli: ModuleType) -> Any:
    class UIDCDStorageObject(targetcli.UIStorageObject):  # type: ignore[misc, name-defined]
        def summary(self) -> tuple[str, bool]:
            so = self.rtsnode
            disks = f"{so.data}, log {so.log}, nvram {so.nvram}"
            if so.digests_of:
                disks = f"digests of {so.digests_of}"
            if not so.is_configured():
                return f"{disks} not enabled", False
            try:
                size = targetcli.bytes_to_human(so.size)
            except targetcli.RTSLibError:
                size = "size unknown"
            cache = "write-back" if so.write_back else "write-thru"
            broken = "" if so.healthy else " A DISK FAILS: see info"
            return f"{disks} ({size}) {cache} {so.status}{broken}", so.healthy

        def ui_command_info(self) -> None:
            """
            Displays the settings, and the engine's state and counters.
            """
            super().ui_command_info()
            for line in self.rtsnode.state:
                self.shell.log.info(line)

        def ui_command_grow(self) -> None:
            """
            Takes over the size of the data disk, which has become larger. The
            initiators are told, and find the new size with their next rescan.
            """
            self.assert_root()
            self.rtsnode.grow()
            size = targetcli.bytes_to_human(self.rtsnode.size)
            self.shell.log.info(f"dcd storage object {self.rtsnode.name} has {size} now.")

    return UIDCDStorageObject


def backstore_node(targetcli: ModuleType, node: Any) -> Any:
    # The storage object of the copy of rtslib that this targetcli works with.
    storage = sys.modules[targetcli.BlockStorageObject.__module__].DCDStorageObject

    class UIDCDBackstore(targetcli.UIBackstore):  # type: ignore[misc, name-defined]
        """
        DCD backstore UI.
        """

        def __init__(self, parent: Any) -> None:
            self.so_cls = node
            super().__init__(PLUGIN, parent)

        def ui_command_create(
            self,
            name: str,
            data: str | None = None,
            log: str | None = None,
            nvram: str | None = None,
            nvram_bytes: str | None = None,
            wwn: str | None = None,
            digests_of: str | None = None,
            grow: str | None = None,
            index_bytes: str | None = None,
            read_cache_bytes: str | None = None,
            busy_after_ms: str | None = None,
            scrub_kib: str | None = None,
            destage_idle_ms: str | None = None,
            destage_low: str | None = None,
            destage_high: str | None = None,
            destage_depth: str | None = None,
            destage_batch_kib: str | None = None,
        ) -> Any:
            """
            Creates a DCD storage object: NVRAM and a log disk in front of a data
            disk. They must have been formatted together by "dcd format"; nothing
            is formatted here.

            PARAMETERS
            ==========
            - data, log: paths of the disks, best from /dev/disk/by-id.
            - nvram: "pmem:/dev/pmem0" for persistent memory; "none" for none: a
              write is acknowledged when the log has it; "dram" for memory that a
              power cut empties: then the LUN says that its write cache is
              volatile; "dram:battery" for the same without saying so, for a host
              that never loses power. Whatever battery there is, a panic or a
              forced reset of this host loses acknowledged writes with it.
            - nvram_bytes: how much memory, with the units k, M, G, T. Left out:
              all of a pmem, 32M of dram.
            - wwn: the LUN's serial number. Left out: the set's uuid, so that a
              set formatted anew is another disk to who uses it. Another set's
              uuid is refused.
            - digests_of: alone, without disks: the name of another dcd object. It
              becomes that one's digest LUN, read-only, for a mirror's resync.
            - grow: 1, if the data disk has become larger than the log knows while
              this wasn't enabled: all of it is used. Without it such a disk is
              refused as a wrong one.
            - index_bytes: how much memory the index of the log may take, with the
              units k, M, G, T.
            - read_cache_bytes: how much memory the read cache may take, with the
              same units; 0: none.
            - busy_after_ms: a command that waits for longer is answered with BUSY;
              0: never.
            - scrub_kib: so many KiB of the log are checked in a second; 0: none.
            - destage_idle_ms: after so many milliseconds without a write the log
              is emptied to the data disk.
            - destage_low, destage_high: the log this full, in percent: it is
              emptied although there are writes; and they get slower in proportion,
              until its room lasts.
            - destage_depth: so many I/Os at a time and disk for that.
            - destage_batch_kib: memory for that, in KiB.
            """
            self.assert_root()
            numbers = {
                "nvram_bytes": nvram_bytes,
                "index_bytes": index_bytes,
                "read_cache_bytes": read_cache_bytes,
                "busy_after_ms": busy_after_ms,
                "scrub_kib": scrub_kib,
                "destage_idle_ms": destage_idle_ms,
                "destage_low": destage_low,
                "destage_high": destage_high,
                "destage_depth": destage_depth,
                "destage_batch_kib": destage_batch_kib,
            }
            for key, text in numbers.items():
                value = self.ui_eval_param(text, "string", None)
                units = value and key.endswith("_bytes")
                numbers[key] = targetcli.human_to_bytes(value) if units else value
            so = storage(
                name,
                data=self.ui_eval_param(data, "string", ""),
                log=self.ui_eval_param(log, "string", ""),
                nvram=self.ui_eval_param(nvram, "string", ""),
                **numbers,
                wwn=self.ui_eval_param(wwn, "string", None),
                digests_of=self.ui_eval_param(digests_of, "string", None),
                grow=self.ui_eval_param(grow, "string", None),
            )
            ui_so = node(so, self)
            self.setup_model_alias(so)
            used = so.data or f"the content of {so.digests_of}"
            self.shell.log.info(f"Created dcd storage object {name} using {used}.")
            return self.new_node(ui_so)

        def ui_complete_create(
            self, _parameters: dict[str, str], text: str, current_param: str
        ) -> list[str]:
            if current_param not in ("data", "log"):
                return []
            found: list[str] = targetcli.complete_path(text, stat.S_ISBLK) if text else []
            if len(found) == 1 and not found[0].endswith("/"):
                found = [found[0] + " "]
            return found

    return UIDCDBackstore
