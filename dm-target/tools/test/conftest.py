# SPDX-License-Identifier: GPL-2.0-only
from metalab import life_driver, meta, pair, program

__all__ = ["life_driver", "meta", "pair", "program"]
