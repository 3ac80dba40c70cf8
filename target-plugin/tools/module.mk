# SPDX-License-Identifier: GPL-2.0-only
# The command dcd; static, so that the labs' guests have it too.
DCD_PURE := $(addprefix target-plugin/,parse.c segment.c moves.c plan.c leg.c witness-pool.c) dm-target/super.c \
	dm-target/tools/port.c
DCD_TOOL := $(addprefix target-plugin/tools/,dcd.c format.c examine.c check.c dump.c recover.c retire.c salvage.c lost.c \
	wounded.c mark.c set.c set-text.c device.c progress.c) dm-target/tools/json.c
BINS += build/bin/dcd
UNIT_TESTS += target-plugin/tools/test

build/bin/dcd: $(DCD_TOOL) $(DCD_PURE) $(wildcard target-plugin/*.h target-plugin/tools/*.h dm-target/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -static -Wall -Wextra -Werror -o $@ $(DCD_TOOL) $(DCD_PURE)
