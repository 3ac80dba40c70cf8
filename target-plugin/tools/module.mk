# SPDX-License-Identifier: GPL-2.0-only
BINS += build/bin/dcd

build/bin/dcd: target-plugin/tools/dcd.c target-plugin/dcd-format.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -static -Wall -Wextra -Werror -o $@ $<
