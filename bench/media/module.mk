# SPDX-License-Identifier: GPL-2.0-only
UNIT_TESTS += bench/media/test
