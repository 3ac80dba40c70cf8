# SPDX-License-Identifier: GPL-2.0-only
# The trace replayer, and the tests of traces and replayer (which build their own
# copy of it under the sanitizers).
REPLAY_SRC := $(addprefix bench/replay/,replay.c summary.c trace-file.c bins.c)

BINS += build/bin/replay
UNIT_TESTS += bench/tests

build/bin/replay: $(REPLAY_SRC) $(wildcard bench/replay/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -static -Wall -Wextra -Werror -o $@ $(REPLAY_SRC)
