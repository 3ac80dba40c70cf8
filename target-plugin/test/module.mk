# SPDX-License-Identifier: GPL-2.0-only
UNIT_TESTS += target-plugin/test
