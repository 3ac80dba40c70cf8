/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a LUN's `control` sets: KEY=VALUE[,...]. A table in lun-settings.c has
 * one row for each key; parsing, showing and the words of refusals come from it.
 *
 * A new setting is a member of struct dcd_config (dcd.h), a row of the table,
 * and a parameter of the storage object in rtslib/. One that may change while
 * the device is enabled is LIVE in its row, and dcd_reconfigure() takes it over.
 *
 * The caller serializes all calls for one struct. Its texts may be read meanwhile without that
 * while the device is enabled: they neither change nor move.
 */
#ifndef LUN_SETTINGS_H
#define LUN_SETTINGS_H

#include <linux/types.h>

#include "dcd.h"

/* All zero: nothing is set. Texts are the struct's own. */
struct lun_settings {
	struct dcd_config config;	/* without its name */
	const char *digests_of;
	unsigned int grow;	/* asked for: who does it takes it away */
};

/* What was not set gets its default. */
void lun_settings_init(struct lun_settings *s);
void lun_settings_free(struct lun_settings *s);
/*
 * Takes over all keys of @text or, with an error, none. @enabled: keys that
 * aren't live are refused, -EBUSY. -EINVAL: not a key, or not a value of it.
 * The reason is in the log, with @name, key, value and range.
 */
int __must_check lun_settings_parse(struct lun_settings *s, const char *name, const char *text,
				    bool enabled);
/* Is anything set besides digests_of? */
bool lun_settings_any(const struct lun_settings *s);
/* As control takes it, one line. Returns its length. */
ssize_t lun_settings_show(const struct lun_settings *s, char *buf, size_t size);

#endif /* LUN_SETTINGS_H */
