// SPDX-License-Identifier: GPL-2.0-only
/* Opening, and the way of requests. */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "again.h"
#include "batch.h"
#include "beyond.h"
#include "claim.h"
#include "lockstep-compat.h"
#include "lockstep-test.h"

#define READERS 128	/* of the log at a time, as each is a thread */

#define CREATE_TRACE_POINTS
#include "dcd-trace.h"

TEST_KNOB(bool, one_queue, "flushes wait in a queue with reads of the log");

static int carve(struct dcd_engine *e, size_t asked)
{
	u64 bytes = e->keeps ? le64_to_cpu(e->header.bytes) : e->nv->bytes;
	u64 slots, least = DCD_BLOCK + 2ULL * e->segment_bytes;
	unsigned int i;

	if (bytes < least || (asked && asked < least)) {
		pr_err("dcd: %s: NVRAM of %llu bytes is too small: two slots of %u need %llu\n",
		       e->name, asked ? min_t(u64, asked, bytes) : bytes, e->segment_bytes, least);
		return -ENOSPC;
	}
	slots = div_u64(bytes - DCD_BLOCK, e->segment_bytes);
	e->nslots = min_t(u64, slots, DCD_SLOTS_MAX);
	e->slots_there = e->nslots;
	e->slots = kvcalloc(e->nslots, sizeof(*e->slots), GFP_KERNEL);
	e->where = kvcalloc(e->nslots, sizeof(*e->where), GFP_KERNEL);
	if (!e->slots || !e->where)
		return -ENOMEM;
	if (e->keeps) {
		e->tables = kvcalloc(e->nslots, e->table_bytes, GFP_KERNEL);
		if (!e->tables)
			return -ENOMEM;
	}
	for (i = 0; i < e->nslots; i++) {
		struct dcd_slot *s = e->slots + i;

		s->base = e->nv->base + DCD_BLOCK + (size_t)i * e->segment_bytes;
		s->table = e->keeps ? e->tables + (size_t)i * e->table_bytes :
				      (void *)s->base + DCD_BLOCK;
	}
	return 0;
}

static int make_workers(struct dcd_engine *e)
{
	e->intake_wq = alloc_ordered_workqueue("dcd-intake", WQ_MEM_RECLAIM);
	e->commit_wq = alloc_ordered_workqueue("dcd-commit", WQ_MEM_RECLAIM);
	e->destage_wq = alloc_ordered_workqueue("dcd-destage", WQ_MEM_RECLAIM);
	e->submit_wq = alloc_ordered_workqueue("dcd-submit", WQ_MEM_RECLAIM);
	e->io_wq = alloc_workqueue("dcd-io", WQ_MEM_RECLAIM | WQ_UNBOUND, READERS);
	e->quick_wq = alloc_workqueue("dcd-quick", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	e->flush_wq = alloc_workqueue("dcd-flush", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	e->wipe_wq = alloc_ordered_workqueue("dcd-wipe", WQ_MEM_RECLAIM);
	e->aside_wq = alloc_workqueue("dcd-aside", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	e->commit_buf = vzalloc(e->segment_bytes);
	e->destage_buf = vzalloc(DCD_BLOCK);
	e->super_buf = vzalloc(2 * DCD_BLOCK);
	e->scrub.buf = vzalloc(e->segment_bytes);
	e->batch = dcd_batch_new(e);
	e->ahead = dcd_batch_new(e);
	e->again = dcd_again_new();
	e->beyond = dcd_beyond_new();
	e->pending = kvcalloc(DCD_PENDING, sizeof(*e->pending), GFP_KERNEL);
	if (!e->intake_wq || !e->quick_wq || !e->commit_wq || !e->destage_wq || !e->io_wq ||
	    !e->commit_buf || !e->destage_buf || !e->pending || !e->batch || !e->ahead ||
	    !e->super_buf || !e->again || !e->beyond || !e->scrub.buf || !e->submit_wq ||
	    !e->flush_wq || !e->wipe_wq || !e->aside_wq || dcd_stuck_init(e) || dcd_lost_init(e) ||
	    dcd_proof_init(e))
		return -ENOMEM;
	return bioset_init(&e->bios, 16, dcd_piece_pad, BIOSET_NEED_BVECS);
}

static void free_srcus(struct dcd_engine *e)
{
	cleanup_srcu_struct(&e->submitters);
	cleanup_srcu_struct(&e->copiers);
}

static int make_srcus(struct dcd_engine *e)
{
	int r = init_srcu_struct(&e->copiers);

	if (r)
		return r;
	r = init_srcu_struct(&e->submitters);
	if (r)
		cleanup_srcu_struct(&e->copiers);
	return r;
}

void dcd_engine_free(struct dcd_engine *e)
{
	if (e->intake_wq)
		destroy_workqueue(e->intake_wq);
	if (e->quick_wq)
		destroy_workqueue(e->quick_wq);
	if (e->commit_wq)
		destroy_workqueue(e->commit_wq);
	if (e->destage_wq)
		destroy_workqueue(e->destage_wq);
	if (e->submit_wq)
		destroy_workqueue(e->submit_wq);
	if (e->io_wq)
		destroy_workqueue(e->io_wq);
	if (e->flush_wq)
		destroy_workqueue(e->flush_wq);
	if (e->wipe_wq)
		destroy_workqueue(e->wipe_wq);
	if (e->aside_wq)
		destroy_workqueue(e->aside_wq);
	dcd_cache_free(e->cache);
	vfree(e->commit_buf);
	vfree(e->destage_buf);
	vfree(e->super_buf);
	vfree(e->scrub.buf);
	dcd_batch_free(e->batch);
	dcd_batch_free(e->ahead);
	dcd_late_free(e);
	dcd_stuck_free(e);
	dcd_lost_free(e);
	dcd_proof_free(e);
	dcd_spares_free(e);
	kvfree(e->again);
	dcd_beyond_free(e->beyond);
	kvfree(e->pending);
	kvfree(e->tables);
	kvfree(e->where);
	kvfree(e->slots);
	/* Nobody looks at it any more, and by RCU 7.3 crashes: see dcd_index_reach(). */
	mt_clear_in_rcu(&e->index);
	mtree_destroy(&e->index);
	dcd_sums_free(e);
	xa_destroy(&e->leave_lost);
	if (e->nv)
		dcd_nvram_close(e->nv);
	/* Whoever is refused is told of these disks: they are open then. */
	dcd_unclaim(e);
	dcd_disk_close(&e->log);
	dcd_disk_close(&e->data);
	bioset_exit(&e->bios);
	free_srcus(e);
	mutex_destroy(&e->super_lock);
	mutex_destroy(&e->header_lock);
	mutex_destroy(&e->intake);
	kfree(e);
}

static int open_cache(struct dcd_engine *e, size_t bytes)
{
	e->cache = dcd_cache_new(e);
	return e->cache ? dcd_cache_bound(e->cache, bytes) : -ENOMEM;
}

/* The battery's are those that could lose them. */
static bool loses_acks(const struct dcd_engine *e, const struct dcd_config *c)
{
	const struct dcd_nvram_type *t = e->nv->type;

	return t->loses_acks && (t->loses_acks(e->nv) || !c->battery);
}

/* What was acknowledged before the battery failed has nobody's FLUSH behind it. */
static void set_loses_acks(struct dcd_engine *e, bool yes)
{
	if (e->loses_acks == yes)
		return;
	spin_lock(&e->lock);
	WRITE_ONCE(e->loses_acks, yes);
	dcd_seal_open(e);
	spin_unlock(&e->lock);
	mod_delayed_work(e->commit_wq, &e->commit_work, 0);
	pr_info("dcd: %s: the battery of the NVRAM %s: the LUN's write cache is %s\n", e->name,
		yes ? "fails" : "works", yes ? "volatile" : "not volatile");
}

static int open_all(struct dcd_engine *e, const struct dcd_config *c)
{
	int r = dcd_disk_open(&e->data, "data", c->data, e);

	if (!r)
		r = dcd_disk_open(&e->log, "log", c->log, e);
	if (r)
		return r;
	e->block = max(e->data.block, e->log.block);
	if (e->data.bdev == e->log.bdev) {
		pr_err("dcd: %s: %s is both data and log disk\n", e->name, c->data);
		return -EINVAL;
	}
	r = dcd_nvram_open(c->nvram, c->nvram_bytes, &e->nv);
	if (r)
		return r;
	e->keeps = !e->nv->type->volatile_content;
	e->loses_acks = loses_acks(e, c);
	e->after_log = e->nv->type->report_after_complete;
	/* Whose log it is; and what it says, now that nobody else writes it. */
	r = dcd_super_read(e, c->grow);
	if (!r)
		r = dcd_claim(e);
	if (!r)
		r = dcd_super_read(e, c->grow);
	if (!r)
		r = dcd_claim_check(e);
	if (!r)
		r = dcd_spares_open(e);
	if (!r)
		r = dcd_beyond_open(e);
	if (!r && e->keeps)
		r = dcd_header_read(e);
	if (!r)
		r = carve(e, c->nvram_bytes);
	if (!r)
		r = make_workers(e);
	if (!r) {
		dcd_index_bound(e, c->index_bytes);
		dcd_turn_init(&e->turn, e->data.sectors);
		dcd_wipes_init(e);
	}
	r = r ?: open_cache(e, c->read_cache_bytes);
	if (!r)
		dcd_witness_begin(e);
	r = r ?: dcd_recover(e);
	if (!r)
		r = dcd_witness_check(e);
	if (!r)
		r = dcd_slots_check(e);
	if (!r)
		dcd_slots_begin(e);
	if (!r)
		r = dcd_header_mend(e);
	if (!r && c->grow)
		r = dcd_take_size(e);
	return r;
}

struct dcd_engine *dcd_open(const struct dcd_config *c)
{
	struct dcd_engine *e = kzalloc(sizeof(*e), GFP_KERNEL);
	unsigned int i;
	int r;

	if (!e)
		return ERR_PTR(-ENOMEM);
	r = make_srcus(e);
	if (r) {
		kfree(e);
		return ERR_PTR(r);
	}
	strscpy(e->name, c->name, sizeof(e->name));
	mutex_init(&e->intake);
	mutex_init(&e->super_lock);
	mutex_init(&e->header_lock);
	spin_lock_init(&e->lock);
	init_waitqueue_head(&e->room);
	init_waitqueue_head(&e->moved);
	dcd_sums_init(e);
	xa_init(&e->leave_lost);
	INIT_DELAYED_WORK(&e->publish_work, dcd_publish_worker);
	INIT_DELAYED_WORK(&e->commit_work, dcd_commit_worker);
	dcd_commit_init(e);
	INIT_LIST_HEAD(&e->idle);
	INIT_LIST_HEAD(&e->pinned);
	for (i = 0; i < DCD_QUEUES; i++)
		INIT_LIST_HEAD(&e->waiting[i]);
	INIT_LIST_HEAD(&e->unreported);
	dcd_reads_init(e);
	dcd_throughs_init(e);
	dcd_linger_init(e);
	INIT_WORK(&e->intake_work, dcd_intake_worker);
	INIT_DELAYED_WORK(&e->patience_work, dcd_patience_worker);
	INIT_WORK(&e->reuse_work, dcd_reuse_worker);
	INIT_DELAYED_WORK(&e->destage_work, dcd_destage_worker);
	INIT_WORK(&e->super_work, dcd_super_worker);
	INIT_DELAYED_WORK(&e->scrub_work, dcd_scrub_worker);
	if (dcd_acks_early())
		pr_warn("dcd: %s: test_ack_early is on: acknowledged writes will be lost by a power cut\n",
			e->name);
	e->destage = c->destage;
	e->busy_after_ms = c->busy_after_ms;
	e->scrub_kib = c->scrub_kib;
	e->last_intake = jiffies;
	e->last_read = jiffies - HZ;
	e->unread_at = jiffies - 3600 * HZ;	/* long ago */
	e->log_failed = jiffies - 3600 * HZ;	/* long ago */
	e->log_away = jiffies;
	r = dcd_index_init(e) ?: open_all(e, c);
	if (r) {
		dcd_end(e);	/* the log may be at something */
		return ERR_PTR(r);
	}
	/* Only now are there readers: RCU would keep millions of nodes until a recovery ends. */
	mt_set_in_rcu(&e->index);
	if (c->leave_log && dcd_leave(e))
		pr_warn("dcd: %s: so leave_log=1 is forgotten\n", e->name);
	dcd_super_tell(e);
	dcd_slots_kick(e);
	dcd_destage_kick(e);
	dcd_scrub_begin(e);
	dcd_digest_engine_opened(e);
	return e;
}
EXPORT_SYMBOL_GPL(dcd_open);

void dcd_reconfigure(struct dcd_engine *e, const struct dcd_config *c)
{
	spin_lock(&e->lock);
	e->destage = c->destage;
	spin_unlock(&e->lock);
	WRITE_ONCE(e->busy_after_ms, c->busy_after_ms);
	WRITE_ONCE(e->scrub_kib, c->scrub_kib);
	dcd_scrub_begin(e);
	dcd_index_bound(e, c->index_bytes);
	if (dcd_cache_bound(e->cache, c->read_cache_bytes))
		pr_warn("dcd: %s: no memory for a read cache of %zu bytes: it stays at %llu\n",
			e->name, c->read_cache_bytes, dcd_cache_most(e->cache));
	set_loses_acks(e, loses_acks(e, c));
	dcd_destage_ask(e);
	wake_up_all(&e->room);
}
EXPORT_SYMBOL_GPL(dcd_reconfigure);

void dcd_answer(struct dcd_engine *e, struct dcd_request *rq, int error)
{
	if (error)
		dcd_count(e, error == -ENOMEM ? DCD_N_NOMEM :
			     rq->op == DCD_READ ? DCD_N_READ_ERRORS :
			     rq->op == DCD_FLUSH ? DCD_N_FLUSH_ERRORS : DCD_N_WRITE_ERRORS, 1);
	trace_dcd_done(e, rq, error);
	rq->done(rq, error);
}

static void work_on(struct work_struct *work)
{
	struct dcd_request *rq = container_of(work, struct dcd_request, work);
	struct dcd_engine *e = rq->engine;
	int r;

	if (rq->op == DCD_READ) {
		dcd_read_rest(e, rq);
		return;
	}
	r = dcd_commit_for(e, rq);
	if (r == -EAGAIN)
		dcd_answer_over(e, rq);
	else
		dcd_answer(e, rq, r);
}

void dcd_later(struct dcd_engine *e, struct dcd_request *rq)
{
	rq->engine = e;
	INIT_WORK(&rq->work, work_on);
	/* Not behind reads, which a disk that hangs may hold, as many as that takes at a time. */
	queue_work(rq->op == DCD_READ || test_knob(one_queue) ? e->io_wq : e->flush_wq, &rq->work);
}

void dcd_entered(struct dcd_engine *e, struct dcd_request *rq)
{
	if (rq->again)
		dcd_intake_again(e, rq);
	else if (e->after_log && !dcd_acks_early())
		dcd_report_after_log(e, rq);
	else if (rq->fua && READ_ONCE(e->loses_acks))
		dcd_later(e, rq);
	else
		dcd_answer(e, rq, 0);
}

static int check_range(const struct dcd_engine *e, sector_t sector, sector_t sectors)
{
	sector_t size = dcd_sectors(e);

	if (sector > size || sectors > size - sector)
		return -ERANGE;
	return (sector | sectors) & ((e->block >> SECTOR_SHIFT) - 1) ? -EINVAL : 0;
}

static int check(struct dcd_engine *e, const struct dcd_request *rq)
{
	unsigned int i;
	int r = 0;

	if (!rq->ranges)
		return check_range(e, rq->sector, rq->sectors);
	for (i = 0; i < rq->nranges && !r; i++)
		r = check_range(e, rq->ranges[i].sector, rq->ranges[i].sectors);
	if (!r && !dcd_batch_fits(e, rq))
		r = -EINVAL;
	return r;
}

static void submit(struct dcd_engine *e, struct dcd_request *rq)
{
	int r = check(e, rq);

	rq->since = rq->since ?: jiffies;
	if (r) {
		dcd_answer(e, rq, r);
		return;
	}
	switch (rq->op) {
	case DCD_READ:
		dcd_count(e, DCD_N_READS, 1);
		WRITE_ONCE(e->last_read, jiffies);
		if (!dcd_left(e) || !dcd_through_holds_read(e, rq))
			dcd_read(e, rq);
		return;
	case DCD_FLUSH:
		dcd_count(e, DCD_N_FLUSHES, 1);
		if (dcd_left(e))
			dcd_through(e, rq);
		else if (READ_ONCE(e->loses_acks) ||
			 (READ_ONCE(e->log_dead) && !e->keeps && !e->after_log))
			dcd_later(e, rq);
		else
			dcd_answer(e, rq, 0);
		return;
	default:
		break;
	}
	if (rq->op == DCD_WRITE) {
		dcd_count(e, DCD_N_WRITES, 1);
		dcd_count(e, DCD_N_WRITTEN_SECTORS, rq->sectors);
	} else {
		dcd_count(e, rq->op == DCD_DISCARD ? DCD_N_DISCARDS : DCD_N_ZEROES, 1);
	}
	if (rq->fua)
		dcd_count(e, DCD_N_FUA, 1);
	dcd_intake(e, rq);
}

void dcd_submit(struct dcd_engine *e, struct dcd_request *rq)
{
	int id = srcu_read_lock(&e->submitters);

	submit(e, rq);	/* which may work for others yet when @rq has been answered */
	srcu_read_unlock(&e->submitters, id);
}
EXPORT_SYMBOL_GPL(dcd_submit);

sector_t dcd_sectors(const struct dcd_engine *e)
{
	return READ_ONCE(e->data.sectors);
}
EXPORT_SYMBOL_GPL(dcd_sectors);

void dcd_topology(const struct dcd_engine *e, struct dcd_topology *t)
{
	struct block_device *bdev = e->data.bdev;

	t->logical_block = e->block;
	t->physical_block = bdev_physical_block_size(bdev);
	t->io_min = bdev_io_min(bdev);
	t->io_opt = bdev_io_opt(bdev);
	t->misaligned = bdev_alignment_offset(bdev);
	t->rotates = lockstep_bdev_rotates(bdev);
	t->discards = bdev_max_discard_sectors(bdev);
	t->discards_to_zeroes = e->wipes.to_zeroes;	/* zeroes.h */
	t->discard_granularity = bdev_discard_granularity(bdev);
	t->discard_misaligned = bdev_discard_alignment(bdev);
}
EXPORT_SYMBOL_GPL(dcd_topology);

const u8 *dcd_log_uuid(const struct dcd_engine *e)
{
	return e->super.uuid;
}
EXPORT_SYMBOL_GPL(dcd_log_uuid);

bool dcd_volatile_cache(const struct dcd_engine *e)
{
	return READ_ONCE(e->loses_acks) && !dcd_left(e);
}
EXPORT_SYMBOL_GPL(dcd_volatile_cache);

/* What an acknowledged write is worth, for people. */
static const char *promise(const struct dcd_engine *e)
{
	static const char *const words[] = {
		"acknowledged writes are in the log: they outlive a power cut, a panic and a reset",
		"acknowledged writes outlive a power cut, a panic and a reset",
		"acknowledged writes that weren't flushed are lost by a power cut, a panic or a reset, as the LUN's write cache says",
		"the log was left: acknowledged writes are on the data disk, as durable as that makes them",
		"ordinary memory, by the admin's word that it never loses power: acknowledged writes of the last moments are LOST by a panic, a forced reset or a power cut of this host, FLUSH or not",
	};

	return words[dcd_left(e) ? 3 : e->after_log ? 0 : e->keeps ? 1 :
		     READ_ONCE(e->loses_acks) ? 2 : 4];
}

static const char *const counter_names[] = {
#define DCD_COUNTER(id, name) \
	[DCD_N_##id] = #name,
#include "dcd-counters.h"
#undef DCD_COUNTER
};

u64 dcd_counter(const struct dcd_engine *e, enum dcd_counter what)
{
	return atomic64_read(&e->counters[what]);
}
EXPORT_SYMBOL_GPL(dcd_counter);

void dcd_state(struct dcd_engine *e, struct dcd_state *s)
{
	spin_lock(&e->lock);
	s->log_live = e->committed - e->tail;
	s->log_free = dcd_ring_free(e);
	s->slots_used = e->head - e->committed;
	s->log_failing = e->log_dead && !e->leaving;
	s->log_left = e->leaving == DCD_LEAVE_LEFT;
	s->stuck_ranges = READ_ONCE(e->bad.n);
	s->stuck_sectors = READ_ONCE(e->bad.sectors);
	s->data_failing = e->data_failing || s->stuck_ranges;
	s->lost_ranges = READ_ONCE(e->lost.n);
	s->lost_sectors = READ_ONCE(e->lost.sectors);
	s->log_damaged = e->damaged > e->tail || s->lost_ranges;
	s->slots_retired = e->slots_there - e->nslots;
	spin_unlock(&e->lock);
	s->log_segments = e->segments;
	s->slots = e->nslots;
	s->index_used = dcd_index_used(e);
	s->index_bytes = READ_ONCE(e->index_bytes);
	s->cache_used = dcd_cache_used(e->cache);
	s->cache_bytes = dcd_cache_most(e->cache);
}
EXPORT_SYMBOL_GPL(dcd_state);

ssize_t dcd_to_text(struct dcd_engine *e, char *buf, size_t size)
{
	struct dcd_state s;
	unsigned int i;
	ssize_t n;

	dcd_state(e, &s);
	n = scnprintf(buf, size,
		      "uuid %pU data_sectors %llu nvram %s slots %u of %u bytes, %llu in use; log segments %llu live %llu free %llu; index %llu of %llu bytes; read cache %llu of %llu bytes; log %s, data %s; stuck_ranges %llu stuck_sectors %llu; lost_ranges %llu lost_sectors %llu; slots_retired %llu; moved_blocks %u spares_left %u\n",
		      e->super.uuid, (u64)dcd_sectors(e), e->nv->type->name,
		      e->nslots, e->segment_bytes, s.slots_used,
		      s.log_segments, s.log_live, s.log_free, s.index_used, s.index_bytes,
		      s.cache_used, s.cache_bytes,
		      dcd_leave_text(e) ?: s.log_failing ? "FAILING" : s.log_damaged ? "DAMAGED" : "ok",
		      s.data_failing ? "FAILING" : "ok", s.stuck_ranges, s.stuck_sectors,
		      s.lost_ranges, s.lost_sectors, s.slots_retired,
		      READ_ONCE(e->spares.now.used), dcd_spares_unused(e));
	n += scnprintf(buf + n, size - n, "nvram %s: %s\n", e->nv->type->name, promise(e));
	for (i = 0; i < DCD_COUNTERS; i++)
		n += scnprintf(buf + n, size - n, "%s %llu%c", counter_names[i],
			       dcd_counter(e, i),
			       i + 1 < DCD_COUNTERS ? ' ' : '\n');
	return n;
}
EXPORT_SYMBOL_GPL(dcd_to_text);

static int __init dcd_init(void)
{
	int r = dcd_nvram_register(&dcd_nvram_dram) ?: dcd_nvram_register(&dcd_nvram_none);

#if DCD_HAVE_PMEM
	if (!r)
		r = dcd_nvram_register(&dcd_nvram_pmem);
#endif
	return r ?: dcd_linger_module_init();
}

static void __exit dcd_exit(void)
{
	dcd_linger_module_exit();
}

module_init(dcd_init);
module_exit(dcd_exit);
MODULE_VERSION(LOCKSTEP_RELEASE);
MODULE_DESCRIPTION("Disk-caching disk: NVRAM and a log disk in front of a data disk");
MODULE_LICENSE("GPL");
