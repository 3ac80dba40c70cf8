// SPDX-License-Identifier: GPL-2.0-only
/* A shrinker is allocated by the kernel, and has a pointer for its owner. */
#include <linux/shrinker.h>

void *probe(void);
void *probe(void)
{
	return shrinker_alloc(0, "probe")->private_data;
}
