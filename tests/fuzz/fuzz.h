/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a fuzz target offers: libFuzzer calls it (tests/fuzz/run), or replay.c, where the
 * compiler has no libFuzzer. It always starts from the same state, and any bytes are an input.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size);

/* Inputs that came to the end of what the target tries, so far: none means it is blind. */
extern unsigned long fuzz_accepted;

#endif
