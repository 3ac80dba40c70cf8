/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queue of a modelled medium: who is served next, how long it takes, when
 * it is answered, and what its cache destages when.
 *
 * Models
 *   null     no time: requests are answered at once;
 *   ssd      CHANNELS requests at a time, each for a constant time;
 *   spindle  one head (see media-model.h) and one bus. With a write cache,
 *            writes are answered when they are in it, and destaged when the
 *            head has nothing else to do, the cache is more than half full or
 *            a flush waits. Order: `fifo`, or `look` (one-way elevator, as a
 *            drive's own queue does).
 *
 * Storage is a RAM medium (media-store.h), or a backing device: then only the
 * time is modelled, data go to the device after their service, and there's
 * nothing to cut.
 *
 * All state is guarded by site_instant. Requests end in hard interrupt context
 * (spindle, ssd), in the submitter's context (null), or when the backing
 * device ends them.
 */
#ifndef LOCKSTEP_MEDIA_QUEUE_H
#define LOCKSTEP_MEDIA_QUEUE_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/workqueue.h>

#include "media-model.h"
#include "media-store.h"

enum media_kind {
	MEDIA_NULL,
	MEDIA_SSD,
	MEDIA_SPINDLE,
};

#define MEDIA_MAX_CHANNELS 64

/**
 * struct media_options - what the table says
 * @cache_bytes: how much may be unflushed before the oldest is destaged
 * @zeroes: it writes them when it is told to
 * @lie: flushes and FUA are acknowledged without being done
 */
struct media_options {
	enum media_kind kind;
	bool write_cache;
	bool zeroes;
	bool look;
	bool spread;
	bool lie;
	unsigned int block;
	unsigned int site;
	unsigned int cache_bytes;
	unsigned int read_us;
	unsigned int write_us;
	unsigned int flush_us;
	unsigned int channels;
};

/**
 * struct media_io - one request (dm's per-bio data)
 * @node: in a line; else it is in a @list
 * @place: in a line: those of one place are in the order of their arrival
 * @write: for writes, zeroes and discards
 * @mark: for flushes: what they cover
 */
struct media_io {
	union {
		struct list_head list;
		struct rb_node node;
	};
	sector_t place;
	struct bio *bio;
	struct media_write *write;
	sector_t sector;
	unsigned int count;
	ktime_t arrived;
	u64 mark;
};

/* Requests that wait: in the order of the disk, or in that of their arrival. */
struct media_line {
	struct rb_root_cached root;
	unsigned int count;
	bool is_elevator;
};

struct media_queue;

/* Something that serves one request, or destages one write, at a time. */
struct media_server {
	struct hrtimer timer;
	struct media_queue *q;
	struct media_line *from;	/* whose requests it serves */
	bool is_head;			/* the spindle's head */
	bool destaged;			/* ... destaged a write last */
	struct media_io *io;
	struct media_write *destage;
};

/**
 * struct media_queue - one dm target's queue
 * @gen: NULL over a backing device
 * @waiting: for the head or a channel; @bus: for the spindle's bus
 * @full: spindle: writes for which the cache has no room
 * @flushes: spindle: waiting for destaging
 * @dirty: spindle: cached writes by the time of their acknowledgment
 * @dirty_bytes: of @dirty and of writes on their way into the cache
 * @dirty_clock: counts acknowledgments into the cache
 * @ending: nothing may be started any more
 * @ended: with a backing device: served, to be sent on by @work
 */
struct media_queue {
	struct media_options opt;
	struct media_gen *gen;
	struct dm_dev *dev;
	struct spindle spindle;
	struct media_line waiting;
	struct media_line bus;
	struct list_head full;
	struct list_head flushes;
	struct list_head dirty;
	u64 dirty_bytes;
	u64 dirty_clock;
	bool ending;
	struct list_head ended;
	struct work_struct work;
	struct workqueue_struct *wq;
	unsigned int nr_servers;
	struct media_server servers[];
};

/**
 * media_queue_new() - make a queue
 * @gen, @dev: one of them
 *
 * The queue doesn't own them. May sleep; NULL without memory.
 */
struct media_queue *media_queue_new(const struct media_options *opt, u64 sectors,
				    struct media_gen *gen, struct dm_dev *dev);
/* No request may be in it. Cached writes stay with the medium. May sleep. */
void media_queue_free(struct media_queue *q);

/* Takes a request, whose @io is the bio's per-bio data. May sleep. */
void media_queue_add(struct media_queue *q, struct media_io *io, struct bio *bio,
		     sector_t sector);

#endif
