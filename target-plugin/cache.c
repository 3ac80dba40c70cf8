// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bitmap.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "dcd-trace.h"
#include "lockstep-compat.h"
#include "lockstep-test.h"

#define SHARDS		16U
#define CLOCKS		256U
#define STREAMS		256U
#define REGION		((1U << 20) >> SECTOR_SHIFT)	/* sectors of one clock */
#define SEQUENCE	((512U << 10) >> SECTOR_SHIFT)	/* longer ones go by */
#define AFTER_SHRINK	HZ		/* so long nothing new is taken */
#define BLOCK_BYTES	(PAGE_SIZE + sizeof(struct dcd_block) + sizeof(struct hlist_head))
#define NOWHERE		U64_MAX

TEST_KNOB(bool, time_of_whole, "the rest of a read has the time of all of it, and of its own regions");

/* The blocks whose number's hash says so. */
struct shard {
	spinlock_t lock;		/* of all below, and the blocks' members */
	struct hlist_head *table;	/* NULL: the cache is off */
	unsigned int bits;
	struct list_head blocks;	/* the one that was read last is first */
} ____cacheline_aligned_in_smp;

/* Where a read ended, and how many sectors in a row that were. Only a guess: no lock. */
struct stream {
	u64 end;
	u64 run;
};

struct dcd_cache {
	struct dcd_engine *e;
	struct shrinker *shrinker;
	struct hlist_head *table;	/* of all shards, one after the other */
	unsigned long most;		/* blocks */
	atomic_long_t blocks;		/* with those that are being read into */
	unsigned long shrunk;		/* jiffies */
	atomic64_t clocks[CLOCKS];
	struct stream streams[STREAMS];
	struct shard shards[SHARDS];
};

static u32 hash_of(u64 number)
{
	return hash_64(number, 32);
}

static struct shard *shard_of(struct dcd_cache *c, u64 number)
{
	return c->shards + hash_of(number) % SHARDS;
}

static struct hlist_head *bucket_of(const struct shard *s, u64 number)
{
	return s->table + (hash_of(number) / SHARDS & (BIT(s->bits) - 1));
}

static struct dcd_block *find(const struct shard *s, u64 number, const void *origin)
{
	struct dcd_block *b;

	lockdep_assert_held(&s->lock);
	if (s->table)
		hlist_for_each_entry(b, bucket_of(s, number), hash)
			if (b->number == number && b->origin == origin)
				return b;
	return NULL;
}

static u8 *bytes_of(const struct dcd_block *b)
{
	return page_address(b->page);
}

static void link(struct shard *s, struct dcd_block *b)
{
	lockdep_assert_held(&s->lock);
	hlist_add_head(&b->hash, bucket_of(s, b->number));
	list_add(&b->list, &s->blocks);
}

static void unlink(struct shard *s, struct dcd_block *b)
{
	lockdep_assert_held(&s->lock);
	hlist_del(&b->hash);
	list_del(&b->list);
}

/* The block that wasn't read for the longest time of the shard from @first on that has any. */
static struct dcd_block *take_oldest(struct dcd_cache *c, unsigned int first)
{
	struct dcd_block *b = NULL;
	unsigned long flags;
	unsigned int i;

	for (i = 0; i < SHARDS && !b; i++) {
		struct shard *s = c->shards + (first + i) % SHARDS;

		spin_lock_irqsave(&s->lock, flags);
		if (!list_empty(&s->blocks)) {
			b = list_last_entry(&s->blocks, struct dcd_block, list);
			unlink(s, b);
		}
		spin_unlock_irqrestore(&s->lock, flags);
	}
	return b;
}

/* What becomes of it, besides being read. */
static void gone(struct dcd_cache *c, const struct dcd_block *b, enum dcd_counter why)
{
	dcd_count(c->e, why, 1);
	trace_dcd_cache(c->e, b, why);
}

void dcd_cache_drop(struct dcd_cache *c, struct dcd_block *b)
{
	__free_page(b->page);
	kfree(b);
	atomic_long_dec(&c->blocks);
}

/* --- reads --- */

static atomic64_t *clock_of(struct dcd_cache *c, u64 region)
{
	return c->clocks + hash_64(region, ilog2(CLOCKS));
}

/* Clocks only go forward, so their sum tells as much as all of them. */
static u64 time_at(struct dcd_cache *c, const struct dcd_request *rq)
{
	u64 region = rq->sector / REGION, last = (rq->sector + rq->sectors - 1) / REGION, sum = 0;

	for (; region <= last; region++)
		sum += atomic64_read(clock_of(c, region));
	return sum;
}

/* Is it part of a long sequence? */
static bool sequential(struct dcd_cache *c, sector_t sector, sector_t sectors)
{
	struct stream *s = c->streams + hash_64(sector, ilog2(STREAMS));
	u64 run = sectors;

	if (READ_ONCE(s->end) == sector) {
		run += READ_ONCE(s->run);
		WRITE_ONCE(s->end, NOWHERE);
	}
	s = c->streams + hash_64(sector + sectors, ilog2(STREAMS));
	WRITE_ONCE(s->run, run);
	WRITE_ONCE(s->end, sector + sectors);
	return run > SEQUENCE;
}

void dcd_cache_begin(struct dcd_cache *c, struct dcd_request *rq)
{
	struct dcd_gather *g = &rq->gather;

	g->look = READ_ONCE(c->most) && rq->sectors;
	if (!g->look)
		return;
	g->keep = !sequential(c, rq->sector, rq->sectors);
	dcd_cache_go_on(c, rq);
}

void dcd_cache_go_on(struct dcd_cache *c, struct dcd_request *rq)
{
	if (!rq->gather.keep || (rq->gather.own && test_knob(time_of_whole)))
		return;
	rq->gather.time = time_at(c, rq);
	smp_mb();	/* what the index says is of this time or later */
}

/* Of one block; how many sectors. */
static int copy_some(struct dcd_cache *c, struct dcd_request *rq, sector_t sector, u32 sectors,
		     const void *origin)
{
	u64 number = sector / PAGE_SECTORS;
	u32 from = sector % PAGE_SECTORS;
	struct shard *s = shard_of(c, number);
	struct dcd_block *b;
	unsigned long flags;
	int n = 0;

	spin_lock_irqsave(&s->lock, flags);
	b = find(s, number, origin);
	if (b) {
		n = min_t(u32, find_next_zero_bit(b->there, PAGE_SECTORS, from) - from, sectors);
		if (dcd_gather_fill(&rq->gather, bytes_of(b) + dcd_block_offset(sector),
				    n << SECTOR_SHIFT))
			n = -EINVAL;
		if (rq->gather.keep)
			list_move(&b->list, &s->blocks);
	}
	spin_unlock_irqrestore(&s->lock, flags);
	return n;
}

int dcd_cache_copy(struct dcd_cache *c, struct dcd_request *rq, const struct dcd_place *p)
{
	sector_t sector = p->sector;

	while (rq->gather.look && sector <= p->last) {
		u32 part = dcd_block_part(sector, p->last);
		int n = copy_some(c, rq, sector, part, p->value);

		if (n < 0)
			return n;
		sector += n;
		if (n < part)
			break;
	}
	return sector - p->sector;
}

/* --- blocks that are read --- */

static struct dcd_block *new_block(void)
{
	struct dcd_block *b = kmalloc(sizeof(*b), GFP_NOWAIT | __GFP_NOWARN);

	if (!b)
		return NULL;
	b->page = alloc_page(GFP_NOWAIT | __GFP_NOWARN);
	if (b->page)
		return b;
	kfree(b);
	return NULL;
}

struct dcd_block *dcd_cache_take(struct dcd_cache *c, sector_t sector, const void *origin)
{
	u64 number = sector / PAGE_SECTORS;
	unsigned long shrunk = READ_ONCE(c->shrunk);
	struct dcd_block *b = NULL;

	if (atomic_long_inc_return(&c->blocks) > READ_ONCE(c->most)) {
		atomic_long_dec(&c->blocks);
		b = take_oldest(c, hash_of(number) % SHARDS);
		if (b)
			gone(c, b, DCD_N_CACHE_EVICTED);
	} else {
		if (!time_in_range(jiffies, shrunk, shrunk + AFTER_SHRINK))
			b = new_block();
		if (!b) {
			atomic_long_dec(&c->blocks);
			dcd_count(c->e, DCD_N_CACHE_NOMEM, 1);
		}
	}
	if (!b)
		return NULL;
	b->number = number;
	b->origin = origin;
	bitmap_zero(b->there, PAGE_SECTORS);
	return b;
}

void dcd_cache_put(struct dcd_cache *c, const struct dcd_request *rq, struct dcd_block *b,
		   sector_t sector, u32 sectors)
{
	u32 offset = dcd_block_offset(sector);
	struct shard *s = shard_of(c, b->number);
	struct dcd_block *old;
	unsigned long flags;
	bool late;

	spin_lock_irqsave(&s->lock, flags);
	late = time_at(c, rq) != rq->gather.time;
	if (!late && s->table && atomic_long_read(&c->blocks) <= READ_ONCE(c->most)) {
		old = find(s, b->number, b->origin);
		if (old)
			memcpy(bytes_of(old) + offset, bytes_of(b) + offset,
			       sectors << SECTOR_SHIFT);
		else
			link(s, b);
		bitmap_set(old ? old->there : b->there, sector % PAGE_SECTORS, sectors);
		if (!old)
			b = NULL;
	}
	spin_unlock_irqrestore(&s->lock, flags);
	if (late)
		gone(c, b, DCD_N_CACHE_LATE);
	if (b)
		dcd_cache_drop(c, b);
}

/* --- destaging --- */

/* Sectors that @log has go to @data, both of one block. */
static void merge(struct dcd_block *data, const struct dcd_block *log)
{
	unsigned int i;

	for_each_set_bit(i, log->there, PAGE_SECTORS)
		memcpy(bytes_of(data) + (i << SECTOR_SHIFT), bytes_of(log) + (i << SECTOR_SHIFT),
		       SECTOR_SIZE);
	bitmap_or(data->there, data->there, log->there, PAGE_SECTORS);
}

/* Of one block. @origin: in the log, NULL: these are zeroes. */
static void destaged(struct dcd_cache *c, sector_t sector, u32 sectors, const void *origin)
{
	u64 number = sector / PAGE_SECTORS;
	struct shard *s = shard_of(c, number);
	struct dcd_block *data, *log = NULL;
	DECLARE_BITMAP(range, PAGE_SECTORS);
	bool stale = false, free_data = false, free_log = false;
	unsigned long flags;

	bitmap_zero(range, PAGE_SECTORS);
	bitmap_set(range, sector % PAGE_SECTORS, sectors);
	spin_lock_irqsave(&s->lock, flags);
	data = find(s, number, NULL);
	if (origin)
		log = find(s, number, origin);
	if (data) {
		stale = bitmap_intersects(data->there, range, PAGE_SECTORS);
		bitmap_andnot(data->there, data->there, range, PAGE_SECTORS);
		free_data = bitmap_empty(data->there, PAGE_SECTORS);
		if (free_data)
			unlink(s, data);
	}
	if (log) {
		bitmap_and(log->there, log->there, range, PAGE_SECTORS);
		free_log = true;
		if (data && !free_data) {
			merge(data, log);
			unlink(s, log);
		} else if (bitmap_empty(log->there, PAGE_SECTORS)) {
			unlink(s, log);
		} else {
			log->origin = NULL;
			free_log = false;
		}
	}
	if (stale)
		gone(c, data, DCD_N_CACHE_STALE);
	if (log)
		gone(c, log, DCD_N_CACHE_DESTAGED);
	spin_unlock_irqrestore(&s->lock, flags);
	if (free_data)
		dcd_cache_drop(c, data);
	if (free_log)
		dcd_cache_drop(c, log);
}

void dcd_cache_destaged(struct dcd_cache *c, const struct dcd_place *p)
{
	u64 region = p->sector / REGION;
	sector_t sector = p->sector;

	lockdep_assert_held(&c->e->intake);
	for (; region <= p->last / REGION; region++)
		atomic64_inc(clock_of(c, region));
	smp_mb__after_atomic();	/* before the look at @blocks, and the index's change */
	/* Who takes a block from now on asked the index before, and finds the clock moved. */
	if (!atomic_long_read(&c->blocks))
		return;
	while (sector <= p->last) {
		u32 n = dcd_block_part(sector, p->last);

		destaged(c, sector, n, p->zero ? NULL : p->value);
		sector += n;
	}
}

/* --- size --- */

static unsigned long count_blocks(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct dcd_cache *c = lockstep_shrinker_data(shrinker);

	return atomic_long_read(&c->blocks) ?: SHRINK_EMPTY;
}

static unsigned long give_back(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct dcd_cache *c = lockstep_shrinker_data(shrinker);
	unsigned long n;

	WRITE_ONCE(c->shrunk, jiffies);
	for (n = 0; n < sc->nr_to_scan; n++) {
		struct dcd_block *b = take_oldest(c, n);

		if (!b)
			break;
		gone(c, b, DCD_N_CACHE_SHRUNK);
		dcd_cache_drop(c, b);
	}
	sc->nr_scanned = n;
	return n ?: SHRINK_STOP;
}

/* The shard gets another table, or none. What it had goes. */
static void empty(struct dcd_cache *c, struct shard *s, struct hlist_head *table,
		  unsigned int bits)
{
	struct dcd_block *b, *next;
	unsigned long flags;
	LIST_HEAD(away);

	spin_lock_irqsave(&s->lock, flags);
	s->table = table;
	s->bits = bits;
	list_splice_init(&s->blocks, &away);
	spin_unlock_irqrestore(&s->lock, flags);
	list_for_each_entry_safe(b, next, &away, list)
		dcd_cache_drop(c, b);
}

int dcd_cache_bound(struct dcd_cache *c, size_t bytes)
{
	/* More than there are pages would only make the table larger. */
	unsigned long most = min_t(u64, bytes / BLOCK_BYTES, totalram_pages());
	unsigned int i, bits = ilog2(max(most / SHARDS, 1UL));
	struct hlist_head *table = NULL;

	if (most == c->most)
		return 0;
	if (most) {
		table = kvcalloc(SHARDS, sizeof(*table) << bits, GFP_KERNEL | __GFP_NOWARN);
		if (!table)
			return -ENOMEM;
	}
	WRITE_ONCE(c->most, most);
	for (i = 0; i < SHARDS; i++)
		empty(c, c->shards + i, table ? table + (i << bits) : NULL, bits);
	kvfree(c->table);
	c->table = table;
	return 0;
}

u64 dcd_cache_used(const struct dcd_cache *c)
{
	return (u64)atomic_long_read(&c->blocks) * BLOCK_BYTES;
}

u64 dcd_cache_most(const struct dcd_cache *c)
{
	return (u64)READ_ONCE(c->most) * BLOCK_BYTES;
}

struct dcd_cache *dcd_cache_new(struct dcd_engine *e)
{
	struct dcd_cache *c = kvzalloc(sizeof(*c), GFP_KERNEL);
	unsigned int i;

	if (!c)
		return NULL;
	c->e = e;
	c->shrunk = jiffies - AFTER_SHRINK - 1;
	for (i = 0; i < STREAMS; i++)
		c->streams[i].end = NOWHERE;
	for (i = 0; i < SHARDS; i++) {
		spin_lock_init(&c->shards[i].lock);
		INIT_LIST_HEAD(&c->shards[i].blocks);
	}
	c->shrinker = lockstep_shrinker_new("dcd", count_blocks, give_back, c);
	if (c->shrinker)
		return c;
	kvfree(c);
	return NULL;
}

void dcd_cache_free(struct dcd_cache *c)
{
	unsigned int i;

	if (!c)
		return;
	lockstep_shrinker_free(c->shrinker);
	for (i = 0; i < SHARDS; i++)
		empty(c, c->shards + i, NULL, 0);
	WARN_ON_ONCE(atomic_long_read(&c->blocks));
	kvfree(c->table);
	kvfree(c);
}
