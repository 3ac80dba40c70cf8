// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <stdlib.h>

#include "../leg.h"
#include "lost.h"
#include "set-text.h"
#include "wounded.h"

static int refuse(struct set *s, const char *reason, const char *where, const char *text)
{
	s->reason = reason;
	snprintf(s->message, sizeof(s->message), "%s%s%s", where, *where ? ": " : "", text);
	return -1;
}

/* As beyond.c shows it: of this log the data disk has all up to so many entries. */
static u64 kernel_knows(const struct set *s)
{
	const struct dcd_geometry *g = &s->super.geometry;
	FILE *f = fopen("/sys/module/dcd/parameters/logs_behind", "r");
	char uuid[33], line[33];
	uint64_t epoch, applied, most = 0;

	uuid_text(g->uuid, uuid);
	while (f && fscanf(f, "%32s %" SCNu64 " %" SCNu64, line, &epoch, &applied) == 3)
		if (!strcmp(line, uuid) && epoch == g->epoch && applied > most)
			most = applied;
	if (f)
		fclose(f);
	return most;
}

/*
 * At the end of how many @sectors the leg that names this log lies. -EIO: one can't be read;
 * -EMEDIUMTYPE: at a newer one is a leg that names another log.
 */
static int look_for_leg(const struct set *s, u8 slots[LOCKSTEP_SLOTS_BYTES], u64 *sectors)
{
	u8 unread[LOCKSTEP_SLOTS_BYTES >> SECTOR_SHIFT];

	for (u32 i = 0; i < DCD_ENDS; i++) {
		*sectors = dcd_data_end(&s->super.super, s->data.bytes >> SECTOR_SHIFT, i);
		if (!lockstep_slots_start(*sectors))
			continue;
		if (device_read_around(&s->data, slots, sizeof(unread) << SECTOR_SHIFT,
				       lockstep_slots_start(*sectors) * 512, unread) == sizeof(unread))
			return -EIO;
		if (dcd_leg_names(slots, *sectors, s->super.super.uuid))
			return 0;
		if (dcd_leg_names_another(slots, *sectors, s->super.super.uuid))
			return -EMEDIUMTYPE;
	}
	return 0;
}

/*
 * Has the data disk been taken into use without this log? Or has it got past a log that had
 * failed: then that stands for what an NVRAM's header would say, where there is none (beyond.h).
 */
static int find_left(struct set *s)
{
	u64 end = s->has_data ? s->data.bytes >> SECTOR_SHIFT : 0, sectors;
	const u8 *uuid = s->super.super.uuid;
	u8 slots[LOCKSTEP_SLOTS_BYTES];
	char text[512];
	u64 applied;
	int r;

	if (!lockstep_slots_start(end) || s->super.reason == DCD_RETIRED)
		return 0;
	r = look_for_leg(s, slots, &sectors);
	if (r == -EIO) {
		snprintf(text, sizeof(text), "its end, of now or before it has grown, can't be read: %u sectors from %" PRIu64 " on; so it isn't known whether it was used without this log: nothing of the log is written there. If they are bad for good, and this log was the last one in use here, write over them (or, if that fails too, take a copy of that disk); else dcd format",
			 (u32)LOCKSTEP_SLOTS_SECTORS, (uint64_t)lockstep_slots_start(sectors));
		return refuse(s, "data_unread", s->data.path, text);
	}
	if (r)
		return refuse(s, "data_has_another", s->data.path, "it is a mirror's leg that has another log by now: nothing of this one is written there. Is that leg no more, or one of before the disk had grown: lockstep-meta wipe --force");
	if (!dcd_leg_left(slots, sectors, uuid)) {
		applied = max(dcd_leg_applied(slots, sectors, uuid, s->super.geometry.epoch),
			      kernel_knows(s));
		if (!s->super.geometry.nvram)
			s->header.header.applied = cpu_to_le64(applied);
		return 0;
	}
	return refuse(s, "data_left", s->data.path, "this data disk was taken into use without this log, and has newer writes than the log: nothing of the log may be written there. To use the log again: dcd format");
}

/*
 * Has the data disk the log's superblock, where a log has one? Then it is the same disk, by another
 * name, or somebody has put a copy there since the log was used last.
 */
static bool data_is_log(const struct set *s)
{
	u8 blocks[2 * DCD_BLOCK] = { 0 }, unread[sizeof(blocks) >> SECTOR_SHIFT];
	const struct dcd_super *super = &s->super.super;

	if (!s->has_data || s->data.bytes < sizeof(blocks))
		return false;
	device_read_around(&s->data, blocks, sizeof(blocks), 0, unread);
	return !memcmp(blocks, super, sizeof(*super)) ||
	       !memcmp(blocks + DCD_BLOCK, super, sizeof(*super));
}

static int find_super(struct set *s)
{
	u8 blocks[2 * DCD_BLOCK] = { 0 }, unread[sizeof(blocks) >> SECTOR_SHIFT];
	u64 bytes = min_t(u64, sizeof(blocks), s->log.bytes);
	struct dcd_super_found again;
	char text[512];

	/* One copy is enough. */
	if (bytes && device_read_around(&s->log, blocks, bytes, 0, unread) == bytes >> SECTOR_SHIFT &&
	    device_read(&s->log, blocks, bytes, 0)) {
		s->failed = true;
		return -1;
	}
	if (s->has_data && s->data.bytes < SECTOR_SIZE)
		return refuse(s, dcd_reason_name(DCD_OTHER_DATA), s->data.path,
			      "it is empty: wrong data disk?");
	dcd_super_find(blocks, s->has_data ? s->data.bytes >> SECTOR_SHIFT : 0,
		       s->log.bytes >> SECTOR_SHIFT, &s->super);
	/* One that was left isn't told when the data disk grows. */
	if (s->any && s->super.reason == DCD_OTHER_DATA && s->super.b > s->super.a) {
		dcd_super_find(blocks, 0, s->log.bytes >> SECTOR_SHIFT, &again);
		if (again.reason == DCD_RETIRED)
			s->super = again;
	}
	if (!s->super.reason || (s->any && s->super.reason == DCD_RETIRED)) {
		if (data_is_log(s))
			return refuse(s, "same_device", s->data.path, "this data disk is the log disk by another name, or it has a copy of that log");
		return find_left(s);
	}
	dcd_super_text(&s->super, text, sizeof(text));
	return refuse(s, dcd_reason_name(s->super.reason), s->log.path, text);
}

/* Where are the blocks of the ring that were bad? */
static int find_moves(struct set *s, bool salvage)
{
	u8 blocks[2 * DCD_BLOCK], unread[sizeof(blocks) >> SECTOR_SHIFT];
	static const char text[] = "blocks of it were moved, as they were bad, and both copies of the table that says where they are are damaged or can't be read. dcd recover --salvage does without those blocks";

	if (!dcd_moves_count(&s->super.super))
		return 0;
	device_read_around(&s->log, blocks, sizeof(blocks), DCD_MOVED_START, unread);
	if (dcd_moves_find(blocks, &s->super.geometry, &s->moves)) {
		s->log.moves = &s->moves.moves;
		return 0;
	}
	s->moves_lost = true;
	if (!salvage)
		return refuse(s, "moves_damaged", s->log.path, text);
	fprintf(stderr, "dcd: %s: %s\n", s->log.path, text);
	return 0;
}

bool set_moves_differ(const struct set *s)
{
	return s->log.moves && s->moves.differ;
}

int set_mend_moves(struct set *s)
{
	u8 block[DCD_BLOCK];

	if (!set_moves_differ(s))
		return 0;
	dcd_moves_make(&s->moves.moves, &s->super.geometry, block);
	if (device_write(&s->log, block, sizeof(block),
			 DCD_MOVED_START + (u64)!s->moves.counts * DCD_BLOCK) ||
	    device_flush(&s->log))
		return -1;
	s->moves.differ = false;
	return 0;
}

/* Slots by the log's geometry; that the data disk has more than the log knows isn't said. */
static void without_header(struct set *s, const struct dcd_geometry *g, const u8 *unread)
{
	struct dcd_nvram_header *h = &s->header.header;

	memcpy(h->uuid, g->uuid, sizeof(h->uuid));
	h->epoch = cpu_to_le64(g->epoch);
	h->generation = s->super.super.generation;
	h->bytes = cpu_to_le64(s->nvram.bytes);
	dcd_ends_find(&s->header, s->page, unread);
	s->header.reason = DCD_OK;
	s->header_lost = true;
}

/* @g: of the log; NULL: that is lost. @salvage: the log's word does for a header. */
static int find_header(struct set *s, const struct dcd_geometry *g, bool salvage)
{
	u8 unread[DCD_BLOCK >> SECTOR_SHIFT] = { 0 };
	char text[512];

	if (s->nvram.bytes >= DCD_BLOCK)
		s->page_unread = device_read_around(&s->nvram, s->page, DCD_BLOCK, 0, unread);
	s->nvram_unread = s->page_unread;
	dcd_header_find(s->page, unread, s->nvram.bytes, g, &s->header);
	if (s->header.reason && !(s->any && s->header.reason == DCD_RETIRED)) {
		dcd_header_text(&s->header, text, sizeof(text));
		if (!salvage || !g || s->header.header.magic)
			return refuse(s, dcd_reason_name(s->header.reason), s->nvram.path, text);
		fprintf(stderr, "dcd: %s: %s\n", s->nvram.path, text);
		without_header(s, g, unread);
	}
	return 0;
}

/* What the NVRAM's header says must do for a superblock. */
static int without_log(struct set *s)
{
	const struct dcd_nvram_header *h = &s->header.header;
	struct dcd_geometry *g = &s->super.geometry;

	if (!s->has_data || !s->has_nvram)
		return refuse(s, "log_missing", "", "without the log disk only an NVRAM can have something, and only a data disk can get it");
	if (find_header(s, NULL, false))
		return -1;
	memcpy(g->uuid, h->uuid, sizeof(g->uuid));
	memcpy(s->super.super.uuid, h->uuid, sizeof(h->uuid));
	g->epoch = le64_to_cpu(h->epoch);
	g->data_sectors = s->data.bytes >> SECTOR_SHIFT;
	g->segment_bytes = le32_to_cpu(h->segment_bytes);
	g->table_bytes = le32_to_cpu(h->table_bytes);
	g->nvram = true;
	if (g->segment_bytes < DCD_SEGMENT_MIN || g->segment_bytes > DCD_SEGMENT_MAX ||
	    g->segment_bytes % DCD_BLOCK || g->table_bytes < DCD_BLOCK ||
	    g->table_bytes % DCD_BLOCK || g->table_bytes > g->segment_bytes / 4)
		return refuse(s, dcd_reason_name(DCD_BAD_GEOMETRY), s->nvram.path,
			      "the header's numbers contradict each other: damaged");
	return find_left(s);
}

static int open_all(struct set *s, const struct options *o, bool for_writing)
{
	s->has_data = o->data;
	s->has_nvram = o->nvram && strcmp(o->nvram, "none");
	s->log_lost = o->salvage && !strcmp(o->log, "none");
	if ((!s->log_lost && device_open(&s->log, "log disk", o->log, for_writing)) ||
	    (s->has_data && device_open(&s->data, "data disk", o->data, for_writing)) ||
	    (s->has_nvram && device_open(&s->nvram, "NVRAM", o->nvram, for_writing))) {
		s->failed = true;
		return -1;
	}
	return 0;
}

static int open_set(struct set *s, const struct options *o, bool for_writing)
{
	s->log.fd = -1;
	s->nvram.fd = -1;
	s->data.fd = -1;
	s->reason = "";
	if ((o->data && device_same(o->log, o->data)) ||
	    (o->nvram && (device_same(o->log, o->nvram) ||
			  (o->data && device_same(o->data, o->nvram)))))
		return refuse(s, "same_device", "", "two of data disk, log disk and NVRAM are the same device");
	if (open_all(s, o, for_writing) ||
	    (s->log_lost ? without_log(s) : find_super(s) || find_moves(s, o->salvage)))
		return -1;
	s->nvram_lost = s->super.geometry.nvram && !s->has_nvram;
	if (s->nvram_lost && !o->salvage)
		return refuse(s, "nvram_missing", s->log.path, "the log was formatted together with an NVRAM, which may have the newest writes: --nvram is needed");
	if (!s->super.geometry.nvram && s->has_nvram)
		return refuse(s, "nvram_foreign", s->log.path, "the log was formatted without NVRAM: wrong NVRAM, or wrong log disk?");
	if (s->has_nvram && !s->log_lost && find_header(s, &s->super.geometry, o->salvage))
		return -1;
	/* Before live entries are laid over them. */
	if (le64_to_cpu(s->header.header.applied) > le64_to_cpu(s->super.super.applied))
		dcd_witness_passed(&s->super.super, &s->header.header);
	dcd_pool_fill(&s->pool, &s->super.super);
	dcd_pool_batch(&s->pool);	/* what is written from now on */
	if (s->has_nvram)
		s->slots = dcd_slots(&s->super.geometry, le64_to_cpu(s->header.header.bytes));
	s->buf = malloc(s->super.geometry.segment_bytes);
	s->unread = malloc(s->super.geometry.segment_bytes >> SECTOR_SHIFT);
	s->spare = malloc(s->super.geometry.segment_bytes);
	s->scans = calloc(s->slots + 1, sizeof(*s->scans));
	if (s->buf && s->spare && s->scans && s->unread)
		return 0;
	fputs("dcd: no memory\n", stderr);
	s->failed = true;
	return -1;
}

int set_open(struct set *s, const struct options *o, bool for_writing)
{
	memset(s, 0, sizeof(*s));
	return open_set(s, o, for_writing);
}

int set_open_any(struct set *s, const struct options *o, bool for_writing)
{
	memset(s, 0, sizeof(*s));
	s->any = true;
	return open_set(s, o, for_writing);
}

bool set_part_lost(const struct set *s)
{
	return s->log_lost || s->moves_lost || s->nvram_lost || s->header_lost;
}

void set_close(struct set *s)
{
	free(s->buf);
	free(s->unread);
	free(s->spare);
	free(s->scans);
	lost_none(s);
	wounded_none(s);
	device_close(&s->log);
	device_close(&s->nvram);
	device_close(&s->data);
}

static u32 read_slot(struct set *s, u32 i)
{
	u32 bytes = s->super.geometry.segment_bytes;

	return device_read_around(&s->nvram, s->buf, bytes, DCD_BLOCK + (u64)i * bytes, s->unread);
}

int set_put_header(struct set *s, unsigned int copy)
{
	const struct dcd_nvram_header *h = &s->header.header;
	u64 at = copy * DCD_NVRAM_COPY;

	memcpy(s->page + at, h, sizeof(*h));
	/* A part of a page that can't be read can't be written either; all of it can. */
	if (s->page_unread ? device_write(&s->nvram, s->page, sizeof(s->page), 0) :
			     device_write(&s->nvram, h, sizeof(*h), at))
		return -1;
	return device_flush(&s->nvram);
}

int set_mend_ends(struct set *s)
{
	struct dcd_nvram_end end;

	for (u32 i = 0; i < 2; i++) {
		u64 at = DCD_NVRAM_END + i * DCD_NVRAM_COPY;
		bool bad = s->header.end_bad && s->header.ends[i] != DCD_COPY_VALID;

		/* The log's superblock may not say more than the newer one. */
		if (!bad && (i != s->header.end_older || !s->header.newest ||
			     s->header.newest >= s->plan.newest))
			continue;
		dcd_end_make(&end, s->super.geometry.epoch, s->plan.newest);
		memcpy(s->page + at, &end, sizeof(end));
		if (!s->page_unread && device_write(&s->nvram, &end, sizeof(end), at))
			return -1;
	}
	return 0;
}

int set_refuse_lost(struct set *s)
{
	bool by_log = false;

	for (size_t i = 0; i < s->n_lost; i++)
		by_log = by_log || s->lost[i].by_log;
	if (by_log)
		return refuse(s, "medium_errors", s->log.path, "it had the only copy of acknowledged writes that it can't give any more; dcd check lists them. The module opens it if it can write there, with medium errors until that is written again. If it doesn't, dcd recover --salvage brings all else to the data disk, which has older data there");
	return refuse(s, "nvram_unreadable", s->nvram.path, "it has media errors where acknowledged writes are that are nowhere else. The module opens it, with medium errors there. dcd recover --salvage brings all else to the data disk, which has older data there");
}

bool set_is_lost(const struct set *s, const struct group *g, u32 number)
{
	const struct dcd_entry *n = dcd_entry_at(g->bytes, number);

	if (le16_to_cpu(n->type) == DCD_ENTRY_LOST)
		return true;
	if (g->slot >= 0)
		return dcd_entry_unread(n, s->unread);
	return s->plan.wounded && !dcd_entry_valid(&s->super.geometry, g->bytes, number);
}

/* Of the group that was read; what later ones write over isn't lost. */
static void find_lost(struct set *s, const struct group *g)
{
	for (u32 i = 0; i < g->entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(g->bytes, i);
		u64 sequence = le64_to_cpu(n->sequence), sector = le64_to_cpu(n->sector);

		if (sequence <= s->plan.applied)
			continue;
		if (s->n_lost)
			lost_cut(s, sector, le32_to_cpu(n->sectors));
		if (!set_is_lost(s, g, i))
			continue;
		lost_add(s, sequence, sequence, sector, le32_to_cpu(n->sectors));
		if (!s->failed)
			s->lost[s->n_lost - 1].by_log = g->slot < 0 ||
							le16_to_cpu(n->type) == DCD_ENTRY_LOST;
	}
}

/* What is damaged in the log may be in NVRAM yet. */
static void from_slots(struct set *s, u64 sequence)
{
	const struct dcd_geometry *g = &s->super.geometry;

	for (u32 i = 0; i < s->slots; i++) {
		device_read_around(&s->nvram, s->spare, g->segment_bytes,
				   DCD_BLOCK + (u64)i * g->segment_bytes, s->unread);
		if (!dcd_segment_from_slot(g, s->buf, s->spare, sequence) &&
		    !dcd_segment_of_slot(g, s->buf, s->spare, sequence, s->plan.from,
					 s->plan.until))
			continue;
		fprintf(stderr, "dcd: %s: segment %" PRIu64 " is damaged, NVRAM has what is, or some of it\n",
			s->log.path, sequence);
		return;
	}
}

static int read_segment(struct set *s, u64 sequence)
{
	const struct dcd_geometry *g = &s->super.geometry;

	return device_read_around(&s->log, s->buf, g->segment_bytes,
				  dcd_place_of(g, sequence) << SECTOR_SHIFT, s->unread) ? -EIO : 0;
}

int set_read_segment(struct set *s, u64 sequence)
{
	int r = read_segment(s, sequence);

	from_slots(s, sequence);
	return r;
}

static int segment(struct set *s, set_visit visit, void *context)
{
	const struct dcd_segment *h = (const struct dcd_segment *)s->buf;
	u64 sequence = s->plan.place;
	int r = read_segment(s, sequence);
	struct group group = { .bytes = s->buf, .sequence = sequence, .slot = -1 };

	if (s->plan.take)
		from_slots(s, sequence);
	if (!dcd_plan_segment(&s->plan, s->buf, r))
		return 0;
	group.first = le64_to_cpu(h->first_entry);
	group.entries = le32_to_cpu(h->entries);
	group.used = le32_to_cpu(h->used_bytes);
	if (s->plan.wounded)
		wounded_add(s, sequence);
	find_lost(s, &group);
	if (s->failed)
		return -1;
	return visit ? visit(s, &group, context) : 0;
}

static int scan_slots(struct set *s)
{
	s->nvram_unread = s->page_unread;
	for (u32 i = 0; i < s->slots; i++) {
		s->nvram_unread += read_slot(s, i);
		dcd_slot_scan(&s->super.geometry, s->buf, s->unread, s->plan.newest, &s->scans[i]);
	}
	dcd_plan_slots(&s->plan, s->scans, s->slots);
	return 0;
}

static int slots(struct set *s, set_visit visit, void *context)
{
	int i, r = 0;

	while (!r && (i = dcd_plan_slot(&s->plan, s->scans, s->slots)) >= 0) {
		const struct dcd_slot_scan *scan = &s->scans[i];
		struct group group = { .bytes = s->buf, .sequence = s->plan.next,
				       .first = scan->first, .entries = scan->entries,
				       .used = scan->used, .slot = i };

		read_slot(s, (u32)i);
		if (wounded_slot(s, (u32)i, scan->entries))
			return -1;
		find_lost(s, &group);
		if (s->failed)
			return -1;
		if (visit)
			r = visit(s, &group, context);
		dcd_plan_took(&s->plan, scan);
	}
	return r;
}

static int step(struct set *s, set_visit visit, void *context)
{
	const struct dcd_geometry *g = &s->super.geometry;
	int r;

	switch (s->plan.want) {
	case DCD_WANT_SEGMENT:
		return segment(s, visit, context);
	case DCD_WANT_HEADER:
		r = device_read_around(&s->log, s->buf, SECTOR_SIZE,
				       dcd_place_of(g, s->plan.place) << SECTOR_SHIFT,
				       s->unread) ? -EIO : 0;
		dcd_plan_header(&s->plan, s->buf, r);
		return 0;
	case DCD_WANT_SLOTS:
		return scan_slots(s);
	default:
		return slots(s, visit, context);
	}
}

int set_walk(struct set *s, set_visit visit, void *context, bool tell)
{
	char text[512];
	int r = 0;

	dcd_plan_begin(&s->plan, &s->super.geometry, &s->super.super, &s->header.header,
		       s->header.newest);
	s->plan.end_bad = s->header.end_bad;
	lost_none(s);
	wounded_none(s);
	while (!r && s->plan.want < DCD_DONE) {
		r = step(s, visit, context);
		if (r || !s->plan.note || !tell)
			continue;
		dcd_plan_text(&s->plan, text, sizeof(text));
		fprintf(stderr, "dcd: %s: %s\n", s->log.path, text);
	}
	if (s->plan.want != DCD_REFUSED)
		return r;
	dcd_plan_text(&s->plan, text, sizeof(text));
	return refuse(s, dcd_refusal_name(s->plan.refusal), s->log.path, text);
}

void set_cover(struct set *s, u64 sector, u32 sectors)
{
	dcd_pool_over(&s->pool, sector, sector + sectors - 1);
}

void set_written(struct set *s, u64 sector, u32 sectors, bool zeroes)
{
	u32 most = DCD_BLOCK >> SECTOR_SHIFT, blocks = (sectors + most - 1) / most;
	u32 from = s->n_written++ * 2654435761U % blocks * most;	/* not of each the same one */
	struct dcd_witnessed w = { .sector = sector + from };

	w.sectors = sectors - from < most ? sectors - from : most;
	w.crc = zeroes ? dcd_zeroes_crc(w.sectors) : 0;
	dcd_pool_over(&s->pool, sector, sector + sectors - 1);
	if (!dcd_leg_may_lie(&s->super.super, s->data.bytes >> SECTOR_SHIFT, w.sector,
			     w.sector + w.sectors - 1))
		dcd_pool_add(&s->pool, &w);
}

void set_witness_anew(struct set *s)
{
	struct dcd_witnessed w[DCD_WITNESSES];
	u32 n = dcd_pool_choose(&s->pool, w, DCD_WITNESSES), kept = 0;
	u8 buf[DCD_BLOCK];

	for (u32 i = 0; i < n; i++) {
		u32 bytes = w[i].sectors << SECTOR_SHIFT;

		if (device_try_read(&s->data, buf, bytes, w[i].sector << SECTOR_SHIFT))
			continue;
		w[kept] = w[i];
		w[kept++].crc = dcd_crc(buf, bytes);
	}
	dcd_witness_name(&s->super.super, w, kept);
}

bool set_retired(const struct set *s)
{
	return s->super.reason == DCD_RETIRED || s->header.reason == DCD_RETIRED;
}

int set_witnesses(struct set *s, bool anyway)
{
	unsigned int asked = 0, wrong = 0, i = dcd_pool_n(&s->pool);
	u8 buf[DCD_BLOCK];
	char text[256];

	if (!s->has_data || set_retired(s))
		return 0;
	while (i--) {
		struct dcd_witnessed w = *dcd_pool_get(&s->pool, i);

		if (!device_try_read(&s->data, buf, w.sectors << SECTOR_SHIFT,
				     w.sector << SECTOR_SHIFT)) {
			asked++;
			if (dcd_crc(buf, w.sectors << SECTOR_SHIFT) == w.crc)
				continue;
			wrong++;
		}
		dcd_pool_over(&s->pool, w.sector, w.sector);
	}
	if (!wrong)
		return 0;
	snprintf(text, sizeof(text), "%u of %u blocks that the data disk had when the log was used last are others here: it is another disk, or an older copy, or was written to without the DCD", wrong, asked);
	if (!anyway)
		return refuse(s, "other_data", s->data.path, text);
	fprintf(stderr, "dcd: %s: %s\n", s->data.path, text);
	return 0;
}

int set_tally(struct set *s, const struct group *g, void *context)
{
	struct tally *t = context;

	*(g->slot < 0 ? &t->segments : &t->slots) += 1;
	for (u32 i = 0; i < g->entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(g->bytes, i);

		if (le64_to_cpu(n->sequence) <= s->plan.applied)
			continue;
		t->entries++;
		t->sectors += le32_to_cpu(n->sectors);
		set_cover(s, le64_to_cpu(n->sector), le32_to_cpu(n->sectors));
	}
	return 0;
}
