// SPDX-License-Identifier: GPL-2.0-only
#include "batch.h"

#include <linux/list_sort.h>

#include "absorb.h"
#include "mirror.h"
#include "scatter.h"

static int by_sector(void *priv, const struct list_head *a, const struct list_head *b)
{
	return list_entry(a, struct write, batched)->range.start >
	       list_entry(b, struct write, batched)->range.start;
}

/* May w be sent in the bio of run, whose last write is tail? All are launched. */
static bool merges(const struct write *run, const struct write *tail, const struct write *w)
{
	unsigned int nr_vecs = run->part[__ffs(run->sent)].nr_vecs;

	return tail->range.last + 1 == w->range.start && run->opf == w->opf &&
	       run->ioprio == w->ioprio && run->sent == w->sent &&
	       nr_vecs + w->nr_pages <= IO_MAX_PAGES;
}

static void merge(struct write *run, struct write *tail, struct write *w)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		struct leg_part *part = &run->part[leg];

		if (!(run->sent & BIT(leg)))
			continue;
		memcpy(run->vecs + part->nr_vecs, w->vecs, w->nr_pages * sizeof(*w->vecs));
		part->nr_vecs += w->nr_pages;
		part->size += write_sectors(w) << SECTOR_SHIFT;
		tail->part[leg].next = w;
	}
}

static void send_local(struct mirror *m, struct write **runs, unsigned int nr)
{
	struct list_head items[LANES];
	enum sender_lane_id lane;
	unsigned int i;

	for (lane = 0; lane < LANES; lane++)
		INIT_LIST_HEAD(&items[lane]);
	/* All of them first: who has been given may be gone. */
	for (i = 0; i < nr; i++)
		list_add_tail(&runs[i]->part[LEG_LOCAL].item.link, &items[write_lane(runs[i])]);
	for (lane = 0; lane < LANES; lane++)
		sender_give(&m->legs[LEG_LOCAL].sender, lane, &items[lane]);
}

/* The writes in the batch, in any order; nobody else has a hand in them. */
static void send_batch(struct mirror *m, struct list_head *batch)
{
	bool merging = !READ_ONCE(m->degraded);
	struct write *run = NULL, *tail = NULL, *w, *next;
	struct write *to[LEGS][COALESCE_MAX];
	unsigned int nr[LEGS] = {};
	enum leg_id leg;

	list_sort(NULL, batch, by_sector);
	list_for_each_entry_safe(w, next, batch, batched) {
		if (!write_launch(w))
			continue;
		if (run && merging && merges(run, tail, w)) {
			count(&m->counters, COUNT_MERGED);
			merge(run, tail, w);
			tail = w;
			continue;
		}
		run = w;
		tail = w;
		/* w may be gone when its last leg has got it: see to each leg by itself. */
		for (leg = LEG_LOCAL; leg < LEGS; leg++)
			if (w->sent & BIT(leg))
				to[leg][nr[leg]++] = w;
	}

	send_local(m, to[LEG_LOCAL], nr[LEG_LOCAL]);
	scatter_send(m, to[LEG_REMOTE], nr[LEG_REMOTE]);
}

static void batch_work(struct work_struct *work)
{
	struct write *head = container_of(work, struct write, work);
	struct mirror *m = head->m;
	struct write *w;
	LIST_HEAD(batch);

	/* The head is in the ring that its members form, but is no list_head of it. */
	list_add_tail(&batch, &head->batched);
	/* Before they are merged: it may change their flags. */
	list_for_each_entry(w, &batch, batched)
		absorb_end(w);
	send_batch(m, &batch);
}

/* Under writes.lock. */
static void seal(struct mirror *m)
{
	struct batches *b = &m->writes.batches;
	struct write *head, *w;

	if (!b->nr_open)
		return;
	head = list_first_entry(&b->open, struct write, batched);
	list_for_each_entry(w, &b->open, batched)
		w->head = head;
	head->on_wire = b->nr_open;
	write_pin(head);
	list_del_init(&b->open);
	count(&m->counters, COUNT_BATCHES);
	count_add(&m->counters, COUNT_BATCHED, b->nr_open);
	b->nr_open = 0;
	b->on_wire++;

	INIT_WORK(&head->work, batch_work);
	queue_work(b->wq, &head->work);
}

void batch_returned(struct mirror *m, struct write *head)
{
	struct batches *b = &m->writes.batches;

	lockdep_assert_held(&m->writes.lock);

	if (!head || --head->on_wire)
		return;
	if (--b->on_wire < b->pipeline)
		seal(m);
	write_unpin(head);
}

void batch_join(struct write *w)
{
	struct mirror *m = w->m;
	struct batches *b = &m->writes.batches;
	bool alone = true;
	unsigned long flags;

	spin_lock_irqsave(&m->writes.lock, flags);
	/* Nothing is on the way to a dead leg, so nobody would seal a batch. */
	if (b->limit > 1 && likely(!READ_ONCE(m->legs[LEG_REMOTE].dead))) {
		if (b->on_wire < b->pipeline) {
			b->on_wire++;
			w->head = w;
			w->on_wire = 1;
			write_pin(w);
		} else {
			alone = false;
			list_add_tail(&w->batched, &b->open);
			b->nr_open++;
			/* Only now: what it absorbs may want it sealed. */
			range_open(&m->ranges, &w->range);
			if (b->nr_open >= b->limit || (w->opf & BATCH_SEALING))
				seal(m);
		}
	}
	spin_unlock_irqrestore(&m->writes.lock, flags);

	if (alone) {
		absorb_end(w);
		write_send(w);
	}
}

void batch_seal(struct mirror *m)
{
	if (!READ_ONCE(m->writes.batches.nr_open))
		return;
	spin_lock_irq(&m->writes.lock);
	seal(m);
	spin_unlock_irq(&m->writes.lock);
}

void batch_set_limit(struct mirror *m, unsigned int limit)
{
	struct batches *b = &m->writes.batches;

	spin_lock_irq(&m->writes.lock);
	WRITE_ONCE(b->limit, limit);
	if (b->nr_open >= limit)
		seal(m);
	spin_unlock_irq(&m->writes.lock);
}

int batches_create(struct batches *b, unsigned int limit, unsigned int pipeline)
{
	b->limit = limit;
	b->pipeline = pipeline;
	INIT_LIST_HEAD(&b->open);
	b->wq = alloc_workqueue("lockstep-send", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return b->wq ? 0 : -ENOMEM;
}

void batches_destroy(struct batches *b)
{
	if (!b->wq)
		return;
	destroy_workqueue(b->wq);
	WARN_ON_ONCE(b->nr_open || b->on_wire);
}
