// SPDX-License-Identifier: GPL-2.0-only
#include "table.h"

#include <linux/device-mapper.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/string.h>

#include "batch.h"
#include "budget.h"
#include "dirty-map.h"
#include "join.h"
#include "resync.h"
#include "throttle.h"
#include "watch.h"

#define DM_MSG_PREFIX "lockstep"

#define REGION_SIZE_MIN		8u

enum option {
	OPT_REGION_SIZE,
	OPT_SYNC,
	OPT_NOSYNC,
	OPT_POLICY,
	OPT_REMOTE_CACHE,
	OPT_LOCAL_CACHE,
	OPT_RESYNC_JOBS,
	OPT_RESYNC_RATE,
	OPT_REMOTE_TIMEOUT,
	OPT_LOCAL_TIMEOUT,
	OPT_REJOIN,
	OPT_RESYNC_PACE,
	OPT_RESYNC_COMPARE,
	OPT_RESYNC_DIGESTS,
	OPT_COALESCE,
	OPT_COALESCE_PIPELINE,
	OPT_SCATTER,
	OPT_MEMORY_KIB,
	OPT_RESYNC_LEAST,
	OPT_DIRTY_LIMIT,
};

static const struct {
	const char *name;
	enum option option;
	bool has_value;
} known[] = {
	{ "region_size", OPT_REGION_SIZE, true },
	{ "sync", OPT_SYNC, false },
	{ "nosync", OPT_NOSYNC, false },
	{ "policy", OPT_POLICY, true },
	{ "remote_cache", OPT_REMOTE_CACHE, true },
	{ "local_cache", OPT_LOCAL_CACHE, true },
	{ "resync_jobs", OPT_RESYNC_JOBS, true },
	{ "resync_rate", OPT_RESYNC_RATE, true },
	{ "remote_timeout", OPT_REMOTE_TIMEOUT, true },
	{ "local_timeout", OPT_LOCAL_TIMEOUT, true },
	{ "rejoin", OPT_REJOIN, true },
	{ "resync_pace", OPT_RESYNC_PACE, true },
	{ "resync_compare", OPT_RESYNC_COMPARE, true },
	{ "resync_digests", OPT_RESYNC_DIGESTS, true },
	{ "coalesce", OPT_COALESCE, true },
	{ "coalesce_pipeline", OPT_COALESCE_PIPELINE, true },
	{ "scatter", OPT_SCATTER, true },
	{ "memory_kib", OPT_MEMORY_KIB, true },
	{ "resync_least", OPT_RESYNC_LEAST, true },
	{ "dirty_limit", OPT_DIRTY_LIMIT, true },
};

void table_defaults(struct table_options *o)
{
	*o = (struct table_options) {
		.rejoin = REJOIN_SECONDS_DEFAULT,
		.resync_jobs = RESYNC_JOBS_DEFAULT,
		.resync_least = RESYNC_LEAST_DEFAULT,
		.timeout[LEG_REMOTE] = REMOTE_TIMEOUT_DEFAULT,
		.coalesce = COALESCE_DEFAULT,
		.coalesce_pipeline = COALESCE_PIPELINE_DEFAULT,
		.dirty_limit = DIRTY_LIMIT_DEFAULT,
	};
}

static int word_in(const char * const *words, unsigned int nr, const char *word)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (!strcasecmp(word, words[i]))
			return i;
	return -EINVAL;
}

static const char * const policies[] = {
	[POLICY_DEGRADE] = "degrade",
	[POLICY_BLOCK] = "block",
	[POLICY_ERROR] = "error",
};

const char *table_policy_name(enum table_policy policy)
{
	return policies[policy];
}

int table_policy_parse(const char *word, enum table_policy *policy)
{
	int i = word_in(policies, ARRAY_SIZE(policies), word);

	if (i < 0)
		return i;
	*policy = i;
	return 0;
}

static const char * const scatters[] = {
	[TABLE_SCATTER_AUTO] = "auto",
	[TABLE_SCATTER_ON] = "on",
	[TABLE_SCATTER_OFF] = "off",
};

int table_scatter_parse(const char *word, enum table_scatter *scatter)
{
	int i = word_in(scatters, ARRAY_SIZE(scatters), word);

	if (i < 0)
		return i;
	*scatter = i;
	return 0;
}

static int parse_choice(bool *second, const char *value, const char *a, const char *b)
{
	if (!strcasecmp(value, a))
		*second = false;
	else if (!strcasecmp(value, b))
		*second = true;
	else
		return -EINVAL;
	return 0;
}

static int parse_number(unsigned int *n, const char *value, unsigned int min, unsigned int max)
{
	unsigned int v;

	if (kstrtouint(value, 10, &v) || v < min || v > max)
		return -EINVAL;
	*n = v;
	return 0;
}

/* value is NULL for an option without one. */
static int parse_option(struct table_options *o, struct dm_target *ti, enum option option,
			const char *value)
{
	int r = 0;

	switch (option) {
	case OPT_REGION_SIZE:
		r = parse_number(&o->region_size, value, REGION_SIZE_MIN, 1u << 31);
		if (!r && !is_power_of_2(o->region_size))
			r = -EINVAL;
		if (r)
			ti->error = "region_size must be a power of two from 8 to 2147483648";
		break;
	case OPT_SYNC:
		o->mode = MODE_SYNC;
		break;
	case OPT_NOSYNC:
		o->mode = MODE_NOSYNC;
		break;
	case OPT_POLICY:
		r = table_policy_parse(value, &o->policy);
		if (r)
			ti->error = "policy must be degrade, block or error";
		break;
	case OPT_REMOTE_CACHE:
		r = parse_choice(&o->trust_remote_cache, value, "fua", "trust");
		if (r)
			ti->error = "remote_cache must be fua or trust";
		break;
	case OPT_LOCAL_CACHE:
		r = parse_choice(&o->local_fua, value, "plain", "fua");
		if (r)
			ti->error = "local_cache must be plain or fua";
		break;
	case OPT_RESYNC_JOBS:
		r = parse_number(&o->resync_jobs, value, 1, RESYNC_JOBS_MAX);
		if (r)
			ti->error = "resync_jobs must be from 1 to 16";
		break;
	case OPT_RESYNC_RATE:
		r = parse_number(&o->resync_rate, value, 0, UINT_MAX / 2);
		if (r)
			ti->error = "resync_rate must be a number of KiB/s, 0 for no bound";
		break;
	case OPT_REMOTE_TIMEOUT:
		r = parse_number(&o->timeout[LEG_REMOTE], value, 0, TIMEOUT_MAX);
		if (r)
			ti->error = "remote_timeout must be from 0 (never) to 86400000 ms";
		break;
	case OPT_LOCAL_TIMEOUT:
		r = parse_number(&o->timeout[LEG_LOCAL], value, 0, TIMEOUT_MAX);
		if (r)
			ti->error = "local_timeout must be from 0 (never) to 86400000 ms";
		break;
	case OPT_REJOIN:
		r = parse_number(&o->rejoin, value, 0, 86400);
		if (r)
			ti->error = "rejoin must be a number of seconds up to 86400, 0 for never";
		break;
	case OPT_RESYNC_PACE:
		r = parse_choice(&o->resync_full, value, "polite", "full");
		if (r)
			ti->error = "resync_pace must be polite or full";
		break;
	case OPT_RESYNC_COMPARE:
		r = parse_choice(&o->resync_compare, value, "off", "on");
		if (r)
			ti->error = "resync_compare must be on or off";
		break;
	case OPT_RESYNC_DIGESTS:
		o->resync_digests = strcmp(value, "-") ? value : NULL;
		break;
	case OPT_COALESCE:
		r = parse_number(&o->coalesce, value, 1, COALESCE_MAX);
		if (r)
			ti->error = "coalesce must be from 1 to 32";
		break;
	case OPT_COALESCE_PIPELINE:
		r = parse_number(&o->coalesce_pipeline, value, 1, COALESCE_PIPELINE_MAX);
		if (r)
			ti->error = "coalesce_pipeline must be from 1 to 1024";
		break;
	case OPT_SCATTER:
		r = table_scatter_parse(value, &o->scatter);
		if (r)
			ti->error = "scatter must be auto, on or off";
		break;
	case OPT_MEMORY_KIB:
		r = parse_number(&o->memory_kib, value, 0, MEMORY_KIB_MAX);
		if (r)
			ti->error = "memory_kib must be from 0 (the default) to 1073741824";
		break;
	case OPT_RESYNC_LEAST:
		r = parse_number(&o->resync_least, value, 0, UINT_MAX / 2);
		if (r)
			ti->error = "resync_least must be a number of KiB/s, 0 for none";
		break;
	case OPT_DIRTY_LIMIT:
		r = parse_number(&o->dirty_limit, value, DIRTY_LIMIT_LEAST, DIRTY_LIMIT_MOST);
		if (r)
			ti->error = "dirty_limit must be from 1 to 1073741824 MiB";
		break;
	}
	return r;
}

static int find_option(const char *word)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcasecmp(word, known[i].name))
			return i;
	return -1;
}

static int parse_words(struct table_options *o, struct dm_target *ti,
		       unsigned int argc, char **argv)
{
	unsigned int seen = 0, i;

	for (i = 0; i < argc; i++) {
		int k = find_option(argv[i]);
		const char *value = NULL;

		if (k < 0) {
			DMERR("option %s: unknown", argv[i]);
			ti->error = "Unknown option";
			return -EINVAL;
		}
		if (seen & BIT(known[k].option)) {
			DMERR("option %s: given twice", argv[i]);
			ti->error = "An option is given twice";
			return -EINVAL;
		}
		seen |= BIT(known[k].option);

		if (known[k].has_value) {
			if (++i == argc) {
				DMERR("option %s: its value is missing", known[k].name);
				ti->error = "The last option has no value";
				return -EINVAL;
			}
			value = argv[i];
		}
		if (parse_option(o, ti, known[k].option, value)) {
			DMERR("option %s: bad value %s", known[k].name, value);
			return -EINVAL;
		}
	}
	if ((seen & BIT(OPT_SYNC)) && (seen & BIT(OPT_NOSYNC))) {
		ti->error = "sync and nosync contradict each other";
		return -EINVAL;
	}
	if (o->mode != MODE_METADATA && o->resync_digests) {
		ti->error = "resync_digests needs the legs' metadata: not with sync or nosync";
		return -EINVAL;
	}
	if (o->mode != MODE_METADATA && (seen & BIT(OPT_DIRTY_LIMIT))) {
		ti->error = "dirty_limit needs the legs' metadata: not with sync or nosync";
		return -EINVAL;
	}
	return 0;
}

int table_parse(struct table_options *o, struct dm_target *ti, unsigned int argc, char **argv)
{
	unsigned int words;

	if (!argc)
		return 0;
	if (kstrtouint(argv[0], 10, &words)) {
		DMERR("number of option words: %s isn't a number", argv[0]);
		ti->error = "After the two devices comes the number of option words";
		return -EINVAL;
	}
	if (words != argc - 1) {
		DMERR("number of option words: table says %u, %u follow", words, argc - 1);
		ti->error = "The number of option words is wrong";
		return -EINVAL;
	}
	return parse_words(o, ti, words, argv + 1);
}

unsigned int table_emit(const struct table_options *o, char *result, unsigned int maxlen)
{
	bool least = o->resync_least != RESYNC_LEAST_DEFAULT;
	bool jobs = o->resync_jobs != RESYNC_JOBS_DEFAULT;
	bool timeout = o->timeout[LEG_REMOTE] != REMOTE_TIMEOUT_DEFAULT;
	bool rejoin = o->rejoin != REJOIN_SECONDS_DEFAULT;
	bool coalesce = o->coalesce != COALESCE_DEFAULT;
	bool limit = o->dirty_limit != DIRTY_LIMIT_DEFAULT;
	bool pipeline = o->coalesce_pipeline != COALESCE_PIPELINE_DEFAULT;
	unsigned int words, sz = 0;

	words = 2 * (!!o->region_size + !!o->policy + o->trust_remote_cache + o->local_fua + jobs +
		     !!o->resync_rate + least + timeout + !!o->timeout[LEG_LOCAL] + rejoin +
		     coalesce + pipeline + o->resync_full + o->resync_compare +
		     !!o->resync_digests + !!o->scatter + !!o->memory_kib + limit) +
		(o->mode != MODE_METADATA);
	if (!words)
		return 0;

	DMEMIT(" %u", words);
	if (o->mode != MODE_METADATA)
		DMEMIT(" %s", o->mode == MODE_SYNC ? "sync" : "nosync");
	if (o->region_size)
		DMEMIT(" region_size %u", o->region_size);
	if (o->policy)
		DMEMIT(" policy %s", table_policy_name(o->policy));
	if (o->trust_remote_cache)
		DMEMIT(" remote_cache trust");
	if (o->local_fua)
		DMEMIT(" local_cache fua");
	if (jobs)
		DMEMIT(" resync_jobs %u", o->resync_jobs);
	if (o->resync_rate)
		DMEMIT(" resync_rate %u", o->resync_rate);
	if (least)
		DMEMIT(" resync_least %u", o->resync_least);
	if (timeout)
		DMEMIT(" remote_timeout %u", o->timeout[LEG_REMOTE]);
	if (o->timeout[LEG_LOCAL])
		DMEMIT(" local_timeout %u", o->timeout[LEG_LOCAL]);
	if (rejoin)
		DMEMIT(" rejoin %u", o->rejoin);
	if (o->resync_full)
		DMEMIT(" resync_pace full");
	if (o->resync_compare)
		DMEMIT(" resync_compare on");
	if (o->resync_digests)
		DMEMIT(" resync_digests %s", o->resync_digests);
	if (coalesce)
		DMEMIT(" coalesce %u", o->coalesce);
	if (pipeline)
		DMEMIT(" coalesce_pipeline %u", o->coalesce_pipeline);
	if (o->scatter)
		DMEMIT(" scatter %s", scatters[o->scatter]);
	if (o->memory_kib)
		DMEMIT(" memory_kib %u", o->memory_kib);
	if (limit)
		DMEMIT(" dirty_limit %u", o->dirty_limit);
	return sz;
}
