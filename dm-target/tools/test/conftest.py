# SPDX-License-Identifier: GPL-2.0-only
from metalab import meta, pair, program

__all__ = ["meta", "pair", "program"]
