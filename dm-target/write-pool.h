/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Write pool: the memory of a mirror's writes: objects and pages. How much of it they may
 * have is budget.h's.
 *
 * Both are asked from the kernel first, without waiting if the caller says so,
 * and then from reserves: WRITE_RESERVE objects, pages for one largest write.
 * Whoever may wait gets what it asks for when writes in flight return it; pages
 * are waited for by one write at a time, so that two don't keep halves of what
 * each of them needs.
 *
 * What an abandoned write (write.h) holds may not come back for long. So as much
 * as the reserves is kept aside (the spare), and given to them when a leg is
 * abandoned; the leg is used again only when a spare has been put aside anew.
 * So writes get on even while all that was in flight hangs.
 *
 * Up to IDLE_MAX objects that come back are kept, each with a page, for the next
 * writes: hardened kernels clear what they hand out, a page for every write.
 * Nothing is kept while a reserve isn't full, so who waits for one gets it; and
 * nothing with KASAN, which is to see what is used after it was freed.
 */
#ifndef LOCKSTEP_WRITE_POOL_H
#define LOCKSTEP_WRITE_POOL_H

#include <linux/blkdev.h>
#include <linux/mempool.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>

struct write;

/* The largest write that is handled in one piece; larger ones are split. */
#define IO_MAX_SECTORS	256u
#define IO_MAX_PAGES	DIV_ROUND_UP(IO_MAX_SECTORS << SECTOR_SHIFT, PAGE_SIZE)

#define WRITE_RESERVE	4
#define IDLE_MAX	(IS_ENABLED(CONFIG_KASAN) ? 0u : 32u)

struct write_pool {
	mempool_t objects;
	mempool_t pages;
	struct mutex pages_wait;	/* one writer at a time waits for pages */
	spinlock_t idle_lock;		/* the next two */
	unsigned int nr_idle;
	struct list_head idle;
	spinlock_t spare_lock;		/* what follows; innermost but for the mempools' */
	unsigned int nr_spare_objects;
	unsigned int nr_spare_pages;
	struct write *spare_objects[WRITE_RESERVE];
	struct page *spare_pages[IO_MAX_PAGES];
};

/* The slab. Module init and exit. */
int __must_check write_pool_module_init(void);
void write_pool_module_exit(void);

/* May sleep. Destroy takes apart what a failed create has made. */
int __must_check write_pool_create(struct write_pool *pool);
void write_pool_destroy(struct write_pool *pool);

/* An object as it comes, but for its pages. NULL only if @gfp may not wait. */
struct write *write_pool_get(struct write_pool *pool, gfp_t gfp);

/* The object and its pages. Any context. */
void write_pool_put(struct write_pool *pool, struct write *w);

/* Pages for all of w's sectors, or none. False only if @gfp may not wait. */
bool __must_check write_pool_pages(struct write_pool *pool, struct write *w, gfp_t gfp);

/* Process context, doesn't sleep. */
void write_pool_give_spare(struct write_pool *pool);
/* Sleeps. 0 or -ENOMEM. */
int __must_check write_pool_fill_spare(struct write_pool *pool);

#endif
