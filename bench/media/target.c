// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm target "media": a modelled disk, for tests and benches only.
 *
 *   0 <len> media <name> <ram|DEVICE> <null|ssd|spindle> [<#words> <key> <value>...]
 *
 * ram     the content is kept in memory, sparse; it belongs to the name and
 *         survives the dm device, until it is forgotten (site-cut.h)
 * DEVICE  data are on that block device, only the time is modelled
 *
 *   block N              bytes of a logical block, 512 to 4096 (512); parts of one are I/O errors,
 *                        and so is one in two pieces of memory
 *   write_cache on|off   volatile write cache (on)
 *   zeroes on|off        knows how to write zeroes, so discards needn't be relied on for that (on)
 *   cache_bytes N        its size (8388608); 0: no bound, except on a spindle
 *   site N               whose power it uses (0)
 *   flush honest|lie     lie: flushes and FUA are acknowledged, not done (honest)
 *   queue look|fifo      spindle: the drive's own queue (look)
 *   spread on|off        spindle: stretch a small device over the whole
 *                        stroke of the 18.4 GB disk (off)
 *   read_us, write_us, flush_us N   ssd: service times (80, 20, 200)
 *   channels N           ssd: requests served at a time (8, at most 64)
 *
 * Messages: cut SEED     cuts this medium's power alone
 *           hold         discards and zeroes don't return, and aren't done
 *           hold_write N the next write, or zeroing, of that sector, likewise
 *           hold_read N  the next read of that sector (of ram) doesn't return, but is done at once
 *           let_go       they are done now, as far as there are some, and others at once
 *           discards good|fail|refuse  discards are done; or not: they are I/O errors, or such as
 *                        of a disk that knows none, though it says that it does; so are zeroes
 *           refuse_write N  from now on writes that have that sector are I/O errors as a whole
 *
 * Status: <name> <void 0|1> <waiting> <dirty bytes>
 *
 * After a cut the device is void: writes and flushes are acknowledged and
 * dropped, reads fail. A device made afterwards on the same name is the disk
 * after power-on. Example, a power cut in the middle of some writes:
 *
 *   dmsetup create d --table "0 32768 media disk ram ssd 2 site 7"
 *   ... write ...
 *   echo "7 42" > /sys/kernel/debug/lockstep-media/cut
 *   dmsetup remove d; dmsetup create d --table "0 32768 media disk ram ssd 2 site 7"
 */
#include <linux/device-mapper.h>
#include <linux/err.h>
#include <linux/kstrtox.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "media-compat.h"
#include "queue.h"

#define DM_MSG_PREFIX "media"

#define MAX_IO_SECTORS 2048
#define MAX_ZERO_SECTORS 8192
#define NOWHERE (~(sector_t)0)

struct media {
	struct media_gen *gen;
	unsigned int block;
	struct media_queue *q;
	struct dm_dev *dev;
	spinlock_t hold_lock;	/* of what follows */
	bool hold;
	sector_t hold_at;	/* NOWHERE: no write */
	sector_t hold_read_at;	/* likewise */
	struct bio_list held;
	struct bio_list answers;
	blk_status_t discards;
	sector_t refused;	/* NOWHERE: none */
	char name[SITE_NAME_MAX];
	char table[256];	/* the options as they came, for table status */
};

/* --- options --- */

static int parse_choice(const char *value, const char *yes, const char *no, bool *to)
{
	if (strcmp(value, yes) && strcmp(value, no))
		return -EINVAL;
	*to = !strcmp(value, yes);
	return 0;
}

static int parse_option(struct media_options *opt, const char *key, const char *value)
{
	struct {
		const char *key;
		unsigned int *to, min, max;
	} numbers[] = {
		{ "cache_bytes", &opt->cache_bytes, 0, UINT_MAX },
		{ "block", &opt->block, 512, 4096 },
		{ "site", &opt->site, 0, UINT_MAX },
		{ "read_us", &opt->read_us, 0, 10 * USEC_PER_SEC },
		{ "write_us", &opt->write_us, 0, 10 * USEC_PER_SEC },
		{ "flush_us", &opt->flush_us, 0, 10 * USEC_PER_SEC },
		{ "channels", &opt->channels, 1, MEDIA_MAX_CHANNELS },
	};
	unsigned int i;
	int r;

	if (!strcmp(key, "write_cache"))
		return parse_choice(value, "on", "off", &opt->write_cache);
	if (!strcmp(key, "zeroes"))
		return parse_choice(value, "on", "off", &opt->zeroes);
	if (!strcmp(key, "flush"))
		return parse_choice(value, "lie", "honest", &opt->lie);
	if (!strcmp(key, "queue"))
		return parse_choice(value, "look", "fifo", &opt->look);
	if (!strcmp(key, "spread"))
		return parse_choice(value, "on", "off", &opt->spread);
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (strcmp(key, numbers[i].key))
			continue;
		r = kstrtouint(value, 10, numbers[i].to);
		if (!r && (*numbers[i].to < numbers[i].min || *numbers[i].to > numbers[i].max))
			r = -ERANGE;
		return r;
	}
	return -ENOENT;
}

static int parse_kind(const char *word, struct media_options *opt)
{
	static const char *const kinds[] = {
		[MEDIA_NULL] = "null", [MEDIA_SSD] = "ssd", [MEDIA_SPINDLE] = "spindle",
	};
	unsigned int kind;

	for (kind = 0; kind < ARRAY_SIZE(kinds); kind++)
		if (!strcmp(kinds[kind], word))
			break;
	if (kind == ARRAY_SIZE(kinds))
		return -EINVAL;
	*opt = (struct media_options){
		.kind = kind, .block = SECTOR_SIZE, .write_cache = true, .zeroes = true,
		.look = true,
		.cache_bytes = SPINDLE_CACHE_BYTES,
		.read_us = 80, .write_us = 20, .flush_us = 200, .channels = 8,
	};
	return 0;
}

static int parse_options(struct dm_target *ti, struct media *m, struct media_options *opt,
			 unsigned int argc, char **argv)
{
	struct dm_arg_set as = { .argc = argc, .argv = argv };
	static const struct dm_arg words[] = {
		{0, 20, "Invalid number of option words"},
	};
	unsigned int n;
	size_t len;
	int r;

	if (!argc)
		return 0;
	r = dm_read_arg_group(words, &as, &n, &ti->error);
	if (r)
		return r;
	if (n != as.argc || n % 2) {
		ti->error = "Options are pairs, and their number of words comes first";
		return -EINVAL;
	}
	while (as.argc) {
		const char *key = dm_shift_arg(&as), *value = dm_shift_arg(&as);

		r = parse_option(opt, key, value);
		if (r) {
			DMERR("%s: option %s %s: %s", m->name, key, value,
			      r == -ENOENT ? "no such option" : "not a value for it");
			ti->error = "Bad option (see the kernel log)";
			return -EINVAL;
		}
		len = strlen(m->table);
		scnprintf(m->table + len, sizeof(m->table) - len, " %s %s", key, value);
	}
	if (!is_power_of_2(opt->block)) {
		ti->error = "A block is a power of two";
		return -EINVAL;
	}
	if (opt->kind == MEDIA_SPINDLE && !opt->cache_bytes) {
		ti->error = "A spindle's cache needs a size";
		return -EINVAL;
	}
	return 0;
}

/* --- target --- */

static void media_free(struct dm_target *ti, struct media *m)
{
	if (m->q)
		media_queue_free(m->q);
	if (!IS_ERR_OR_NULL(m->gen))
		media_detach(m->gen);
	if (m->dev)
		dm_put_device(ti, m->dev);
	kfree(m);
}

static int media_storage(struct dm_target *ti, struct media *m, const char *where,
			 const struct media_options *opt)
{
	int r;

	if (!strcmp(where, "ram")) {
		m->gen = media_attach(m->name, opt->site, ti->len, &ti->error);
		return PTR_ERR_OR_ZERO(m->gen);
	}
	r = dm_get_device(ti, where, dm_table_get_mode(ti->table), &m->dev);
	if (r)
		ti->error = "Can't open the backing device";
	return r;
}

static int media_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct media_options opt;
	struct media *m;
	int r;

	if (argc < 3) {
		ti->error = "Need <name> <ram|device> <null|ssd|spindle>";
		return -EINVAL;
	}
	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m) {
		ti->error = "No memory";
		return -ENOMEM;
	}
	r = -EINVAL;
	spin_lock_init(&m->hold_lock);
	m->hold_at = NOWHERE;
	m->hold_read_at = NOWHERE;
	m->refused = NOWHERE;
	if (strscpy(m->name, argv[0], sizeof(m->name)) <= 0) {
		ti->error = "The medium's name is empty or too long";
		goto bad;
	}
	if (parse_kind(argv[2], &opt)) {
		ti->error = "The model must be null, ssd or spindle";
		goto bad;
	}
	snprintf(m->table, sizeof(m->table), "%s %s %s %u", argv[0], argv[1], argv[2],
		 argc > 3 ? argc - 4 : 0);
	r = parse_options(ti, m, &opt, argc - 3, argv + 3);
	if (r)
		goto bad;
	m->block = opt.block;
	r = media_storage(ti, m, argv[1], &opt);
	if (r)
		goto bad;
	r = -ENOMEM;
	m->q = media_queue_new(&opt, ti->len, m->gen, m->dev);
	if (!m->q) {
		ti->error = "No memory for the queue";
		goto bad;
	}
	r = dm_set_target_max_io_len(ti, MAX_IO_SECTORS);
	if (r)
		goto bad;
	ti->num_flush_bios = 1;
	ti->flush_supported = opt.write_cache;
	/* A disk of the spindle's age knows no discard. */
	if (opt.kind != MEDIA_SPINDLE) {
		ti->num_discard_bios = 1;
		ti->discards_supported = true;
	}
	ti->num_write_zeroes_bios = opt.zeroes;
	ti->per_io_data_size = sizeof(struct media_io);
	ti->private = m;
	return 0;
bad:
	media_free(ti, m);
	return r;
}

static void media_dtr(struct dm_target *ti)
{
	media_free(ti, ti->private);
}

static bool has_sector(const struct bio *bio, sector_t sector, sector_t at)
{
	return at >= sector && at - sector < bio_sectors(bio);
}

static bool writes(const struct bio *bio, sector_t sector, sector_t at)
{
	return (bio_op(bio) == REQ_OP_WRITE || bio_op(bio) == REQ_OP_WRITE_ZEROES) &&
	       has_sector(bio, sector, at);
}

static bool zeroes(const struct bio *bio)
{
	return bio_op(bio) == REQ_OP_DISCARD || bio_op(bio) == REQ_OP_WRITE_ZEROES;
}

static bool hold_back(struct dm_target *ti, struct bio *bio)
{
	sector_t sector = dm_target_offset(ti, bio->bi_iter.bi_sector);
	struct media *m = ti->private;
	bool yes, write;

	spin_lock_irq(&m->hold_lock);
	write = writes(bio, sector, m->hold_at);
	if (write)
		m->hold_at = NOWHERE;
	yes = write || (m->hold && zeroes(bio));
	if (yes)
		bio_list_add(&m->held, bio);
	spin_unlock_irq(&m->hold_lock);
	return yes;
}

/* It has what was there when it came, whenever it is answered. */
static bool hold_answer(struct dm_target *ti, struct bio *bio)
{
	sector_t sector = dm_target_offset(ti, bio->bi_iter.bi_sector);
	struct media *m = ti->private;
	unsigned long irq;
	bool yes;

	if (bio_op(bio) != REQ_OP_READ || m->dev)
		return false;
	spin_lock_irq(&m->hold_lock);
	yes = has_sector(bio, sector, m->hold_read_at);
	if (yes)
		m->hold_read_at = NOWHERE;
	spin_unlock_irq(&m->hold_lock);
	if (!yes)
		return false;
	spin_lock_irqsave(&site_instant, irq);
	if (!media_read(m->gen, bio, sector))
		bio->bi_status = BLK_STS_IOERR;
	spin_unlock_irqrestore(&site_instant, irq);
	spin_lock_irq(&m->hold_lock);
	bio_list_add(&m->answers, bio);
	spin_unlock_irq(&m->hold_lock);
	return true;
}

/* Is a block of the disk in two pieces of memory? dm-crypt and dm-integrity refuse that, too. */
static bool is_split(struct bio *bio, unsigned int block)
{
	struct bvec_iter iter;
	struct bio_vec bv;
	bool split = false;

	if (block == SECTOR_SIZE || !bio_has_data(bio))
		return false;
	bio_for_each_segment(bv, bio, iter)
		split |= bv.bv_len & (block - 1);
	return split;
}

static int media_do(struct dm_target *ti, struct bio *bio)
{
	struct media_io *io = dm_per_bio_data(bio, sizeof(*io));
	sector_t sector = dm_target_offset(ti, bio->bi_iter.bi_sector);
	struct media *m = ti->private;

	if ((((sector << SECTOR_SHIFT) | bio->bi_iter.bi_size) & (m->block - 1)) ||
	    is_split(bio, m->block))
		return DM_MAPIO_KILL;
	if (m->dev) {
		bio_set_dev(bio, m->dev->bdev);
		bio->bi_iter.bi_sector = sector;
	} else if (media_is_void(m->gen)) {
		if (bio_data_dir(bio) == READ)
			return DM_MAPIO_KILL;
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	media_queue_add(m->q, io, bio, sector);
	return DM_MAPIO_SUBMITTED;
}

static blk_status_t refusal(struct dm_target *ti, const struct bio *bio)
{
	const struct media *m = ti->private;

	if (zeroes(bio) && READ_ONCE(m->discards))
		return m->discards;
	if (writes(bio, dm_target_offset(ti, bio->bi_iter.bi_sector), READ_ONCE(m->refused)))
		return BLK_STS_IOERR;
	return BLK_STS_OK;
}

static int media_map(struct dm_target *ti, struct bio *bio)
{
	blk_status_t status;

	if (hold_back(ti, bio) || hold_answer(ti, bio))
		return DM_MAPIO_SUBMITTED;
	status = refusal(ti, bio);
	if (status) {
		bio->bi_status = status;
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	return media_do(ti, bio);
}

static void let_go(struct dm_target *ti)
{
	struct media *m = ti->private;
	struct bio_list held, answers;
	struct bio *bio;

	spin_lock_irq(&m->hold_lock);
	if (!READ_ONCE(m->discards))
		m->hold = false;
	m->hold_at = NOWHERE;
	m->hold_read_at = NOWHERE;
	held = m->held;
	bio_list_init(&m->held);
	answers = m->answers;
	bio_list_init(&m->answers);
	spin_unlock_irq(&m->hold_lock);
	while ((bio = bio_list_pop(&answers)))
		bio_endio(bio);
	while ((bio = bio_list_pop(&held))) {
		blk_status_t status = refusal(ti, bio);

		if (status) {
			bio->bi_status = status;
			bio_endio(bio);
		} else if (media_do(ti, bio) == DM_MAPIO_KILL) {
			bio_io_error(bio);
		}
	}
}

static void media_status(struct dm_target *ti, status_type_t type, unsigned int flags,
			 char *result, unsigned int maxlen)
{
	struct media *m = ti->private;
	unsigned long irq;
	unsigned int sz = 0;
	size_t waiting;
	u64 dirty;

	switch (type) {
	case STATUSTYPE_INFO:
		spin_lock_irqsave(&site_instant, irq);
		waiting = m->q->waiting.count + list_count_nodes(&m->q->full);
		dirty = m->q->dirty_bytes;
		spin_unlock_irqrestore(&site_instant, irq);
		spin_lock_irqsave(&m->hold_lock, irq);
		waiting += bio_list_size(&m->held) + bio_list_size(&m->answers);
		spin_unlock_irqrestore(&m->hold_lock, irq);
		DMEMIT("%s %d %zu %llu", m->name, m->gen && media_is_void(m->gen), waiting,
		       dirty);
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s", m->table);
		break;
	case STATUSTYPE_IMA:
		*result = 0;
		break;
	}
}

static bool set_discards(struct media *m, const char *how)
{
	if (!strcasecmp(how, "good"))
		WRITE_ONCE(m->discards, BLK_STS_OK);
	else if (!strcasecmp(how, "fail"))
		WRITE_ONCE(m->discards, BLK_STS_IOERR);
	else if (!strcasecmp(how, "refuse"))
		WRITE_ONCE(m->discards, BLK_STS_NOTSUPP);
	else
		return false;
	return true;
}

static int media_message(struct dm_target *ti, unsigned int argc, char **argv, char *result,
			 unsigned int maxlen)
{
	struct media *m = ti->private;
	u64 number;

	if (argc == 1 && !strcasecmp(argv[0], "hold")) {
		WRITE_ONCE(m->hold, true);
		return 0;
	}
	if (argc == 2 && !strcasecmp(argv[0], "hold_write") && !kstrtou64(argv[1], 0, &number)) {
		spin_lock_irq(&m->hold_lock);
		m->hold_at = number;
		spin_unlock_irq(&m->hold_lock);
		return 0;
	}
	if (argc == 2 && !strcasecmp(argv[0], "refuse_write") &&
	    !kstrtou64(argv[1], 0, &number)) {
		WRITE_ONCE(m->refused, number);
		return 0;
	}
	if (argc == 2 && !strcasecmp(argv[0], "hold_read") && !kstrtou64(argv[1], 0, &number)) {
		spin_lock_irq(&m->hold_lock);
		m->hold_read_at = number;
		spin_unlock_irq(&m->hold_lock);
		return 0;
	}
	if (argc == 1 && !strcasecmp(argv[0], "let_go")) {
		let_go(ti);
		return 0;
	}
	if (argc == 2 && !strcasecmp(argv[0], "discards") && set_discards(m, argv[1]))
		return 0;
	if (argc != 2 || strcasecmp(argv[0], "cut") || kstrtou64(argv[1], 0, &number)) {
		DMERR("%s: messages are: cut SEED, hold, hold_write N, hold_read N, let_go, discards HOW, refuse_write N",
		      m->name);
		return -EINVAL;
	}
	if (!m->gen) {
		DMERR("%s: cut: the medium is on a device, only its time is modelled", m->name);
		return -EINVAL;
	}
	media_cut(m->gen, number);
	return 0;
}

static int media_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data)
{
	struct media *m = ti->private;

	return m->dev ? fn(ti, m->dev, 0, ti->len, data) : 0;
}

static void media_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct media *m = ti->private;

	if (!m->dev)
		media_limit_discard(limits, MAX_ZERO_SECTORS);
	limits->logical_block_size = max(limits->logical_block_size, m->block);
	limits->physical_block_size = max(limits->physical_block_size, m->block);
}

static struct target_type media_target = {
	.name = "media",
	.version = {1, 0, 0},
	.module = THIS_MODULE,
	.ctr = media_ctr,
	.dtr = media_dtr,
	.map = media_map,
	.status = media_status,
	.message = media_message,
	.iterate_devices = media_iterate_devices,
	.io_hints = media_io_hints,
};

static int __init media_init(void)
{
	int r = site_init();

	if (r)
		return r;
	r = dm_register_target(&media_target);
	if (r)
		site_exit();
	return r;
}

static void __exit media_exit(void)
{
	dm_unregister_target(&media_target);
	site_exit();
	media_store_exit();
}

module_init(media_init);
module_exit(media_exit);

MODULE_DESCRIPTION("Modelled media with power cuts, for tests (dm target \"media\")");
MODULE_LICENSE("GPL");
