// SPDX-License-Identifier: GPL-2.0-only
/* See media-store.h. */
#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include "media-store.h"

#define PAGE_SECTOR_BITS (PAGE_SHIFT - SECTOR_SHIFT)
#define SECTORS_IN_PAGE ((unsigned int)BIT(PAGE_SECTOR_BITS))

/*
 * What belongs to the name.
 *
 * @durable: page index to page; pages are added by sleeping writers and only
 *	freed with the medium, so that destaging never allocates
 * @users: incarnations in use, void ones included; guarded by site_lock()
 * @live: the incarnation new users share, NULL after a cut or without users
 */
struct medium {
	struct site_client client;
	sector_t sectors;
	struct xarray durable;
	struct media_gen *live;
	unsigned int users;
	unsigned int cuts;
};

/*
 * One incarnation: from power-on to power cut.
 *
 * @users: guarded by site_lock(); @live without users keeps its pending writes
 * @clock: counts acknowledgments
 */
struct media_gen {
	struct medium *medium;
	unsigned int users;
	bool is_void;
	struct list_head pending;
	u64 pending_bytes;
	u64 clock;
	u64 next_id;
};

static const struct site_client_ops medium_ops;

static struct medium *to_medium(struct site_client *c)
{
	return container_of(c, struct medium, client);
}

/* --- writes --- */

static void write_release(struct kref *ref)
{
	struct media_write *w = container_of(ref, struct media_write, ref);
	unsigned int i;

	for (i = 0; i < w->nr_pages; i++)
		if (w->pages[i])
			__free_page(w->pages[i]);
	bitmap_free(w->dead);
	kfree(w);
}

void media_write_put(struct media_write *w)
{
	kref_put(&w->ref, write_release);
}

/* Copies between a write's pages and a bio's data, which has the same length. */
static void fill_from_bio(struct media_write *w, struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bv;
	size_t pos = 0;

	bio_for_each_segment(bv, bio, iter) {
		char *from = kmap_local_page(bv.bv_page) + bv.bv_offset;
		size_t done = 0;

		while (done < bv.bv_len) {
			size_t off = offset_in_page(pos);
			size_t n = min_t(size_t, PAGE_SIZE - off, bv.bv_len - done);

			memcpy(page_address(w->pages[pos >> PAGE_SHIFT]) + off, from + done, n);
			done += n;
			pos += n;
		}
		kunmap_local(from);
	}
}

/* Address of one sector of a write with data. */
static void *write_data(struct media_write *w, unsigned int i)
{
	return page_address(w->pages[i >> PAGE_SECTOR_BITS]) +
	       ((i & (SECTORS_IN_PAGE - 1)) << SECTOR_SHIFT);
}

/* Does the write have nothing but zeroes for page @index of the medium? */
static bool only_zeroes(struct media_write *w, unsigned long index)
{
	sector_t from = max_t(sector_t, w->sector, (sector_t)index << PAGE_SECTOR_BITS);
	sector_t to = min_t(sector_t, w->sector + w->count,
			    (sector_t)(index + 1) << PAGE_SECTOR_BITS);

	for (; from < to; from++)
		if (memchr_inv(write_data(w, from - w->sector), 0, SECTOR_SIZE))
			return false;
	return true;
}

/*
 * Makes sure that every page a data write touches exists, but for those that it would
 * only fill with zeroes: so a disk that is written full of them takes no memory.
 */
static bool make_room(struct medium *m, struct media_write *w)
{
	unsigned long i, last = (w->sector + w->count - 1) >> PAGE_SECTOR_BITS;

	for (i = w->sector >> PAGE_SECTOR_BITS; i <= last; i++) {
		struct page *page;
		int r;

		if (xa_load(&m->durable, i) || only_zeroes(w, i))
			continue;
		page = alloc_page(GFP_NOIO | __GFP_ZERO);
		if (!page)
			return false;
		r = xa_insert(&m->durable, i, page, GFP_NOIO);
		if (r)
			__free_page(page);
		if (r && r != -EBUSY)
			return false;
	}
	return true;
}

struct media_write *media_write_new(struct media_gen *gen, sector_t sector,
				    unsigned int count, struct bio *bio)
{
	unsigned int i, n = gen && bio ? DIV_ROUND_UP(count, SECTORS_IN_PAGE) : 0;
	struct media_write *w;

	w = kzalloc(struct_size(w, pages, n), GFP_NOIO);
	if (!w)
		return NULL;
	kref_init(&w->ref);
	INIT_LIST_HEAD(&w->order);
	INIT_LIST_HEAD(&w->dirty);
	w->gen = gen;
	w->sector = sector;
	w->count = count;
	w->zero = !bio;
	if (!gen)
		return w;
	w->nr_pages = n;
	w->dead = bitmap_zalloc(count, GFP_NOIO);
	if (!w->dead)
		goto bad;
	for (i = 0; i < n; i++) {
		w->pages[i] = alloc_page(GFP_NOIO);
		if (!w->pages[i])
			goto bad;
	}
	if (bio) {
		fill_from_bio(w, bio);
		if (!make_room(gen->medium, w))
			goto bad;
	}
	return w;
bad:
	media_write_put(w);
	return NULL;
}

static void unlink_write(struct media_write *w)
{
	if (list_empty(&w->order))
		return;
	w->gen->pending_bytes -= (u64)w->count << SECTOR_SHIFT;
	list_del_init(&w->order);
	media_write_put(w);
}

/* One sector of a write reaches the medium. */
static void store_sector(struct media_write *w, unsigned int i)
{
	sector_t s = w->sector + i;
	struct page *page = xa_load(&w->gen->medium->durable, s >> PAGE_SECTOR_BITS);
	void *to;

	if (!page)	/* never written: zeroes already */
		return;
	to = page_address(page) + ((s & (SECTORS_IN_PAGE - 1)) << SECTOR_SHIFT);
	if (w->zero)
		memset(to, 0, SECTOR_SIZE);
	else
		memcpy(to, write_data(w, i), SECTOR_SIZE);
}

/* Marks what lies under @w in an older pending write as replaced. */
static void bury(struct media_write *older, struct media_write *w)
{
	sector_t from = max(older->sector, w->sector);
	sector_t to = min(older->sector + older->count, w->sector + w->count);
	sector_t s;

	for (s = from; s < to; s++)
		if (!test_bit(s - w->sector, w->dead))
			__set_bit(s - older->sector, older->dead);
}

void media_write_destage(struct media_write *w)
{
	struct media_write *older;
	unsigned int i;

	lockdep_assert_held(&site_instant);
	if (!w->gen || list_empty(&w->order))
		return;
	for (i = 0; i < w->count; i++)
		if (!test_bit(i, w->dead))
			store_sector(w, i);
	list_for_each_entry(older, &w->gen->pending, order) {
		if (older == w)
			break;
		bury(older, w);
	}
	unlink_write(w);
}

void media_write_submit(struct media_write *w)
{
	struct media_gen *gen = w->gen;

	lockdep_assert_held(&site_instant);
	if (!gen || gen->is_void)
		return;
	w->id = ++gen->next_id;
	kref_get(&w->ref);
	list_add_tail(&w->order, &gen->pending);
	gen->pending_bytes += (u64)w->count << SECTOR_SHIFT;
}

void media_write_ack(struct media_write *w, bool durable)
{
	lockdep_assert_held(&site_instant);
	if (!w->gen)
		return;
	w->acked = ++w->gen->clock;
	if (durable)
		media_write_destage(w);
}

void media_write_absorb(struct media_write *w)
{
	lockdep_assert_held(&site_instant);
	if (w->gen)
		unlink_write(w);
}

void media_cache_bound(struct media_gen *gen, u64 bytes)
{
	struct media_write *w, *next;

	lockdep_assert_held(&site_instant);
	list_for_each_entry_safe(w, next, &gen->pending, order) {
		if (gen->pending_bytes <= bytes)
			break;
		if (w->acked)
			media_write_destage(w);
	}
}

u64 media_mark(struct media_gen *gen)
{
	lockdep_assert_held(&site_instant);
	return gen->clock;
}

void media_flush(struct media_gen *gen, u64 mark)
{
	struct media_write *w, *next;

	lockdep_assert_held(&site_instant);
	list_for_each_entry_safe(w, next, &gen->pending, order)
		if (w->acked && w->acked <= mark)
			media_write_destage(w);
}

bool media_is_void(struct media_gen *gen)
{
	return READ_ONCE(gen->is_void);
}

/* --- reads; positions in bytes, as a bio's segments may end inside a sector --- */

static void read_durable(struct medium *m, u64 pos, char *to, size_t len)
{
	while (len) {
		size_t off = offset_in_page(pos);
		size_t n = min_t(size_t, PAGE_SIZE - off, len);
		struct page *page = xa_load(&m->durable, pos >> PAGE_SHIFT);

		if (page)
			memcpy(to, page_address(page) + off, n);
		else
			memset(to, 0, n);
		pos += n;
		to += n;
		len -= n;
	}
}

static void read_pending(struct media_write *w, u64 pos, char *to, size_t len)
{
	u64 start = (u64)w->sector << SECTOR_SHIFT;
	u64 p = max(pos, start);
	u64 end = min(pos + len, start + ((u64)w->count << SECTOR_SHIFT));

	while (p < end) {
		unsigned int i = (p - start) >> SECTOR_SHIFT;
		size_t off = (p - start) & (SECTOR_SIZE - 1);
		size_t n = min_t(u64, SECTOR_SIZE - off, end - p);

		if (test_bit(i, w->dead))
			;
		else if (w->zero)
			memset(to + (p - pos), 0, n);
		else
			memcpy(to + (p - pos), write_data(w, i) + off, n);
		p += n;
	}
}

bool media_read(struct media_gen *gen, struct bio *bio, sector_t sector)
{
	u64 pos = (u64)sector << SECTOR_SHIFT;
	struct media_write *w;
	struct bvec_iter iter;
	struct bio_vec bv;

	lockdep_assert_held(&site_instant);
	if (gen->is_void)
		return false;
	bio_for_each_segment(bv, bio, iter) {
		char *to = kmap_local_page(bv.bv_page) + bv.bv_offset;

		read_durable(gen->medium, pos, to, bv.bv_len);
		list_for_each_entry(w, &gen->pending, order)
			read_pending(w, pos, to, bv.bv_len);
		kunmap_local(to);
		pos += bv.bv_len;
	}
	return true;
}

/* --- the medium --- */

/*
 * Subset in order of submission. A dead sector is out: a newer write to it is
 * durable. Void from here on: unlinked writes are nobody's content any more.
 */
static void medium_cut(struct site_client *c, u64 seed)
{
	struct medium *m = to_medium(c);
	struct media_gen *gen = m->live;
	struct media_write *w, *next;
	unsigned int i;

	lockdep_assert_held(&site_instant);
	m->cuts++;
	if (!gen)
		return;
	list_for_each_entry_safe(w, next, &gen->pending, order) {
		for (i = 0; i < w->count; i++)
			if (!test_bit(i, w->dead) && site_coin(seed, w->id, i))
				store_sector(w, i);
		unlink_write(w);
	}
	gen->is_void = true;
	m->live = NULL;
	if (!gen->users)
		kfree(gen);
}

/*
 * A live incarnation without users still owns its cached writes, so it stays
 * until a cut (which frees it) or until the medium is forgotten. A void one
 * goes with its last user.
 */
static void free_gen(struct media_gen *gen)
{
	struct media_write *w, *next;
	unsigned long flags;

	spin_lock_irqsave(&site_instant, flags);
	list_for_each_entry_safe(w, next, &gen->pending, order)
		unlink_write(w);
	spin_unlock_irqrestore(&site_instant, flags);
	kfree(gen);
}

static int medium_forget(struct site_client *c)
{
	struct medium *m = to_medium(c);
	struct page *page;
	unsigned long i;

	if (m->users)
		return -EBUSY;
	site_del(c);
	if (m->live)
		free_gen(m->live);
	xa_for_each(&m->durable, i, page)
		__free_page(page);
	xa_destroy(&m->durable);
	kfree(m);
	return 0;
}

static void medium_show(struct site_client *c, struct seq_file *s)
{
	struct medium *m = to_medium(c);
	u64 bytes = 0;
	unsigned long flags;

	spin_lock_irqsave(&site_instant, flags);
	if (m->live)
		bytes = m->live->pending_bytes;
	spin_unlock_irqrestore(&site_instant, flags);
	seq_printf(s, "medium sectors %llu users %u cuts %u unflushed %llu\n",
		   (unsigned long long)m->sectors, m->users, m->cuts, bytes);
}

static const struct site_client_ops medium_ops = {
	.cut = medium_cut,
	.forget = medium_forget,
	.show = medium_show,
};

static struct medium *new_medium(const char *name, unsigned int site, sector_t sectors)
{
	struct medium *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (!m)
		return NULL;
	strscpy(m->client.name, name, sizeof(m->client.name));
	m->client.site = site;
	m->client.ops = &medium_ops;
	m->sectors = sectors;
	xa_init(&m->durable);
	site_add(&m->client);
	return m;
}

static struct media_gen *new_gen(struct medium *m)
{
	struct media_gen *gen = kzalloc(sizeof(*gen), GFP_KERNEL);

	if (!gen)
		return NULL;
	gen->medium = m;
	INIT_LIST_HEAD(&gen->pending);
	return gen;
}

static struct media_gen *attach_locked(const char *name, unsigned int site, sector_t sectors,
				       char **error)
{
	struct site_client *c = site_find(name);
	struct media_gen *gen;
	struct medium *m;

	if (c && c->ops != &medium_ops) {
		*error = "the name belongs to a lab NVRAM";
		return ERR_PTR(-EEXIST);
	}
	m = c ? to_medium(c) : new_medium(name, site, sectors);
	if (!m)
		goto no_memory;
	if (m->sectors != sectors) {
		*error = "the medium of that name has another size";
		return ERR_PTR(-EINVAL);
	}
	if (m->client.site != site) {
		*error = "the medium of that name is at another site";
		return ERR_PTR(-EINVAL);
	}
	/* Only a cut clears live, and it doesn't free: m->live is safe under the mutex. */
	gen = READ_ONCE(m->live);
	if (!gen) {
		gen = new_gen(m);
		if (!gen)
			goto no_memory;
		WRITE_ONCE(m->live, gen);
	}
	gen->users++;
	m->users++;
	return gen;

no_memory:
	*error = "no memory for the medium";
	return ERR_PTR(-ENOMEM);
}

struct media_gen *media_attach(const char *name, unsigned int site, sector_t sectors,
			       char **error)
{
	struct media_gen *gen;

	if (!*name || strlen(name) >= SITE_NAME_MAX) {
		*error = "the medium's name is empty or too long";
		return ERR_PTR(-EINVAL);
	}
	site_lock();
	gen = attach_locked(name, site, sectors, error);
	site_unlock();
	return gen;
}

void media_detach(struct media_gen *gen)
{
	site_lock();
	gen->medium->users--;
	if (!--gen->users && gen->is_void)
		free_gen(gen);
	site_unlock();
}

void media_cut(struct media_gen *gen, u64 seed)
{
	site_lock();
	if (!gen->is_void)
		site_cut_one(&gen->medium->client, seed);
	site_unlock();
}

void media_store_exit(void)
{
	site_forget_all(&medium_ops);
}
