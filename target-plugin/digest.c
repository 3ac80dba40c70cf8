// SPDX-License-Identifier: GPL-2.0-only
#include "digest.h"

#include <linux/completion.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"
#include "lockstep-digest.h"
#include "lockstep-test.h"

TEST_KNOB(bool, digests_wait, "who asks for digests waits for the disks however long they take");

/* What is read of the data at a time: as many blocks as one sector of digests has. */
#define PART_BLOCKS	(SECTOR_SIZE / DIGEST_BYTES)
#define PART_BYTES	(PART_BLOCKS * DIGEST_BLOCK)
#define CLOSING		HZ	/* so long a close waits for who reads yet */

static DEFINE_MUTEX(lock);		/* of the list, and of @watched in each engine */
static LIST_HEAD(engines);
static DECLARE_WAIT_QUEUE_HEAD(let_go);

void dcd_digest_engine_opened(struct dcd_engine *e)
{
	mutex_lock(&lock);
	list_add_tail(&e->engines, &engines);
	mutex_unlock(&lock);
}

void dcd_digest_engine_closing(struct dcd_engine *e)
{
	mutex_lock(&lock);
	list_del(&e->engines);
	mutex_unlock(&lock);
	wait_event(let_go, !READ_ONCE(e->watched));
	/* Whoever let it go is still in there. */
	mutex_lock(&lock);
	mutex_unlock(&lock);
}

static struct dcd_engine *find(const char *name)
{
	struct dcd_engine *e, *found = NULL;

	list_for_each_entry(e, &engines, engines) {
		if (strncmp(e->name, name, sizeof(e->name) - 1))
			continue;
		if (found)
			return ERR_PTR(-ENOTUNIQ);
		found = e;
	}
	return found ?: ERR_PTR(-ENODEV);
}

static struct dcd_engine *take(const char *name)
{
	struct dcd_engine *e;

	mutex_lock(&lock);
	e = find(name);
	if (!IS_ERR(e))
		e->watched++;
	mutex_unlock(&lock);
	return e;
}

static void let_it_go(struct dcd_engine *e)
{
	mutex_lock(&lock);
	WRITE_ONCE(e->watched, e->watched - 1);
	if (!e->watched)
		wake_up_all(&let_go);
	mutex_unlock(&lock);
}

int dcd_digest_source(const char *name, sector_t *data_sectors)
{
	struct dcd_engine *e = take(name);

	if (IS_ERR(e))
		return PTR_ERR(e);
	*data_sectors = READ_ONCE(e->data.sectors);
	let_it_go(e);
	return 0;
}
EXPORT_SYMBOL_GPL(dcd_digest_source);

/* A read as any of the LUN's, which doesn't wait for a disk without end (read.h). */
struct look {
	struct dcd_request rq;
	struct completion done;
	int error;
	const struct dcd_viewer *viewer;
	struct scatterlist sgl[DIV_ROUND_UP(PART_BYTES, PAGE_SIZE)];
};

/* Nor when the engine is to be closed, and it hasn't been read for a while. */
static bool look_unwanted(const struct dcd_request *rq)
{
	const struct look *l = container_of(rq, struct look, rq);
	unsigned long ending = READ_ONCE(rq->engine->ending);

	return (ending && time_after(jiffies, ending + CLOSING)) ||
	       l->viewer->unwanted(l->viewer);
}

static void look_done(struct dcd_request *rq, int error)
{
	struct look *l = container_of(rq, struct look, rq);

	l->error = error;
	complete(&l->done);
}

/* What one sector of digests is of, and who wants it. @bytes: PART_BYTES, whole pages. */
struct part {
	struct dcd_engine *e;
	const struct dcd_viewer *viewer;
	u8 *bytes;
	struct look look;
};

static struct page *page_of(const void *at)
{
	return is_vmalloc_addr(at) ? vmalloc_to_page(at) : virt_to_page(at);
}

static int read_part(struct part *p, sector_t sector, sector_t sectors)
{
	struct look *l = &p->look;
	size_t left = sectors << SECTOR_SHIFT;
	unsigned int i;

	if (test_knob(digests_wait))
		return dcd_read_now(p->e, sector, sectors, p->bytes);
	l->rq = (struct dcd_request){
		.op = DCD_READ,
		.engine = p->e,
		.sector = sector,
		.sectors = sectors,
		.sgl = l->sgl,
		.nents = DIV_ROUND_UP(left, PAGE_SIZE),
		.done = look_done,
		.unwanted = look_unwanted,
	};
	l->viewer = p->viewer;
	init_completion(&l->done);
	sg_init_table(l->sgl, l->rq.nents);
	for (i = 0; i < l->rq.nents; i++, left -= min_t(size_t, left, PAGE_SIZE))
		sg_set_page(l->sgl + i, page_of(p->bytes + i * PAGE_SIZE),
			    min_t(size_t, left, PAGE_SIZE), 0);
	if (look_unwanted(&l->rq))
		return -EAGAIN;
	dcd_submit(p->e, &l->rq);
	wait_for_completion(&l->done);
	return l->error;
}

/* Before the data, so that they are as new as the key at least. */
static int read_key(struct part *p, u8 key[DIGEST_KEY_BYTES])
{
	u64 size = p->e->data.sectors;
	int r;

	if (!digest_blocks(size)) {
		memset(key, 0, DIGEST_KEY_BYTES);
		return 0;
	}
	/* The last sector of a block of digests; a disk may not have anything smaller. */
	r = read_part(p, digest_key_sector(size) + 1 - DIGEST_BLOCK_SECTORS, DIGEST_BLOCK_SECTORS);
	memcpy(key, p->bytes + DIGEST_BLOCK - DIGEST_KEY_BYTES, DIGEST_KEY_BYTES);
	return r;
}

static void make_header(const struct dcd_engine *e, const u8 key[DIGEST_KEY_BYTES], u8 *to)
{
	struct lockstep_digest_header *h = (struct lockstep_digest_header *)to;

	h->magic = cpu_to_le64(DIGEST_MAGIC);
	h->version = cpu_to_le32(DIGEST_VERSION);
	h->algorithm = cpu_to_le32(DIGEST_BLAKE2S);
	h->block_bytes = cpu_to_le32(DIGEST_BLOCK);
	h->digest_bytes = cpu_to_le32(DIGEST_BYTES);
	h->data_sectors = cpu_to_le64(e->data.sectors);
	digest_proof(h->proof, key, h);
}

/* One sector of digests, from the one of @block on. */
static int digest_part(struct part *p, const u8 key[DIGEST_KEY_BYTES], u64 block, u8 *to)
{
	u64 blocks = digest_blocks(p->e->data.sectors);
	unsigned int n, i;
	int r;

	if (block >= blocks)
		return 0;
	n = min_t(u64, PART_BLOCKS, blocks - block);
	r = read_part(p, block * DIGEST_BLOCK_SECTORS, n * DIGEST_BLOCK_SECTORS);
	if (r)
		return r;
	for (i = 0; i < n; i++)
		digest_block(to + i * DIGEST_BYTES, key, block + i, p->bytes + i * DIGEST_BLOCK);
	dcd_count(p->e, DCD_N_DIGESTS, n);
	return 0;
}

/* @to is all zeroes. */
static int make(struct part *p, u64 at, u8 *to, size_t bytes)
{
	u8 key[DIGEST_KEY_BYTES];
	size_t done;
	int r = read_key(p, key);

	if (!r && !memchr_inv(key, 0, sizeof(key)))
		return 0;
	for (done = 0; done < bytes && !r; done += SECTOR_SIZE, at += SECTOR_SIZE) {
		if (at >= DIGEST_BLOCK)
			r = digest_part(p, key, (at - DIGEST_BLOCK) / DIGEST_BYTES, to + done);
		else if (!at)
			make_header(p->e, key, to + done);
	}
	return r;
}

static int make_with(struct dcd_engine *e, u64 at, u8 *to, size_t bytes,
		     const struct dcd_viewer *viewer)
{
	struct part *p = kzalloc(sizeof(*p), GFP_NOIO);
	int r = -ENOMEM;

	if (!p)
		return r;
	p->e = e;
	p->viewer = viewer;
	p->bytes = kvmalloc(PART_BYTES, GFP_NOIO);
	if (p->bytes)
		r = make(p, at, to, bytes);
	kvfree(p->bytes);
	kfree(p);
	return r;
}

int dcd_digest_read(const char *name, sector_t data_sectors, u64 at, void *buf, size_t bytes,
		    const struct dcd_viewer *viewer)
{
	u64 size = digest_lun_bytes(data_sectors);
	struct dcd_engine *e;
	int r;

	if (at > size || bytes > size - at || (at | bytes) & (SECTOR_SIZE - 1))
		return -ERANGE;
	e = take(name);
	if (IS_ERR(e))
		return PTR_ERR(e);
	memset(buf, 0, bytes);
	r = e->data.sectors == data_sectors ? make_with(e, at, buf, bytes, viewer) : -ESTALE;
	let_it_go(e);
	return r;
}
EXPORT_SYMBOL_GPL(dcd_digest_read);
