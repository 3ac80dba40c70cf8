// SPDX-License-Identifier: GPL-2.0-only
/*
 * NVRAM type "pmem": persistent memory as a block device with DAX
 * (pmem:/dev/pmem0), mapped. dax_flush() writes cache lines back unless the
 * platform's caches are in the persistence domain, pmem_wmb() is the fence.
 */
#include <linux/dax.h>
#include <linux/slab.h>

#include "engine.h"

struct pmem {
	struct dcd_nvram nv;
	struct dcd_disk disk;
	struct dax_device *dax;
};

static int map(struct pmem *p, const char *path, size_t bytes)
{
	u64 start;
	long want, got;
	int id;

	p->dax = fs_dax_get_by_bdev(p->disk.bdev, &start, NULL, NULL);
	if (!p->dax) {
		pr_err("dcd: %s has no DAX: nvram=pmem needs a namespace in fsdax mode\n", path);
		return -EOPNOTSUPP;
	}
	if (!dax_synchronous(p->dax)) {
		pr_err("dcd: %s is asynchronous persistent memory (virtio-pmem?), which only a flush makes durable: nvram=pmem needs synchronous one\n",
		       path);
		return -EOPNOTSUPP;
	}
	p->nv.bytes = p->disk.sectors << SECTOR_SHIFT;
	if (bytes > p->nv.bytes) {
		pr_err("dcd: %s has %zu bytes, nvram_bytes=%zu is more\n", path, p->nv.bytes,
		       bytes);
		return -EINVAL;
	}
	if (bytes)
		p->nv.bytes = bytes;
	want = p->nv.bytes >> PAGE_SHIFT;
	id = dax_read_lock();
	got = dax_direct_access(p->dax, start >> PAGE_SHIFT, want, DAX_ACCESS, &p->nv.base,
				NULL);
	dax_read_unlock(id);
	if (got < want) {
		pr_err("dcd: %s: %ld of %ld pages can be mapped in one piece\n", path, got, want);
		return got < 0 ? got : -EINVAL;
	}
	return 0;
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

struct dcd_nvram_type dcd_nvram_pmem = {
	.name = "pmem",
	.owner = NULL,	/* part of dcd.ko */
	.open = pmem_open,
	.close = pmem_close,
	.persist = pmem_persist,
};
