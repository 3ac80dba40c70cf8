// SPDX-License-Identifier: GPL-2.0-only
/* struct sbc_ops became struct exec_cmd_ops. */
#include <target/target_core_base.h>
#include <target/target_core_backend.h>

struct exec_cmd_ops probe;
struct exec_cmd_ops probe = { };
