# SPDX-License-Identifier: GPL-2.0-only
"""How a command ends other than well. The text says what was wrong, where, and what to do."""

from __future__ import annotations

DONE, FAILED, USAGE, REFUSED = 0, 1, 2, 3


class Failed(Exception):
    """It didn't work; the same command may work later."""

    code = FAILED


class Refused(Exception):
    """It needs somebody's decision; time won't mend it."""

    code = REFUSED


class Usage(Refused):
    """The words of the command line don't go together."""

    code = USAGE
