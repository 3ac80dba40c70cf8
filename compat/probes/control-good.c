// SPDX-License-Identifier: GPL-2.0-only
/* Compiles against every kernel; if it does not, no probe's answer means anything. */
#include <linux/module.h>

void probe(void);
void probe(void)
{
}
