// SPDX-License-Identifier: GPL-2.0-only
/* module_dm() registers a dm target in one line. */
#include <linux/device-mapper.h>
#include <linux/module.h>

static struct target_type probe_target = { .name = "probe" };
module_dm(probe);
