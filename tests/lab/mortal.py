# SPDX-License-Identifier: GPL-2.0-only
"""Programs that don't outlive whoever started them, however that ends: kill -9, too."""

from __future__ import annotations

from collections.abc import Sequence


def words(program: Sequence[str], signal: str) -> list[str]:
    """The program gets the signal when the thread that started it has gone."""
    return ["setpriv", "--pdeathsig", signal, "--", *program]
