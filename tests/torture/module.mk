# SPDX-License-Identifier: GPL-2.0-only
# The torture program, and the unit tests of its oracle (which build their own
# copies under the sanitizers).
TORTURE_SRC := $(addprefix tests/torture/,oracle.c sectors.c state.c device.c load.c check.c torture.c)

BINS += build/bin/torture
UNIT_TESTS += tests/torture

build/bin/torture: $(TORTURE_SRC) $(wildcard tests/torture/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -static -Wall -Wextra -Werror -o $@ $(TORTURE_SRC)
