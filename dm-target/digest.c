// SPDX-License-Identifier: GPL-2.0-only
#include "digest.h"

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "chunk.h"
#include "lockstep-compat.h"
#include "lockstep-digest.h"
#include "lockstep-format.h"
#include "lockstep-trace.h"
#include "metadata.h"
#include "mirror.h"

/* The key is where the digest LUN looks for it: at the end of the last slot. */
static_assert(offsetof(struct lockstep_slot, digest_key) + DIGEST_KEY_BYTES ==
	      LOCKSTEP_SLOT_BYTES);
static_assert(LOCKSTEP_SLOT_BYTES == DIGEST_BLOCK);

struct digests {
	struct mirror *m;
	char *path;			/* as it was given */
	struct dm_dev *dev;		/* NULL: it couldn't be opened, or the table has gone */
	void *held;			/* as a leg's (leg.h) */
	struct block_device *bdev;
	struct mutex lock;		/* of what follows up to @key */
	bool proven;
	u64 deaths;			/* of both legs, when it was proven or not */
	unsigned long tried;		/* jiffies: it was not */
	u8 key[DIGEST_KEY_BYTES];
	bool good_told, bad_told;	/* since the other was */

	bool paused;
	wait_queue_head_t wake;		/* its lock guards: */
	unsigned int out;		/* reads on the device */
	unsigned int abandoned;		/* of them */
};

/*
 * A read of the device. Its memory, buffer included, is freed by the last of
 * reader and bio.
 */
struct digest_set {
	struct digests *d;
	refcount_t users;
	struct bio bio;
	struct bio_vec vec;
	bool done;
	blk_status_t status;
	bool abandoned;			/* under d->wake.lock, with done */
	u64 deaths;
	u8 key[DIGEST_KEY_BYTES];
	unsigned int offset;		/* in buf, of the first digest */
	sector_t start;			/* of the data, a multiple of a block */
	unsigned int sectors;
	u8 *buf;
};

static void __printf(2, 3) doubt(struct digests *d, const char *format, ...)
{
	struct va_format text;
	va_list args;

	lockdep_assert_held(&d->lock);
	d->proven = false;
	d->tried = jiffies;
	count(&d->m->counters, COUNT_DIGESTS_FAILED);
	if (d->bad_told)
		return;
	d->bad_told = true;
	d->good_told = false;
	va_start(args, format);
	text.fmt = format;
	text.va = &args;
	DMWARN("%s: the digest LUN %s isn't used, what is equal is copied too: %pV",
	       d->m->name, d->path, &text);
	va_end(args);
}

static void good(struct digests *d)
{
	lockdep_assert_held(&d->lock);
	d->proven = true;
	if (d->good_told)
		return;
	d->good_told = true;
	d->bad_told = false;
	DMINFO("%s: the digest LUN %s shows the remote leg: what is equal isn't copied",
	       d->m->name, d->path);
}

/* So many ends of usefulness of a leg: a key is of the time since the last one. */
static bool alive(struct mirror *m, u64 *deaths)
{
	bool both;

	spin_lock_irq(&m->lock);
	*deaths = (u64)m->legs[LEG_LOCAL].deaths + m->legs[LEG_REMOTE].deaths;
	both = m->standing == TOGETHER && !m->legs[LEG_LOCAL].dead && !m->legs[LEG_REMOTE].dead;
	spin_unlock_irq(&m->lock);
	return both;
}

/* --- reads --- */

void digests_put(struct digest_set *set)
{
	if (!set || !refcount_dec_and_test(&set->users))
		return;
	kfree(set->buf);
	kfree(set);
}

static void read_done(struct bio *bio)
{
	struct digest_set *set = bio->bi_private;
	struct digests *d = set->d;
	unsigned long flags;

	set->status = bio->bi_status;
	bio_uninit(bio);
	/* digests_destroy() takes this lock before it lets d go. */
	spin_lock_irqsave(&d->wake.lock, flags);
	set->done = true;
	d->abandoned -= set->abandoned;
	d->out--;
	wake_up_all_locked(&d->wake);
	spin_unlock_irqrestore(&d->wake.lock, flags);
	digests_put(set);
}

static struct digest_set *set_create(struct digests *d, unsigned int bytes)
{
	struct digest_set *set = kzalloc(sizeof(*set), GFP_NOIO);

	if (!set)
		return NULL;
	set->buf = kmalloc(bytes, GFP_NOIO | __GFP_NOWARN);
	if (!set->buf) {
		kfree(set);
		return NULL;
	}
	set->d = d;
	refcount_set(&set->users, 1);
	return set;
}

static bool set_returned(struct digest_set *set)
{
	struct digests *d = set->d;
	bool done;

	spin_lock_irq(&d->wake.lock);
	done = set->done;
	if (!done && !set->abandoned) {
		set->abandoned = true;
		d->abandoned++;
	}
	spin_unlock_irq(&d->wake.lock);
	return done;
}

static unsigned int timeout_ms(const struct mirror *m)
{
	unsigned int ms = READ_ONCE(m->options.timeout[LEG_REMOTE]);

	return ms ? min(ms, DIGEST_TIMEOUT) : DIGEST_TIMEOUT;
}

/* 0; -ETIMEDOUT; -EINTR: paused meanwhile; or the device's error. */
static int set_read(struct digest_set *set, u64 at, unsigned int bytes)
{
	struct digests *d = set->d;

	bio_init(&set->bio, d->bdev, &set->vec, 1, REQ_OP_READ | REQ_SYNC);
	set->bio.bi_iter.bi_sector = at >> SECTOR_SHIFT;
	__bio_add_page(&set->bio, virt_to_page(set->buf), bytes, offset_in_page(set->buf));
	set->bio.bi_private = set;
	set->bio.bi_end_io = read_done;
	refcount_inc(&set->users);
	spin_lock_irq(&d->wake.lock);
	d->out++;
	spin_unlock_irq(&d->wake.lock);
	submit_bio(&set->bio);
	wait_event_timeout(d->wake, READ_ONCE(set->done) || READ_ONCE(d->paused),
			   msecs_to_jiffies(timeout_ms(d->m)));
	if (set_returned(set))
		return blk_status_to_errno(set->status);
	return READ_ONCE(d->paused) ? -EINTR : -ETIMEDOUT;
}

/* --- the proof --- */

static int put_key(struct mirror *m, struct super *s)
{
	memcpy(s->digest_key, m->digests->key, DIGEST_KEY_BYTES);
	return 0;
}

static void tell_read_error(struct digests *d, int r)
{
	if (r == -ETIMEDOUT)
		doubt(d, "it hasn't answered for %u ms", timeout_ms(d->m));
	else if (r != -EINTR)
		doubt(d, "it can't be read: error %d", r);
}

static void check_header(struct digests *d, const struct lockstep_digest_header *h)
{
	u64 size = d->m->meta->size[LEG_REMOTE];
	u8 proof[DIGEST_BYTES];

	digest_proof(proof, d->key, h);
	if (le64_to_cpu(h->magic) != DIGEST_MAGIC)
		doubt(d, "it has no header of a digest LUN; or the remote leg isn't the DCD LUN as it is");
	else if (le32_to_cpu(h->version) != DIGEST_VERSION ||
		 le32_to_cpu(h->algorithm) != DIGEST_BLAKE2S ||
		 le32_to_cpu(h->block_bytes) != DIGEST_BLOCK ||
		 le32_to_cpu(h->digest_bytes) != DIGEST_BYTES)
		doubt(d, "it has version %u, algorithm %u: newer than this module",
		      le32_to_cpu(h->version), le32_to_cpu(h->algorithm));
	else if (le64_to_cpu(h->data_sectors) != size)
		doubt(d, "it is of a LUN of %llu sectors, the remote leg has %llu",
		      le64_to_cpu(h->data_sectors), size);
	else if (bdev_nr_sectors(d->bdev) << SECTOR_SHIFT < digest_lun_bytes(size))
		doubt(d, "it is too small for the digests of %llu sectors", size);
	else if (memcmp(proof, h->proof, sizeof(proof)))
		doubt(d, "it doesn't know what has just been written to the remote leg: it is another LUN's, or an old one");
	else
		good(d);
}

/* A new key, and who knows it? */
static void prove(struct digests *d)
{
	unsigned int bytes = max(SECTOR_SIZE, bdev_logical_block_size(d->bdev));
	struct mirror *m = d->m;
	struct digest_set *set;
	int r;

	if (bytes > DIGEST_BLOCK) {
		doubt(d, "its logical block has %u bytes, more than %u", bytes, DIGEST_BLOCK);
		return;
	}
	if (bdev_nr_sectors(d->bdev) < DIGEST_BLOCK_SECTORS) {
		doubt(d, "it has no room for a header");
		return;
	}
	set = set_create(d, bytes);
	if (!set) {
		doubt(d, "out of memory");
		return;
	}
	get_random_bytes(d->key, sizeof(d->key));
	r = metadata_update(m, LEG_REMOTE, put_key);
	if (r) {
		doubt(d, "the key can't be written to the remote leg: error %d", r);
	} else {
		r = set_read(set, 0, bytes);
		if (r)
			tell_read_error(d, r);
		else
			check_header(d, (const struct lockstep_digest_header *)set->buf);
	}
	digests_put(set);
}

/* Are there digests to rely on now? Then @deaths and @key say which. */
static bool usable(struct digests *d, u64 *deaths, u8 key[DIGEST_KEY_BYTES])
{
	bool usable = false;

	if (!alive(d->m, deaths) || READ_ONCE(d->paused) || READ_ONCE(d->abandoned))
		return false;
	mutex_lock(&d->lock);
	if (d->deaths != *deaths) {
		d->deaths = *deaths;
		d->proven = false;
		d->tried = jiffies - DIGEST_RETRY - 1;
	}
	if (!d->proven && time_after(jiffies, d->tried + DIGEST_RETRY))
		prove(d);
	if (d->proven) {
		memcpy(key, d->key, DIGEST_KEY_BYTES);
		usable = true;
	}
	mutex_unlock(&d->lock);
	return usable;
}

/* --- for others --- */

static struct digest_set *fetch(struct digests *d, sector_t start, unsigned int sectors)
{
	u64 first, end, from, deaths;
	u8 key[DIGEST_KEY_BYTES];
	struct digest_set *set;
	unsigned int align;
	int r;

	if (!usable(d, &deaths, key))
		return NULL;
	align = max(SECTOR_SIZE, bdev_logical_block_size(d->bdev));
	first = digest_at(start / DIGEST_BLOCK_SECTORS);
	end = digest_at(digest_blocks(start + sectors + DIGEST_BLOCK_SECTORS - 1));
	from = round_down(first, align);
	end = round_up(end, align);
	set = set_create(d, end - from);
	if (!set) {
		count(&d->m->counters, COUNT_DIGESTS_FAILED);
		return NULL;
	}
	set->start = start;
	set->sectors = sectors;
	set->offset = first - from;
	set->deaths = deaths;
	memcpy(set->key, key, sizeof(key));
	r = set_read(set, from, end - from);
	if (!r)
		return set;
	digests_put(set);
	mutex_lock(&d->lock);
	if (d->proven)
		tell_read_error(d, r);
	mutex_unlock(&d->lock);
	return NULL;
}

/* Under w->lock. */
static bool has(const struct digest_window *w, sector_t start, unsigned int sectors)
{
	const struct digest_set *set = w->set;
	u64 deaths;

	return set && start >= set->start && start + sectors <= set->start + set->sectors &&
	       alive(set->d->m, &deaths) && deaths == set->deaths;
}

struct digest_set *digests_fetch(struct mirror *m, struct digest_window *w, sector_t first,
				 sector_t last, sector_t start, unsigned int sectors)
{
	struct digests *d = m->digests;
	struct digest_set *set;

	if (!d || !d->dev)
		return NULL;
	mutex_lock(&w->lock);
	if (!has(w, start, sectors)) {
		/* Whoever comes next begins somewhere behind. */
		first += round_down(start - first, DIGEST_BLOCK_SECTORS);
		digests_put(w->set);
		w->set = fetch(d, first, min_t(sector_t, DIGEST_WINDOW, last - first + 1));
	}
	set = w->set;
	if (set)
		refcount_inc(&set->users);
	mutex_unlock(&w->lock);
	return set;
}

void digest_window_init(struct digest_window *w)
{
	mutex_init(&w->lock);
}

void digest_window_close(struct digest_window *w)
{
	digests_put(w->set);
	w->set = NULL;
}

/* Is a block of the chunk, which is whole, what its digest says? */
static bool fits(const struct digest_set *set, struct chunk *c, unsigned int sector)
{
	u64 block = digest_blocks(chunk_range(c)->start + sector);
	u64 nr = block - digest_blocks(set->start);
	u8 digest[DIGEST_BYTES];

	digest_block(digest, set->key, block, chunk_data(c, LEG_LOCAL, sector));
	return !memcmp(digest, set->buf + set->offset + nr * DIGEST_BYTES, DIGEST_BYTES);
}

bool digests_differ(struct digest_set *set, struct chunk *c, unsigned int *first,
		    unsigned int *sectors)
{
	struct mirror *m = set->d->m;
	unsigned int all = chunk_sectors(c), sector, last = 0;
	sector_t start = chunk_range(c)->start;
	u64 deaths;

	if (!alive(m, &deaths) || deaths != set->deaths ||
	    start & (DIGEST_BLOCK_SECTORS - 1))
		return false;
	*sectors = 0;
	for (sector = 0; sector < all; sector += DIGEST_BLOCK_SECTORS) {
		if (sector + DIGEST_BLOCK_SECTORS <= all && fits(set, c, sector))
			continue;
		if (!*sectors)
			*first = sector;
		last = min(sector + DIGEST_BLOCK_SECTORS, all);
		*sectors = last - *first;
	}
	if (!*sectors)
		*first = 0;
	count_add(&m->counters, COUNT_DIGESTED, all);
	count_add(&m->counters, COUNT_DIGESTS_EQUAL, all - *sectors);
	trace_lockstep_digested(m, start, all, *sectors);
	return true;
}

void digests_pause(struct mirror *m)
{
	struct digests *d = m->digests;

	if (!d)
		return;
	WRITE_ONCE(d->paused, true);
	wake_up_all(&d->wake);
}

void digests_run(struct mirror *m)
{
	if (m->digests)
		WRITE_ONCE(m->digests->paused, false);
}

static int open_lun(struct digests *d, struct dm_target *ti, const char *path)
{
	int r = dm_get_device(ti, path, BLK_OPEN_READ, &d->dev);

	if (r) {
		d->dev = NULL;
		return r;
	}
	d->held = lockstep_bdev_hold(d->dev->bdev->bd_dev, &d->bdev);
	if (!IS_ERR(d->held))
		return 0;
	r = PTR_ERR(d->held);
	d->held = NULL;
	dm_put_device(ti, d->dev);
	d->dev = NULL;
	return r;
}

int digests_create(struct mirror *m)
{
	const char *path = m->options.resync_digests;
	struct digests *d;
	int r;

	if (!path)
		return 0;
	d = kzalloc(sizeof(*d), GFP_KERNEL);
	if (!d)
		return -ENOMEM;
	d->m = m;
	mutex_init(&d->lock);
	init_waitqueue_head(&d->wake);
	d->deaths = U64_MAX;
	m->digests = d;
	d->path = kstrdup(path, GFP_KERNEL);
	if (!d->path)
		return -ENOMEM;
	m->options.resync_digests = d->path;
	r = open_lun(d, m->ti, path);
	if (r) {
		DMWARN("%s: the digest LUN %s can't be opened: error %d; resyncs work without it until the table is loaded anew",
		       m->name, path, r);
	} else {
		m->options.resync_digests = d->dev->name;
	}
	return 0;
}

static bool all_returned(struct digests *d)
{
	bool none;

	spin_lock_irq(&d->wake.lock);
	none = !d->out;
	spin_unlock_irq(&d->wake.lock);
	return none;
}

void digests_leave(struct mirror *m)
{
	struct digests *d = m->digests;

	if (d && d->dev)
		dm_put_device(m->ti, d->dev);
	if (d)
		d->dev = NULL;
}

bool digests_out(struct mirror *m)
{
	return m->digests && !all_returned(m->digests);
}

void digests_destroy(struct mirror *m)
{
	struct digests *d = m->digests;

	if (!d)
		return;
	while (!wait_event_timeout(d->wake, all_returned(d), DIGEST_RETRY))
		DMWARN("%s: waiting for %u reads that the digest LUN %s doesn't answer",
		       m->name, READ_ONCE(d->out), d->path);
	if (d->held)
		lockstep_bdev_release(d->held);
	mutex_destroy(&d->lock);
	kfree(d->path);
	kfree(d);
	m->digests = NULL;
}
