# SPDX-License-Identifier: GPL-2.0-only
"""Keeps rtslib from forgetting saved dcd objects that it can't see or can't restore yet.

Without the kernel module (a new kernel, say) no dcd object exists, restoring skips them, and the
next save, which targetcli does by itself when it is left, would write a file without them. So
while the module isn't loaded, a file that names dcd objects isn't overwritten.

A digest LUN can only be restored after the object that it is of; they are saved in any order.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from .storage import MODULE, PLUGIN, module_loaded


def saved_objects(path: str) -> list[str]:
    """Names of the dcd objects in a saved configuration; none if it isn't one."""
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
        return [so["name"] for so in saved["storage_objects"] if so["plugin"] == PLUGIN]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def register(root: ModuleType) -> None:
    save = root.RTSRoot.save_to_file

    @functools.wraps(save)
    def save_to_file(self: Any, save_file: str | None = None, *args: Any, **more: Any) -> Any:
        path = save_file or root.default_save_file
        names = [] if module_loaded() else saved_objects(path)
        if names:
            raise root.RTSLibError(
                f"{path} is not overwritten: it has the dcd storage objects {', '.join(names)}, "
                f"which can't be there now, because the kernel module {MODULE} isn't loaded. "
                f"Load it and restore {path}; or move that file away"
            )
        return save(self, save_file, *args, **more)

    root.RTSRoot.save_to_file = save_to_file
    restore = root.RTSRoot.restore

    @functools.wraps(restore)
    def restore_in_order(self: Any, config: dict[str, Any], *args: Any, **more: Any) -> Any:
        objects = config.get("storage_objects")
        if objects:
            later = sorted(objects, key=lambda so: bool(so.get("digests_of")))
            config = {**config, "storage_objects": later}
        return restore(self, config, *args, **more)

    root.RTSRoot.restore = restore_in_order
