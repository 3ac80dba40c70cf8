/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Inside of the engine; users include dcd.h.
 *
 * A write goes into the open NVRAM slot (intake.c), which is built like a log
 * segment and knows from its opening at which place of the log it will end; so
 * the index (index.c) always speaks of places in the log, and whether a place
 * is still in memory is asked of the slots (slots.c). A sealed slot is committed
 * to the log (log.c) and stays readable until it is used again. The oldest segments
 * are destaged to the data disk (destage.c).
 *
 * Invariants:
 * 1. A write is acknowledged only after its entry is persistent in NVRAM; with
 *    an NVRAM that loses acknowledgements, FLUSH and FUA wait for the log.
 *    Without NVRAM (@after_log) it is acknowledged only after its segment is
 *    durable in the log: the first goes there at once, those that come while it
 *    is being written share the next one. FLUSH and FUA need nothing more.
 * 2. Entries become persistent, enter the index and are acknowledged in their
 *    sequence: one at a time publishes (entries.c, which says why that is enough).
 *    What isn't persistent isn't in the index; what isn't published isn't in a
 *    segment that is written, nor recorded as applied. What NVRAM can't keep, and all that
 *    is behind it, is taken back before any of it is persistent (entries.h).
 * 3. An NVRAM slot is reused only when its segment is durable in the log, or
 *    all of its entries are recorded as applied in both copies of the NVRAM header, and no
 *    reader can still copy from it (@copiers).
 * 4. A log segment is reused only when what was live in it is durable on the
 *    data disk, and what was written over the rest is durable in the log or an
 *    NVRAM that keeps its content, and both copies of the superblock say so (dcd_kept_from()):
 *    should the newer one be lost, the older one is as right. Who has
 *    read it asks then whether it is live yet (dcd_is_live()), and starts anew if not.
 * 5. Only the destager takes ranges out of the index, under @intake, and only
 *    what a flush has made durable on the data disk since it was copied there.
 *
 * A write that finds no room, or whose time has not come, waits in @waiting; whoever
 * comes while others wait waits behind them. Only the worker sleeps for it, until
 * there is room or can't be any (closing, a dead log that has to be waited for, no
 * disk that works): then it is refused; or until it has waited long enough, or nobody
 * wants it any more (patience.c). A write may be megabytes, a discard thousands of entries:
 * so they wait in queues of their own, and the queues take turns, entry by entry.
 *
 * When disks fail (each end is found by trying again, and told):
 * - The data disk: everything stays in the log, FLUSH and close go on working;
 *   writes are refused once the log is full. A place of it: only that, and it doesn't
 *   fill the log (stuck.h).
 * - The log: a write that fails is tried again for a while (blip.h). What fails in few blocks only
 *   is moved to others (spares.h). Else (@log_dead: it failed all the same, or can't be read back:
 *   proof.h) what is in NVRAM goes to the data disk directly. An NVRAM that keeps its content also
 *   keeps account of that (its header's `applied`), and of what is lost (lost.h), so writes go on.
 *   With any other a crash loses what is there, and may bring back what the log had before: writes
 *   are refused, and FLUSH while something is in NVRAM only. Once all of it is on the data disk,
 *   that is said where that log's next opening finds it (beyond.h). Without NVRAM all that isn't in
 *   the log yet is refused too (it may be there later, as any write that failed); nothing that was
 *   acknowledged needs a FLUSH then.
 *   If all got to the data disk, a superblock that can be written is the end of it: it disowns
 *   the log's content. Else a superblock and the segment that failed: the log gets all of NVRAM,
 *   what went past it too, in its order.
 * - Both: writes are refused when NVRAM is full.
 * - A dead log that isn't mended is left for good when the admin says so: leave.h.
 * - A disk that doesn't answer a read, or a write when the log was left, holds nobody: the request
 *   is given up after a while (read.h, through.h). Nor does such a read hold the log's tail.
 * - A discard or a zeroing of the data disk that doesn't return holds its range only (zeroes.h).
 * - Reads of the log by the destager, the committer and the scrub hold none of them (aside.h,
 *   late.h): what hasn't come within a moment keeps its place in the log until it has.
 * - A log that doesn't answer writes is dead where NVRAM keeps its content, and what it is at is
 *   left (aside.h). With any other NVRAM it holds the committer, and a close, until its driver
 *   gives up. So does a data disk the destager past a dead log. Requests that wait for room by that
 *   are given up, too.
 *
 * Locks, outer first: @intake (mutex, of changes to the index; never held while
 * waiting for room or for a disk, but by recovery), @super_lock (mutex, for the time that a
 * superblock is written), @header_lock (mutex), the index's own spinlock or @lock (spinlock, slot
 * states, reservations and counters; never together). The SRCUs are entered with none held, and
 * nobody synchronizes one with @intake held: @copiers, never longer than a copy takes; @submitters,
 * around all of dcd_submit(), synchronized by dcd_close() only.
 */
#ifndef DCD_ENGINE_H
#define DCD_ENGINE_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/maple_tree.h>
#include <linux/mutex.h>
#include <linux/srcu.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "admission.h"
#include "aside.h"
#include "blip.h"
#include "cache.h"
#include "dcd.h"
#include "dcd-format.h"
#include "dcd-nvram.h"
#include "entries.h"
#include "leave.h"
#include "log.h"
#include "lost.h"
#include "pace.h"
#include "parse.h"
#include "proof.h"
#include "read.h"
#include "slots.h"
#include "spares.h"
#include "stuck.h"
#include "late.h"
#include "sums.h"
#include "sweep.h"
#include "through.h"
#include "turn.h"
#include "witness-pool.h"
#include "zeroes.h"

struct dcd_disk {
	struct block_device *bdev;
	void *handle;		/* what compat opened */
	unsigned int block;	/* bytes of a logical block */
	sector_t sectors;	/* that are used; of the data disk they may grow: grow.c */
	struct dcd_moves __rcu *moves;	/* of the log: spares.h; NULL: nothing is moved */
};

/* In their order. */
enum dcd_slot_state {
	DCD_SLOT_FREE,
	DCD_SLOT_OPEN,
	DCD_SLOT_SEALED,
	DCD_SLOT_CLEAN,		/* durable in the log or past it on the data disk; readable */
	DCD_SLOT_LEAVING,	/* the same, but nobody begins to read it any more */
	DCD_SLOT_RETIRED,	/* it was bad: never used again */
};

#define DCD_SLOTS_LEAST 2U	/* good ones, or nothing can be written */

/*
 * @used: bytes, end of the last payload. @counts: dcd_counts() of all. @opened: jiffies.
 * @table: its entries, in memory too if the NVRAM keeps its content: a media error in a table
 * would cost more than what it is under. @bad: bytes of it can't be read (bad-slots.c). @idle: in
 * the engine's list of those that are FREE, LEAVING or CLEAN.
 */
struct dcd_slot {
	struct list_head idle;
	u8 *base;
	struct dcd_entry *table;
	bool bad;
	enum dcd_slot_state state;
	u64 segment;
	u64 first_entry;
	u32 entries;
	u32 used;
	u32 counts;
	unsigned long opened;
	bool kept;		/* only for what is logged again */
	bool pinned;		/* it is in @pinned: the log was written to in vain (proof.h) */
};

/* An entry that is reserved and not published. @lock; @entry: who fills or publishes it. */
#define DCD_PENDING 256
#define DCD_NO_VOID U64_MAX
struct dcd_pending {
	struct dcd_slot *slot;
	struct dcd_request *rq;		/* whose last one it is, else NULL */
	struct dcd_entry entry;
	bool ready;
};

/* scrub.c's: segments of this turn, from @next to below @end; jiffies when one may begin. */
struct dcd_scrub {
	u64 next, end;
	unsigned long next_turn;
	void *buf;
};

/* By then the segments below @target will be free. */
struct dcd_forecast {
	ktime_t when;
	u64 target;
};

/* Where a request waits for time or room: writes of one entry, longer ones, zeroes. */
enum dcd_queue { DCD_SHORT, DCD_LONG, DCD_ZEROES, DCD_QUEUES };

struct dcd_engine {
	char name[64];
	struct dcd_disk data, log;
	unsigned int block;	/* the larger of theirs; all requests and entries are whole ones */
	struct dcd_nvram *nv;
	bool keeps;		/* the NVRAM has a header and outlives us */
	bool loses_acks;	/* by its type, or its battery fails; may change */
	bool after_log;		/* no NVRAM: report after complete */

	/*
	 * As last written; destager, open, close. The committer may set a feature
	 * (spares.h), beside the destager.
	 */
	struct dcd_super super;
	struct mutex super_lock;	/* while it is written, and its witnesses' */
	struct mutex header_lock;	/* while the NVRAM's header is written */
	struct dcd_super *super_buf;	/* a block; likewise; and one behind it for that header */
	struct dcd_spares spares;
	struct dcd_pool pool;	/* of witnesses; @super_lock's */
	bool super_differs;		/* at open: its other copy is bad, or of another size */
	u8 header_bad[DCD_BLOCK >> SECTOR_SHIFT];	/* at open: sectors that can't be read */
	bool header_differs;		/* at open: the NVRAM header's other copy says less */
	bool end_bad;			/* at open: there may have been a newer end record */
	enum dcd_copy ends[2];		/* at open: of those records */
	struct dcd_nvram_header header;	/* of an NVRAM that keeps; else only @applied: beyond.h */
	u64 end_known;			/* at open: what the NVRAM's end records say */
	unsigned int end_copy;		/* to be written next; who is @publishing */
	bool ends_unused;		/* neither was ever written; likewise */
	u64 end_first;			/* what both say then before anything is published */
	u64 epoch;
	u64 segments;
	u32 segment_bytes;
	u32 table_bytes;

	struct mutex intake;		/* changes to the index; see above */
	struct dcd_slot *slots;		/* as they lie in NVRAM */
	unsigned int slots_there;	/* so many, */
	unsigned int nslots;		/* and so many that aren't retired */
	void *tables;			/* @table of all of them, or NULL */
	struct work_struct reuse_work;
	struct dcd_pending *pending;	/* of entry n at n % DCD_PENDING; see entries.c */
	struct delayed_work publish_work;
	u64 persisted;			/* entries below it are; who is @publishing */
	u8 *late;			/* dcd_acks_early(): not persistent; likewise */
	size_t late_len;

	spinlock_t lock;		/* what follows up to @room, and slots' states */
	struct dcd_slot *open;
	u64 next_entry;			/* to be reserved */
	u64 published;			/* entries below it are persistent, in the index and done */
	bool publishing;		/* somebody is at it */
	u64 void_from;			/* with all behind it to be taken back: entries.h */
	u64 taken_back;			/* how often that was */
	u64 head;			/* sequence of the next segment to open */
	u64 committed;			/* segments below it don't need NVRAM any more */
	u64 committed_entry;		/* newest entry there */
	u64 tail;			/* oldest segment that isn't destaged */
	u64 older_tail;			/* by the superblock's older copy; 0: it isn't known */
	u64 older_applied;		/* likewise */
	u64 damaged;			/* behind the last segment whose bytes were wrong */
	bool log_dead;			/* a write to it failed; see above */
	enum dcd_leaving leaving;	/* leave.h */
	u64 leave_at, leave_past, leave_left, leave_tries;	/* leave.c: segments, a number */
	unsigned long leave_whole;	/* when a round had nothing unread last (jiffies) */
	struct xarray leave_lost;	/* places of the log that are found LOST; the destager's */
	bool log_behind;		/* all is on the data disk, and the log doesn't know */
	u64 bypassed;			/* of segments below it some may be only on the data disk */
	u64 log_tried;			/* nor did the log ever get any from it on; who commits */
	bool data_failing;
	bool stuck;			/* the last round of destaging failed */
	int round_error;		/* its error, but for -EAGAIN; the destager's */
	unsigned long round_retry;	/* jiffies: after an error the next one is due then */
	unsigned long data_well;	/* jiffies: nothing was known against the data disk */
	bool closing;
	bool growing;			/* the destager is to make way */
	bool held;			/* nobody may reserve: again.c */
	struct dcd_slot **where;	/* that of segment s at s % slots_there: slots.c */
	struct list_head idle;		/* slots, those that may be used again first, in front */
	unsigned int nidle;
	struct list_head pinned;	/* slots that aren't idle before the tail has passed them */
	unsigned int npinned;
	unsigned int nbad;		/* slots that are, and not retired yet: bad-slots.c */
	u64 bad_at;			/* the head when one was found: a test knob's */
	bool worn;			/* too few are good: nobody gets a place any more */
	unsigned long last_intake, last_read;	/* jiffies */
	ktime_t next_intake;		/* a paced write isn't admitted before it */
	struct dcd_destage_config destage;
	struct dcd_speed log_speed, data_speed;
	u64 usual;			/* 16 times the sectors that a segment gets, lately */
	bool foreseen;			/* is there a forecast? */
	struct dcd_forecast next_room, turn_end;
	struct list_head waiting[DCD_QUEUES];	/* for time or room; @intake_work's */
	unsigned int nwaiting;		/* in all, with the one it is at */
	unsigned int busy_after_ms;	/* may change */
	struct delayed_work patience_work;
	struct list_head unreported;	/* writes that are entered; @after_log */
	unsigned long log_failed, log_retry;	/* jiffies: the last time, not to be tried before */
	unsigned int asides, late_writes;	/* that were left, writes among them: aside.h */
	struct dcd_reads reads;		/* read.h */
	struct dcd_throughs throughs;	/* through.h */
	wait_queue_head_t quiet;	/* a wipe has returned, the last of @reads, ... */
	struct work_struct linger_work;
	wait_queue_head_t room;		/* slot freed, committed or tail moved, errors */
	bool log_unreadable;		/* a part of it that counts; destager */
	bool untold;			/* by no superblock yet: what NVRAM was before; @lock */
	unsigned long unread_at;	/* jiffies: something of it last wasn't read; destager */
	struct dcd_mute mute;		/* likewise: blip.h */
	unsigned long log_away;		/* jiffies: it may be dead by then; who writes to it */
	struct dcd_cache *cache;
	struct maple_tree index;
	unsigned long ranges, zeroes;	/* in the index, and those of zeroes; @intake */
	u64 zero_sectors;		/* likewise */
	u64 index_bytes;
	struct dcd_turn turn;		/* counted by @intake, else the destager's */
	struct srcu_struct copiers, submitters;	/* see above */
	atomic_t holders;		/* a test knob's: dcd_reads_hold() */
	struct bio_set bios;		/* of reads */
	struct workqueue_struct *intake_wq, *commit_wq, *destage_wq, *io_wq;
	struct workqueue_struct *quick_wq;	/* for what waits for no disk */
	struct workqueue_struct *flush_wq;	/* requests that wait for a commit */
	struct workqueue_struct *wipe_wq;	/* of wipes, zeroes.h */
	struct workqueue_struct *submit_wq;	/* who waits for the data disk's queue */
	struct workqueue_struct *aside_wq;	/* aside.h */
	struct work_struct intake_work, super_work;	/* the latter on @destage_wq */
	struct delayed_work commit_work, destage_work, scrub_work;
	struct dcd_scrub scrub;
	unsigned int scrub_kib;		/* may change */
	void *commit_buf, *destage_buf;
	struct dcd_commit commit;
	struct dcd_batch *batch, *ahead;	/* destager; batch.h */
	struct dcd_wipes wipes;		/* zeroes.h */
	struct dcd_stuck bad;		/* stuck.h */
	struct dcd_lates lates;		/* late.h */
	struct dcd_lost lost;		/* lost.h */
	struct dcd_proof proof;		/* proof.h */
	struct dcd_again *again;	/* again.c */
	struct dcd_beyond *beyond;	/* beyond.h */
	struct xarray sums;		/* sums.h, by segment */
	wait_queue_head_t moved;	/* of their I/O */
	struct dcd_sweep sweep;		/* likewise */
	struct list_head engines;	/* digest.c's */
	unsigned int watched;		/* likewise */
	unsigned long ending;		/* jiffies: its close has begun; 0: it hasn't */
	atomic64_t counters[DCD_COUNTERS];
};

static inline void dcd_count(struct dcd_engine *e, enum dcd_counter what, u64 by)
{
	atomic64_add(by, &e->counters[what]);
}

/* Is there anything that keeps some of the log for itself, as it can't get to the data disk? */
static inline bool dcd_has_stuck(const struct dcd_engine *e)
{
	return READ_ONCE(e->bad.n) || READ_ONCE(e->lost.n);
}

static inline u32 dcd_table_places(const struct dcd_engine *e)
{
	return e->table_bytes / sizeof(struct dcd_entry);
}

/* Sector in the log where segment @sequence begins. */
static inline u64 dcd_segment_sector(const struct dcd_engine *e, u64 sequence)
{
	u64 at;

	div64_u64_rem(sequence, e->segments, &at);
	return (DCD_RING_START + at * e->segment_bytes) >> SECTOR_SHIFT;
}

/* disk.c: synchronous I/O of @bytes (multiple of 512) from or to kernel memory. */
#define DCD_IO_MAX (256U << 10)
int __must_check dcd_disk_open(struct dcd_disk *disk, const char *what, const char *path,
			       void *holder);
void dcd_disk_close(struct dcd_disk *disk);
int __must_check dcd_disk_io(struct dcd_disk *disk, blk_opf_t opf, u64 sector, void *buf,
			     size_t bytes);
int __must_check dcd_disk_flush(struct dcd_disk *disk);

/*
 * Several at a time, all begun by one thread, which may plug, and which waits for
 * them before it gives @ios, an io or its memory away. May sleep for memory. @wait
 * may be that of others too.
 */
struct dcd_ios {
	struct dcd_disk *disk;
	atomic_t in_flight;
	wait_queue_head_t *wait;
};

/* @status is good when its ios have been waited for. */
struct dcd_io {
	struct dcd_ios *ios;
	atomic_t bios;
	blk_status_t status;
};

void dcd_ios_init(struct dcd_ios *ios, struct dcd_disk *disk, wait_queue_head_t *wait);
void dcd_io_begin(struct dcd_ios *ios, struct dcd_io *io, blk_opf_t opf, u64 sector, void *buf,
		  size_t bytes);
/* A write of several parts that lie one behind the other on the disk; @parts are used up. */
struct dcd_part {
	void *buf;		/* NULL: zeroes */
	size_t bytes;
};

void dcd_io_begin_parts(struct dcd_ios *ios, struct dcd_io *io, blk_opf_t opf, u64 sector,
			struct dcd_part *parts, unsigned int n);
void dcd_io_begin_flush(struct dcd_ios *ios, struct dcd_io *io);
/* Has it been answered? Its @status is right then, but it may not be given away yet. */
static inline bool dcd_io_done(struct dcd_io *io)
{
	return !atomic_read_acquire(&io->bios);
}

/* Until no more than so many are in flight. */
void dcd_ios_wait(struct dcd_ios *ios, unsigned int most);

/* nvram.c: "TYPE[:SPEC]". */
int __must_check dcd_nvram_open(const char *spec, size_t bytes, struct dcd_nvram **nv);
void dcd_nvram_close(struct dcd_nvram *nv);
/*
 * How all is read that is there: copies; how many sectors have a media error. Those are zeroes
 * then and set in @bad, a byte for each (NULL: only the number is wanted). Doesn't sleep.
 */
unsigned int __must_check dcd_nvram_read(struct dcd_nvram *nv, const void *from, void *to,
					 size_t bytes, u8 *bad);
/* Whole sectors, in the way that clears media errors. Sleeps. */
int __must_check dcd_nvram_mend(struct dcd_nvram *nv, size_t off, void *from, size_t bytes);
extern struct dcd_nvram_type dcd_nvram_dram, dcd_nvram_none;
#if IS_ENABLED(CONFIG_FS_DAX) && IS_ENABLED(CONFIG_ARCH_HAS_PMEM_API)
extern struct dcd_nvram_type dcd_nvram_pmem;
#define DCD_HAVE_PMEM 1
#else
#define DCD_HAVE_PMEM 0
#endif

/*
 * super.c: read and check both headers; write their next generation, durable, in the place of the
 * older copy. @grown: the data disk may be larger than it says; then the rest isn't used.
 */
int __must_check dcd_super_read(struct dcd_engine *e, bool grown);
/*
 * Both copies as they are; one that can't be read, if the other one can, as zeroes. Sleeps; for so
 * many jiffies each (aside.h), or @patience 0: as long as it takes.
 */
int __must_check dcd_super_blocks(struct dcd_engine *e, u8 *buf, unsigned long patience);
int __must_check dcd_header_read(struct dcd_engine *e);
int __must_check dcd_super_write(struct dcd_engine *e, u64 tail, u64 applied);
/*
 * The same for a tail that moves: also to the other copy if that is due, or if @both have to know
 * it first. An error: perhaps the newer one alone says it. _catch_up(): the other one, if due now.
 * _kick(): if so, soon, any context. _tell(): that it was opened, @untold; waits, not for long.
 */
int __must_check dcd_super_pass(struct dcd_engine *e, u64 tail, u64 applied, bool both);
void dcd_super_catch_up(struct dcd_engine *e);
void dcd_super_kick(struct dcd_engine *e);
void dcd_super_tell(struct dcd_engine *e);
void dcd_super_worker(struct work_struct *work);
u64 dcd_super_told(const struct dcd_engine *e);	/* entries up to it are applied, by both copies */
/*
 * The oldest segment whose place in the ring is kept, as a copy of the superblock counts it. With
 * the log dead none is written to: before it works again both copies have the tail. Needs @lock.
 */
u64 dcd_kept_from(const struct dcd_engine *e);
/* All copies of it have this bit of @incompat, or size, from now on. They take @super_lock. */
int __must_check dcd_super_feature(struct dcd_engine *e, u32 bit);
int __must_check dcd_super_grow(struct dcd_engine *e, sector_t sectors, u64 leg);
void dcd_header_write(struct dcd_engine *e, u64 applied);	/* the destager's */
void dcd_header_pass(struct dcd_engine *e, u64 applied);	/* both copies; likewise */
void dcd_header_feature(struct dcd_engine *e, u32 bit);		/* likewise, as the superblock's */
int __must_check dcd_header_mend(struct dcd_engine *e);		/* at open, when all is known */
void dcd_end_raise(struct dcd_engine *e, u64 newest);	/* at open, before the log gets them */
void dcd_end_write(struct dcd_engine *e, u64 newest);	/* who is @publishing; doesn't sleep */
void dcd_geometry_of(const struct dcd_engine *e, struct dcd_geometry *g);

/*
 * index.c: sector ranges to places. A range of zeroes, or of what is lost, knows only the
 * segment of its entry.
 */
struct dcd_place {
	sector_t sector;	/* range on the data disk */
	sector_t last;		/* its last sector */
	void *value;		/* as stored, NULL for none: on the data disk */
	bool zero;
	bool discard;		/* zeroes that may be discarded instead */
	bool lost;		/* a medium error: lost.h */
	u64 at;			/* sector in the ring's unrolled space; no bytes: the segment */
};

/*
 * The unrolled space: segment s has the sectors [s * per, (s + 1) * per), per =
 * sectors a segment; so a place names its segment as well as its sector.
 */
static inline u64 dcd_segment_of(const struct dcd_engine *e, const struct dcd_place *p)
{
	return p->zero || p->lost ? p->at : div64_u64(p->at, e->segment_bytes >> SECTOR_SHIFT);
}

static inline u32 dcd_place_sectors(const struct dcd_place *p)
{
	return p->last - p->sector + 1;
}

/* Of one that has bytes: the sector of the log disk where its bytes are, or will be. */
static inline u64 dcd_place_in_log(const struct dcd_engine *e, const struct dcd_place *p)
{
	u32 offset;
	u64 segment = div_u64_rem(p->at, e->segment_bytes >> SECTOR_SHIFT, &offset);

	return dcd_segment_sector(e, segment) + offset;
}

/* Empty. 0 or -ENOMEM; it is to be destroyed in any case. */
int __must_check dcd_index_init(struct dcd_engine *e);
/* -ENOMEM: the index is as it was, or has a part of it if it is zeroes. Needs @intake. */
int __must_check dcd_index_insert(struct dcd_engine *e, sector_t sector, u32 sectors,
				  enum dcd_entry_type type, u64 at);
/* First range at or behind @sector, clipped to [@sector, @last]; holes are ranges too. */
void dcd_index_find(struct dcd_engine *e, sector_t sector, sector_t last, struct dcd_place *p);
/*
 * How far one range from @sector on may go, @last at most: 7.3's maple tree crashes
 * (mt_free_walk) when a large part of it goes at once while readers may be in it.
 */
sector_t dcd_index_reach(struct dcd_engine *e, sector_t sector, sector_t last);
/* Are there more pieces of zeroes with one from @sector on? @last becomes that. Any context. */
bool dcd_index_more_zeroes(struct dcd_engine *e, sector_t sector, sector_t *last);
/* First range that is in the index at or behind @sector; false: none. */
bool dcd_index_next(struct dcd_engine *e, sector_t sector, struct dcd_place *p);
/* -ENOMEM leaves the index as it was. Needs @intake. */
int __must_check dcd_index_erase(struct dcd_engine *e, sector_t sector, sector_t last);
/*
 * Its memory, and how full that is, of DCD_FULL. What it has is counted in ranges
 * of DCD_RANGE_BYTES: 4 KiB writes at random were measured to take 42 bytes each,
 * 11 MiB for each GiB (tests/sim/scenarios/dcd_index.py 128); with every node of
 * the tree at its emptiest it would be 85. Any context.
 *
 * A full index counts as a full log: dcd_ring_free(). So destage gets urgent and
 * writes are slowed, and none is refused while the data disk works.
 */
#define DCD_RANGE_BYTES 64
#define DCD_FULL 0x100000U
u64 dcd_index_used(const struct dcd_engine *e);
u32 dcd_index_fill(const struct dcd_engine *e);
/*
 * So many bytes may it take; 0: what a log full of 4 KiB writes needs, 1/64 of the
 * log, but no more than 1/8 of the machine's memory, and 4 MiB at least.
 */
void dcd_index_bound(struct dcd_engine *e, size_t bytes);

/*
 * intake.c. A write as far as it can go now; doesn't wait for room or time. If
 * there is none it waits in a queue. It is answered in any case.
 */
void dcd_intake(struct dcd_engine *e, struct dcd_request *rq);
/* The same for one that was entered and has been taken back: from its beginning, by the worker. */
void dcd_intake_again(struct dcd_engine *e, struct dcd_request *rq);
void dcd_intake_worker(struct work_struct *work);
/* @after_log: a write is entered; it is answered when the log has it or can't have it. */
void dcd_report_after_log(struct dcd_engine *e, struct dcd_request *rq);
void dcd_report(struct dcd_engine *e);	/* More has left NVRAM, or the log is dead. No lock. */
/*
 * Seal and wait until all that was acknowledged is durable without NVRAM. The second is for
 * a request, whose wait may be over: -EAGAIN.
 */
int __must_check dcd_commit_all(struct dcd_engine *e);
int __must_check dcd_commit_for(struct dcd_engine *e, const struct dcd_request *rq);

/* patience.c. It has waited long enough, or isn't wanted any more. Any context. */
bool dcd_wait_over(struct dcd_engine *e, const struct dcd_request *rq);
/* The same where it may be done yet (it is entered, a disk is at it): what is @once waits on. */
bool dcd_end_wait_over(struct dcd_engine *e, const struct dcd_request *rq);
/* Then, if it is in no queue: the answer. No lock is held. */
void dcd_answer_over(struct dcd_engine *e, struct dcd_request *rq);
/* One was put into @waiting, @unreported or @reading. */
void dcd_wait_begins(struct dcd_engine *e);
void dcd_patience_worker(struct work_struct *work);

/* engine.c: all of a write is published: answers it, after the log if need be. */
void dcd_entered(struct dcd_engine *e, struct dcd_request *rq);

/*
 * linger.c. The end of a closed engine: now, or when its disks have answered what nobody waits
 * for. dcd_engine_free(), engine.c: the engine's memory and disks.
 */
void dcd_linger_init(struct dcd_engine *e);
void dcd_end(struct dcd_engine *e);
void dcd_engine_free(struct dcd_engine *e);
int __must_check dcd_linger_module_init(void);
void dcd_linger_module_exit(void);

/* engine.c: the request's end, which may be the engine's too. Any context. */
void dcd_answer(struct dcd_engine *e, struct dcd_request *rq, int error);
/* A worker goes on with it. */
void dcd_later(struct dcd_engine *e, struct dcd_request *rq);

void dcd_reads_hold(struct dcd_engine *e);	/* a test knob's: the tail waits for reads */
/* Both answer the request themselves. _rest: in a worker. */
void dcd_read(struct dcd_engine *e, struct dcd_request *rq);
void dcd_read_rest(struct dcd_engine *e, struct dcd_request *rq);
/*
 * read-own.c: those that wait for a disk, and whose wait is over, to @over: they are to be ended
 * by the second, with no lock held. Those to @parked are answered as any other. True: others
 * still wait. Process context.
 */
bool dcd_reads_over(struct dcd_engine *e, struct list_head *parked, struct list_head *over);
void dcd_read_over(struct dcd_engine *e, struct dcd_request *rq);
extern const unsigned int dcd_piece_pad;	/* front pad of @bios */
/* Into a request's memory, where @g is; NULL: zeroes. -EINVAL: it is too short. Any context. */
int __must_check dcd_gather_fill(struct dcd_gather *g, const u8 *from, size_t bytes);
/* At once, into kernel memory; sectors within the disk; sleeps. */
int __must_check dcd_read_now(struct dcd_engine *e, sector_t sector, sector_t sectors, void *buf);
/* The memory or blocks that a read has come to, without looking. -EINVAL: it is too short. */
int __must_check dcd_gather_skip(struct dcd_gather *g, size_t bytes);
/*
 * The sectors of a request from @from on can't be read. -ENOMEM, -EAGAIN, -EINVAL: nothing is
 * known of them, another try may do it. Any context.
 */
void dcd_gather_failed(struct dcd_gather *g, u32 from, int error);

/*
 * log-read.c: what is in the log, and never without its checksum (sums.h). Nor what was written to
 * a place since the tail has passed it: what was read of a segment is its own if that is live yet
 * behind the read. Any context.
 */
bool dcd_is_live(struct dcd_engine *e, u64 segment);
/* As dcd_aside_read(); with @patience 0 it waits as long as it takes, and into @buf itself. */
int __must_check dcd_log_read(struct dcd_engine *e, u64 sector, void *buf, size_t bytes,
			      unsigned long patience);
/* Of a place in the log, at once. -ESTALE: it isn't live any more, the index knows better. */
int __must_check dcd_place_read(struct dcd_engine *e, const struct dcd_place *p, void *buf,
				unsigned long patience);

/* Those of one request, several at a time. @call: what is called for when all are answered. */
struct dcd_log_reads {
	struct list_head list;
	struct dcd_ios ios;
	wait_queue_head_t wait;
	wait_queue_entry_t entry;
	struct workqueue_struct *wq;
	struct work_struct *call;
};

void dcd_log_reads_init(struct dcd_engine *e, struct dcd_log_reads *l);
/* The request has come to @p, of which the disk is asked. */
int __must_check dcd_log_read_begin(struct dcd_engine *e, struct dcd_request *rq,
				    const struct dcd_place *p);
/* No more of them begin: as soon as all have been answered @call is queued, perhaps at once. */
void dcd_log_reads_call(struct dcd_engine *e, struct dcd_log_reads *l, struct work_struct *call);
/* Until all have been answered; then the request and the cache have what is right. */
void dcd_log_reads_end(struct dcd_engine *e, struct dcd_request *rq);

/* grow.c: what dcd_grow() does once the destager makes way; at the opening there is none. */
int __must_check dcd_take_size(struct dcd_engine *e);

/* destage.c */
void dcd_destage_worker(struct work_struct *work);
void dcd_destage_ask(struct dcd_engine *e);	/* for a round at once; it tells who waits */
void dcd_destage_kick(struct dcd_engine *e);	/* likewise, if one is worth it */
void dcd_destage_all(struct dcd_engine *e);	/* for a close: a round, and what it takes */
/* Entries up to @applied, in segments below @target, are durable there, and that is recorded. */
void dcd_settle(struct dcd_engine *e, u64 target, u64 applied, bool log_dead);

/*
 * witness.c. At open: the headers have been read; then, with the index, is the data disk the
 * one it was? -EMEDIUMTYPE: no. What is there of a batch is durable, and will be forgotten.
 * _none(): both copies of the superblock have no witness. The destager's.
 */
void dcd_witness_begin(struct dcd_engine *e);
int __must_check dcd_witness_check(struct dcd_engine *e);
int __must_check dcd_witness_none(struct dcd_engine *e);
void dcd_witness_batch(struct dcd_engine *e, const struct dcd_batch *b);
/* At open: it has something there that is newer, and the index doesn't tell. */
void dcd_witness_over(struct dcd_engine *e, const struct dcd_place *p);
/* Those of now, for what is written next; @super_lock is held. */
void dcd_witness_write(struct dcd_engine *e, struct dcd_super *s);
void dcd_witness_write_header(struct dcd_engine *e, u64 applied);

/* scrub.c: a while after it was opened or is asked for; on @io_wq. */
void dcd_scrub_begin(struct dcd_engine *e);
void dcd_scrub_worker(struct work_struct *work);

/*
 * digest.c: from then on an engine is found by its name, until it closes; that
 * waits for who reads from it.
 */
void dcd_digest_engine_opened(struct dcd_engine *e);
void dcd_digest_engine_closing(struct dcd_engine *e);

/* recovery.c */
int __must_check dcd_recover(struct dcd_engine *e);

#endif /* DCD_ENGINE_H */
