# SPDX-License-Identifier: GPL-2.0-only
"""The modelled disks that a stack stands on.

Their write caches are off: an answer means that the data are on the medium. A spindle is stretched
over the whole stroke, so that 512 MiB have the seeks of a full disk; a log disk isn't. With
`packed` none is: all of them are the outer end of theirs.
"""

from __future__ import annotations

from cell.order import BadOrder, Stack
from locklab import media

MEDIA = ("spindle", "packed", "ssd", "ram")


def disk(
    stack: Stack, name: str, mib: int, *, site: int = media.PRIMARY_SITE, stretched: bool = True
) -> str:
    if stack.media in ("spindle", "packed"):
        spread = "on" if stretched and stack.media == "spindle" else "off"
        return media.disk(name, mib, site=site, write_cache="off", spread=spread)
    if stack.media == "ssd":
        return media.disk(name, mib, "ssd", site=site, write_cache="off")
    if stack.media == "ram":
        return media.disk(name, mib, "null", site=site)
    raise BadOrder(f"stack: media {stack.media!r}; there are: {', '.join(MEDIA)}")
