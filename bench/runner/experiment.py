# SPDX-License-Identifier: GPL-2.0-only
"""An experiment as data: bench/experiments/NAME.toml, and the cells that it stands for.

A cell is one stack, one workload, one seed: one boot of the lab. The cells of an experiment are all
configurations x all values of each axis x all seeds, in the file's order. A key of a configuration
beats the experiment's own, an axis beats both; `quick` beats all of them in a quick run.

Every error names the file and the key in it.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wires
from cell.caches import CACHES
from cell.disks import MEDIA
from cell.mirrors import MIRRORS, WITHOUT_ISCSI
from cell.order import LOCAL, NOWHERE, BadOrder, Order, stack
from pydantic import BaseModel, ConfigDict, ValidationError

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "bench/experiments"
WORKLOADS = TOP / "bench/cell/workloads"


class BadExperiment(ValueError):
    """The text says which file, which key, and what is wrong with it."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Paper(_Strict):
    """What of which paper it redoes: a file in report/published, and the figure or table."""

    name: str
    figure: str


class Configuration(_Strict):
    name: str
    stack: dict[str, Any] = {}
    params: dict[str, Any] = {}


class Quick(_Strict):
    """What is otherwise in a quick run. `only`: the configurations that are in it."""

    only: list[str] = []
    stack: dict[str, Any] = {}
    params: dict[str, Any] = {}
    axes: dict[str, list[Any]] = {}
    seeds: list[int] = []


class Experiment(_Strict):
    title: str
    about: str = ""
    differs: str = ""  # from the paper's set-up
    paper: Paper | None = None
    workload: str
    stack: dict[str, Any] = {}
    params: dict[str, Any] = {}
    configurations: list[Configuration]
    axes: dict[str, list[Any]] = {}  # "stack.remote" or "params.bs": values
    seeds: list[int] = [1]
    plot: list[str] = []  # names in report/plots.py
    long: bool = False  # not in `make bench`: hours
    patience: int = 900  # seconds of real time for one cell
    quick: Quick | None = None


@dataclass(frozen=True)
class Cell:
    experiment: str
    name: str  # the configuration's, with the axes' values
    order: Order
    patience: int

    @property
    def place(self) -> str:
        """Its folder."""
        words = f"{self.name} seed {self.order.seed}"
        return "".join(one if one.isalnum() or one in "-.=" else "-" for one in words)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def file_of(name: str) -> Path:
    """Of an experiment of the tree by its name, or of the user's own by its path."""
    if name.endswith(".toml"):
        return Path(name)
    path = FOLDER / f"{name}.toml"
    if not path.exists():
        raise BadExperiment(f"no experiment {name!r}; there are: {', '.join(names())}")
    return path


def load(name: str) -> Experiment:
    return read(file_of(name))


def read(path: Path) -> Experiment:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        one = Experiment.model_validate(table)
    except OSError as err:
        raise BadExperiment(f"{path}: {err.strerror}") from None
    except tomllib.TOMLDecodeError as err:
        raise BadExperiment(f"{path}: {err}") from None
    except ValidationError as err:
        first = err.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise BadExperiment(f"{path}: {key}: {first['msg']}") from None
    for quick in (False, True):
        list(_cells(path, one, quick))
    return one


def cells(name: str, quick: bool, seeds: list[int] | None = None) -> list[Cell]:
    """In the file's order. No quick form: none in a quick run."""
    return list(_cells(file_of(name), load(name), quick, seeds))


def _cells(
    path: Path, one: Experiment, quick: bool, seeds: list[int] | None = None
) -> Iterator[Cell]:
    if quick and one.quick is None:
        return
    short = one.quick if quick and one.quick else Quick()
    if not (WORKLOADS / f"{one.workload}.py").exists():
        there = sorted(file.stem for file in WORKLOADS.glob("*.py"))
        raise BadExperiment(f"{path}: workload: no {one.workload!r}; there are: {', '.join(there)}")
    known = [configuration.name for configuration in one.configurations]
    for name in short.only:
        if name not in known:
            raise BadExperiment(f"{path}: quick.only: no configuration {name!r}")
    axes = one.axes | short.axes
    for axis in axes:
        if axis.partition(".")[0] not in ("stack", "params") or "." not in axis:
            raise BadExperiment(f"{path}: axes: {axis!r} isn't stack.KEY or params.KEY")
    seen: set[tuple[str, int]] = set()
    for configuration in one.configurations:
        if short.only and configuration.name not in short.only:
            continue
        for values in itertools.product(*axes.values()):
            tables = {
                "stack": one.stack | configuration.stack | short.stack,
                "params": one.params | configuration.params | short.params,
            }
            name = configuration.name
            for axis, value in zip(axes, values, strict=True):
                part, _, key = axis.partition(".")
                tables[part][key] = value
                name += f" {key}={value}"
            where = f"{path}: configuration {name!r}"
            for seed in seeds or short.seeds or one.seeds:
                if (name, seed) in seen:
                    raise BadExperiment(f"{where}: twice")
                seen.add((name, seed))
                order = _order(where, one.workload, tables, seed)
                yield Cell(path.stem, name, order, one.patience)


def _order(where: str, workload: str, tables: Mapping[str, dict[str, Any]], seed: int) -> Order:
    try:
        built = stack(tables["stack"])
        for key, value, there in (
            ("software", built.software, MIRRORS), ("cache", built.cache, CACHES),
            ("media", built.media, MEDIA),
        ):  # fmt: skip
            if value not in there:
                raise BadOrder(f"stack: no {key} {value!r}; there are: {', '.join(there)}")
        if built.remote not in (LOCAL, NOWHERE):
            wires.load(built.remote)
        elif built.connections > 1 or built.cache != "none" or built.software in WITHOUT_ISCSI:
            raise BadOrder(
                f"stack: remote is {built.remote!r}, and several connections, a cache and "
                f"{', '.join(WITHOUT_ISCSI)} need a wire"
            )
        if built.connections > 1 and built.software in WITHOUT_ISCSI:
            raise BadOrder(f"stack: connections are of iSCSI, {built.software} has its own one")
    except (BadOrder, wires.UnknownWire) as err:
        raise BadExperiment(f"{where}: {err}") from None
    return Order(workload, built, tables["params"], seed)
