// SPDX-License-Identifier: GPL-2.0-only
/*
 * NVRAM type "pmem": persistent memory as a block device with DAX
 * (pmem:/dev/pmem0), mapped. dax_flush() writes cache lines back unless the
 * platform's caches are in the persistence domain, pmem_wmb() is the fence.
 *
 * Media errors: the driver knows some of them, and then maps that range only for who wants to
 * write it anew; all of it is in one piece of the kernel's addresses nevertheless. Its block
 * device clears them where it is written, whole sectors at a time.
 */
#include <linux/dax.h>
#include <linux/slab.h>

#include "engine.h"

struct pmem {
	struct dcd_nvram nv;
	struct dcd_disk disk;
	struct dax_device *dax;
};

/* @want pages from @first on; 0, or why not. With media errors: in one piece, but not at once. */
static int map_pages(struct pmem *p, const char *path, pgoff_t first, long want)
{
	long got = dax_direct_access(p->dax, first, want, DAX_ACCESS, &p->nv.base, NULL), at;

	if (got != -EHWPOISON) {
		if (got >= want)
			return 0;
		pr_err("dcd: %s: %ld of %ld pages can be mapped in one piece\n", path, got, want);
		return got < 0 ? got : -EINVAL;
	}
	pr_err("dcd: %s has media errors\n", path);
	for (at = 0; at < want; at += got) {
		void *here;

		got = dax_direct_access(p->dax, first + at, want - at, DAX_RECOVERY_WRITE, &here,
					NULL);
		if (!at)
			p->nv.base = here;
		if (got > 0 && here == p->nv.base + (at << PAGE_SHIFT))
			continue;
		pr_err("dcd: %s: page %ld of %ld can't be mapped behind the others: error %ld\n",
		       path, at, want, min(got, 0L));
		return got < 0 ? got : -EINVAL;
	}
	return 0;
}

/* Memory that the platform says is volatile is offered in the same way. */
static const char *forgets(const struct pmem *p)
{
	const struct device *dev;

	if (!dax_synchronous(p->dax))
		return "it is asynchronous (virtio-pmem?): nvram=pmem needs synchronous DAX";
	for (dev = disk_to_dev(p->disk.bdev->bd_disk); dev; dev = dev->parent)
		if (dev->type && dev->type->name && !strcmp(dev->type->name, "nd_volatile"))
			return "it is of a volatile region: nvram=pmem needs a persistent one";
	return NULL;
}

static int map(struct pmem *p, const char *path, size_t bytes)
{
	u64 start;
	int id, r;

	p->dax = fs_dax_get_by_bdev(p->disk.bdev, &start, NULL, NULL);
	if (!p->dax) {
		pr_err("dcd: %s has no DAX: nvram=pmem needs a namespace in fsdax mode\n", path);
		return -EOPNOTSUPP;
	}
	p->nv.forgets = forgets(p);
	p->nv.bytes = p->disk.sectors << SECTOR_SHIFT;
	if (bytes > p->nv.bytes) {
		pr_err("dcd: %s has %zu bytes, nvram_bytes=%zu is more\n", path, p->nv.bytes,
		       bytes);
		return -EINVAL;
	}
	if (bytes)
		p->nv.bytes = bytes;
	id = dax_read_lock();
	r = map_pages(p, path, start >> PAGE_SHIFT, p->nv.bytes >> PAGE_SHIFT);
	dax_read_unlock(id);
	return r;
}

static void pmem_close(struct dcd_nvram *nv)
{
	struct pmem *p = container_of(nv, struct pmem, nv);

	if (p->dax)
		fs_put_dax(p->dax, NULL);
	dcd_disk_close(&p->disk);
	kfree(p);
}

static int pmem_open(const char *spec, size_t bytes, struct dcd_nvram **nv)
{
	struct pmem *p = kzalloc(sizeof(*p), GFP_KERNEL);
	int r;

	if (!p)
		return -ENOMEM;
	r = dcd_disk_open(&p->disk, "NVRAM", spec, p);
	if (!r)
		r = map(p, spec, bytes);
	if (r) {
		pmem_close(&p->nv);
		return r;
	}
	*nv = &p->nv;
	return 0;
}

static void pmem_persist(struct dcd_nvram *nv, size_t off, size_t len)
{
	struct pmem *p = container_of(nv, struct pmem, nv);

	dax_flush(p->dax, nv->base + off, len);
	pmem_wmb();
}

static int pmem_mend(struct dcd_nvram *nv, size_t off, void *from, size_t len)
{
	struct pmem *p = container_of(nv, struct pmem, nv);
	int r = dcd_disk_io(&p->disk, REQ_OP_WRITE | REQ_SYNC | REQ_FUA, off >> SECTOR_SHIFT,
			    from, len);
	u8 *now = r ? NULL : kmalloc(len, GFP_KERNEL);

	if (r)
		return r;
	if (!now)
		return -ENOMEM;
	if (dcd_nvram_read(nv, nv->base + off, now, len, NULL) || memcmp(now, from, len))
		r = -EIO;	/* it knew of none, or couldn't clear it */
	kfree(now);
	return r;
}

struct dcd_nvram_type dcd_nvram_pmem = {
	.name = "pmem",
	.owner = NULL,	/* part of dcd.ko */
	.open = pmem_open,
	.close = pmem_close,
	.persist = pmem_persist,
	.mend = pmem_mend,
};
