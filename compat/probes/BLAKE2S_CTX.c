// SPDX-License-Identifier: GPL-2.0-only
/* struct blake2s_state became struct blake2s_ctx. */
#include <crypto/blake2s.h>

struct blake2s_ctx probe;
struct blake2s_ctx probe = { };
