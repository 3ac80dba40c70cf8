# SPDX-License-Identifier: GPL-2.0-only
"""Makes rtslib and targetcli know the LIO backstore `dcd`, without a change to either.

Neither has a way to add a backstore, and both fail on a host that has one they don't know. So
lockstep-rtslib.pth has each Python program of the host import this module at its start. It then
waits for the modules in _PARTS: right after one of them is imported, the part of this package
named there adds what is ours to it. rtslib exists as `rtslib` and as `rtslib_fb`, which may be
two copies with tables of their own, both in one program: each gets its own.

A program that imports none of them sees nothing of this, whatever goes wrong; it pays for this
file and for one dictionary look-up for each module it imports. So nothing is imported here. A
program that does import them is told on stderr, in one line, if something went wrong.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_PARTS = {
    "rtslib.tcm": "storage",
    "rtslib_fb.tcm": "storage",
    "rtslib.root": "guard",
    "rtslib_fb.root": "guard",
    "targetcli.ui_backstore": "ui",
}
_searching: "set[str]" = set()


class _Finder:
    """Finds the modules of _PARTS as everybody else would, and adds a step to their loading."""

    @classmethod
    def find_spec(
        cls, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name not in _PARTS or name in _searching:
            return None
        # Another finder that asks the rest, like this one, must not get back here.
        _searching.add(name)
        try:
            for finder in sys.meta_path:
                search = getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = search(name, path, target) if search else None
                if spec is not None:
                    _add_step(spec)
                    return spec
        finally:
            _searching.discard(name)
        return None


def _add_step(spec: "ModuleSpec") -> None:
    loader = spec.loader
    try:
        load = loader.exec_module  # type: ignore[union-attr]

        def load_and_register(module: "ModuleType") -> None:
            load(module)
            _register(module)

        loader.exec_module = load_and_register  # type: ignore[method-assign, union-attr]
    except Exception as err:
        _complain(spec.name, err)


def _register(module: "ModuleType") -> None:
    try:
        part = __import__(f"{__name__}.{_PARTS[module.__name__]}", fromlist=["register"])
        part.register(module)
    except Exception as err:
        _complain(module.__name__, err)


def _complain(name: str, err: Exception) -> None:
    print(f"lockstep: {name} doesn't know the backstore dcd: {err!r}", file=sys.stderr)


def _install() -> None:
    sys.meta_path.insert(0, _Finder)
    # Imported by hand, without the .pth, some may already be there.
    for name in _PARTS:
        if name in sys.modules:
            _register(sys.modules[name])


_install()
