// SPDX-License-Identifier: GPL-2.0-only
#include "scatter.h"

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/slab.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_common.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_proto.h>

#include "lockstep-compat.h"
#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "mirror.h"

TEST_KNOB(uint, slow_sent, "ms from when a command has been sent to when it is counted");

#define OPCODE		0x9f		/* SERVICE ACTION OUT(16) */
#define ACTION		0x12
#define DESCRIPTOR	32u		/* the list's header likewise */
#define LIMITS_PAGE	0xb7
#define ANSWER		64u		/* bytes of one at most */
#define NO_SUCH_LUN	0x25		/* ASC: nobody was there to look at the command */
#define TRIES		5		/* of questions that get no answer */
#define ASK_TRIES	10		/* to find room in the queue for a question */
#define ASK_PAUSE_MS	1		/* between them */
#define RETRIES		5		/* by the SCSI layer, of what it does try again */
#define FUA		0x08		/* in byte 2 of the CDB */
#define END_TELL	(10 * HZ)

/* A passthrough request, its bio, and one page of ours. */
struct command {
	struct mirror *m;
	struct request *rq;
	struct page *page;
	struct work_struct work;	/* of a question */
	bool limits;			/* the question's */
	blk_status_t status;
	unsigned int nr;
	unsigned int bytes;
	struct write *runs[COALESCE_MAX];
	struct bio bio;
	struct bio_vec vecs[];
};

static void put(u8 *p, unsigned int bytes, u64 n)
{
	while (bytes--) {
		p[bytes] = n;
		n >>= 8;
	}
}

static u64 get(const u8 *p, unsigned int bytes)
{
	u64 n = 0;

	while (bytes--)
		n = n << 8 | *p++;
	return n;
}

static struct leg *remote(struct mirror *m)
{
	return &m->legs[LEG_REMOTE];
}

/* NULL: the leg is no SCSI disk. Good while the leg is open. */
static struct scsi_device *disk_of(const struct leg *l)
{
	struct device *parent;
	struct scsi_device *sdev;

	if (!l->bdev)
		return NULL;
	parent = disk_to_dev(leg_bdev(l)->bd_disk)->parent;
	if (!parent || !scsi_is_sdev_device(parent))
		return NULL;
	sdev = to_scsi_device(parent);
	if (sdev->type != TYPE_DISK || sdev->request_queue != bdev_get_queue(leg_bdev(l)))
		return NULL;
	/* As sd asks: of some disks such a question may be the last that they are asked. */
	return sdev->no_report_opcodes || sdev->skip_vpd_pages || sdev->scsi_level < SCSI_SPC_3 ?
	       NULL : sdev;
}

static void free_command(struct command *c)
{
	bio_uninit(&c->bio);
	if (c->rq)
		blk_mq_free_request(c->rq);
	if (c->page)
		__free_page(c->page);
	kfree(c);
}

/* With so many vectors, the first of them @bytes of its page; NULL: not without waiting. */
static struct command *new_command(struct mirror *m, bool out, const u8 *cdb, unsigned int cdb_len,
				   unsigned int nr_vecs, unsigned int bytes)
{
	const gfp_t gfp = GFP_NOWAIT | __GFP_NOWARN;
	blk_opf_t opf = out ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN;
	struct block_device *bdev = leg_bdev(remote(m));
	struct command *c = kzalloc(struct_size(c, vecs, nr_vecs), gfp);
	struct scsi_cmnd *scmd;

	if (!c)
		return NULL;
	c->m = m;
	c->page = alloc_page(gfp | __GFP_ZERO);
	c->rq = scsi_alloc_request(bdev_get_queue(bdev), opf, BLK_MQ_REQ_NOWAIT);
	if (IS_ERR(c->rq))
		c->rq = NULL;
	if (!c->page || !c->rq) {
		free_command(c);
		return NULL;
	}
	scmd = blk_mq_rq_to_pdu(c->rq);
	scmd->cmd_len = cdb_len;
	memcpy(scmd->cmnd, cdb, cdb_len);
	scmd->allowed = RETRIES;
	c->rq->end_io_data = c;
	/* With its device: iostats_passthrough wants it, and bfq of 6.1 can't do without. */
	bio_init(&c->bio, bdev, c->vecs, nr_vecs, opf);
	__bio_add_page(&c->bio, c->page, bytes, 0);
	return c;
}

/* False: the queue doesn't take it as it is. */
static bool begin(struct command *c, rq_end_io_fn *end_io)
{
	if (blk_rq_append_bio(c->rq, &c->bio))
		return false;
	c->rq->end_io = end_io;
	blk_execute_rq_nowait(c->rq, false);
	return true;
}

struct outcome {
	bool good;
	bool refused;	/* that command */
	u8 key;		/* NO_SENSE: there is none */
};

/* Of a request that has ended with @status. */
static struct outcome outcome_of(struct request *rq, blk_status_t status)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct outcome o = { .good = !status && !scmd->result };
	struct scsi_sense_hdr sense;

	if (!o.good && scsi_status_is_check_condition(scmd->result) &&
	    scsi_normalize_sense(scmd->sense_buffer, SCSI_SENSE_BUFFERSIZE, &sense)) {
		o.key = sense.sense_key;
		o.refused = o.key == ILLEGAL_REQUEST && sense.asc != NO_SUCH_LUN;
	}
	return o;
}

/* --- asking --- */

static void ask(struct mirror *m, bool limits);

/* The end of a question; the last that it does with the mirror, which may be about to end. */
static void answered(struct mirror *m, enum scatter_state state, unsigned int ranges,
		     unsigned int sectors)
{
	struct scatter *s = &m->scatter;
	unsigned long flags;

	spin_lock_irqsave(&m->writes.lock, flags);
	s->state = state;
	s->ranges = ranges;
	s->sectors = sectors;
	s->asking = false;
	trace_lockstep_scatter_state(m, state, ranges, sectors);
	wake_up_all(&m->writes.returned);
	spin_unlock_irqrestore(&m->writes.lock, flags);
}

/* No answer, which isn't one: it will be asked again, some times. */
static void unanswered(struct mirror *m)
{
	spin_lock_irq(&m->writes.lock);
	m->scatter.tries++;
	spin_unlock_irq(&m->writes.lock);
	answered(m, SCATTER_UNKNOWN, 0, 0);
}

/* Zero in the page: no limit. */
static unsigned int limit(u64 reported, unsigned int ours)
{
	return reported ? min_t(u64, reported, ours) : ours;
}

/* @page: B7h, or NULL if there is none. */
static void take_limits(struct mirror *m, const u8 *page)
{
	struct block_device *bdev = leg_bdev(remote(m));
	unsigned int shift = ilog2(bdev_logical_block_size(bdev)) - SECTOR_SHIFT;
	unsigned int ranges = COALESCE_MAX, blocks = UINT_MAX >> shift;

	if (page && page[1] == LIMITS_PAGE && get(page + 2, 2) >= 24) {
		ranges = limit(get(page + 22, 2), ranges);
		blocks = limit(get(page + 16, 4), limit(get(page + 24, 4), blocks));
	}
	answered(m, SCATTER_OFFERED, ranges, blocks << shift);
}

/* @said: SUPPORT, CDB SIZE and CDB USAGE DATA of the command; 0 where it said nothing. */
static void take_usage(struct mirror *m, const u8 *said)
{
	spin_lock_irq(&m->writes.lock);
	m->scatter.fua = get(said + 2, 2) > 2 && (said[4 + 2] & FUA);
	spin_unlock_irq(&m->writes.lock);
	ask(m, true);
}

static void ask_work(struct work_struct *work)
{
	struct command *c = container_of(work, struct command, work);
	const u8 *page = page_address(c->page);
	struct outcome o = outcome_of(c->rq, c->status);
	struct mirror *m = c->m;
	bool limits = c->limits;
	u8 said[ANSWER];

	memcpy(said, page, ANSWER);
	free_command(c);	/* its request is one of the leg's */
	if (!o.good && !o.refused)
		unanswered(m);
	else if (limits)
		take_limits(m, o.good ? said : NULL);
	else if (o.good && (said[1] & 7) == 3)
		take_usage(m, said);
	else
		answered(m, SCATTER_NOT_OFFERED, 0, 0);
}

static enum rq_end_io_ret ask_end(LOCKSTEP_END_IO_ARGS)
{
	struct command *c = rq->end_io_data;

	c->status = status;
	queue_work(c->m->writes.wq, &c->work);
	return RQ_END_IO_NONE;
}

static struct mirror *asks_for(struct sender_item *item)
{
	return container_of(item, struct mirror, scatter.question);
}

static void send_question(struct sender_item **items, unsigned int nr)
{
	static const u8 inquiry[] = { INQUIRY, 1, LIMITS_PAGE, 0, ANSWER, 0 };
	static const u8 commands[] = { MAINTENANCE_IN, MI_REPORT_SUPPORTED_OPERATION_CODES, 3,
				       OPCODE, 0, ACTION, 0, 0, 0, ANSWER, 0, 0 };
	struct mirror *m = asks_for(items[0]);
	bool limits = m->scatter.ask_limits;
	const u8 *cdb = limits ? inquiry : commands;
	struct command *c = NULL;
	unsigned int tries;

	/* The leg isn't given up for want of an answer to it. */
	sender_returned(&remote(m)->sender, items[0]);
	/* The queue may be full of what this worker has sent just now: some of it returns soon. */
	for (tries = 0; !c && tries < ASK_TRIES && !READ_ONCE(remote(m)->dead); tries++) {
		if (tries)
			msleep(ASK_PAUSE_MS);
		c = new_command(m, false, cdb, limits ? sizeof(inquiry) : sizeof(commands), 1,
				ANSWER);
	}
	if (c) {
		c->limits = limits;
		INIT_WORK(&c->work, ask_work);
		if (begin(c, ask_end))
			return;
		free_command(c);
	}
	answered(m, SCATTER_UNKNOWN, 0, 0);
}

static void drop_question(struct sender_item *item)
{
	answered(asks_for(item), SCATTER_UNKNOWN, 0, 0);
}

/* By the leg's sender. Its answer, or none, is the next that happens. */
static void ask(struct mirror *m, bool limits)
{
	static const struct sender_ops ops = { .send = send_question, .drop = drop_question };
	struct scatter *s = &m->scatter;

	s->ask_limits = limits;
	sender_item_init(&s->question, &ops);
	sender_give_one(&remote(m)->sender, LANE_URGENT, &s->question);
}

/* Is it to be asked now? Then the caller does. */
static bool to_ask(struct mirror *m)
{
	struct scatter *s = &m->scatter;
	struct leg *l = remote(m);
	bool cache = bdev_write_cache(leg_bdev(l)), yes = false;

	spin_lock_irq(&m->writes.lock);
	if (s->how != TABLE_SCATTER_OFF && !s->asking && !READ_ONCE(l->dead) &&
	    s->state != SCATTER_REFUSED && s->state != SCATTER_NO_DISK) {
		if (s->deaths != l->deaths ||
		    (s->cache != cache && s->state != SCATTER_FAILED)) {
			s->deaths = l->deaths;
			s->cache = cache;
			s->state = SCATTER_UNKNOWN;
			s->tries = 0;
			s->failures = 0;
		}
		yes = s->state == SCATTER_UNKNOWN && s->tries < TRIES;
	}
	s->asking |= yes;
	spin_unlock_irq(&m->writes.lock);
	return yes;
}

/* --- sending --- */

static void refuse(struct mirror *m)
{
	struct scatter *s = &m->scatter;
	unsigned long flags;
	bool first;

	spin_lock_irqsave(&m->writes.lock, flags);
	first = s->state != SCATTER_REFUSED;
	s->state = SCATTER_REFUSED;
	spin_unlock_irqrestore(&m->writes.lock, flags);
	if (!first)
		return;
	trace_lockstep_scatter_state(m, SCATTER_REFUSED, 0, 0);
	DMWARN("%s: the remote leg (%s) has refused a WRITE SCATTERED that it says it knows: batches go there as single writes from now on",
	       m->name, leg_path(remote(m)));
}

/* What has failed before was not in vain. Under writes.lock. */
static void begin_anew(struct scatter *s)
{
	s->in_vain = false;
	WRITE_ONCE(s->failures, 0);
}

static void command_good(struct mirror *m)
{
	struct scatter *s = &m->scatter;
	unsigned long flags;

	if (likely(!READ_ONCE(s->again) && !READ_ONCE(s->failures)))
		return;
	spin_lock_irqsave(&m->writes.lock, flags);
	begin_anew(s);
	spin_unlock_irqrestore(&m->writes.lock, flags);
}

static void send_again(struct mirror *m, struct write **runs, unsigned int nr)
{
	struct scatter *s = &m->scatter;
	unsigned long flags;
	unsigned int i;

	count_add(&m->counters, COUNT_SCATTERED_AGAIN, nr);
	spin_lock_irqsave(&m->writes.lock, flags);
	if (!s->again)
		s->in_vain = true;
	WRITE_ONCE(s->again, s->again + nr);
	spin_unlock_irqrestore(&m->writes.lock, flags);
	for (i = 0; i < nr; i++) {
		runs[i]->part[LEG_REMOTE].again = true;
		write_again(runs[i], LEG_REMOTE);
	}
}

void scatter_again_done(struct mirror *m, blk_status_t status)
{
	struct scatter *s = &m->scatter;
	unsigned long flags;
	bool enough = false;

	spin_lock_irqsave(&m->writes.lock, flags);
	if (status)
		begin_anew(s);
	WRITE_ONCE(s->again, s->again - 1);
	if (!s->again && s->in_vain && s->state == SCATTER_OFFERED) {
		WRITE_ONCE(s->failures, s->failures + 1);
		enough = s->failures == SCATTER_IN_VAIN;
	}
	if (enough)
		s->state = SCATTER_FAILED;
	spin_unlock_irqrestore(&m->writes.lock, flags);
	if (!enough)
		return;
	trace_lockstep_scatter_state(m, SCATTER_FAILED, 0, 0);
	DMWARN("%s: WRITE SCATTERED to the remote leg (%s) has failed %u times in a row, though the same writes were good by themselves: batches go there as single writes until it has been away",
	       m->name, leg_path(remote(m)), SCATTER_IN_VAIN);
}

static enum rq_end_io_ret scattered_end(LOCKSTEP_END_IO_ARGS)
{
	struct command *c = rq->end_io_data;
	struct outcome o = outcome_of(rq, status);
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct mirror *m = c->m;
	bool again;
	struct write *runs[COALESCE_MAX];
	unsigned int i, nr = c->nr;

	/* Who has taken less than all has not written all of it. */
	o.good = o.good && !scmd->resid_len;
	again = !o.good && !READ_ONCE(remote(m)->dead);
	if (o.refused)
		refuse(m);
	if (o.good)
		command_good(m);
	trace_lockstep_scattered(m, nr, c->bytes, true, o.good, o.key);
	memcpy(runs, c->runs, nr * sizeof(*runs));
	free_command(c);
	/* With the last of them the mirror may be gone. */
	if (again)
		send_again(m, runs, nr);
	else
		for (i = 0; i < nr; i++)
			write_part_done(runs[i], LEG_REMOTE, o.good ? BLK_STS_OK : BLK_STS_IOERR);
	return RQ_END_IO_NONE;
}

struct plan {
	unsigned int nr;	/* runs */
	unsigned int nr_vecs, sectors;
	bool fua;
};

/* As many runs from the first on as one command takes. */
static void plan_command(struct mirror *m, struct write **runs, unsigned int nr, struct plan *p)
{
	struct block_device *bdev = leg_bdev(remote(m));
	struct request_queue *q = bdev_get_queue(bdev);
	unsigned int list = bdev_logical_block_size(bdev), ranges = 0, most = 0, data = UINT_MAX;
	blk_opf_t always = leg_write_flags(remote(m));
	bool cache = bdev_write_cache(bdev), knows_fua;
	struct scatter *s = &m->scatter;

	memset(p, 0, sizeof(*p));
	spin_lock_irq(&m->writes.lock);
	knows_fua = s->fua && bdev_fua(bdev);
	if (s->how != TABLE_SCATTER_OFF && s->state == SCATTER_OFFERED && !s->again &&
	    s->deaths == remote(m)->deaths) {
		ranges = s->ranges;
		most = s->sectors;
		if (s->how == TABLE_SCATTER_AUTO)
			data = SCATTER_AUTO_SECTORS;
	}
	spin_unlock_irq(&m->writes.lock);
	/* The list's blocks are part of what is sent. */
	list = round_up((min(ranges, nr) + 1) * DESCRIPTOR, list) >> SECTOR_SHIFT;
	most = min(most, queue_max_sectors(q));
	if (!ranges || most <= list || list > PAGE_SIZE >> SECTOR_SHIFT ||
	    queue_virt_boundary(q) || queue_max_segment_size(q) < PAGE_SIZE)
		return;
	most = min(most - list, data);
	while (p->nr < min(nr, ranges)) {
		struct write *w = runs[p->nr];
		struct leg_part *part = &w->part[LEG_REMOTE];
		unsigned int sectors = part->size >> SECTOR_SHIFT;
		bool fua = cache && ((w->opf | always) & REQ_FUA);

		if ((w->opf & REQ_PREFLUSH) || (fua && !knows_fua) ||
		    w->range.start + sectors > bdev_nr_sectors(bdev) ||
		    p->sectors + sectors > most ||
		    p->nr_vecs + part->nr_vecs + 1 > queue_max_segments(q))
			break;
		p->sectors += sectors;
		p->nr_vecs += part->nr_vecs;
		p->fua |= fua;
		p->nr++;
	}
}

/* Into one command; false: no memory, or no room in the queue. */
static bool send_command(struct mirror *m, struct write **runs, const struct plan *p)
{
	struct block_device *bdev = leg_bdev(remote(m));
	unsigned int block = bdev_logical_block_size(bdev);
	unsigned int list = round_up((p->nr + 1) * DESCRIPTOR, block), i, v;
	unsigned int shift = ilog2(block) - SECTOR_SHIFT;
	u8 cdb[16] = { OPCODE, ACTION, p->fua ? FUA : 0 };
	struct command *c;
	u8 *d;

	put(cdb + 4, 2, list / block);
	put(cdb + 8, 2, p->nr);
	put(cdb + 10, 4, list / block + (p->sectors >> shift));
	c = new_command(m, true, cdb, sizeof(cdb), p->nr_vecs + 1, list);
	if (!c)
		goto no_room;
	c->nr = p->nr;
	c->bytes = list + (p->sectors << SECTOR_SHIFT);
	d = page_address(c->page);
	for (i = 0; i < p->nr; i++) {
		struct write *w = runs[i];
		struct leg_part *part = &w->part[LEG_REMOTE];

		d += DESCRIPTOR;
		put(d, 8, (w->range.start + bdev->bd_start_sect) >> shift);
		put(d + 8, 4, part->size >> SECTOR_SHIFT >> shift);
		for (v = 0; v < part->nr_vecs; v++)
			__bio_add_page(&c->bio, w->vecs[v].bv_page, w->vecs[v].bv_len,
				       w->vecs[v].bv_offset);
		c->runs[i] = w;
	}
	if (begin(c, scattered_end)) {
		if (test_knob(slow_sent))
			msleep(test_knob(slow_sent));
		count(&m->counters, COUNT_SCATTERED);
		count_add(&m->counters, COUNT_SCATTERED_RUNS, p->nr);
		return true;
	}
	free_command(c);
no_room:
	count_add(&m->counters, COUNT_SCATTERED_PUNTED, p->nr);
	trace_lockstep_scattered(m, p->nr, list + (p->sectors << SECTOR_SHIFT), false, false,
				 NO_SENSE);
	return false;
}

void scatter_submit(struct sender_item **items, unsigned int nr)
{
	struct write *of_unit[COALESCE_MAX], **runs = of_unit;
	unsigned int i, together;
	struct mirror *m;
	struct plan p;

	for (i = 0; i < nr; i++)
		runs[i] = write_of(items[i]);
	m = runs[0]->m;
	/* As planned, if the leg and its queue are still what they were. */
	for (; nr; runs += together, nr -= together) {
		together = 1;
		if (nr > 1) {
			plan_command(m, runs, nr, &p);
			together = max(p.nr, 1u);
			if (together > 1 && send_command(m, runs, &p))
				continue;
		}
		for (i = 0; i < together; i++)
			write_submit(runs[i], LEG_REMOTE);
	}
}

/* Runs of one lane: as commands, or one by one, those for which there is room. */
static void send_lane(struct mirror *m, enum sender_lane_id lane, struct write **runs,
		      unsigned int nr)
{
	unsigned int i, together;
	LIST_HEAD(items);
	struct plan p;

	for (; nr; runs += together, nr -= together) {
		plan_command(m, runs, nr, &p);
		together = max(p.nr, 1u);
		if (!window_take(m, runs, together))
			continue;
		for (i = 0; i < together; i++)
			list_add_tail(&runs[i]->part[LEG_REMOTE].item.link, &items);
	}
	sender_give(&remote(m)->sender, lane, &items);
}

void scatter_send(struct mirror *m, struct write **runs, unsigned int nr)
{
	struct write *in[LANES][COALESCE_MAX];
	unsigned int nr_in[LANES] = { }, i;
	enum sender_lane_id lane;

	if (nr > 1 && to_ask(m))
		ask(m, false);
	for (i = 0; i < nr; i++) {
		lane = write_lane(runs[i]);
		in[lane][nr_in[lane]++] = runs[i];
	}
	for (lane = 0; lane < LANES; lane++)
		send_lane(m, lane, in[lane], nr_in[lane]);
}

void scatter_init(struct mirror *m, enum table_scatter how)
{
	m->scatter.how = how;
	m->scatter.state = disk_of(remote(m)) ? SCATTER_UNKNOWN : SCATTER_NO_DISK;
}

bool scatter_asking(const struct mirror *m)
{
	return READ_ONCE(m->scatter.asking);
}

void scatter_end(struct mirror *m)
{
	while (!wait_event_timeout(m->writes.returned, !READ_ONCE(m->scatter.asking), END_TELL))
		DMWARN("%s: waiting for the remote leg (%s) to say whether it knows WRITE SCATTERED",
		       m->name, leg_path(remote(m)));
	/* Who has woken us is still in there. */
	spin_lock_irq(&m->writes.lock);
	spin_unlock_irq(&m->writes.lock);
}

void scatter_set(struct mirror *m, enum table_scatter how)
{
	unsigned long flags;

	spin_lock_irqsave(&m->writes.lock, flags);
	m->scatter.how = how;
	spin_unlock_irqrestore(&m->writes.lock, flags);
}

const char *scatter_word(struct mirror *m)
{
	static const char * const words[] = {
		[SCATTER_NO_DISK] = "-",
		[SCATTER_UNKNOWN] = "unknown",
		[SCATTER_NOT_OFFERED] = "no",
		[SCATTER_OFFERED] = "yes",
		[SCATTER_REFUSED] = "refused",
		[SCATTER_FAILED] = "failed",
	};
	const char *word;

	spin_lock_irq(&m->writes.lock);
	word = m->scatter.how == TABLE_SCATTER_OFF ? "off" : words[m->scatter.state];
	spin_unlock_irq(&m->writes.lock);
	return word;
}
