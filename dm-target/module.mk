# SPDX-License-Identifier: GPL-2.0-only
# The loads that the mirror's scenarios run; static, for the labs' guests.
BINS += build/bin/mirror-load build/bin/scribble

build/bin/mirror-load build/bin/scribble: build/bin/%: dm-target/test/%.c dm-target/test/load.h \
		tests/torture/device.c tests/torture/device.h
	@mkdir -p $(@D)
	$(CC) -O2 -g -std=gnu11 -Wall -Wextra -Werror -static -Itests/torture -o $@ $(filter %.c,$^)

# Create and read the metadata on the legs; static, so that the labs' guests have it too.
LOCKSTEP_PURE := $(addprefix dm-target/,super.c life.c verdict.c growth.c tools/port.c)
LOCKSTEP_META := $(addprefix dm-target/tools/,lockstep-meta.c show.c make.c grow.c search.c device.c json.c)
BINS += build/bin/lockstep-meta
UNIT_TESTS += dm-target/tools/test

build/bin/lockstep-meta: $(LOCKSTEP_META) $(LOCKSTEP_PURE) $(wildcard dm-target/*.h dm-target/tools/*.h)
	@mkdir -p $(@D)
	$(CC) -O2 -g -std=gnu11 -Wall -Wextra -Werror -static -o $@ $(LOCKSTEP_META) $(LOCKSTEP_PURE)
