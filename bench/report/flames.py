# SPDX-License-Identifier: GPL-2.0-only
"""Flame graphs of folded call chains, as one SVG: a graph for each cell, under one another.

Ours, because nothing fits: d3-flame-graph (perf's `script report flamegraph`) isn't in the lab's
image and its page loads scripts from elsewhere, while a report here is files that stand for
themselves; PyPI has wrappers around programs that aren't there, or takes Python's profiles only.
The folded files are what inferno, flamegraph.pl and speedscope read.

Width is the share of the samples, the thread is at the bottom, its innermost function on top. A
rectangle's whole name and share are its title: open the picture by itself to see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree
from zlib import crc32

from cell import samples

WIDTH, ROW, HEAD = 1200.0, 15, 26
LEAST = 0.7  # a rectangle narrower than that isn't drawn
LETTER = 6.2
_COLOURS = {  # by class; what has none is of its name's own grey
    "copies": "#d9822b", "checksums": "#b56bd0", "network driver, sending": "#8fb34e",
    "interrupts": "#d2504b", "netem (the lab's wire)": "#b9c7a3", "iSCSI": "#4f8fd0",
    "lab's packet counters": "#b9c7a3",
    "SCSI": "#7fb2dd", "lab's disk model": "#c9bfae", "mirror: lockstep": "#e8c22c",
    "mirror: md": "#e8c22c", "mirror: dm-mirror, DRBD": "#e8c22c", "device mapper": "#f0dd8a",
    "TCP/IP and sockets": "#5cb89a", "block layer and direct I/O": "#9aa4d8",
    "scheduler": "#d8a3b5", "system calls": "#cfcfcf", "idle": "#eeeeee", "programs": "#b8b8b8",
}  # fmt: skip


@dataclass
class Node:
    name: str
    count: int = 0
    inner: dict[str, Node] = field(default_factory=dict)

    def depth(self) -> int:
        return 1 + max((one.depth() for one in self.inner.values()), default=0)


def tree(stacks: samples.Stacks) -> Node:
    root = Node("all")
    for stack, count in stacks.items():
        at = root
        at.count += count
        for frame in stack:
            at = at.inner.setdefault(frame, Node(frame))
            at.count += count
    return root


def draw(graphs: Mapping[str, samples.Stacks], picture: Path) -> bool:
    """By the cell's name."""
    roots = {name: tree(stacks) for name, stacks in graphs.items() if stacks}
    heights = {name: HEAD + ROW * root.depth() for name, root in roots.items()}
    svg = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", width=f"{WIDTH:g}",
        height=f"{sum(heights.values())}", style="background: #fff; font: 10px monospace",
    )  # fmt: skip
    top = 0
    for name, root in roots.items():
        _text(svg, 4, top + 16, f"{name}: {root.count} samples")
        bottom = top + heights[name]
        for node, x, width, level in _laid_out(root, 0.0, WIDTH, 0):
            _rectangle(svg, node, (x, bottom - ROW * (level + 1), width), root.count, level)
        top = bottom
    ElementTree.ElementTree(svg).write(picture, encoding="unicode")
    return bool(roots)


def _laid_out(
    node: Node, x: float, width: float, level: int
) -> Iterator[tuple[Node, float, float, int]]:
    yield node, x, width, level
    for _, one in sorted(node.inner.items()):
        share = width * one.count / node.count
        if share >= LEAST:
            yield from _laid_out(one, x, share, level + 1)
        x += share


def _rectangle(
    svg: ElementTree.Element, node: Node, at: Sequence[float], total: int, level: int
) -> None:
    x, y, width = at
    group = ElementTree.SubElement(svg, "g")
    title = ElementTree.SubElement(group, "title")
    title.text = f"{node.name}: {node.count} samples, {100 * node.count / total:.2f} %"
    ElementTree.SubElement(
        group, "rect", x=f"{x:.2f}", y=f"{y:g}", width=f"{max(width - 0.3, 0.3):.2f}",
        height=f"{ROW - 1}", fill=_colour(node.name) if level > 1 else "#e2e2e2", rx="1",
    )  # fmt: skip
    letters = int((width - 4) / LETTER)
    if letters >= 3:
        _text(group, x + 2, y + 11, node.name[:letters])


def _colour(frame: str) -> str:
    kind = samples.class_of(("", frame))
    grey = 0xC8 + crc32(frame.encode()) % 0x18
    return _COLOURS.get(kind, f"#{grey:02x}{grey:02x}{grey:02x}")


def _text(parent: ElementTree.Element, x: float, y: float, words: str) -> None:
    ElementTree.SubElement(parent, "text", x=f"{x:.2f}", y=f"{y:g}").text = words
