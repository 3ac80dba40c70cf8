// SPDX-License-Identifier: GPL-2.0-only
/* What a LUN's `control` does to its settings, those of a LUN of digests while it is read too. */
#include "lun-settings.h"
#include <linux/kernel.h>

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			return 1; \
		} \
	} while (0)

/* Who reads a text without the lock may do it whenever something is freed. */
static const struct lun_settings *read_by_others;
static bool freed_while_read;

void look_at_free(const void *p)
{
	if (read_by_others && p && (p == read_by_others->digests_of ||
				    strcmp(read_by_others->digests_of, "m")))
		freed_while_read = true;
}

/* lun-digests.c's reader holds the text while somebody writes to `control`. */
static int an_empty_write_changes_nothing(void)
{
	static const char *const empty[] = { "", "\n", ",", ",,\n" };
	struct lun_settings s;
	const char *held;

	lun_settings_init(&s);
	CHECK(!lun_settings_parse(&s, "lun", "digests_of=m\n", false));
	held = s.digests_of;
	read_by_others = &s;
	for (size_t i = 0; i < sizeof(empty) / sizeof(*empty); i++) {
		CHECK(!lun_settings_parse(&s, "lun", empty[i], true));
		CHECK(!strcmp(held, "m") && s.digests_of == held);
	}
	CHECK(!lun_settings_parse(&s, "lun", "grow=1", true));
	CHECK(!strcmp(held, "m") && s.digests_of == held);
	CHECK(lun_settings_parse(&s, "lun", "digests_of=n", true) == -EBUSY);
	CHECK(lun_settings_parse(&s, "lun", "destage_low=3", true) == -EBUSY);
	CHECK(!strcmp(held, "m") && s.digests_of == held);
	CHECK(!freed_while_read);
	read_by_others = NULL;
	lun_settings_free(&s);
	return 0;
}

static int all_or_none(void)
{
	struct lun_settings s;

	lun_settings_init(&s);
	CHECK(!lun_settings_any(&s));
	CHECK(!lun_settings_parse(&s, "lun", "data=/d,destage_low=7\n", false));
	CHECK(lun_settings_parse(&s, "lun", "data=/e,destage_low=99", false) == -EINVAL);
	CHECK(lun_settings_parse(&s, "lun", "data=/e,nothing=1", false) == -EINVAL);
	CHECK(lun_settings_parse(&s, "lun", "data=/e,log=", false) == -EINVAL);
	CHECK(!strcmp(s.config.data, "/d") && s.config.destage.low == 7 && !s.config.log);
	CHECK(lun_settings_parse(&s, "lun", "destage_low=8,data=/e", true) == -EBUSY);
	CHECK(s.config.destage.low == 7);
	CHECK(!lun_settings_parse(&s, "lun", "destage_low=8", true) && s.config.destage.low == 8);
	CHECK(lun_settings_any(&s));
	lun_settings_free(&s);
	return 0;
}

int main(void)
{
	return an_empty_write_changes_nothing() || all_or_none();
}
