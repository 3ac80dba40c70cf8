// SPDX-License-Identifier: GPL-2.0-only
#include <linux/delay.h>
#include <linux/module.h>

#include "engine.h"
#include "lockstep-test.h"

#define FIRST_MS 4U
#define LAST_MS 128U
#define DATA (3 * HZ)
#define OTHER (10 * HZ)	/* a log that was found mute so long ago has worked meanwhile */

TEST_KNOB(bool, stall_counts, "a log that was mute before it refused isn't asked again");
TEST_KNOB(bool, dead_fails, "past a dead log writes are refused while the data disk is away for a moment");
TEST_KNOB(bool, fails_at_once, "one round that fails refuses writes, and the next one is as late as any");
TEST_KNOB(bool, no_blips, "a log that fails once is dead, and one that gives nothing holds the ring");

void dcd_blip_begin(struct dcd_blip *b)
{
	b->since = jiffies;
	b->failed = 0;
	b->pause = FIRST_MS;
}

/* Nobody waits for a log that is dead, or is left: then it is known how to go on without it. */
static bool may_wait(const struct dcd_engine *e, const struct dcd_blip *b)
{
	unsigned long most = e->keeps ? DCD_BLIP_KEEPS : DCD_BLIP;

	return time_before(jiffies, b->since + most) && !READ_ONCE(e->log_dead) &&
	       !dcd_is_leaving(e) && !READ_ONCE(e->closing) && !test_knob(no_blips);
}

bool dcd_blip_again(struct dcd_engine *e, struct dcd_blip *b, int error)
{
	/* What was under way when a path broke is slow to fail, what comes next may be good. */
	if (error && !b->failed && !e->keeps && !test_knob(stall_counts))
		b->since = jiffies;
	if (!error && b->failed)
		pr_warn_ratelimited("dcd: %s: the log %pg does what it has refused %u times within %u ms: look after that disk\n",
				    e->name, e->log.bdev, b->failed,
				    jiffies_to_msecs(jiffies - b->since));
	if (!error || !may_wait(e, b))
		return false;
	b->failed++;
	WRITE_ONCE(e->log_away, jiffies + DCD_BLIP);
	dcd_count(e, DCD_N_LOG_BLIPS, 1);
	msleep(b->pause);
	b->pause = min(2 * b->pause, LAST_MS);
	return true;
}

bool dcd_blip_mute(struct dcd_engine *e)
{
	struct dcd_mute *m = &e->mute;

	if (!m->is || time_after(jiffies, m->seen + OTHER)) {
		m->is = true;
		m->since = jiffies;
	}
	m->seen = jiffies;
	return time_before(jiffies, m->since + DCD_BLIP_READS) && !test_knob(no_blips);
}

bool dcd_blip_data(const struct dcd_engine *e)
{
	return time_before(jiffies, e->data_well + DATA) && !test_knob(fails_at_once) &&
	       (!e->log_dead || (e->data_failing && !test_knob(dead_fails)));
}
