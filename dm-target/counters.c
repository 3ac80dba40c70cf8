// SPDX-License-Identifier: GPL-2.0-only
#include <linux/cpumask.h>
#include <linux/errno.h>

#include "counters.h"

int counters_create(struct counters *c)
{
	c->cpu = __alloc_percpu(COUNTERS * sizeof(u64), sizeof(u64));
	return c->cpu ? 0 : -ENOMEM;
}

void counters_destroy(struct counters *c)
{
	free_percpu(c->cpu);
	c->cpu = NULL;		/* who counts after this is to be seen */
}

void counters_reset(struct counters *c)
{
	int cpu;

	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(c->cpu, cpu), 0, COUNTERS * sizeof(u64));
}

u64 counters_sum(const struct counters *c, enum counter which)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(c->cpu, cpu)[which]);
	return sum;
}
