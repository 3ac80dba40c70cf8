// SPDX-License-Identifier: GPL-2.0-only
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "lun-settings.h"

enum kind {
	TEXT,		/* const char *, NULL: not set */
	BYTES,		/* size_t */
	NUMBER,		/* unsigned int */
};

/*
 * @initial is shown and used until something else is set; what may be set is in
 * [@least, @most].
 */
struct setting {
	const char *key;
	enum kind kind;
	size_t offset;		/* in struct lun_settings */
	bool live;		/* may change while the device is enabled */
	bool once;		/* to be done, no setting: not shown; a LUN of digests has it too */
	u64 initial, least, most;
};

#define CONFIG(member) offsetof(struct lun_settings, config.member)

static const struct setting table[] = {
	{ "data", TEXT, CONFIG(data) },
	{ "log", TEXT, CONFIG(log) },
	{ "nvram", TEXT, CONFIG(nvram) },
	{ "nvram_bytes", BYTES, CONFIG(nvram_bytes), .least = 1, .most = SIZE_MAX },
	{ "index_bytes", BYTES, CONFIG(index_bytes), .live = true, .least = 65536,
	  .most = SIZE_MAX },
	{ "read_cache_bytes", BYTES, CONFIG(read_cache_bytes), .live = true,
	  .initial = DCD_READ_CACHE_BYTES, .most = SIZE_MAX },
	{ "battery", NUMBER, CONFIG(battery), .live = true, .initial = 1, .most = 1 },
	{ "busy_after_ms", NUMBER, CONFIG(busy_after_ms), .live = true,
	  .initial = DCD_BUSY_AFTER_MS, .most = 3600000 },
	{ "scrub_kib", NUMBER, CONFIG(scrub_kib), .live = true, .initial = DCD_SCRUB_KIB,
	  .most = 1048576 },
	{ "destage_idle_ms", NUMBER, CONFIG(destage.idle_ms), .live = true,
	  .initial = DCD_DESTAGE_IDLE_MS, .least = 1, .most = 3600000 },
	{ "destage_low", NUMBER, CONFIG(destage.low), .live = true,
	  .initial = DCD_DESTAGE_LOW, .least = 0, .most = 98 },
	{ "destage_high", NUMBER, CONFIG(destage.high), .live = true,
	  .initial = DCD_DESTAGE_HIGH, .least = 1, .most = 99 },
	{ "destage_depth", NUMBER, CONFIG(destage.depth), .live = true,
	  .initial = DCD_DESTAGE_DEPTH, .least = 1, .most = 256 },
	{ "destage_batch_kib", NUMBER, CONFIG(destage.batch_kib),
	  .initial = DCD_DESTAGE_BATCH_KIB, .least = 256, .most = 65536 },
	{ "leave_log", NUMBER, CONFIG(leave_log), .live = true, .most = 1 },
	{ "grow", NUMBER, offsetof(struct lun_settings, grow), .live = true, .once = true,
	  .most = 1 },
	{ "digests_of", TEXT, offsetof(struct lun_settings, digests_of) },
};

static const char *text_of(const struct lun_settings *s, const struct setting *row)
{
	return *(const char *const *)((const void *)s + row->offset);
}

static int put_text(struct lun_settings *s, const struct setting *row, const char *value)
{
	const char **at = (void *)s + row->offset;
	const char *new = kstrdup(value, GFP_KERNEL);

	if (!new)
		return -ENOMEM;
	kfree(*at);
	*at = new;
	return 0;
}

static u64 number_of(const struct lun_settings *s, const struct setting *row)
{
	const void *at = (const void *)s + row->offset;

	return row->kind == BYTES ? *(const size_t *)at : *(const unsigned int *)at;
}

static void put_number(struct lun_settings *s, const struct setting *row, u64 value)
{
	void *at = (void *)s + row->offset;

	if (row->kind == BYTES)
		*(size_t *)at = value;
	else
		*(unsigned int *)at = value;
}

static bool is_set(const struct lun_settings *s, const struct setting *row)
{
	return row->kind == TEXT ? !!text_of(s, row) : number_of(s, row) != row->initial;
}

/* Those of a LUN of digests are the rest. */
static bool of_a_disk(const struct setting *row)
{
	return row->offset != offsetof(struct lun_settings, digests_of);
}

void lun_settings_init(struct lun_settings *s)
{
	const struct setting *row;

	memset(s, 0, sizeof(*s));
	for (row = table; row < table + ARRAY_SIZE(table); row++)
		if (row->kind != TEXT)
			put_number(s, row, row->initial);
}

void lun_settings_free(struct lun_settings *s)
{
	const struct setting *row;

	for (row = table; row < table + ARRAY_SIZE(table); row++)
		if (row->kind == TEXT)
			kfree(text_of(s, row));
}

static int copy(struct lun_settings *to, const struct lun_settings *from)
{
	const struct setting *row;
	int r = 0;

	for (row = table; row < table + ARRAY_SIZE(table) && !r; row++) {
		if (row->kind != TEXT)
			put_number(to, row, number_of(from, row));
		else if (text_of(from, row))
			r = put_text(to, row, text_of(from, row));
	}
	return r;
}

static const struct setting *find(const char *key)
{
	const struct setting *row;

	for (row = table; row < table + ARRAY_SIZE(table); row++)
		if (!strcmp(row->key, key))
			return row;
	return NULL;
}

static int unknown_key(const char *name, const char *key)
{
	char keys[512];
	size_t i, n = 0;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		n += scnprintf(keys + n, sizeof(keys) - n, "%s%s", i ? ", " : "", table[i].key);
	pr_err("dcd: %s: control: unknown key \"%s\": there are %s\n", name, key, keys);
	return -EINVAL;
}

static int set_one(struct lun_settings *s, const char *name, char *word, bool enabled)
{
	char *value = strchr(word, '=');
	const struct setting *row;
	u64 number;

	if (value)
		*value++ = 0;
	if (!value || !*value) {
		pr_err("dcd: %s: control: \"%s\" has no value: KEY=VALUE[,...] is expected\n",
		       name, word);
		return -EINVAL;
	}
	row = find(word);
	if (!row)
		return unknown_key(name, word);
	if (enabled && (!row->live || (s->digests_of && !row->once))) {
		pr_err("dcd: %s: control: %s=%s: the device is enabled, this setting is fixed\n",
		       name, row->key, value);
		return -EBUSY;
	}
	if (row->kind == TEXT)
		return put_text(s, row, value);
	if (kstrtou64(value, 0, &number) || number < row->least || number > row->most) {
		pr_err("dcd: %s: control: %s=%s: not a number%s from %llu to %llu\n", name,
		       row->key, value, row->kind == BYTES ? " of bytes" : "", row->least,
		       row->most);
		return -EINVAL;
	}
	put_number(s, row, number);
	return 0;
}

/*
 * Texts stay where they are, and are nowhere else for a moment either: none of them is live,
 * and a LUN of digests reads its own while it is enabled, without the caller's lock.
 */
static void take_numbers(struct lun_settings *s, const struct lun_settings *new)
{
	const struct setting *row;

	for (row = table; row < table + ARRAY_SIZE(table); row++)
		if (row->kind != TEXT)
			put_number(s, row, number_of(new, row));
}

int lun_settings_parse(struct lun_settings *s, const char *name, const char *text, bool enabled)
{
	struct lun_settings new = { };
	char *words = kstrdup(text, GFP_KERNEL), *rest = words, *word;
	bool any = false;
	int r;

	if (!words)
		return -ENOMEM;
	r = copy(&new, s);
	while (!r && (word = strsep(&rest, ",\n"))) {
		if (!*word)
			continue;
		any = true;
		r = set_one(&new, name, word, enabled);
	}
	kfree(words);
	if (!r && any && !enabled)
		swap(*s, new);
	else if (!r && any)
		take_numbers(s, &new);
	lun_settings_free(&new);
	return r;
}

bool lun_settings_any(const struct lun_settings *s)
{
	const struct setting *row;

	for (row = table; row < table + ARRAY_SIZE(table); row++)
		if (of_a_disk(row) && !row->once && is_set(s, row))
			return true;
	return false;
}

ssize_t lun_settings_show(const struct lun_settings *s, char *buf, size_t size)
{
	bool view = s->digests_of;
	const struct setting *row;
	ssize_t n = 0;

	for (row = table; row < table + ARRAY_SIZE(table); row++) {
		const char *comma = n ? "," : "";

		if (row->once || view == of_a_disk(row))
			continue;
		if (row->kind == TEXT)
			n += scnprintf(buf + n, size - n, "%s%s=%s", comma, row->key,
				       text_of(s, row) ?: "");
		else
			n += scnprintf(buf + n, size - n, "%s%s=%llu", comma, row->key,
				       number_of(s, row));
	}
	return n + scnprintf(buf + n, size - n, "\n");
}
