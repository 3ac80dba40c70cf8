# SPDX-License-Identifier: GPL-2.0-only
# The loads that the mirror's scenarios run; static, for the labs' guests.
BINS += build/bin/mirror-load build/bin/scribble

build/bin/mirror-load build/bin/scribble: build/bin/%: dm-target/test/%.c
	@mkdir -p $(@D)
	$(CC) -O2 -g -std=gnu11 -Wall -Wextra -Werror -static -o $@ $<
