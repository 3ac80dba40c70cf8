# SPDX-License-Identifier: GPL-2.0-only
"""DCDStorageObject: a storage object of the LIO backstore `dcd`, for rtslib.

It is made for one copy of rtslib, as a subclass of that copy's StorageObject, and can then be had
as DCDStorageObject from that copy's module `tcm`. It obeys rtslib's unwritten contract:

- with `data` it creates and enables the configfs object, or leaves nothing behind; without, it is
  bound to the one that exists;
- cls(**dump()), less the keys that belong to rtslib, creates the same object again. Keys it
  doesn't know are ignored: versions of rtslib differ in what they add;
- every error is an RTSLibError.

The LUN's serial number is the set's uuid, if none is given. So a set that was formatted anew is
another disk to the primary, and one whose saved serial number is an earlier set's uuid is refused:
as the same disk it would get only what was missed since, and what was in the old log would be gone.

With `digests_of` it is the digest LUN of another dcd object, by its name; that one has to be there
when it is created, and either may be deleted first.

It formats nothing. The kernel refuses what isn't formatted, or doesn't belong together, and says
why in its log only: from there the reason is taken into the error.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

from .kernel_log import KernelLog

PLUGIN = "dcd"
MODULE = "target_core_dcd"
# Numbers that `control` takes besides; lun-settings.c has them all, with their ranges.
_TUNABLE = re.compile(r"(?:busy|destage|index|read_cache|scrub)_\w+")
# A 0 of these says the same as nothing, and the kernel takes no 0.
_LEFT_OUT = ("nvram_bytes", "index_bytes")
# Of dcd-format.h, struct dcd_super: magic, where its copies are, and the uuid in one.
_SUPER_MAGIC = b"DCCDGLB1"
_SUPER_COPIES = (0, 4096)
_SUPER_UUID = slice(32, 48)
# Of lockstep-digest.h: sectors of a block, its bytes and those of its digest.
_BLOCK_SECTORS, _BLOCK, _DIGEST = 8, 4096, 32


def module_loaded() -> bool:
    return Path("/sys/module", MODULE).is_dir()


def load_module() -> str:
    """Loads the kernel module if need be. Returns what went wrong, or nothing."""
    if module_loaded():
        return ""
    try:
        done = subprocess.run(
            ["modprobe", MODULE], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as err:
        return f"modprobe: {err.strerror}"
    if done.returncode == 0:
        return ""
    return " ".join(done.stderr.split()) or f"modprobe: exit code {done.returncode}"


def why_no_disk(path: str) -> str:
    """What makes `path` unfit as a disk, or nothing. The kernel judges the rest."""
    if not path.startswith("/"):
        return "not an absolute path"
    try:
        mode = os.stat(path).st_mode
    except OSError as err:
        return err.strerror or str(err)
    return "" if stat.S_ISBLK(mode) else "not a block device"


def log_uuids(path: str) -> set[str]:
    """Uuids in the superblocks of a log disk, valid or not; none if there is no such thing."""
    found = set()
    try:
        with open(path, "rb") as disk:
            for place in _SUPER_COPIES:
                disk.seek(place)
                head = disk.read(512)
                if head.startswith(_SUPER_MAGIC):
                    found.add(head[_SUPER_UUID].hex())
    except OSError:  # the kernel meets it too, and says more
        pass
    return found


def register(tcm: ModuleType) -> None:
    if PLUGIN in tcm.so_mapping:
        return
    tcm.DCDStorageObject = cls = storage_object(tcm)  # type: ignore[attr-defined]
    tcm.so_mapping[PLUGIN] = cls
    tcm.bs_params[cls] = {"name": PLUGIN}


def storage_object(tcm: ModuleType) -> Any:
    error: type[Exception] = tcm.RTSLibError

    class DCDStorageObject(tcm.StorageObject):  # type: ignore[misc, name-defined]
        """
        A disk-caching disk: NVRAM and a log disk in front of a data disk.

        @param name: The name of the storage object.
        @param data: The path of the data disk. Left out, an existing object is looked up.
        @param log: The path of the log disk, formatted by `dcd format`.
        @param nvram: pmem:/dev/pmemN, dram:battery or dram.
        @param nvram_bytes: How much of the NVRAM to use; 0: what its kind says.
        @param wwn: T10 WWN Unit Serial; the set's uuid, 32 hexadecimal digits, if None. Another
            set's is refused; anything else that isn't 32 such digits is taken as it is.
        @param digests_of: The name of a dcd object: this one shows its digests, and has no
            disks of its own. Its wwn is a random one if None.
        @param grow: The data disk may have become larger than the log knows: use all of it. Not
            saved; of one that is enabled it is the method grow().
        @param others: of these, the numbers that tune the DCD (index_bytes, destage_low, ...);
            what isn't given is the module's default.
        """

        def __init__(
            self,
            name: str,
            data: str | None = None,
            log: str | None = None,
            nvram: str | None = None,
            nvram_bytes: int | str | None = None,
            wwn: str | None = None,
            index: int | None = None,
            digests_of: str | None = None,
            grow: bool | int | str | None = None,
            **others: Any,
        ) -> None:
            if data is None and log is None and nvram is None and digests_of is None:
                super().__init__(name, "lookup", index)
                return
            numbers: dict[str, Any] = {"nvram_bytes": nvram_bytes}
            tuned = {key for key in others if _TUNABLE.fullmatch(key) and others[key] is not None}
            numbers |= {key: others[key] for key in sorted(tuned)}
            if digests_of:
                given = data or log or nvram or nvram_bytes or tuned
                settings = self._checked_view(name, digests_of, given)
            else:
                settings = self._checked(name, data, log, nvram, numbers)
                if grow and str(grow) != "0":
                    settings["grow"] = "1"
                # Opened, the set would write what its log has to the data disk: look before that.
                self._check_serial(name, wwn, log_uuids(settings["log"]))
            wrong = load_module()
            if wrong:
                raise error(
                    f"dcd {name}: the kernel module {MODULE} isn't loaded and can't be: {wrong}"
                )
            super().__init__(name, "create", index)
            try:
                self._configure(settings, wwn)
            except BaseException:
                self.delete()
                raise

        @staticmethod
        def _checked(
            name: str,
            data: str | None,
            log: str | None,
            nvram: str | None,
            numbers: dict[str, int | str | None],
        ) -> dict[str, str]:
            settings = {}
            for key, value in (("data", data), ("log", log), ("nvram", nvram)):
                if not value:
                    raise error(f"dcd {name}: {key}= is missing: data, log and nvram are needed")
                if re.search(r"[,\s]", value):
                    raise error(f"dcd {name}: {key}={value}: the kernel takes no comma or space")
                wrong = why_no_disk(value) if key != "nvram" else ""
                if wrong:
                    raise error(f"dcd {name}: {key}={value}: {wrong}")
                settings[key] = value
            for key, number in numbers.items():
                what = " of bytes" if key.endswith("_bytes") else ""
                try:
                    count = int(number or 0)
                except ValueError:
                    count = -1
                if count < 0:
                    raise error(f"dcd {name}: {key}={number}: not a number{what}")
                if count or key not in _LEFT_OUT:
                    settings[key] = str(count)
            return settings

        @staticmethod
        def _checked_view(name: str, digests_of: str, given: object) -> dict[str, str]:
            if given:
                raise error(
                    f"dcd {name}: digests_of={digests_of} can't be together with data, log, nvram "
                    "or any number: these are the other object's"
                )
            if re.search(r"[,\s]", digests_of):
                raise error(f"dcd {name}: digests_of={digests_of}: no comma or space is possible")
            return {"digests_of": digests_of}

        def _configure(self, settings: dict[str, str], wwn: str | None) -> None:
            self._check_self()
            log = KernelLog()
            try:
                # For those who look by path whether a disk is taken.
                if "data" in settings:
                    self._set_udev_path(settings["data"])
                self._put("control", ",".join(f"{key}={settings[key]}" for key in settings))
                self._put("enable", "1")
                if "data" in settings:
                    # Of two superblocks the kernel chose one.
                    self._check_serial(self.name, wwn, {self.set_uuid})
                    wwn = wwn or self.set_uuid
                super()._configure(wwn)
            except OSError as err:
                text = self._reason(log, err)
                raise error(f"dcd {self.name}: the kernel refuses it: {text}") from err
            finally:
                log.close()

        @staticmethod
        def _check_serial(name: str, wwn: str | None, uuids: set[str]) -> None:
            """`uuids`: that the set may have. If there is none it isn't a set: the kernel tells."""
            if not uuids or not re.fullmatch("[0-9a-fA-F]{32}", wwn or ""):
                return
            if str(wwn).lower() not in uuids:
                raise error(
                    f"dcd {name}: wwn={wwn}: that is the uuid of another set, this set is "
                    f"{' or '.join(sorted(uuids))}: a wrong disk, or formatted anew. As the same "
                    "LUN the primary would take it for in sync. If this set is the right one, "
                    "create it without wwn= (or by the Ansible role), and have the primary copy "
                    "everything to it"
                )

        def _put(self, file: str, text: str) -> None:
            # rtslib's own way writes twice when the first write fails.
            fd = os.open(f"{self.path}/{file}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)

        def _info(self) -> str:
            self._check_self()
            return Path(self.path, "info").read_text(encoding="utf-8", errors="replace")

        def _setting(self, key: str) -> str:
            found = re.search(rf"(?:^|[\s,]){key}=([^,\n]*)", self._info())
            return found.group(1) if found else ""

        @property
        def data(self) -> str:
            """The path of the data disk."""
            return self._setting("data")

        @property
        def log(self) -> str:
            """The path of the log disk."""
            return self._setting("log")

        @property
        def nvram(self) -> str:
            """Kind and place of the NVRAM."""
            return self._setting("nvram")

        @property
        def nvram_bytes(self) -> int:
            """Bytes of NVRAM asked for; 0 if none were."""
            return int(self._setting("nvram_bytes") or 0)

        @property
        def tunables(self) -> dict[str, int]:
            """The numbers that tune the DCD, as they are now; which, the kernel module says."""
            line = next((x for x in self._info().splitlines() if "data=" in x), "")
            pairs = (word.partition("=") for word in line.strip().split(","))
            return {key: int(value) for key, _, value in pairs if _TUNABLE.fullmatch(key)}

        @property
        def digests_of(self) -> str:
            """The name of the dcd object whose digests it shows; none: it is a disk itself."""
            return self._setting("digests_of")

        @property
        def write_back(self) -> bool:
            """Does the LUN say that it has a volatile write cache? By the NVRAM's kind, or with
            its battery failing.
            """
            failing = self._setting("battery") == "0"
            return self.nvram == "dram" or (failing and self.nvram == "dram:battery")

        @property
        def size(self) -> int:
            """Bytes of the LUN. A data disk that has grown since may have more: grow()."""
            found = re.search(r"\bdata_sectors (\d+)", self._info())
            if not found:
                raise error(f"dcd {self.name}: {self.path}/info doesn't tell its size")
            sectors = int(found.group(1))
            if not self.digests_of:
                return sectors * 512
            digests = sectors // _BLOCK_SECTORS * _DIGEST
            return _BLOCK + -(-digests // _BLOCK) * _BLOCK

        def grow(self) -> None:
            """Takes over the size of the data disk, which has become larger; its digest LUNs too.

            The initiators are told. Nothing happens if the size is the same.
            """
            self._check_self()
            log = KernelLog()
            try:
                self._put("control", "grow=1")
                for info in Path(self.path).parent.parent.glob(f"{PLUGIN}_*/*/info"):
                    told = info.read_text(encoding="utf-8", errors="replace")
                    if re.search(rf"^\s*digests_of={re.escape(self.name)}$", told, re.M):
                        self._put(f"../../{info.parent.relative_to(info.parents[2])}/control",
                                  "grow=1")  # fmt: skip
            except OSError as err:
                raise error(f"dcd {self.name}: grow: {self._reason(log, err)}") from err
            finally:
                log.close()

        def _reason(self, log: KernelLog, err: OSError) -> str:
            reasons = [text.removeprefix(f"{self.name}: ") for text in log.errors("dcd: ")]
            return "; ".join(reasons) or f"{err.strerror} (see the kernel's log)"

        @property
        def state(self) -> list[str]:
            """The engine's own words: state and counters. Nothing while it isn't enabled."""
            lines = [line.strip() for line in self._info().splitlines()]
            heads = ("data=", "digests_of=")
            after = [n for n, line in enumerate(lines) if line.startswith(heads)]
            return lines[after[0] + 1 :] if after else []

        @property
        def set_uuid(self) -> str:
            """What `dcd format` gave to log disk and NVRAM, as `dcd examine` writes it."""
            found = [line.split()[1] for line in self.state if line.startswith("uuid ")]
            if not found:
                raise error(f"dcd {self.name}: {self.path}/info doesn't tell the set's uuid")
            return found[0].replace("-", "").lower()

        @property
        def healthy(self) -> bool:
            """Enabled, no disk fails, and the log isn't damaged."""
            told = " ".join(self.state)
            return bool(told) and "FAIL" not in told and "DAMAGED" not in told

        def dump(self) -> dict[str, Any]:
            told: dict[str, Any] = super().dump()
            told["wwn"] = self.wwn
            # The data disk's: the kernel finds it out anew, and refuses what isn't so by then.
            if told.get("attributes", {}).get("unmap_zeroes_data"):
                del told["attributes"]["unmap_zeroes_data"]
            disks = ("data", "log", "nvram", "nvram_bytes", "write_back")
            for key in ("digests_of",) if self.digests_of else disks:
                told[key] = getattr(self, key)
            return told | self.tunables

    return DCDStorageObject
