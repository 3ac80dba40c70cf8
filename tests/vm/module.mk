# SPDX-License-Identifier: GPL-2.0-only
UNIT_TESTS += tests/vm/unit
