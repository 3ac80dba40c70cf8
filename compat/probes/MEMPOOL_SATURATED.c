// SPDX-License-Identifier: GPL-2.0-only
/* A mempool tells whether its reserve is full. */
#include <linux/mempool.h>

bool probe(mempool_t *pool);
bool probe(mempool_t *pool)
{
	return mempool_is_saturated(pool);
}
