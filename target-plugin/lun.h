/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LIO backstore "dcd": the DCD engine as a LUN.
 *
 *   mkdir -p /sys/kernel/config/target/core/dcd_0/NAME; cd there
 *   echo data=/dev/X,log=/dev/Y,nvram=pmem:/dev/pmem0 > control
 *   echo 1 > enable
 *
 * leave_log=1 leaves the log for good (leave.h).
 *
 * When the data disk has become larger, grow=1 takes over its size, and initiators are
 * told (lun-attention.h).
 *
 * One write of control changes all of its keys or none (lun-settings.h).
 * Afterwards `info` shows settings, state and counters.
 *
 * With the only key digests_of=NAME it is another LUN: read-only, the digests of
 * the content of the enabled dcd device NAME (digest.h), for a mirror's resync.
 * It holds nothing of that device: either may be taken away first. Without it
 * reads fail.
 */
#ifndef LUN_H
#define LUN_H

#include <linux/mutex.h>
#include <target/target_core_base.h>
#include <target/target_core_backend.h>

#include "dcd.h"
#include "lockstep-compat.h"
#include "lun-attention.h"
#include "lun-compare.h"
#include "lun-settings.h"

struct dcd_dev {
	struct se_device dev;
	struct mutex lock;		/* of @set; growing holds it as long as the disks take */
	struct lun_settings set;
	struct mutex here;		/* within it: of @engine's coming and going */
	struct dcd_engine *engine;	/* commands come only while it is there, */
	sector_t viewed;		/* or if these are the sectors of set.digests_of */
	bool had_cache;			/* its write cache is volatile, or has been */
	struct lun_attention attention;	/* raised with @lock */
	struct lun_compare compare;
};

static inline struct dcd_dev *to_dcd(struct se_device *dev)
{
	return container_of(dev, struct dcd_dev, dev);
}

static inline const char *lun_name(const struct dcd_dev *d)
{
	return config_item_name((struct config_item *)&d->dev.dev_group.cg_item);
}

/*
 * Is FUA no error? Nor is it from who hasn't looked since the write cache was volatile, as
 * Linux doesn't before it is told to: it asks for what each write is by now anyway.
 */
static inline bool lun_takes_fua(const struct dcd_dev *d)
{
	return d->dev.dev_attrib.emulate_fua_write &&
	       (READ_ONCE(d->had_cache) || dcd_volatile_cache(d->engine));
}

/* Of an attribute in attrib/. */
static inline struct dcd_dev *lun_of_attribute(struct config_item *item)
{
	return to_dcd(container_of(to_config_group(item), struct se_dev_attrib, da_group)->da_dev);
}

/*
 * lun-stats.c: the attributes that all disks of LIO have (but for what the disks can't: blocks
 * smaller than theirs, zeroes where something was unmapped) and the engine's counters and state,
 * stat_NAME, to read; NULL: no memory. kfree() it after the backend's end.
 */
struct configfs_attribute **lun_attributes(void);

/*
 * lun-commands.c: any command for the device; cmd->priv is its own. While the command is
 * executed that is the time since when it waits, or NULL: since its next request. Of the parts of
 * one (UNMAP's ranges, WRITE SAME) each that was done begins that anew.
 */
sense_reason_t lun_parse_cdb(struct se_cmd *cmd);

static inline unsigned long lun_since(const struct se_cmd *cmd)
{
	return (unsigned long)cmd->priv;
}

/* The command was aborted, or its session or LUN is going away. Any context. */
static inline bool lun_unwanted(const struct se_cmd *cmd)
{
	return READ_ONCE(cmd->transport_state) &
	       (CMD_T_ABORTED | CMD_T_STOP | CMD_T_FABRIC_STOP) ||
	       (cmd->se_lun && READ_ONCE(cmd->se_lun->lun_shutdown));
}

/* Ends a command; @error as dcd.h has it. */
void lun_complete(struct se_cmd *cmd, int error);
/* The same with a sense of our own: any context; and what makes one. */
void lun_complete_with(struct se_cmd *cmd, u8 sense[TRANSPORT_SENSE_BUFFER]);
void lun_sense(struct se_device *dev, u8 key, u8 asc, u8 ascq, u8 sense[TRANSPORT_SENSE_BUFFER]);

int __must_check lun_commands_init(void);
void lun_commands_exit(void);

/* lun-digests.c: what the core's parser calls for a LUN of digests; opening it needs d->lock. */
extern struct exec_cmd_ops lun_digest_ops;
int __must_check lun_digests_open(struct dcd_dev *d);
void lun_digests_configure(struct se_device *dev);
u64 lun_digests_bytes(const struct dcd_dev *d);
int __must_check lun_digests_init(void);
void lun_digests_exit(void);

#endif /* LUN_H */
