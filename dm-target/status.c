// SPDX-License-Identifier: GPL-2.0-only
#include "status.h"

#include "lockstep-test.h"
#include "mirror.h"
#include "resync.h"
#include "verify.h"

TEST_KNOB(bool, silence_untold, "a leg that doesn't answer and isn't given up is not told");
TEST_KNOB(bool, unjudged_good, "legs that nobody has looked at yet are told as if they were in sync");

static const char * const holds[] = {
	[HOLDS_NOTHING] = "-",
	[HOLDS_APPLICATION] = "application",
	[HOLDS_RATE] = "rate",
};

static const char * const silences[] = {
	[0] = "-",
	[BIT(LEG_LOCAL)] = "local",
	[BIT(LEG_REMOTE)] = "remote",
	[BIT(LEG_LOCAL) | BIT(LEG_REMOTE)] = "local,remote",
};

static u64 errors_of(const struct leg *leg)
{
	return atomic64_read(&leg->read_errors) + atomic64_read(&leg->write_errors);
}

static unsigned long long regions_mib(const struct mirror *m, unsigned int regions)
{
	return ((u64)regions << m->region_shift) >> 11;
}

static unsigned int emit_info(struct mirror *m, char *result, unsigned int maxlen)
{
	struct leg *local = &m->legs[LEG_LOCAL], *remote = &m->legs[LEG_REMOTE];
	const char *why[LEGS] = { NULL };
	unsigned int silent = 0;
	struct budget_told memory;
	struct dirty_told dirty;
	enum standing standing;
	unsigned long stale[LEGS];
	unsigned int sz = 0;
	char health[LEGS];
	unsigned long verified;
	const char *action;
	bool verifies, judged;
	u64 differing;
	enum leg_id leg;
	int i;

	/* By the table alone nothing is known of the legs. */
	judged = READ_ONCE(m->ran) || test_knob(unjudged_good);
	spin_lock_irq(&m->lock);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		stale[leg] = region_map_nr_stale(&m->map, leg);
		health[leg] = judged || !m->legs[leg].dev ? mirror_health(m, leg) : '?';
		if (m->legs[leg].dead)
			why[leg] = leg_why_word(m->legs[leg].why);
		if (m->legs[leg].silent && !test_knob(silence_untold))
			silent |= BIT(leg);
	}
	standing = m->standing;
	action = resync_action(m->resync);
	if (!strcmp(action, "idle"))
		action = verify_action(m->verify) ?: action;
	verifies = verify_progress(m->verify, &verified);
	differing = verify_differing(m->verify);
	spin_unlock_irq(&m->lock);

	dirty_map_tell(&m->dirty, &dirty);
	DMEMIT("%c%c %lu/%lu %s %llu %llu %s %lu %lu %lld %lld %s %s%s%s %lu %u ",
	       health[LEG_LOCAL], health[LEG_REMOTE],
	       judged ? region_map_in_sync(&m->map) : 0, m->map.nr, action,
	       errors_of(local), errors_of(remote),
	       table_policy_name(m->options.policy),
	       stale[LEG_LOCAL], stale[LEG_REMOTE],
	       (long long)atomic64_read(&local->read_errors),
	       (long long)atomic64_read(&remote->read_errors),
	       judged ? standing_name(standing) : "starting",
	       why[LEG_LOCAL] ?: why[LEG_REMOTE] ?: leg_why_word(WHY_NONE),
	       why[LEG_LOCAL] && why[LEG_REMOTE] ? "," : "",
	       why[LEG_LOCAL] && why[LEG_REMOTE] ? why[LEG_REMOTE] : "",
	       dirty.dirty, throttle_rate(m->throttle));
	if (verifies)
		DMEMIT("%lu/%lu", verified, m->map.nr);
	else
		DMEMIT("-");
	DMEMIT(" %llu", (unsigned long long)differing);
	for (i = 0; i < COUNTERS; i++)
		DMEMIT(" %llu", counters_sum(&m->counters, i));
	DMEMIT(" %s", scatter_word(m));
	budget_tell(&m->writes.budget, &memory);
	DMEMIT(" %zu/%zu/%u", memory.used >> 10, memory.limit >> 10, memory.waiting);
	DMEMIT(" %s %s", holds[throttle_holds(m->throttle)], silences[silent]);
	if (dirty.limit)
		DMEMIT(" %llu/%llu%s", regions_mib(m, dirty.named), regions_mib(m, dirty.limit),
		       dirty.starved ? "/full" : "");
	else
		DMEMIT(" -");
	return sz;
}

static unsigned int emit_ima(struct mirror *m, char *result, unsigned int maxlen)
{
	unsigned int sz = 0;
	enum leg_id leg;

	DMEMIT_TARGET_NAME_VERSION(m->ti->type);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		DMEMIT(",%s=%s", leg_name(leg), leg_path(&m->legs[leg]));
	DMEMIT(",region_size=%u,policy=%s,remote_cache=%s,local_cache=%s,metadata=%c;",
	       1u << m->region_shift, table_policy_name(m->options.policy),
	       m->options.trust_remote_cache ? "trust" : "fua",
	       m->options.local_fua ? "fua" : "plain",
	       m->meta ? 'y' : 'n');
	return sz;
}

void status_emit(struct mirror *m, status_type_t type, char *result, unsigned int maxlen)
{
	unsigned int sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		registry_learn(m);
		emit_info(m, result, maxlen);
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %s", leg_path(&m->legs[LEG_LOCAL]), leg_path(&m->legs[LEG_REMOTE]));
		table_emit(&m->options, result + sz, maxlen - sz);
		break;
	case STATUSTYPE_IMA:
		emit_ima(m, result, maxlen);
		break;
	}
}
