// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-lockstep: a synchronous mirror of a local and a remote block device.
 *
 *   <start> <len> lockstep <local_dev> <remote_dev> [<#opts> <opt>...]
 *
 * A write is acknowledged when both legs have it, with the flush or FUA it
 * asked for. Overlapping writes are never in flight together, and both legs
 * are fed from one copy of the data, so at any quiet moment the regions that
 * are in sync are bit-identical on both legs, whose data starts at sector 0.
 *
 *   lockstep-meta create --local /dev/L --remote /dev/R --name m
 *   lockstep-meta verdict /dev/L /dev/R	(says what the table is)
 *   dmsetup create m --table "0 2097152 lockstep /dev/L /dev/R"
 *   dmsetup status m
 *   0 2097152 lockstep AA 1024/1024 idle 0 0 ...
 *
 * What each leg has is known from its own metadata (lockstep-format.h), at its
 * end: legs that don't belong together, or have each gone on without the other,
 * are refused. The options are in table.h. A table reload of an active mirror
 * keeps its state (registry.h), and may exchange a leg's device or take it away.
 *
 * The status line is described in status.h, messages in message.h.
 *
 * No ioctls are passed down: SG_IO to one leg would go around the mirror.
 */
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "lockstep-compat.h"
#include "lockstep-test.h"
#include "activate.h"
#include "again.h"
#include "digest.h"
#include "grow.h"
#include "join.h"
#include "limits.h"
#include "message.h"
#include "metadata.h"
#include "mirror.h"
#include "read.h"
#include "registry.h"
#include "repair.h"
#include "resync.h"
#include "status.h"
#include "verify.h"
#include "write.h"
#include "zero.h"

TEST_KNOB(bool, remove_waits, "a table's end waits until abandoned I/O has returned");
TEST_KNOB(uint, slow_close, "ms from when nothing may be held to when dm keeps what comes");
TEST_KNOB(bool, writes_taken, "a read-only mirror takes writes of who had it open before");

/* Without metadata: 1 MiB. */
#define REGION_SHIFT_CORE	11

#define CREATE_TRACE_POINTS
#include "lockstep-trace.h"

static void tell_leg(struct mirror *m, enum leg_id leg, char health, unsigned long in_sync)
{
	const char *name = dm_table_device_name(m->ti->table);
	const struct leg *l = &m->legs[leg];

	if (health == 'D' || health == '-')
		DMWARN("%s: %s leg %s is dead (%s), policy %s", name, leg_name(leg), leg_path(l),
		       leg_why_word(l->why), table_policy_name(m->options.policy));
	else if (health == 'a')
		DMINFO("%s: %s leg %s is alive, %lu of %lu regions in sync", name, leg_name(leg),
		       leg_path(l), in_sync, m->map.nr);
	else
		DMINFO("%s: %s leg %s is in sync", name, leg_name(leg), leg_path(l));
}

static void event_work(struct work_struct *work)
{
	struct mirror *m = container_of(work, struct mirror, event);
	enum standing standing, stood;
	char health[LEGS], before[LEGS];
	unsigned long in_sync;
	bool news = false;
	enum leg_id leg;

	registry_learn(m);
	spin_lock_irq(&m->lock);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		before[leg] = m->shown[leg];
		health[leg] = mirror_health(m, leg);
		m->shown[leg] = health[leg];
		/* The watch has told the log. */
		news |= m->legs[leg].silent != m->shown_silent[leg];
		m->shown_silent[leg] = m->legs[leg].silent;
	}
	stood = m->shown_standing;
	standing = m->standing;
	m->shown_standing = standing;
	in_sync = region_map_in_sync(&m->map);
	spin_unlock_irq(&m->lock);

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (health[leg] != before[leg]) {
			tell_leg(m, leg, health[leg], in_sync);
			news = true;
		}
	if (standing != stood && standing != PARTING) {
		DMINFO("%s: %s", dm_table_device_name(m->ti->table), standing_name(standing));
		news = true;
	}
	if (news)
		dm_table_event(m->ti->table);
}

/* What works beside the application, once all of it has been made. */
static void background_run(struct mirror *m)
{
	digests_run(m);
	repair_run(m->repair);
	resync_run(m->resync);
	verify_run(m->verify);
}

static void background_pause(struct mirror *m)
{
	verify_pause(m->verify);
	resync_pause(m->resync);
	digests_pause(m);
	repair_pause(m->repair);
}

static void background_drain(struct mirror *m)
{
	verify_drain(m->verify);
	resync_drain(m->resync);
	repair_drain(m->repair);
}

/*
 * The first half of taking apart whatever has been made; what hasn't is zero. After it
 * nothing of the mirror runs but what returns from the legs, and ti isn't used any more.
 */
static void mirror_stop(struct mirror *m)
{
	enum leg_id leg;

	/* First who calls into all the others. */
	messages_destroy(m);
	if (m->join_wq) {
		join_stop(m);
		destroy_workqueue(m->join_wq);
	}
	if (m->state_wq)
		destroy_workqueue(m->state_wq);
	dirty_map_destroy(&m->dirty);
	if (!IS_ERR_OR_NULL(m->resync)) {
		background_pause(m);
		background_drain(m);
	}
	if (m->wq) {
		cancel_work_sync(&m->event);
		destroy_workqueue(m->wq);
	}
	if (m->read_wq)
		destroy_workqueue(m->read_wq);
	writes_stop(m);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		leg_put(&m->legs[leg], m->ti);
	digests_leave(m);
	registry_leave(m);
}

/* The second half, when all has returned. */
static void mirror_free(struct mirror *m)
{
	enum leg_id leg;

	/* First who works for all the others: a worker may not be done with what has returned. */
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		sender_destroy(&m->legs[leg].sender);
	if (!IS_ERR_OR_NULL(m->resync))
		resync_destroy(m->resync);
	if (m->verify)
		verify_destroy(m->verify);
	if (m->repair)
		repair_destroy(m->repair);
	digests_destroy(m);
	throttle_destroy(m->throttle);
	writes_destroy(m);
	transfers_destroy(m);
	watch_destroy(m);
	metadata_destroy(m);
	counters_destroy(&m->counters);
	region_map_destroy(&m->map);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		leg_close(&m->legs[leg]);
	kfree(m);
}

/* Has all returned that mirror_free() needs back? */
static bool all_returned(struct mirror *m)
{
	return !writes_draining(m, LEG_LOCAL) && !writes_draining(m, LEG_REMOTE) &&
	       !scatter_asking(m) && !digests_out(m);
}

/* Nobody waits for a leg: one that is stopped, and has I/O out, is the registry's from now on. */
static void mirror_end(struct mirror *m)
{
	if (!all_returned(m) && !test_knob(remove_waits)) {
		registry_linger(m, mirror_free);
		return;
	}
	/* Who has woken us may still be in there. Registered to the end: others see what drains. */
	writes_drain(m);
	scatter_end(m);
	registry_remove(m);
	mirror_free(m);
}

static int check_one_leg(struct mirror *m)
{
	if (!m->legs[LEG_LOCAL].dev && !m->legs[LEG_REMOTE].dev) {
		m->ti->error = "Both legs are \"-\"";
		return -EINVAL;
	}
	if (m->options.mode != MODE_METADATA) {
		m->ti->error = "A leg is \"-\": not with sync or nosync";
		return -EINVAL;
	}
	return 0;
}

/*
 * FUA of a device that hasn't got it is a write and a flush. If it loses its power between the two
 * and is back behind a session that reconnects, both succeed and the write is lost. One leg alone
 * is taken: it is a site's last, and who has it there loses its power with it.
 */
static int check_cache(struct mirror *m, enum leg_id leg)
{
	const struct leg *l = &m->legs[leg];
	bool both = m->legs[other_leg(leg)].dev;

	if (!l->dev || !leg_write_flags(l) || bdev_fua(leg_bdev(l)))
		return 0;
	DMWARN("%s leg: %s has a volatile cache and no FUA: when it loses its power, an acknowledged write may be lost without an error; switch that cache off (or, if it survives that, the option remote_cache trust)",
	       leg_name(l->id), leg_path(l));
	if (!both)
		return 0;
	m->ti->error = "A leg has a volatile cache and no FUA";
	return -EINVAL;
}

static int open_legs(struct mirror *m, char **argv)
{
	struct dm_target *ti = m->ti;
	enum leg_id leg;
	int r;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		r = leg_open(&m->legs[leg], ti, argv[leg], leg);
		if (r)
			return r;
	}
	m->legs[LEG_LOCAL].write_through = m->options.local_fua;
	m->legs[LEG_REMOTE].write_through = !m->options.trust_remote_cache;
	m->legs[LEG_REMOTE].cache_trusted = m->options.trust_remote_cache;
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		r = check_cache(m, leg);
		if (r)
			return r;
	}

	if (!m->legs[LEG_LOCAL].dev || !m->legs[LEG_REMOTE].dev)
		return check_one_leg(m);
	if (leg_bdev(&m->legs[LEG_LOCAL])->bd_dev == leg_bdev(&m->legs[LEG_REMOTE])->bd_dev) {
		DMERR("%s and %s are the same device", argv[LEG_LOCAL], argv[LEG_REMOTE]);
		ti->error = "Both legs are the same device";
		return -EINVAL;
	}
	/* A disk and a partition of it can't both be opened: the block layer sees to that. */
	return 0;
}

/* What is known of the legs: from their metadata, or from the table's word. */
static int learn(struct mirror *m)
{
	int r;

	if (m->options.mode != MODE_METADATA) {
		m->region_shift = m->options.region_size ? ilog2(m->options.region_size) :
							   REGION_SHIFT_CORE;
		return grow_check(m, NULL);
	}
	r = metadata_create(m);
	if (r) {
		m->ti->error = "Out of memory";
		return r;
	}
	return activate_check(m);
}

/* Chunks of whole physical blocks of both legs, within a region. */
static struct throttle *throttle_create_for(struct mirror *m)
{
	unsigned int most = min_t(u64, IO_MAX_SECTORS, 1ULL << m->region_shift);
	unsigned int least = 8;
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (m->legs[leg].dev)
			least = max(least, bdev_physical_block_size(leg_bdev(&m->legs[leg])) >>
					   SECTOR_SHIFT);
	return throttle_create(min(least, most), most, m->options.resync_rate);
}

/* Memory and threads; the map says what sync or nosync says. */
static int mirror_init(struct mirror *m)
{
	int r;

	bool resync = m->options.mode == MODE_SYNC;

	range_lock_init(&m->ranges);
	INIT_WORK(&m->event, event_work);
	standing_init(m);
	join_init(m);
	again_init(m);
	m->shown[LEG_LOCAL] = m->legs[LEG_LOCAL].dev ? 'A' : '-';
	m->shown[LEG_REMOTE] = !m->legs[LEG_REMOTE].dev ? '-' : resync ? 'a' : 'A';

	r = region_map_create(&m->map, m->ti->len, m->region_shift);
	if (r)
		return r;
	if (resync)
		region_map_mark_bits(&m->map, LEG_REMOTE, 0, m->map.nr, NULL);
	m->degraded = resync;
	r = dirty_map_create(&m->dirty, m, m->map.nr, m->region_shift, m->options.dirty_limit);
	if (r)
		return r;

	r = counters_create(&m->counters);
	if (r)
		return r;
	r = watch_create(m);
	if (r)
		return r;
	r = messages_create(m);
	if (r)
		return r;
	r = writes_create(m);
	if (r)
		return r;
	m->wq = alloc_workqueue("lockstep", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	m->read_wq = alloc_workqueue("lockstep-read", WQ_UNBOUND | WQ_MEM_RECLAIM, AGAIN_READS);
	m->state_wq = alloc_ordered_workqueue("lockstep-state", WQ_MEM_RECLAIM);
	m->join_wq = alloc_ordered_workqueue("lockstep-join", WQ_MEM_RECLAIM);
	if (!m->wq || !m->read_wq || !m->state_wq || !m->join_wq)
		return -ENOMEM;
	m->throttle = throttle_create_for(m);
	if (!m->throttle)
		return -ENOMEM;
	throttle_set_polite(m->throttle, !m->options.resync_full);
	throttle_set_least(m->throttle, m->options.resync_least);
	throttle_set_patience(m->throttle, m->options.timeout[LEG_REMOTE]);
	m->verify = verify_create(m);
	m->repair = repair_create(m);
	if (!m->verify || !m->repair)
		return -ENOMEM;
	r = digests_create(m);
	if (r)
		return r;
	m->resync = resync_create(m, m->options.resync_jobs, m->options.resync_compare);
	return PTR_ERR_OR_ZERO(m->resync);
}

static int lockstep_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct table_options options;
	struct mirror *m;
	int r;

	if (argc < LEGS) {
		ti->error = "Not enough arguments: <local_dev> <remote_dev> [<#opts> <opt>...]";
		return -EINVAL;
	}
	table_defaults(&options);
	r = table_parse(&options, ti, argc - LEGS, argv + LEGS);
	if (r)
		return r;

	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m) {
		ti->error = "Out of memory";
		return -ENOMEM;
	}
	m->ti = ti;
	strscpy(m->name, dm_table_device_name(ti->table), sizeof(m->name));
	m->devt = disk_devt(dm_disk(dm_table_get_md(ti->table)));
	INIT_LIST_HEAD(&m->registered.link);
	m->options = options;
	m->read_only = !(dm_table_get_mode(ti->table) & BLK_OPEN_WRITE);
	m->suspended = true;	/* until its first resume */
	spin_lock_init(&m->lock);
	INIT_LIST_HEAD(&m->messages);
	writes_init(m);
	bounces_init(m);
	read_window_init(m);

	r = open_legs(m, argv);
	if (!r) {
		r = transfers_create(m);
		if (r)
			ti->error = "Out of memory";
	}
	if (!r)
		scatter_init(m, options.scatter);
	if (!r)
		r = learn(m);
	if (!r)
		r = limits_check(m);
	if (r)
		goto bad;
	r = mirror_init(m);
	if (r) {
		ti->error = r == -E2BIG ? "Too many regions: raise region_size" : "Out of memory";
		goto bad;
	}
	r = registry_add(m);
	if (r)
		goto bad;

	ti->private = m;
	ti->per_io_data_size = sizeof(struct mirror_io);
	ti->num_flush_bios = 1;
	/* Whatever the legs' caches are set to now: that can change at any time. */
	ti->flush_supported = true;
	if (zero_supported(m)) {
		ti->num_discard_bios = 1;
		ti->num_write_zeroes_bios = 1;
		ti->discards_supported = true;
	}
	/* Each write holds memory of ours until both legs have it. */
	ti->limit_swap_bios = true;
	return 0;

bad:
	mirror_stop(m);
	mirror_end(m);		/* a leg may have hung when it was read */
	return r;
}

static void lockstep_dtr(struct dm_target *ti)
{
	struct mirror *m = ti->private;

	messages_destroy(m);
	watch_stop(m);		/* a message may have started it again */
	WARN_ON_ONCE(!range_lock_idle(&m->ranges));
	mirror_stop(m);
	mirror_end(m);
}

/*
 * Who had the device open when a read-only table came writes to it all the same: a file system, or
 * a device on top. Nobody marks a region here, so a write would wait without end. What the table
 * before has written may still have to be flushed.
 */
static bool refuses(const struct mirror *m, const struct bio *bio)
{
	return m->read_only && op_is_write(bio_op(bio)) && bio_sectors(bio) &&
	       !test_knob(writes_taken);
}

static int map_bio(struct mirror *m, struct bio *bio)
{
	if (unlikely(refuses(m, bio)))
		return DM_MAPIO_KILL;
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		return read_map(m, bio);
	case REQ_OP_WRITE:
	case REQ_OP_FLUSH:
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		write_map(m, bio);
		return DM_MAPIO_SUBMITTED;
	default:
		return DM_MAPIO_KILL;
	}
}

static int lockstep_map(struct dm_target *ti, struct bio *bio)
{
	struct mirror *m = ti->private;
	int r;

	throttle_app_begin(m->throttle, &mirror_io(bio)->app,
			   bio_has_data(bio) ? bio_sectors(bio) : 0);
	r = map_bio(m, bio);
	/* Such a bio doesn't come to .end_io; any other may have been there by now. */
	if (r == DM_MAPIO_KILL)
		throttle_app_end(m->throttle, &mirror_io(bio)->app, LEGS);
	return r;
}

static int lockstep_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct mirror_io *io = mirror_io(bio);
	struct mirror *m = ti->private;
	enum leg_id leg = LEGS;

	if (bio_op(bio) == REQ_OP_READ) {
		if (read_end_io(m, bio, error) == DM_ENDIO_INCOMPLETE)
			return DM_ENDIO_INCOMPLETE;
		leg = io->leg;
	} else if (bio_op(bio) == REQ_OP_WRITE) {
		leg = LEG_REMOTE;
	}
	throttle_app_end(m->throttle, &io->app, *error ? LEGS : leg);
	return DM_ENDIO_DONE;
}

static void lockstep_presuspend(struct dm_target *ti)
{
	struct mirror *m = ti->private;

	background_pause(m);
	/* Or dm would wait for what is held, and for whoever sleeps in .map. */
	standing_close(m);
	if (test_knob(slow_close))
		msleep(test_knob(slow_close));
	budget_close(m, dm_noflush_suspending(ti));
}

static void lockstep_presuspend_undo(struct dm_target *ti)
{
	struct mirror *m = ti->private;

	budget_open(&m->writes.budget);
	standing_open(m);
	background_run(m);
}

/* dm has waited for every bio: what is left is our own. */
static void lockstep_postsuspend(struct dm_target *ti)
{
	struct mirror *m = ti->private;

	watch_look(m);
	standing_quiet(m);
	messages_drain(m);
	background_drain(m);
	join_stop(m);
	standing_drain(m);
	flush_workqueue(m->wq);
	WARN_ON_ONCE(!range_lock_idle(&m->ranges));
	activate_suspend(m);
	/* Nothing of ours goes to the legs any more but a parting, which ends (transfer.h). */
	watch_stop(m);
	standing_drain(m);
	flush_workqueue(m->wq);
	registry_suspend(m);
}

static int lockstep_preresume(struct dm_target *ti)
{
	struct mirror *m = ti->private;
	int r;

	r = registry_resume(m);
	if (r)
		return r;
	r = m->ran ? activate_again(m) : activate_begin(m);
	if (r) {
		DMERR("%s: can't be started: error %d", dm_table_device_name(ti->table), r);
		registry_suspend(m);
		return r;
	}
	registry_ran(m);
	m->start_late = 0;
	budget_open(&m->writes.budget);
	standing_open(m);
	return 0;
}

static void lockstep_resume(struct dm_target *ti)
{
	struct mirror *m = ti->private;

	join_run(m);
	background_run(m);
	watch_start(m);
}

static int lockstep_message(struct dm_target *ti, unsigned int argc, char **argv,
			    char *result, unsigned int maxlen)
{
	return message_handle(ti->private, argc, argv);
}

static void lockstep_status(struct dm_target *ti, status_type_t type, unsigned int flags,
			    char *result, unsigned int maxlen)
{
	status_emit(ti->private, type, result, maxlen);
}

static int lockstep_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn,
				    void *data)
{
	struct mirror *m = ti->private;
	enum leg_id leg;
	int r = 0;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		if (!m->legs[leg].dev)
			continue;
		r = fn(ti, m->legs[leg].dev, 0, ti->len, data);
		if (r)
			break;
	}
	return r;
}

static struct target_type lockstep_target = {
	.name = "lockstep",
	.version = { 1, 0, 0 },
	/*
	 * Alone in its table: dm resumes target after target, and leaves those running that were
	 * before the one that refuses.
	 */
	.features = DM_TARGET_SINGLETON,
	.module = THIS_MODULE,
	.ctr = lockstep_ctr,
	.dtr = lockstep_dtr,
	.map = lockstep_map,
	.end_io = lockstep_end_io,
	.presuspend = lockstep_presuspend,
	.presuspend_undo = lockstep_presuspend_undo,
	.postsuspend = lockstep_postsuspend,
	.preresume = lockstep_preresume,
	.resume = lockstep_resume,
	.message = lockstep_message,
	.status = lockstep_status,
	.iterate_devices = lockstep_iterate_devices,
	.io_hints = limits_hints,
};

static int __init lockstep_init(void)
{
	int r = write_pool_module_init();

	if (r)
		return r;
	r = registry_module_init();
	if (r)
		goto no_registry;
	r = budget_module_init();
	if (r)
		goto no_budget;
	r = watch_module_init();
	if (r)
		goto no_watch;
	r = dm_register_target(&lockstep_target);
	if (r)
		goto no_target;
	return 0;

no_target:
	watch_module_exit();
no_watch:
	budget_module_exit();
no_budget:
	registry_module_exit();
no_registry:
	write_pool_module_exit();
	return r;
}

static void __exit lockstep_exit(void)
{
	dm_unregister_target(&lockstep_target);
	watch_module_exit();
	budget_module_exit();
	registry_module_exit();
	write_pool_module_exit();
}

module_init(lockstep_init);
module_exit(lockstep_exit);

MODULE_VERSION(LOCKSTEP_RELEASE);
MODULE_DESCRIPTION("Lockstep: synchronous mirror of a local and a remote block device");
MODULE_AUTHOR("Lockstep maintainers");
MODULE_LICENSE("GPL");
