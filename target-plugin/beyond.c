// SPDX-License-Identifier: GPL-2.0-only
#include "beyond.h"

#include <linux/delay.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "engine.h"
#include "leg.h"
#include "lockstep-test.h"
#include "opening.h"

TEST_KNOB(bool, use_left, "a data disk is written to that was taken into use without this log");
TEST_KNOB(bool, untold_tried, "a close goes on for a log that can't be told, with all on the data disk");
TEST_KNOB(bool, leg_at_end, "a mirror's leg is looked for at the end of the data disk only");
TEST_KNOB(bool, end_as_told, "a data disk that has grown since its log was used ends where that says");
TEST_KNOB(bool, first_leg, "the leg is looked for until any mirror's superblock is found");
TEST_KNOB(bool, over_data, "the leg is told where its end was, although one slot of it is something else");
TEST_KNOB(bool, mark_unseen, "the LUN goes on to give the leg's superblock of before the DCD wrote there");
TEST_KNOB(bool, leg_grown_away, "where the leg's end is may be forgotten when the data disk grows");
TEST_KNOB(bool, kernel_forgets, "what this kernel knows of logs that nobody has told yet is as after a reboot");
TEST_KNOB(bool, any_leg, "a log is used over a leg that has been given another one");
TEST_KNOB(bool, older_end, "the leg is where an end names this log, whatever is at a newer one");
TEST_KNOB(bool, half_said, "what one slot of the leg says is said");
TEST_KNOB(bool, mute_is_well, "a log is used though the end of its data disk can't be read");
TEST_KNOB(bool, log_believed, "a log that failed is believed, however far the data disk has got");

struct dcd_beyond {
	struct list_head list;
	u8 uuid[16];		/* the log's */
	u64 epoch;
	u64 applied;		/* changed under the engine's lock */
	bool on_leg;
};

/* What this kernel knows of logs that nobody has told yet; each has the module. */
static LIST_HEAD(known);
static DEFINE_MUTEX(known_lock);

/* For the command `dcd`: a line for each. */
static int show_known(char *buf, const struct kernel_param *kp)
{
	const struct dcd_beyond *b;
	int n = 0;

	mutex_lock(&known_lock);
	list_for_each_entry(b, &known, list)
		n += scnprintf(buf + n, PAGE_SIZE - n, "%16phN %llu %llu\n", b->uuid, b->epoch,
			       b->applied);
	mutex_unlock(&known_lock);
	return n;
}

static const struct kernel_param_ops known_ops = { .get = show_known };
module_param_cb(logs_behind, &known_ops, NULL, 0400);
MODULE_PARM_DESC(logs_behind, "logs that failed and weren't told: uuid, epoch, the data disk's newest entry");

struct dcd_beyond *dcd_beyond_new(void)
{
	return kzalloc(sizeof(struct dcd_beyond), GFP_KERNEL);
}

void dcd_beyond_free(struct dcd_beyond *b)
{
	kfree(b);
}

static struct dcd_beyond *find(const struct dcd_engine *e)
{
	struct dcd_beyond *b;

	lockdep_assert_held(&known_lock);
	list_for_each_entry(b, &known, list)
		if (b->epoch == e->epoch && !memcmp(b->uuid, e->super.uuid, sizeof(b->uuid)))
			return b;
	return NULL;
}

typedef unsigned int (*read_parts)(struct dcd_engine *e, u64 sector, void *buf, size_t bytes);

/*
 * The slots of the leg that names this log; one of them is enough, as with whoever else reads them.
 * @sectors: the size of the data disk, today's (when it is opened, too, and has grown) or an
 * earlier one, at the end of which they lie; 0: there is none. -EIO: @sectors is one of which the
 * end can't be read; an older one, where an earlier superblock of this log may be, says nothing
 * then. -EMEDIUMTYPE: the leg at the end of @sectors has been given another log since.
 * @unread: how many couldn't be.
 */
static int read_slots(struct dcd_engine *e, void *slots, read_parts read, u64 *sectors,
		      unsigned int *unread)
{
	u64 size = test_knob(end_as_told) ? e->data.sectors : bdev_nr_sectors(e->data.bdev);
	u64 bad = 0;
	u32 i;

	static_assert(LOCKSTEP_SLOTS == DCD_PARTS);
	for (i = 0; i < DCD_ENDS; i++) {
		*sectors = dcd_data_end(&e->super, size, i);
		if (!lockstep_slots_start(*sectors) || (i && test_knob(leg_at_end)))
			continue;
		*unread = read(e, lockstep_slots_start(*sectors), slots, LOCKSTEP_SLOT_BYTES);
		if (*unread == LOCKSTEP_SLOTS)
			bad = *sectors;
		if (bad && !test_knob(older_end))
			break;
		if (dcd_leg_names(slots, *sectors, e->super.uuid))
			return 0;
		if (dcd_leg_names_another(slots, *sectors, e->super.uuid) && !test_knob(any_leg) &&
		    !test_knob(older_end))
			return -EMEDIUMTYPE;
		if (test_knob(first_leg) && dcd_leg_slots(slots, *sectors))
			break;
	}
	*sectors = bad;
	return bad ? -EIO : 0;
}

int dcd_beyond_may_end(struct dcd_engine *e, u64 sectors)
{
	u64 start = lockstep_slots_start(sectors);
	unsigned int unread;
	bool another;
	void *slots;

	if (!start || test_knob(any_leg))
		return 0;
	slots = kzalloc(LOCKSTEP_SLOTS_BYTES, GFP_NOIO);
	if (!slots)
		return -ENOMEM;
	unread = dcd_opening_parts(e, start, slots, LOCKSTEP_SLOT_BYTES);
	another = dcd_leg_names_another(slots, sectors, e->super.uuid);
	kfree(slots);
	if (another) {
		pr_err("dcd: %s: what the data disk %pg has got ends with the superblock of a mirror's leg that another DCD's log is in front of: the size stays as it was. Is that leg no more, clear it and try again: dd if=/dev/zero of=/dev/%pg bs=%u seek=%llu count=%u oflag=direct\n",
		       e->name, e->data.bdev, e->data.bdev, LOCKSTEP_SLOT_BYTES,
		       start / LOCKSTEP_SLOT_SECTORS, LOCKSTEP_SLOTS);
		return -EMEDIUMTYPE;
	}
	if (unread < LOCKSTEP_SLOTS)
		return 0;
	pr_err("dcd: %s: the last %u sectors that the data disk %pg has got can't be read, so the DCD couldn't be opened with them: the size stays as it was, try again\n",
	       e->name, (unsigned int)LOCKSTEP_SLOTS_SECTORS, e->data.bdev);
	return -EIO;
}

/*
 * Where nothing can be read it may say that the data disk was taken into use without this log; and
 * may be read a moment later, when the log has been written over newer data.
 */
static int ask_leg(struct dcd_engine *e, u64 *applied)
{
	unsigned int unread;
	void *slots;
	u64 sectors;
	int r;

	slots = kzalloc(LOCKSTEP_SLOTS_BYTES, GFP_KERNEL);
	if (!slots)
		return -ENOMEM;
	r = read_slots(e, slots, dcd_opening_parts, &sectors, &unread);
	if (r == -EIO && test_knob(mute_is_well))
		r = 0;
	if (r == -EIO)
		pr_err("dcd: %s: the end of the data disk %pg, of now or before it has grown, can't be read: %u sectors from %llu on; so it isn't known whether it was used without the log %pg: the DCD isn't opened. Try again when they can be read; if they are bad for good, and this log was the last one in use here, write over them (or, if that fails too, give it a copy of that disk); else dcd format\n",
		       e->name, e->data.bdev, (unsigned int)LOCKSTEP_SLOTS_SECTORS,
		       lockstep_slots_start(sectors), e->log.bdev);
	if (r == -EMEDIUMTYPE)
		pr_err("dcd: %s: the data disk %pg is a mirror's leg that has another log by now than %pg (uuid %pU): nothing of this one may be written there. To use it again: dcd format. Is that leg no more, or one of before the disk had grown: lockstep-meta wipe --force\n",
		       e->name, e->data.bdev, e->log.bdev, e->super.uuid);
	if (!r && dcd_leg_left(slots, sectors, e->super.uuid) && !test_knob(use_left)) {
		pr_err("dcd: %s: the data disk %pg was taken into use without the log %pg (uuid %pU): what the log has is older. Nothing of it may be written there. To use the log again: dcd format\n",
		       e->name, e->data.bdev, e->log.bdev, e->super.uuid);
		r = -EMEDIUMTYPE;
	}
	if (!r)
		*applied = dcd_leg_applied(slots, sectors, e->super.uuid, e->epoch);
	kfree(slots);
	return r;
}

int dcd_beyond_open(struct dcd_engine *e)
{
	const struct dcd_beyond *b;
	u64 applied = 0;
	int r = ask_leg(e, &applied);

	if (r || e->keeps || test_knob(log_believed))
		return r;
	mutex_lock(&known_lock);
	b = find(e);
	if (b && !test_knob(kernel_forgets))
		applied = max(applied, b->applied);
	mutex_unlock(&known_lock);
	if (applied <= le64_to_cpu(e->super.applied))
		return 0;
	e->header.applied = cpu_to_le64(applied);
	pr_warn("dcd: %s: the log %pg failed when it was used last, and the data disk %pg has entries up to %llu without it (the log knows of %llu): nothing of those is taken from the log\n",
		e->name, e->log.bdev, e->data.bdev, applied, le64_to_cpu(e->super.applied));
	return 0;
}

/*
 * Which of the slots may be written? Others may be data by now, if they can be read. At the end of
 * the disk, where one is there, both places are the leg's, and a write may heal one.
 */
static unsigned int may_write(const struct dcd_engine *e, const void *slots, u64 sectors,
			      unsigned int unread)
{
	unsigned int there = test_knob(over_data) ? DCD_LEG_BOTH : dcd_leg_slots(slots, sectors);

	if (sectors == e->data.sectors)
		return there && unread && !test_knob(half_said) ? DCD_LEG_BOTH : there;
	return there == DCD_LEG_BOTH || unread ? there : 0;
}

/* What is there belongs to a mirror's leg, or not: true if it is durable there. */
static bool say_on_leg(struct dcd_engine *e, u64 applied)
{
	unsigned long until = jiffies + DCD_BLIP_READS;
	struct lockstep_slot *slots;
	struct dcd_place written;
	unsigned int i, slot, there, unread;
	u64 at, sectors;
	int r;

	slots = kzalloc(LOCKSTEP_SLOTS_BYTES, GFP_NOIO);
	if (!slots)
		return false;
	/*
	 * Whoever writes past the log waits for this. What can't be read beside a slot is written
	 * over, and may be somebody's if that is no leg any more: so it is asked for a while.
	 */
	r = read_slots(e, slots, dcd_opening_parts_once, &sectors, &unread);
	while (!r && sectors && unread && time_before(jiffies, until) && !test_knob(half_said)) {
		msleep(50);
		r = read_slots(e, slots, dcd_opening_parts_once, &sectors, &unread);
	}
	there = may_write(e, slots, sectors, unread);
	if (!r && (!there ||
		   !dcd_leg_apply(slots, sectors, e->super.uuid, e->epoch, applied, &slot)))
		r = -ENOENT;
	if (!r && unread && there == DCD_LEG_BOTH)
		pr_warn("dcd: %s: one of the two copies of the leg's superblock on the data disk %pg can't be read: it is written anew\n",
			e->name, e->data.bdev);
	at = lockstep_slots_start(sectors);
	written = (struct dcd_place){ .sector = at, .last = at + LOCKSTEP_SLOTS_SECTORS - 1 };
	if (!r)
		dcd_witness_over(e, &written);
	for (i = 0; !r && i < LOCKSTEP_SLOTS; i++, slot = !slot)
		r = !(there & 1U << slot) ? 0 :
		    dcd_disk_io(&e->data, REQ_OP_WRITE | REQ_SYNC | REQ_PREFLUSH | REQ_FUA,
				at + slot * LOCKSTEP_SLOT_SECTORS, &slots[slot],
				LOCKSTEP_SLOT_BYTES);
	kfree(slots);
	if (r == -ENOENT || r == -EMEDIUMTYPE)
		return false;
	/* The mirror reads it by the LUN. */
	mutex_lock(&e->intake);
	if (sectors && !test_knob(mark_unseen)) {
		dcd_cache_destaged(e->cache, &written);
		dcd_read_destaged(e, &written);
	}
	mutex_unlock(&e->intake);
	if (r)
		pr_err("dcd: %s: can't write to the end of the data disk %pg that it has got past the log: error %d\n",
		       e->name, e->data.bdev, r);
	/* One slot is enough for who reads it; but it may be able to read just the other one. */
	return !r && (!unread || there == DCD_LEG_BOTH || test_knob(half_said));
}

/* What the mirror has written last may be in the log only. */
static unsigned int read_as_the_lun(struct dcd_engine *e, u64 sector, void *buf, size_t bytes)
{
	unsigned int i, bad = 0;

	for (i = 0; i < DCD_PARTS; i++, buf += bytes, sector += bytes >> SECTOR_SHIFT) {
		if (!dcd_read_now(e, sector, bytes >> SECTOR_SHIFT, buf))
			continue;
		memset(buf, 0, bytes);
		bad++;
	}
	return bad;
}

int dcd_beyond_leg(struct dcd_engine *e, u64 *sectors)
{
	void *slots = kmalloc(LOCKSTEP_SLOTS_BYTES, GFP_NOIO);
	unsigned int unread;
	int r = slots ? 0 : -ENOMEM;

	*sectors = 0;
	if (slots && !test_knob(leg_grown_away))
		r = read_slots(e, slots, read_as_the_lun, sectors, &unread);
	kfree(slots);
	if (r)
		*sectors = 0;
	return r == -EMEDIUMTYPE ? 0 : r;	/* that one isn't this DCD's */
}

void dcd_beyond_say(struct dcd_engine *e, u64 applied)
{
	struct dcd_beyond *b = e->beyond;

	if (b->on_leg && b->applied == applied)
		return;
	spin_lock(&e->lock);
	b->applied = applied;
	spin_unlock(&e->lock);
	b->on_leg = say_on_leg(e, applied);
	if (!b->on_leg)
		return;
	dcd_count(e, DCD_N_LEG_MARKS, 1);
	pr_info("dcd: %s: the data disk %pg has all up to entry %llu without the log %pg, and says so: nothing of those will be taken from that log\n",
		e->name, e->data.bdev, applied, e->log.bdev);
}

bool dcd_beyond_on_leg(const struct dcd_engine *e)
{
	return e->beyond->on_leg;
}

bool dcd_beyond_has_all(struct dcd_engine *e)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->log_behind && e->beyond->applied + 1 == e->next_entry;
	spin_unlock(&e->lock);
	return yes && !test_knob(untold_tried);
}

void dcd_beyond_close(struct dcd_engine *e, bool behind)
{
	struct dcd_beyond *old, *gone = NULL;

	mutex_lock(&known_lock);
	old = find(e);
	if (behind && !e->beyond->on_leg) {
		if (old) {
			old->applied = max(old->applied, e->beyond->applied);
		} else {
			memcpy(e->beyond->uuid, e->super.uuid, sizeof(e->beyond->uuid));
			e->beyond->epoch = e->epoch;
			list_add(&e->beyond->list, &known);
			e->beyond = NULL;
			__module_get(THIS_MODULE);
		}
	} else if (old && old->applied <= dcd_super_told(e)) {
		list_del(&old->list);	/* the log knows it, in both copies */
		gone = old;
	}
	mutex_unlock(&known_lock);
	if (!gone)
		return;
	kfree(gone);
	module_put(THIS_MODULE);
}
