// SPDX-License-Identifier: GPL-2.0-only
#include <linux/hash.h>
#include <linux/string.h>

#include "hot.h"

static bool is_in(unsigned long bits[2][BITS_TO_LONGS(BIT(DCD_HOT_BITS))], u64 block)
{
	unsigned int bit = hash_64(block, DCD_HOT_BITS);

	return test_bit(bit, bits[0]) || test_bit(bit, bits[1]);
}

bool dcd_hot_knows(struct dcd_hot *h, u64 block)
{
	return is_in(h->once, block);
}

bool dcd_hot_is(struct dcd_hot *h, u64 block)
{
	return is_in(h->again, block);
}

void dcd_hot_brought(struct dcd_hot *h, u64 block)
{
	unsigned int bit = hash_64(block, DCD_HOT_BITS);

	if (dcd_hot_knows(h, block))
		__set_bit(bit, h->again[0]);
	if (__test_and_set_bit(bit, h->once[0]) || ++h->n < DCD_HOT_MOST)
		return;
	memcpy(h->once[1], h->once[0], sizeof(h->once[1]));
	memcpy(h->again[1], h->again[0], sizeof(h->again[1]));
	memset(h->once[0], 0, sizeof(h->once[0]));
	memset(h->again[0], 0, sizeof(h->again[0]));
	h->n = 0;
}
