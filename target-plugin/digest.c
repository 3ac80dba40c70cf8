// SPDX-License-Identifier: GPL-2.0-only
#include "digest.h"

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"
#include "lockstep-digest.h"

/* What is read of the data at a time: as many blocks as one sector of digests has. */
#define PART_BLOCKS	(SECTOR_SIZE / DIGEST_BYTES)

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

/* Before the data, so that they are as new as the key at least. */
static int read_key(struct dcd_engine *e, u8 *part, u8 key[DIGEST_KEY_BYTES])
{
	int r;

	if (!digest_blocks(e->data.sectors)) {
		memset(key, 0, DIGEST_KEY_BYTES);
		return 0;
	}
	/* The last sector of a block of digests; a disk may not have anything smaller. */
	r = dcd_read_now(e, digest_key_sector(e->data.sectors) + 1 - DIGEST_BLOCK_SECTORS,
			 DIGEST_BLOCK_SECTORS, part);
	memcpy(key, part + DIGEST_BLOCK - DIGEST_KEY_BYTES, DIGEST_KEY_BYTES);
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
static int digest_part(struct dcd_engine *e, const u8 key[DIGEST_KEY_BYTES], u64 block, u8 *part,
		       u8 *to)
{
	u64 blocks = digest_blocks(e->data.sectors);
	unsigned int n, i;
	int r;

	if (block >= blocks)
		return 0;
	n = min_t(u64, PART_BLOCKS, blocks - block);
	r = dcd_read_now(e, block * DIGEST_BLOCK_SECTORS, n * DIGEST_BLOCK_SECTORS, part);
	if (r)
		return r;
	for (i = 0; i < n; i++)
		digest_block(to + i * DIGEST_BYTES, key, block + i, part + i * DIGEST_BLOCK);
	dcd_count(e, DCD_N_DIGESTS, n);
	return 0;
}

/* @to is all zeroes. */
static int make(struct dcd_engine *e, u64 at, u8 *to, size_t bytes)
{
	u8 *part = kvmalloc(PART_BLOCKS * DIGEST_BLOCK, GFP_NOIO);
	u8 key[DIGEST_KEY_BYTES];
	size_t done;
	int r;

	if (!part)
		return -ENOMEM;
	r = read_key(e, part, key);
	if (!r && !memchr_inv(key, 0, sizeof(key)))
		goto out;
	for (done = 0; done < bytes && !r; done += SECTOR_SIZE, at += SECTOR_SIZE) {
		if (at >= DIGEST_BLOCK)
			r = digest_part(e, key, (at - DIGEST_BLOCK) / DIGEST_BYTES, part,
					to + done);
		else if (!at)
			make_header(e, key, to + done);
	}
out:
	kvfree(part);
	return r;
}

int dcd_digest_read(const char *name, sector_t data_sectors, u64 at, void *buf, size_t bytes)
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
	r = e->data.sectors == data_sectors ? make(e, at, buf, bytes) : -ESTALE;
	let_it_go(e);
	return r;
}
EXPORT_SYMBOL_GPL(dcd_digest_read);
