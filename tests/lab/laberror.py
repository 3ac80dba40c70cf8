# SPDX-License-Identifier: GPL-2.0-only
"""The one error of the VM lab."""


class LabError(Exception):
    """The lab can't do what was asked; the message names the host or file and what to do."""
