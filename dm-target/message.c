// SPDX-License-Identifier: GPL-2.0-only
#include "message.h"

#include <linux/slab.h>

#include "grow.h"
#include "join.h"
#include "lockstep-test.h"
#include "mirror.h"
#include "resync.h"
#include "verify.h"

TEST_KNOB(bool, blocked_waits, "who brings a verify waits for writes that the policy holds");
TEST_KNOB(bool, message_stays, "who brings a message does it, however long a leg takes to answer");

static int parse_leg(const char *word, enum leg_id *leg)
{
	for (*leg = LEG_LOCAL; *leg < LEGS; (*leg)++)
		if (!strcasecmp(word, leg_name(*leg)))
			return 0;
	DMWARN("%s is neither local nor remote", word);
	return -EINVAL;
}

static int parse_number(const char *what, const char *word, unsigned int max, unsigned int *n)
{
	if (!kstrtouint(word, 10, n) && *n <= max)
		return 0;
	DMWARN("%s: %s isn't a number up to %u", what, word, max);
	return -EINVAL;
}

static int parse_choice(const char *what, const char *word, const char *no, const char *yes,
			bool *choice)
{
	*choice = !strcasecmp(word, yes);
	if (*choice || !strcasecmp(word, no))
		return 0;
	DMWARN("%s: %s is neither %s nor %s", what, word, no, yes);
	return -EINVAL;
}

/* Each handler gets its arguments; how many it takes is in the table below. */

static int msg_fail(struct mirror *m, unsigned int argc, char **argv)
{
	enum leg_id leg;
	int r = parse_leg(argv[0], &leg);

	return r ?: mirror_fail(m, leg);
}

static int msg_recover(struct mirror *m, unsigned int argc, char **argv)
{
	enum leg_id leg;
	int r;

	if (argc) {
		r = parse_leg(argv[0], &leg);
		return r ?: mirror_recover(m, leg);
	}
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		r = mirror_recover(m, leg);
		if (r)
			return r;
	}
	return 0;
}

static int msg_resync(struct mirror *m, unsigned int argc, char **argv)
{
	return mirror_resync_all(m);
}

static int msg_resync_rate(struct mirror *m, unsigned int argc, char **argv)
{
	unsigned int rate;
	int r = parse_number("resync_rate", argv[0], UINT_MAX / 2, &rate);

	if (r)
		return r;
	WRITE_ONCE(m->options.resync_rate, rate);
	throttle_set_rate(m->throttle, rate);
	return 0;
}

static int msg_resync_least(struct mirror *m, unsigned int argc, char **argv)
{
	unsigned int least;
	int r = parse_number("resync_least", argv[0], UINT_MAX / 2, &least);

	if (r)
		return r;
	WRITE_ONCE(m->options.resync_least, least);
	throttle_set_least(m->throttle, least);
	return 0;
}

static int msg_verify(struct mirror *m, unsigned int argc, char **argv)
{
	if (!strcasecmp(argv[0], "start"))
		return verify_start(m->verify, false);
	if (!strcasecmp(argv[0], "check"))
		return verify_start(m->verify, true);
	if (strcasecmp(argv[0], "stop")) {
		DMWARN("verify: %s is none of start, check, stop", argv[0]);
		return -EINVAL;
	}
	verify_stop(m->verify);
	return 0;
}

static int msg_resync_pace(struct mirror *m, unsigned int argc, char **argv)
{
	bool polite;
	int r = parse_choice("resync_pace", argv[0], "full", "polite", &polite);

	if (r)
		return r;
	WRITE_ONCE(m->options.resync_full, !polite);
	throttle_set_polite(m->throttle, polite);
	return 0;
}

static int msg_resync_compare(struct mirror *m, unsigned int argc, char **argv)
{
	bool compare;
	int r = parse_choice("resync_compare", argv[0], "off", "on", &compare);

	if (r)
		return r;
	WRITE_ONCE(m->options.resync_compare, compare);
	resync_set_compare(m->resync, compare);
	return 0;
}

static int set_timeout(struct mirror *m, enum leg_id leg, const char *what, const char *word)
{
	unsigned int ms;
	int r = parse_number(what, word, TIMEOUT_MAX, &ms);

	if (r)
		return r;
	WRITE_ONCE(m->options.timeout[leg], ms);
	watch_set(m, leg, ms);
	if (leg == LEG_REMOTE)
		throttle_set_patience(m->throttle, ms);
	return 0;
}

static int msg_remote_timeout(struct mirror *m, unsigned int argc, char **argv)
{
	return set_timeout(m, LEG_REMOTE, "remote_timeout", argv[0]);
}

static int msg_local_timeout(struct mirror *m, unsigned int argc, char **argv)
{
	return set_timeout(m, LEG_LOCAL, "local_timeout", argv[0]);
}

static int msg_coalesce(struct mirror *m, unsigned int argc, char **argv)
{
	unsigned int limit;

	if (kstrtouint(argv[0], 10, &limit) || !limit || limit > COALESCE_MAX) {
		DMWARN("coalesce: %s isn't a number of writes from 1 to %u", argv[0], COALESCE_MAX);
		return -EINVAL;
	}
	WRITE_ONCE(m->options.coalesce, limit);
	batch_set_limit(m, limit);
	return 0;
}

static int msg_scatter(struct mirror *m, unsigned int argc, char **argv)
{
	enum table_scatter how;

	if (table_scatter_parse(argv[0], &how)) {
		DMWARN("scatter: %s is none of auto, on, off", argv[0]);
		return -EINVAL;
	}
	WRITE_ONCE(m->options.scatter, how);
	scatter_set(m, how);
	return 0;
}

static int msg_memory_kib(struct mirror *m, unsigned int argc, char **argv)
{
	unsigned int kib;
	int r = parse_number("memory_kib", argv[0], MEMORY_KIB_MAX, &kib);

	if (r)
		return r;
	WRITE_ONCE(m->options.memory_kib, kib);
	budget_set(m, kib);
	return 0;
}

static int msg_dirty_limit(struct mirror *m, unsigned int argc, char **argv)
{
	unsigned int mib;
	int r = parse_number("dirty_limit", argv[0], DIRTY_LIMIT_MOST, &mib);

	if (!r && !m->meta) {
		DMWARN("dirty_limit: it needs the legs' metadata: not with sync or nosync");
		r = -EINVAL;
	}
	if (!r && mib < DIRTY_LIMIT_LEAST) {
		DMWARN("dirty_limit: it is %u MiB at least", DIRTY_LIMIT_LEAST);
		r = -EINVAL;
	}
	if (r)
		return r;
	WRITE_ONCE(m->options.dirty_limit, mib);
	dirty_map_set_limit(&m->dirty, mib);
	return 0;
}

static int msg_policy(struct mirror *m, unsigned int argc, char **argv)
{
	enum table_policy policy;

	if (table_policy_parse(argv[0], &policy)) {
		DMWARN("policy: %s is none of degrade, block, error", argv[0]);
		return -EINVAL;
	}
	standing_set_policy(m, policy);
	return 0;
}

static int msg_unblock(struct mirror *m, unsigned int argc, char **argv)
{
	return standing_unblock(m);
}

static int msg_fail_held(struct mirror *m, unsigned int argc, char **argv)
{
	DMWARN("%s: %u held requests fail, as told", dm_table_device_name(m->ti->table),
	       standing_fail_held(m, BLK_STS_IOERR));
	return 0;
}

static int msg_counters_reset(struct mirror *m, unsigned int argc, char **argv)
{
	counters_reset(&m->counters);
	return 0;
}

static int msg_grow(struct mirror *m, unsigned int argc, char **argv)
{
	return grow_legs(m);
}

static const struct {
	const char *name;
	const char *words;		/* for people */
	unsigned int min, max;		/* arguments */
	int (*handle)(struct mirror *m, unsigned int argc, char **argv);
} messages[] = {
	{ "fail", " local|remote", 1, 1, msg_fail },
	{ "recover", " [local|remote]", 0, 1, msg_recover },
	{ "resync", "", 0, 0, msg_resync },
	{ "resync_rate", " <KiB/s>", 1, 1, msg_resync_rate },
	{ "resync_least", " <KiB/s>", 1, 1, msg_resync_least },
	{ "verify", " start|check|stop", 1, 1, msg_verify },
	{ "resync_pace", " polite|full", 1, 1, msg_resync_pace },
	{ "resync_compare", " on|off", 1, 1, msg_resync_compare },
	{ "remote_timeout", " <ms>", 1, 1, msg_remote_timeout },
	{ "local_timeout", " <ms>", 1, 1, msg_local_timeout },
	{ "coalesce", " <writes>", 1, 1, msg_coalesce },
	{ "scatter", " auto|on|off", 1, 1, msg_scatter },
	{ "memory_kib", " <KiB>", 1, 1, msg_memory_kib },
	{ "dirty_limit", " <MiB>", 1, 1, msg_dirty_limit },
	{ "policy", " degrade|block|error", 1, 1, msg_policy },
	{ "unblock", "", 0, 0, msg_unblock },
	{ "fail_held", "", 0, 0, msg_fail_held },
	{ "grow", "", 0, 0, msg_grow },
	{ "counters_reset", "", 0, 0, msg_counters_reset },
};

static void list_names(char *to, size_t size)
{
	size_t at = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(messages); i++)
		at += scnprintf(to + at, size - at, " %s", messages[i].name);
}

bool message_brought(const struct mirror *m)
{
	const struct message *msg;

	lockdep_assert_held(&m->lock);
	list_for_each_entry(msg, &m->messages, link)
		if (msg->task == current)
			return true;
	return false;
}

/* What is to be done, and how many arguments it takes; or why it can't be. */
/* No word nor number is that long, and it isn't cut to another one. */
static int check_lengths(const char *name, unsigned int argc, char **argv)
{
	unsigned int i;

	for (i = 1; i < argc; i++) {
		if (strlen(argv[i]) < MESSAGE_WORD)
			continue;
		DMWARN("%s: message %s: %s is too long", name, argv[0], argv[i]);
		return -EINVAL;
	}
	return 0;
}

static int parse(struct mirror *m, unsigned int argc, char **argv, unsigned int *which)
{
	const char *name = dm_table_device_name(m->ti->table);
	char names[256];
	unsigned int i;

	if (!m->ran) {
		DMWARN("%s: message %s: this table hasn't been started", name, argv[0]);
		return -EBUSY;
	}
	for (i = 0; i < ARRAY_SIZE(messages); i++) {
		if (strcasecmp(argv[0], messages[i].name))
			continue;
		*which = i;
		if (argc > messages[i].min && argc <= messages[i].max + 1)
			return check_lengths(name, argc, argv);
		DMWARN("%s: message %s has %u arguments, it is: %s%s", name, argv[0], argc - 1,
		       messages[i].name, messages[i].words);
		return -EINVAL;
	}
	list_names(names, sizeof(names));
	DMWARN("%s: message %s: unknown; there are%s", name, argv[0], names);
	return -EINVAL;
}

/* Of the two, who brings it and who does it, the second one frees it. Under the state lock. */
static bool let_go(struct message *msg)
{
	lockdep_assert_held(&msg->m->lock);
	return !--msg->users;
}

static void message_work(struct work_struct *work)
{
	struct message *msg = container_of(work, struct message, work);
	struct mirror *m = msg->m;
	bool last;
	int r;

	spin_lock_irq(&m->lock);
	msg->task = current;
	spin_unlock_irq(&m->lock);
	r = messages[msg->which].handle(m, msg->argc, msg->argv);
	spin_lock_irq(&m->lock);
	list_del(&msg->link);
	msg->result = r;
	last = let_go(msg);
	complete(&msg->done);
	spin_unlock_irq(&m->lock);
	if (!last)
		return;
	DMINFO("%s: message %s, for which nobody waits any more, has ended: %d",
	       dm_table_device_name(m->ti->table), messages[msg->which].name, r);
	kfree(msg);
}

/*
 * Does it wait for a leg that doesn't answer, maybe by way of somebody else who does? Or for a
 * verify, and that for the range of a write that the policy holds? Then who brings it goes: dm
 * waits for him before it suspends anything.
 */
static bool is_stuck(const struct message *msg, unsigned long since)
{
	bool verifies = messages[msg->which].handle == msg_verify && !test_knob(blocked_waits);
	struct mirror *m = msg->m;
	bool stuck;

	spin_lock_irq(&m->lock);
	stuck = (m->legs[LEG_LOCAL].silent || m->legs[LEG_REMOTE].silent ||
		 (verifies && m->standing == BLOCKED)) &&
		(m->closed || time_after(jiffies, since + MESSAGE_SECONDS * HZ));
	spin_unlock_irq(&m->lock);
	return stuck && !test_knob(message_stays);
}

static int await(struct message *msg)
{
	struct mirror *m = msg->m;
	unsigned long since = jiffies;
	unsigned int which = msg->which;
	bool last, left = false;
	int r;

	while (!left && !wait_for_completion_timeout(&msg->done, HZ / 50 + 1))
		left = is_stuck(msg, since);
	spin_lock_irq(&m->lock);
	last = let_go(msg);
	r = last ? msg->result : -EBUSY;
	spin_unlock_irq(&m->lock);
	if (last)
		kfree(msg);
	else
		DMWARN("%s: message %s: a leg doesn't answer, or writes are held: it ends by itself when that does",
		       dm_table_device_name(m->ti->table), messages[which].name);
	return r;
}

static struct message *message_create(struct mirror *m, unsigned int which, unsigned int argc,
				      char **argv)
{
	struct message *msg = kzalloc(sizeof(*msg), GFP_NOIO);
	unsigned int i;

	if (!msg)
		return NULL;
	msg->m = m;
	msg->which = which;
	msg->users = 2;
	msg->argc = argc;
	for (i = 0; i < argc; i++) {
		strscpy(msg->words[i], argv[i], sizeof(msg->words[i]));
		msg->argv[i] = msg->words[i];
	}
	init_completion(&msg->done);
	INIT_WORK(&msg->work, message_work);
	return msg;
}

int message_handle(struct mirror *m, unsigned int argc, char **argv)
{
	struct message *msg;
	unsigned int which;
	int r = parse(m, argc, argv, &which);

	if (r)
		return r;
	msg = message_create(m, which, argc - 1, argv + 1);
	if (!msg)
		return -ENOMEM;
	spin_lock_irq(&m->lock);
	list_add(&msg->link, &m->messages);
	spin_unlock_irq(&m->lock);
	if (test_knob(message_stays))
		message_work(&msg->work);
	else
		queue_work(m->message_wq, &msg->work);
	return await(msg);
}

bool messages_busy(struct mirror *m)
{
	bool busy;

	spin_lock_irq(&m->lock);
	busy = !list_empty(&m->messages);
	spin_unlock_irq(&m->lock);
	return busy;
}

void messages_drain(struct mirror *m)
{
	flush_workqueue(m->message_wq);
}

int messages_create(struct mirror *m)
{
	m->message_wq = alloc_workqueue("lockstep-message", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return m->message_wq ? 0 : -ENOMEM;
}

void messages_destroy(struct mirror *m)
{
	if (m->message_wq)
		destroy_workqueue(m->message_wq);
	m->message_wq = NULL;
}
