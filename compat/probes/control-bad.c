// SPDX-License-Identifier: GPL-2.0-only
/* Compiles against no kernel: calls what does not exist, with a warning only. */
#include <linux/module.h>

void probe(void);
void probe(void)
{
	int unused = lockstep_no_such_function();
}
