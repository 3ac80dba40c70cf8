// SPDX-License-Identifier: GPL-2.0-only
/*
 * A lab's NVRAM that can lose power: NVRAM type "lab" for dcd.ko, and dm
 * target "labnvram", a block view of it for formatting and looking.
 *
 *   0 <len> labnvram <name> [2 site <n>]      makes the NVRAM if it is new
 *   nvram=lab:<name>                          in dcd's configuration
 *
 * As media do, an NVRAM belongs to its name and survives its users until it is
 * forgotten (site-cut.h). What the engine stores goes to a volatile view, as
 * it would to a CPU's caches; persist() copies to the durable array, as cache
 * line write-back and fence do. At a power cut each 64-byte line that differs
 * survives or not, by seed: it may have been evicted before. The engine that
 * was running then works on in a view that nobody will see again.
 *
 * The block view reads and writes the durable array. While an engine has the
 * NVRAM open it reads the engine's view, and writes fail.
 *
 * Media errors: the message "poison <sector> <sectors>" makes sectors unreadable, as they are
 * after an uncorrectable error: read() stops there, the block view's reads are errors, and
 * what a load would get is garbage. As with a real one stores change nothing of that; the
 * block view's writes and mend() do, which are the driver's way ("heal" is for the lab).
 */
#include <linux/bitmap.h>
#include <linux/cache.h>
#include <linux/device-mapper.h>
#include <linux/err.h>
#include <linux/highmem.h>
#include <linux/kstrtox.h>
#include <linux/lockdep.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "../../target-plugin/dcd-nvram.h"
#include "media-compat.h"
#include "site-cut.h"

#define DM_MSG_PREFIX "labnvram"

#define LINE 64U

/*
 * @durable: content that a power cut can't touch; guarded by site_instant
 * @poison: sectors that can't be read; likewise
 * @unclearable: mend() fails; @forgets: it says so of itself
 * @open: the engine's incarnation, NULL if there's none or it was cut
 * @views: block views, guarded by site_lock()
 * @engines: incarnations that aren't closed, void ones included; site_lock()
 */
struct lab_nvram {
	struct site_client client;
	size_t bytes;
	u8 *durable;
	unsigned long *poison;
	bool unclearable, forgets;
	struct lab_open *open;
	unsigned int views;
	unsigned int engines;
	unsigned int cuts;
};

/* What an engine holds: one incarnation, void after a power cut. */
struct lab_open {
	struct dcd_nvram nv;
	struct lab_nvram *of;
	bool is_void;
	u8 *view;
};

static const struct site_client_ops lab_ops;

static struct lab_nvram *to_lab(struct site_client *c)
{
	return container_of(c, struct lab_nvram, client);
}

/* --- site --- */

static void lab_cut(struct site_client *c, u64 seed)
{
	struct lab_nvram *l = to_lab(c);
	struct lab_open *o = l->open;
	size_t at;

	lockdep_assert_held(&site_instant);
	l->cuts++;
	if (!o)
		return;
	for (at = 0; at < l->bytes; at += LINE)
		if (memcmp(l->durable + at, o->view + at, LINE) && site_coin(seed, 0, at))
			memcpy(l->durable + at, o->view + at, LINE);
	o->is_void = true;
	l->open = NULL;
}

static int lab_forget(struct site_client *c)
{
	struct lab_nvram *l = to_lab(c);

	if (l->views || l->engines)
		return -EBUSY;
	site_del(c);
	bitmap_free(l->poison);
	vfree(l->durable);
	kfree(l);
	return 0;
}

static void lab_show(struct site_client *c, struct seq_file *m)
{
	struct lab_nvram *l = to_lab(c);

	seq_printf(m, "nvram bytes %zu views %u engines %u cuts %u poison %u\n", l->bytes,
		   l->views, l->engines, l->cuts,
		   bitmap_weight(l->poison, l->bytes >> SECTOR_SHIFT));
}

static const struct site_client_ops lab_ops = {
	.cut = lab_cut,
	.forget = lab_forget,
	.show = lab_show,
};

/* --- for the engine --- */

static struct lab_open *to_open(struct dcd_nvram *nv)
{
	return container_of(nv, struct lab_open, nv);
}

/* Finds the NVRAM and takes it for one engine. Needs site_lock(). */
static int lab_claim(struct lab_open *o, const char *name, size_t bytes)
{
	struct site_client *c = site_find(name);
	struct lab_nvram *l;
	unsigned long flags;

	if (!c || c->ops != &lab_ops) {
		DMERR("%s: no lab NVRAM of that name: make it with a labnvram device", name);
		return -ENOENT;
	}
	l = to_lab(c);
	if (l->open) {
		DMERR("%s: another engine has it", name);
		return -EBUSY;
	}
	if (bytes > l->bytes) {
		DMERR("%s: has %zu bytes, %zu are wanted", name, l->bytes, bytes);
		return -EINVAL;
	}
	o->view = vmalloc(l->bytes);
	if (!o->view)
		return -ENOMEM;
	o->of = l;
	spin_lock_irqsave(&site_instant, flags);
	memcpy(o->view, l->durable, l->bytes);
	l->open = o;
	spin_unlock_irqrestore(&site_instant, flags);
	l->engines++;
	return 0;
}

static int lab_open(const char *name, size_t bytes, struct dcd_nvram **nv)
{
	struct lab_open *o = kzalloc(sizeof(*o), GFP_KERNEL);
	int r;

	if (!o)
		return -ENOMEM;
	site_lock();
	r = lab_claim(o, name, bytes);
	site_unlock();
	if (r) {
		kfree(o);
		return r;
	}
	o->nv.base = o->view;
	o->nv.forgets = o->of->forgets ? "the lab says that it isn't persistent" : NULL;
	o->nv.bytes = bytes ? bytes : o->of->bytes;
	*nv = &o->nv;
	return 0;
}

/* The power is on: what is in the caches arrives. */
static void lab_close(struct dcd_nvram *nv)
{
	struct lab_open *o = to_open(nv);
	unsigned long flags;

	site_lock();
	spin_lock_irqsave(&site_instant, flags);
	if (!o->is_void) {
		memcpy(o->of->durable, o->view, o->of->bytes);
		o->of->open = NULL;
	}
	spin_unlock_irqrestore(&site_instant, flags);
	o->of->engines--;
	site_unlock();
	vfree(o->view);
	kfree(o);
}

static void lab_persist(struct dcd_nvram *nv, size_t off, size_t len)
{
	struct lab_open *o = to_open(nv);
	size_t from = round_down(off, LINE), to = round_up(off + len, LINE);
	unsigned long flags;

	spin_lock_irqsave(&site_instant, flags);
	if (!o->is_void)
		memcpy(o->of->durable + from, o->view + from, min(to, o->of->bytes) - from);
	spin_unlock_irqrestore(&site_instant, flags);
}

static size_t lab_read(struct dcd_nvram *nv, size_t off, void *to, size_t len)
{
	struct lab_open *o = to_open(nv);
	size_t first, got = len;
	unsigned long flags;

	spin_lock_irqsave(&site_instant, flags);
	first = find_next_bit(o->of->poison, DIV_ROUND_UP(off + len, SECTOR_SIZE),
			      off >> SECTOR_SHIFT) << SECTOR_SHIFT;
	if (first < off + len)
		got = max(first, off) - off;
	memcpy(to, o->view + off, got);
	spin_unlock_irqrestore(&site_instant, flags);
	return len - got;
}

static int lab_mend(struct dcd_nvram *nv, size_t off, void *from, size_t len)
{
	struct lab_open *o = to_open(nv);
	unsigned long flags;

	if (o->of->unclearable)
		return -EIO;
	spin_lock_irqsave(&site_instant, flags);
	memcpy(o->view + off, from, len);
	if (!o->is_void) {
		memcpy(o->of->durable + off, from, len);
		bitmap_clear(o->of->poison, off >> SECTOR_SHIFT, len >> SECTOR_SHIFT);
	}
	spin_unlock_irqrestore(&site_instant, flags);
	return 0;
}

static struct dcd_nvram_type lab_type = {
	.name = "lab",
	.owner = THIS_MODULE,
	.open = lab_open,
	.close = lab_close,
	.persist = lab_persist,
	.read = lab_read,
	.mend = lab_mend,
};

/* --- the block view --- */

static struct lab_nvram *lab_new(const char *name, unsigned int site, size_t bytes)
{
	struct lab_nvram *l = kzalloc(sizeof(*l), GFP_KERNEL);

	if (!l)
		return NULL;
	l->durable = vzalloc(bytes);
	l->poison = bitmap_zalloc(bytes >> SECTOR_SHIFT, GFP_KERNEL);
	if (!l->durable || !l->poison) {
		bitmap_free(l->poison);
		vfree(l->durable);
		kfree(l);
		return NULL;
	}
	l->bytes = bytes;
	strscpy(l->client.name, name, sizeof(l->client.name));
	l->client.site = site;
	l->client.ops = &lab_ops;
	site_add(&l->client);
	return l;
}

/* Needs site_lock(). */
static int view_attach(struct dm_target *ti, const char *name, unsigned int site)
{
	size_t bytes = ti->len << SECTOR_SHIFT;
	struct site_client *c = site_find(name);
	struct lab_nvram *l;

	if (c && c->ops != &lab_ops) {
		ti->error = "The name belongs to a medium";
		return -EEXIST;
	}
	l = c ? to_lab(c) : lab_new(name, site, bytes);
	if (!l) {
		ti->error = "No memory for the NVRAM";
		return -ENOMEM;
	}
	if (l->bytes != bytes || l->client.site != site) {
		ti->error = "The NVRAM of that name has another size or site";
		return -EINVAL;
	}
	l->views++;
	ti->private = l;
	return 0;
}

static int view_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	unsigned int site = 0;
	int r;

	if (argc != 1 && argc != 4) {
		ti->error = "Need <name> [2 site <n>]";
		return -EINVAL;
	}
	if (!*argv[0] || strlen(argv[0]) >= SITE_NAME_MAX) {
		ti->error = "The NVRAM's name is empty or too long";
		return -EINVAL;
	}
	if (argc == 4 && (strcmp(argv[1], "2") || strcmp(argv[2], "site") ||
			  kstrtouint(argv[3], 10, &site))) {
		ti->error = "The only option is: 2 site <n>";
		return -EINVAL;
	}
	if (ti->len > (SZ_1G >> SECTOR_SHIFT)) {
		ti->error = "A lab NVRAM has at most 1 GiB";
		return -EINVAL;
	}
	site_lock();
	r = view_attach(ti, argv[0], site);
	site_unlock();
	ti->num_flush_bios = 1;
	return r;
}

static void view_dtr(struct dm_target *ti)
{
	struct lab_nvram *l = ti->private;

	site_lock();
	l->views--;
	site_unlock();
}

/* Needs site_instant. */
static bool view_io(struct lab_nvram *l, struct bio *bio, size_t pos)
{
	u8 *mem = l->open ? l->open->view : l->durable;
	bool write = bio_data_dir(bio) == WRITE;
	struct bvec_iter iter;
	struct bio_vec bv;

	if (write && l->open)
		return false;
	if (write)
		bitmap_clear(l->poison, pos >> SECTOR_SHIFT, bio_sectors(bio));
	else if (find_next_bit(l->poison, (pos >> SECTOR_SHIFT) + bio_sectors(bio),
			       pos >> SECTOR_SHIFT) < (pos >> SECTOR_SHIFT) + bio_sectors(bio))
		return false;
	bio_for_each_segment(bv, bio, iter) {
		u8 *data = kmap_local_page(bv.bv_page) + bv.bv_offset;

		if (write)
			memcpy(mem + pos, data, bv.bv_len);
		else
			memcpy(data, mem + pos, bv.bv_len);
		kunmap_local(data);
		pos += bv.bv_len;
	}
	return true;
}

static int view_map(struct dm_target *ti, struct bio *bio)
{
	size_t pos = dm_target_offset(ti, bio->bi_iter.bi_sector) << SECTOR_SHIFT;
	unsigned long flags;
	bool ok = true;

	if (bio_op(bio) != REQ_OP_READ && bio_op(bio) != REQ_OP_WRITE)
		return DM_MAPIO_KILL;
	spin_lock_irqsave(&site_instant, flags);
	if (bio_sectors(bio))
		ok = view_io(ti->private, bio, pos);
	spin_unlock_irqrestore(&site_instant, flags);
	if (!ok)
		return DM_MAPIO_KILL;
	bio_endio(bio);
	return DM_MAPIO_SUBMITTED;
}

static void view_status(struct dm_target *ti, status_type_t type, unsigned int flags,
			char *result, unsigned int maxlen)
{
	struct lab_nvram *l = ti->private;
	unsigned int sz = 0;

	if (type == STATUSTYPE_TABLE)
		DMEMIT("%s 2 site %u", l->client.name, l->client.site);
	else if (type == STATUSTYPE_INFO)
		DMEMIT("%s engines %u cuts %u", l->client.name, READ_ONCE(l->engines),
		       READ_ONCE(l->cuts));
	else
		*result = 0;
}

/* "poison <sector> <sectors>", "heal", "unclearable 0|1", "forgets 0|1". */
static int view_message(struct dm_target *ti, unsigned int argc, char **argv, char *result,
			unsigned int maxlen)
{
	struct lab_nvram *l = ti->private;
	unsigned long flags;
	u32 first = 0, n = 0;

	if (argc == 1 && !strcmp(argv[0], "heal")) {
		spin_lock_irqsave(&site_instant, flags);
		bitmap_zero(l->poison, l->bytes >> SECTOR_SHIFT);
		spin_unlock_irqrestore(&site_instant, flags);
		return 0;
	}
	if (argc < 2 || kstrtou32(argv[1], 0, &first))
		return -EINVAL;
	if (argc == 2 && !strcmp(argv[0], "unclearable")) {
		l->unclearable = first;
		return 0;
	}
	if (argc == 2 && !strcmp(argv[0], "forgets")) {
		l->forgets = first;
		return 0;
	}
	if (argc != 3 || strcmp(argv[0], "poison") || kstrtou32(argv[2], 0, &n) ||
	    first > l->bytes >> SECTOR_SHIFT || n > (l->bytes >> SECTOR_SHIFT) - first)
		return -EINVAL;
	spin_lock_irqsave(&site_instant, flags);
	bitmap_set(l->poison, first, n);
	memset(l->durable + ((size_t)first << SECTOR_SHIFT), 0xa5, (size_t)n << SECTOR_SHIFT);
	if (l->open)
		memset(l->open->view + ((size_t)first << SECTOR_SHIFT), 0xa5,
		       (size_t)n << SECTOR_SHIFT);
	spin_unlock_irqrestore(&site_instant, flags);
	return 0;
}

static struct target_type view_target = {
	.name = "labnvram",
	.version = {1, 0, 0},
	.module = THIS_MODULE,
	.ctr = view_ctr,
	.dtr = view_dtr,
	.map = view_map,
	.status = view_status,
	.message = view_message,
};

static int __init lab_nvram_init(void)
{
	int r = dm_register_target(&view_target);

	if (r)
		return r;
	r = dcd_nvram_register(&lab_type);
	if (r)
		dm_unregister_target(&view_target);
	return r;
}

static void __exit lab_nvram_exit(void)
{
	dcd_nvram_unregister(&lab_type);
	dm_unregister_target(&view_target);
	site_forget_all(&lab_ops);
}

module_init(lab_nvram_init);
module_exit(lab_nvram_exit);

MODULE_DESCRIPTION("NVRAM with power cuts for dcd.ko, for tests");
MODULE_LICENSE("GPL");
