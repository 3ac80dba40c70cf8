# SPDX-License-Identifier: GPL-2.0-only
from fakes import host

__all__ = ["host"]
