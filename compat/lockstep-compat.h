/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one place that knows kernels differ.
 *
 * The code is written for the newest kernel. What an older one lacks is
 * defined here in terms of what it has, decided by the probes (probes/NAME.c
 * gives HAVE_NAME in the generated compat.h), never by version numbers. Blocks
 * are kept by noun; a block that no supported kernel needs any more is deleted
 * together with its probe.
 */
#ifndef LOCKSTEP_COMPAT_H
#define LOCKSTEP_COMPAT_H

#include "compat.h"

#include <crypto/blake2s.h>
#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/mempool.h>
#include <linux/module.h>
#include <linux/shrinker.h>
#include <linux/slab.h>

/* What the modules say of themselves (MODULE_VERSION); the command's is in its __init__.py. */
#define LOCKSTEP_RELEASE "0.1"

/* A dm target's module_init and module_exit in one line. */
#if !HAVE_MODULE_DM
#define module_dm(name)							\
static int __init dm_##name##_init(void)				\
{									\
	return dm_register_target(&(name##_target));			\
}									\
module_init(dm_##name##_init)						\
static void __exit dm_##name##_exit(void)				\
{									\
	dm_unregister_target(&(name##_target));				\
}									\
module_exit(dm_##name##_exit)
#endif

/* What dm_table_get_mode() says of a table that may be written, and what dm_get_device() takes. */
#if !HAVE_BLK_OPEN_WRITE
#define BLK_OPEN_READ FMODE_READ
#define BLK_OPEN_WRITE FMODE_WRITE
#endif

/*
 * A block device opened by its path, exclusively for @holder, to read and write:
 * a handle for lockstep_bdev_close(), or an ERR_PTR.
 */
#if HAVE_BDEV_FILE
static inline void *lockstep_bdev_open(const char *path, void *holder, struct block_device **bdev)
{
	struct file *f = bdev_file_open_by_path(path, BLK_OPEN_READ | BLK_OPEN_WRITE, holder,
						NULL);

	if (!IS_ERR(f))
		*bdev = file_bdev(f);
	return f;
}

static inline void lockstep_bdev_close(void *handle)
{
	fput(handle);
}
#else
static inline void *lockstep_bdev_open(const char *path, void *holder, struct block_device **bdev)
{
	struct block_device *b = blkdev_get_by_path(path, FMODE_READ | FMODE_WRITE | FMODE_EXCL,
						    holder);

	if (!IS_ERR(b))
		*bdev = b;
	return b;
}

static inline void lockstep_bdev_close(void *handle)
{
	blkdev_put(handle, FMODE_READ | FMODE_WRITE | FMODE_EXCL);
}
#endif

/* Opened by its number, for nobody in particular: it stays until lockstep_bdev_release(). */
#if HAVE_BDEV_FILE
static inline void *lockstep_bdev_hold(dev_t dev, struct block_device **bdev)
{
	struct file *f = bdev_file_open_by_dev(dev, BLK_OPEN_READ, NULL, NULL);

	if (!IS_ERR(f))
		*bdev = file_bdev(f);
	return f;
}

static inline void lockstep_bdev_release(void *handle)
{
	fput(handle);
}
#else
static inline void *lockstep_bdev_hold(dev_t dev, struct block_device **bdev)
{
	struct block_device *b = blkdev_get_by_dev(dev, FMODE_READ, NULL);

	if (!IS_ERR(b))
		*bdev = b;
	return b;
}

static inline void lockstep_bdev_release(void *handle)
{
	blkdev_put(handle, FMODE_READ);
}
#endif

static inline bool lockstep_bdev_rotates(struct block_device *bdev)
{
#if HAVE_BDEV_ROT
	return bdev_rot(bdev);
#else
	return !bdev_nonrot(bdev);
#endif
}

/*
 * No zeroing of more than @sectors at once. Zeroing that unmaps has the same
 * limit or none at all: the block layer refuses a queue where they differ.
 */
static inline void lockstep_limit_write_zeroes(struct queue_limits *limits, unsigned int sectors)
{
	limits->max_write_zeroes_sectors = min(limits->max_write_zeroes_sectors, sectors);
#if HAVE_WZEROES_UNMAP
	if (limits->max_hw_wzeroes_unmap_sectors)
		limits->max_hw_wzeroes_unmap_sectors = limits->max_write_zeroes_sectors;
#endif
}

/* Is the reserve full? */
#if !HAVE_MEMPOOL_SATURATED
static inline bool mempool_is_saturated(mempool_t *pool)
{
	return READ_ONCE(pool->curr_nr) >= pool->min_nr;
}
#endif

/*
 * A shrinker with a pointer, which its two functions get back by
 * lockstep_shrinker_data(). NULL: no memory.
 */
#if HAVE_SHRINKER_ALLOC
static inline void *lockstep_shrinker_data(struct shrinker *shrinker)
{
	return shrinker->private_data;
}

static inline void lockstep_shrinker_free(struct shrinker *shrinker)
{
	shrinker_free(shrinker);
}
#else
struct lockstep_shrinker {
	struct shrinker shrinker;
	void *data;
};

static inline void *lockstep_shrinker_data(struct shrinker *shrinker)
{
	return container_of(shrinker, struct lockstep_shrinker, shrinker)->data;
}

static inline void lockstep_shrinker_free(struct shrinker *shrinker)
{
	unregister_shrinker(shrinker);
	kfree(container_of(shrinker, struct lockstep_shrinker, shrinker));
}
#endif

static inline struct shrinker *
lockstep_shrinker_new(const char *name,
		      unsigned long (*count)(struct shrinker *, struct shrink_control *),
		      unsigned long (*scan)(struct shrinker *, struct shrink_control *), void *data)
{
#if HAVE_SHRINKER_ALLOC
	struct shrinker *s = shrinker_alloc(0, "%s", name);

	if (!s)
		return NULL;
	s->private_data = data;
	s->count_objects = count;
	s->scan_objects = scan;
	shrinker_register(s);
	return s;
#else
	struct lockstep_shrinker *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (!s)
		return NULL;
	s->data = data;
	s->shrinker.count_objects = count;
	s->shrinker.scan_objects = scan;
	s->shrinker.seeks = DEFAULT_SEEKS;
	if (register_shrinker(&s->shrinker, "%s", name)) {
		kfree(s);
		return NULL;
	}
	return &s->shrinker;
#endif
}

/* The arguments of a request's end_io(). */
#if HAVE_RQ_END_IO_BATCH
#define LOCKSTEP_END_IO_ARGS \
	struct request *rq, blk_status_t status, const struct io_comp_batch *batch
#else
#define LOCKSTEP_END_IO_ARGS struct request *rq, blk_status_t status
#endif

/* What blake2s_init_key(), blake2s_update() and blake2s_final() take. */
#if !HAVE_BLAKE2S_CTX
#define blake2s_ctx blake2s_state
#endif

/* What sbc_parse_cdb() takes. */
#if !HAVE_EXEC_CMD_OPS
#define exec_cmd_ops sbc_ops
#endif

#endif /* LOCKSTEP_COMPAT_H */
