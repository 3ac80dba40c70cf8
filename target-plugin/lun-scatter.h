/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * WRITE SCATTERED(16) of a LUN that is a disk, which the core doesn't know: the
 * command itself, as one batch of the engine's (dcd.h), so that after a power cut
 * all of its ranges are there or none; and what the LUN says of it:
 *
 *  - REPORT SUPPORTED OPERATION CODES, where the core's answer is completed. On a
 *    kernel whose core has none (6.1), only what is asked about this command is
 *    answered.
 *  - VPD page B7h, Block Limits Extension, with the limits; page 00h lists it if it
 *    lists any.
 *  - VPD page C0h, which names the log (dcd-identity-format.h).
 *
 * And VPD page B0h, Block Limits, is as long as SBC says, whatever the core's is.
 */
#ifndef LUN_SCATTER_H
#define LUN_SCATTER_H

#include <target/target_core_base.h>
#include <target/target_core_backend.h>

#include "lockstep-compat.h"

/* In place of sbc_parse_cdb(), which looks at every other command. */
sense_reason_t lun_scatter_parse_cdb(struct se_cmd *cmd, struct exec_cmd_ops *ops);

#endif
