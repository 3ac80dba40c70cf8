// SPDX-License-Identifier: GPL-2.0-only
#include <linux/hash.h>
#include <linux/string.h>

#include "brought.h"

bool dcd_brought_has(const struct dcd_brought *b, u64 block)
{
	unsigned int bit = hash_64(block, DCD_BROUGHT_BITS);

	return test_bit(bit, b->bits[0]) || test_bit(bit, b->bits[1]);
}

void dcd_brought_add(struct dcd_brought *b, u64 block)
{
	unsigned int bit = hash_64(block, DCD_BROUGHT_BITS);

	if (__test_and_set_bit(bit, b->bits[0]) || ++b->n < DCD_BROUGHT_MOST)
		return;
	memcpy(b->bits[1], b->bits[0], sizeof(b->bits[1]));
	memset(b->bits[0], 0, sizeof(b->bits[0]));
	b->n = 0;
}
