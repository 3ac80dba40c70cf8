// SPDX-License-Identifier: GPL-2.0-only
/* Opening, closing, and the way of requests. */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "engine.h"

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
	e->nslots = min_t(u64, slots, 1024);
	e->slots = kvcalloc(e->nslots, sizeof(*e->slots), GFP_KERNEL);
	if (!e->slots)
		return -ENOMEM;
	for (i = 0; i < e->nslots; i++)
		e->slots[i].base = e->nv->base + DCD_BLOCK + (size_t)i * e->segment_bytes;
	return 0;
}

static int make_workers(struct dcd_engine *e)
{
	e->commit_wq = alloc_ordered_workqueue("dcd-commit", WQ_MEM_RECLAIM);
	e->destage_wq = alloc_ordered_workqueue("dcd-destage", WQ_MEM_RECLAIM);
	e->io_wq = alloc_workqueue("dcd-io", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	e->commit_buf = vzalloc(e->segment_bytes);
	e->destage_buf = vzalloc(DCD_IO_MAX);
	return e->commit_wq && e->destage_wq && e->io_wq && e->commit_buf && e->destage_buf ?
	       0 : -ENOMEM;
}

static void free_engine(struct dcd_engine *e)
{
	if (e->commit_wq)
		destroy_workqueue(e->commit_wq);
	if (e->destage_wq)
		destroy_workqueue(e->destage_wq);
	if (e->io_wq)
		destroy_workqueue(e->io_wq);
	vfree(e->commit_buf);
	vfree(e->destage_buf);
	kvfree(e->slots);
	mtree_destroy(&e->index);
	if (e->nv)
		dcd_nvram_close(e->nv);
	dcd_disk_close(&e->log);
	dcd_disk_close(&e->data);
	cleanup_srcu_struct(&e->readers);
	mutex_destroy(&e->intake);
	kfree(e);
}

static int open_all(struct dcd_engine *e, const struct dcd_config *c)
{
	int r = dcd_disk_open(&e->data, "data", c->data, e);

	if (!r)
		r = dcd_disk_open(&e->log, "log", c->log, e);
	if (r)
		return r;
	if (e->data.bdev == e->log.bdev) {
		pr_err("dcd: %s: %s is both data and log disk\n", e->name, c->data);
		return -EINVAL;
	}
	r = dcd_nvram_open(c->nvram, c->nvram_bytes, &e->nv);
	if (r)
		return r;
	e->keeps = !e->nv->type->volatile_content;
	e->loses_acks = e->nv->type->loses_acks && e->nv->type->loses_acks(e->nv);
	r = dcd_super_read(e);
	if (!r && e->keeps)
		r = dcd_header_read(e);
	if (!r)
		r = carve(e, c->nvram_bytes);
	if (!r)
		r = make_workers(e);
	return r ?: dcd_recover(e);
}

struct dcd_engine *dcd_open(const struct dcd_config *c)
{
	struct dcd_engine *e = kzalloc(sizeof(*e), GFP_KERNEL);
	int r;

	if (!e)
		return ERR_PTR(-ENOMEM);
	r = init_srcu_struct(&e->readers);
	if (r) {
		kfree(e);
		return ERR_PTR(r);
	}
	strscpy(e->name, c->name, sizeof(e->name));
	mutex_init(&e->intake);
	spin_lock_init(&e->lock);
	init_waitqueue_head(&e->room);
	mt_init_flags(&e->index, MT_FLAGS_USE_RCU);
	INIT_DELAYED_WORK(&e->commit_work, dcd_commit_worker);
	INIT_DELAYED_WORK(&e->destage_work, dcd_destage_worker);
	e->last_intake = jiffies;
	r = open_all(e, c);
	if (r) {
		free_engine(e);
		return ERR_PTR(r);
	}
	dcd_destage_kick(e);
	return e;
}
EXPORT_SYMBOL_GPL(dcd_open);

void dcd_close(struct dcd_engine *e)
{
	flush_workqueue(e->io_wq);
	/* What NVRAM keeps is safe there; but a log that is whole is easier to carry away. */
	if (dcd_commit_all(e))
		pr_warn("dcd: %s: closed with data in NVRAM only%s\n", e->name,
			e->keeps ? "" : ", which are lost with it");
	spin_lock(&e->lock);
	e->closing = true;
	spin_unlock(&e->lock);
	/* The committer kicks the destager, not the other way round once the log is quiet. */
	cancel_delayed_work_sync(&e->destage_work);
	cancel_delayed_work_sync(&e->commit_work);
	cancel_delayed_work_sync(&e->destage_work);
	cancel_delayed_work_sync(&e->commit_work);
	free_engine(e);
}
EXPORT_SYMBOL_GPL(dcd_close);

static void work_on(struct work_struct *work)
{
	struct dcd_request *rq = container_of(work, struct dcd_request, work);
	struct dcd_engine *e = rq->engine;

	rq->done(rq, rq->op == DCD_READ ? dcd_read(e, rq) : dcd_commit_all(e));
}

static void later(struct dcd_engine *e, struct dcd_request *rq)
{
	rq->engine = e;
	INIT_WORK(&rq->work, work_on);
	queue_work(e->io_wq, &rq->work);
}

void dcd_submit(struct dcd_engine *e, struct dcd_request *rq)
{
	int r;

	if (rq->sector > e->data.sectors || rq->sectors > e->data.sectors - rq->sector) {
		rq->done(rq, -ERANGE);
		return;
	}
	switch (rq->op) {
	case DCD_READ:
		atomic64_inc(&e->stats.reads);
		later(e, rq);
		return;
	case DCD_FLUSH:
		atomic64_inc(&e->stats.flushes);
		if (e->loses_acks)
			later(e, rq);
		else
			rq->done(rq, 0);
		return;
	default:
		break;
	}
	if (rq->op == DCD_WRITE) {
		atomic64_inc(&e->stats.writes);
		atomic64_add(rq->sectors, &e->stats.written_sectors);
	} else {
		atomic64_inc(&e->stats.zeroes);
	}
	r = dcd_intake(e, rq);
	if (!r && rq->fua && e->loses_acks)
		later(e, rq);
	else
		rq->done(rq, r);
}
EXPORT_SYMBOL_GPL(dcd_submit);

sector_t dcd_sectors(const struct dcd_engine *e)
{
	return e->data.sectors;
}
EXPORT_SYMBOL_GPL(dcd_sectors);

bool dcd_volatile_cache(const struct dcd_engine *e)
{
	return e->loses_acks;
}
EXPORT_SYMBOL_GPL(dcd_volatile_cache);

ssize_t dcd_to_text(struct dcd_engine *e, char *buf, size_t size)
{
	u64 live, room, waiting;
	bool log_dead, failing;

	spin_lock(&e->lock);
	live = e->committed - e->tail;
	waiting = e->head - e->committed;
	room = dcd_ring_free(e);
	log_dead = e->log_dead;
	failing = e->data_failing;
	spin_unlock(&e->lock);
	return scnprintf(buf, size,
		"uuid %pU nvram %s slots %u of %u bytes, %llu in use; log segments %llu live %llu free %llu; log %s, data %s\n"
		"reads %lld writes %lld zeroes %lld flushes %lld written %lld destaged %lld sectors, segments %lld, throttled %lld, errors read %lld log %lld data %lld\n",
		e->super.uuid, e->nv->type->name, e->nslots, e->segment_bytes, waiting,
		e->segments, live, room, log_dead ? "FAILED" : "ok", failing ? "FAILING" : "ok",
		(s64)atomic64_read(&e->stats.reads), (s64)atomic64_read(&e->stats.writes),
		(s64)atomic64_read(&e->stats.zeroes), (s64)atomic64_read(&e->stats.flushes),
		(s64)atomic64_read(&e->stats.written_sectors),
		(s64)atomic64_read(&e->stats.destaged_sectors),
		(s64)atomic64_read(&e->stats.segments), (s64)atomic64_read(&e->stats.throttled),
		(s64)atomic64_read(&e->stats.read_errors),
		(s64)atomic64_read(&e->stats.log_errors),
		(s64)atomic64_read(&e->stats.data_errors));
}
EXPORT_SYMBOL_GPL(dcd_to_text);

static int __init dcd_init(void)
{
	int r = dcd_nvram_register(&dcd_nvram_dram);

#if DCD_HAVE_PMEM
	if (!r)
		r = dcd_nvram_register(&dcd_nvram_pmem);
#endif
	return r;
}

static void __exit dcd_exit(void)
{
}

module_init(dcd_init);
module_exit(dcd_exit);
MODULE_DESCRIPTION("Disk-caching disk: NVRAM and a log disk in front of a data disk");
MODULE_LICENSE("GPL");
