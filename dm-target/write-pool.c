// SPDX-License-Identifier: GPL-2.0-only
#include "write-pool.h"

#include <linux/mm.h>
#include <linux/slab.h>

#include "lockstep-compat.h"
#include "sender.h"
#include "write.h"

#define SPARE_GFP	(GFP_NOIO | __GFP_NORETRY | __GFP_NOWARN)

static struct kmem_cache *cache;

int write_pool_module_init(void)
{
	cache = kmem_cache_create("lockstep_write", sizeof(struct write), 0, 0, NULL);
	return cache ? 0 : -ENOMEM;
}

void write_pool_module_exit(void)
{
	kmem_cache_destroy(cache);
}

/* Of the objects that wait for the next write. */
static struct write *pop_idle(struct write_pool *pool)
{
	struct write *w;
	unsigned long flags;

	spin_lock_irqsave(&pool->idle_lock, flags);
	w = list_first_entry_or_null(&pool->idle, struct write, flying);
	if (w) {
		list_del(&w->flying);
		pool->nr_idle--;
	}
	spin_unlock_irqrestore(&pool->idle_lock, flags);
	return w;
}

static bool push_idle(struct write_pool *pool, struct write *w)
{
	unsigned long flags;
	bool room;

	spin_lock_irqsave(&pool->idle_lock, flags);
	room = pool->nr_idle < IDLE_MAX;
	if (room) {
		list_add(&w->flying, &pool->idle);
		pool->nr_idle++;
	}
	spin_unlock_irqrestore(&pool->idle_lock, flags);
	return room;
}

struct write *write_pool_get(struct write_pool *pool, gfp_t gfp)
{
	struct write *w = pop_idle(pool);

	if (w)
		return w;
	w = mempool_alloc(&pool->objects, gfp);
	if (w) {
		w->nr_pages = 0;
		w->kept = NULL;
	}
	return w;
}

/* What is in the reserve is given out again: not what the network has yet. */
static void put_page_back(struct write_pool *pool, struct page *page)
{
	mempool_free(sender_page(page, GFP_NOWAIT | __GFP_NOWARN), &pool->pages);
}

static void put_pages(struct write_pool *pool, struct write *w)
{
	while (w->nr_pages)
		put_page_back(pool, w->vecs[--w->nr_pages].bv_page);
}

void write_pool_put(struct write_pool *pool, struct write *w)
{
	/* What somebody may be waiting for goes back to where he looks. */
	bool keep = mempool_is_saturated(&pool->objects) && mempool_is_saturated(&pool->pages);

	if (keep && !w->kept && w->nr_pages && sender_has_page(w->vecs[0].bv_page)) {
		w->kept = w->vecs[0].bv_page;
		w->vecs[0].bv_page = w->vecs[--w->nr_pages].bv_page;
	}
	put_pages(pool, w);
	if (keep && push_idle(pool, w))
		return;
	if (w->kept)
		mempool_free(w->kept, &pool->pages);
	mempool_free(w, &pool->objects);
}

static bool get_pages(struct write_pool *pool, struct write *w, gfp_t gfp)
{
	unsigned int left = write_sectors(w) << SECTOR_SHIFT;

	while (left) {
		unsigned int len = min_t(unsigned int, left, PAGE_SIZE);
		struct page *page = w->kept ?: mempool_alloc(&pool->pages, gfp);

		w->kept = NULL;
		if (!page) {
			put_pages(pool, w);
			return false;
		}
		bvec_set_page(&w->vecs[w->nr_pages++], page, len, 0);
		left -= len;
	}
	return true;
}

bool write_pool_pages(struct write_pool *pool, struct write *w, gfp_t gfp)
{
	bool got;

	if (!gfpflags_allow_blocking(gfp))
		return get_pages(pool, w, gfp);

	mutex_lock(&pool->pages_wait);
	got = get_pages(pool, w, gfp);
	mutex_unlock(&pool->pages_wait);
	return got;
}

void write_pool_give_spare(struct write_pool *pool)
{
	spin_lock_irq(&pool->spare_lock);
	while (pool->nr_spare_objects)
		mempool_free(pool->spare_objects[--pool->nr_spare_objects], &pool->objects);
	while (pool->nr_spare_pages)
		mempool_free(pool->spare_pages[--pool->nr_spare_pages], &pool->pages);
	spin_unlock_irq(&pool->spare_lock);
}

/* True if it has become part of the spare; else there is enough. */
static bool spare_object(struct write_pool *pool, struct write *w)
{
	bool room;

	spin_lock_irq(&pool->spare_lock);
	room = pool->nr_spare_objects < WRITE_RESERVE;
	if (room)
		pool->spare_objects[pool->nr_spare_objects++] = w;
	spin_unlock_irq(&pool->spare_lock);
	return room;
}

static bool spare_page(struct write_pool *pool, struct page *page)
{
	bool room;

	spin_lock_irq(&pool->spare_lock);
	room = pool->nr_spare_pages < IO_MAX_PAGES;
	if (room)
		pool->spare_pages[pool->nr_spare_pages++] = page;
	spin_unlock_irq(&pool->spare_lock);
	return room;
}

int write_pool_fill_spare(struct write_pool *pool)
{
	struct write *w;
	struct page *page;

	/* Allocated without the lock: who gives the spare away mustn't wait for memory. */
	while (READ_ONCE(pool->nr_spare_objects) < WRITE_RESERVE) {
		w = kmem_cache_alloc(cache, SPARE_GFP);
		if (!w)
			return -ENOMEM;
		if (!spare_object(pool, w))
			kmem_cache_free(cache, w);
	}
	while (READ_ONCE(pool->nr_spare_pages) < IO_MAX_PAGES) {
		page = alloc_page(SPARE_GFP);
		if (!page)
			return -ENOMEM;
		if (!spare_page(pool, page))
			__free_page(page);
	}
	return 0;
}

int write_pool_create(struct write_pool *pool)
{
	int r;

	mutex_init(&pool->pages_wait);
	spin_lock_init(&pool->spare_lock);
	spin_lock_init(&pool->idle_lock);
	INIT_LIST_HEAD(&pool->idle);
	r = mempool_init_slab_pool(&pool->objects, WRITE_RESERVE, cache);
	if (r)
		return r;
	r = mempool_init_page_pool(&pool->pages, IO_MAX_PAGES, 0);
	if (r)
		return r;
	return write_pool_fill_spare(pool);
}

void write_pool_destroy(struct write_pool *pool)
{
	struct write *w;

	while (pool->nr_idle && (w = pop_idle(pool))) {
		if (w->kept)
			__free_page(w->kept);
		kmem_cache_free(cache, w);
	}
	while (pool->nr_spare_objects)
		kmem_cache_free(cache, pool->spare_objects[--pool->nr_spare_objects]);
	while (pool->nr_spare_pages)
		__free_page(pool->spare_pages[--pool->nr_spare_pages]);
	mempool_exit(&pool->pages);
	mempool_exit(&pool->objects);
}
