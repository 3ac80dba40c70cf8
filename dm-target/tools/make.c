// SPDX-License-Identifier: GPL-2.0-only
/* What writes: create, join, resolve, wipe. */
#include <inttypes.h>
#include <sys/random.h>
#include <time.h>

#include "../life.h"
#include "../verdict.h"
#include "commands.h"
#include "device.h"
#include "json.h"
#include "make.h"
#include "search.h"

int refuse(const char *path, const char *why)
{
	fprintf(stderr, "lockstep-meta: %s: %s\n", path, why);
	return -1;
}

int open_pair(struct device d[2], const char *local, const char *remote)
{
	struct device look[2] = { { .fd = -1 }, { .fd = -1 } };
	int r = device_open(&look[0], local, false) || device_open(&look[1], remote, false) ? -1 : 0;

	if (!r && device_same(&look[0], &look[1]))
		r = refuse(remote, "is to be both the local and the remote leg");
	device_close(&look[0]);
	device_close(&look[1]);
	if (r)
		return r;
	return device_open(&d[0], local, true) || device_open(&d[1], remote, true) ? -1 : 0;
}

int check_bypassed(const struct device *d, const struct super_found *found)
{
	char uuid[UUID_TEXT];

	if (!device_bypasses(d, &found->super))
		return 0;
	super_uuid_text(found->super.log_uuid, uuid);
	fprintf(stderr, "lockstep-meta: %s: is the disk below a DCD whose log (uuid %s) may hold acknowledged writes that it lacks: use it through that DCD, or `dcd retire` first\n",
		d->path, uuid);
	return -1;
}

/* For a terminal: what is on a disk may be anything. Good until the next call. */
static const char *name_of(const struct super *s)
{
	static char text[LOCKSTEP_NAME_BYTES];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = s->name[i] && (s->name[i] < ' ' || s->name[i] > '~') ? '?' : s->name[i];
	return text;
}

u64 now(void)
{
	return (u64)time(NULL);
}

static int random_bytes(void *p, size_t n)
{
	if (getrandom(p, n, 0) == (ssize_t)n)
		return 0;
	perror("lockstep-meta: getrandom");
	return -1;
}

/* An id that isn't 0; as an epoch it leaves room to count up from it. */
static int random_id(u64 *id)
{
	do {
		if (random_bytes(id, sizeof(*id)))
			return -1;
		*id >>= 1;
	} while (!*id);
	return 0;
}

static int random_uuid(u8 uuid[16])
{
	if (random_bytes(uuid, 16))
		return -1;
	uuid[6] = (u8)((uuid[6] & 0x0f) | 0x40);	/* version 4: random */
	uuid[8] = (u8)((uuid[8] & 0x3f) | 0x80);
	return 0;
}

/* A leg that has grown looks blank, and may be the only one that has all data. */
static int check_grown(const struct device *d, u64 data_sectors)
{
	struct super_found found;
	char uuid[UUID_TEXT];
	u64 sectors;

	if (search_likely(d, data_sectors, &found, &sectors) == SEARCH_ENDED)
		fprintf(stderr, "lockstep-meta: %s: " SEARCH_ENDED_TEXT "\n", d->path);
	if (found.kind == SUPER_BLANK)
		return 0;
	super_uuid_text(found.super.set_uuid, uuid);
	fprintf(stderr, "lockstep-meta: %s: is the %s leg of the mirror \"%s\" (%s), and has grown from %" PRIu64 " to %" PRIu64 " sectors: perhaps its data are nowhere else. Grow the mirror, or shrink the device back. If nobody needs its data, --force overwrites it\n",
		d->path, found.super.leg == LOCKSTEP_LOCAL ? "local" : "remote", name_of(&found.super),
		uuid, sectors, d->sectors);
	return -1;
}

/* Even with --force: by a uuid of its own it wouldn't be known any more. */
static int check_drained(const struct device *d, const struct super_found *found)
{
	if (!device_drains(d, found))
		return 0;
	return refuse(d->path, "writes that were given up may still reach it, and would undo newer ones: nothing is changed before they have returned, or the session that they were sent by has ended");
}

/* Not even with --force. */
static int check_whole(const struct device *d)
{
	u64 lun = device_part_of(d);

	if (!lun)
		return 0;
	fprintf(stderr, "lockstep-meta: %s: has %" PRIu64 " sectors, and is a part of the LUN of a DCD, which has %" PRIu64 ", or made of it: a DCD knows a leg only at the end of its LUN, so a partition, a logical volume, an encrypted device there can't be one. Take the LUN itself; if this is the LUN, and it has another size by now, its sessions have to be rescanned first (iscsiadm -m session --rescan)\n",
		d->path, d->sectors, lun);
	return -1;
}

/*
 * A device that is to get a superblock: may it lose the one that it has?
 * @data_sectors: the size of the mirror that it may be a leg of, or 0.
 */
static int check_free(const struct options *o, const struct device *d, u64 data_sectors)
{
	struct super_found found;
	char uuid[UUID_TEXT];

	if (check_whole(d) || device_find(d, &found) || check_drained(d, &found))
		return -1;
	if (found.reason == SUPER_TOO_SMALL || o->force)
		return 0;
	if (found.kind == SUPER_BLANK)
		return o->no_search ? 0 : check_grown(d, data_sectors);
	if (found.kind == SUPER_BAD)
		return refuse(d->path, "has a damaged or unknown lockstep superblock, perhaps of data that are nowhere else: if nobody needs them, --force overwrites it");
	super_uuid_text(found.super.set_uuid, uuid);
	fprintf(stderr, "lockstep-meta: %s: is the %s leg of the mirror \"%s\" (%s): if nobody needs its data, --force overwrites it\n",
		d->path, found.super.leg == LOCKSTEP_LOCAL ? "local" : "remote", name_of(&found.super), uuid);
	return -1;
}

static int place(const struct device *d, unsigned int shift, struct super *s)
{
	struct lockstep_layout layout;

	if (!lockstep_layout(d->sectors, shift, &layout)) {
		fprintf(stderr, "lockstep-meta: %s: %" PRIu64 " sectors: too small for the metadata, or too large for regions of %llu sectors (at most %u regions)\n",
			d->path, d->sectors, 1ULL << shift, LOCKSTEP_REGIONS_MAX);
		return -1;
	}
	s->map_start = layout.map_start;
	s->map_sectors = layout.map_sectors;
	s->region_shift = shift;
	return 0;
}

/* What the device says of a log in front of the disk. True: the superblock didn't say so. */
static bool take_log(const struct device *d, struct super *s)
{
	u8 uuid[16];

	if (!device_unmarked(d, s, uuid))
		return false;
	super_set_log(s, uuid, LOCKSTEP_LOG_BEHIND);
	return true;
}

/* In which sector the slot lies that counts, of a superblock that was found for this size. */
static u64 slot_that_counts(const struct device *d, u64 sectors, const struct super *found)
{
	static u8 slot[LOCKSTEP_SLOT_BYTES] __attribute__((aligned(4096)));
	u64 start = lockstep_slots_start(sectors), detail;
	struct super s;

	if (device_try_read(d, slot, sizeof(slot), start) &&
	    super_unpack(slot, sectors, &s, &detail) == SUPER_OK && s.seq == found->seq)
		return start;
	return start + LOCKSTEP_SLOT_SECTORS;
}

/*
 * A log that was given up mustn't come back over what the new leg gets. @left: the sector of the
 * slot that says so, or 0.
 */
static int keep_left(const struct device *d, struct super *s, u64 *left)
{
	struct super_found found;
	u64 sectors = d->sectors;

	*left = 0;
	if (device_find(d, &found))
		return -1;
	/*
	 * The disk has grown since, and so will what the log takes for its end. A crash of this
	 * command, or of a growth, may have left a part of a superblock at the new one.
	 */
	if (found.kind != SUPER_VALID)
		(void)search_likely(d, s->data_sectors, &found, &sectors);
	if ((found.kind != SUPER_VALID && found.reason != SUPER_MOVED_ON) ||
	    found.super.log_state != LOCKSTEP_LOG_LEFT)
		return 0;
	super_set_log(s, found.super.log_uuid, LOCKSTEP_LOG_LEFT);
	/* The log believes the newest slot. */
	s->seq = found.super.seq;
	*left = slot_that_counts(d, sectors, &found.super);
	return 0;
}

/* Both slots, each durable before the next; the last one is that which lies at @left. */
static int put_slots(const struct device *d, const struct super *s, u64 left)
{
	static u8 slot[LOCKSTEP_SLOT_BYTES] __attribute__((aligned(4096)));
	u64 start = lockstep_slots_start(d->sectors);
	u32 first = start == left;

	super_pack(s, d->sectors, slot);
	for (u32 i = 0; i < LOCKSTEP_SLOTS; i++) {
		if (device_write(d, slot, sizeof(slot),
				 start + (i ^ first) * LOCKSTEP_SLOT_SECTORS) || device_flush(d))
			return -1;
	}
	return 0;
}

/*
 * Whatever was there doesn't count from here on. If it said that a log was given up, some slot says
 * so at any time: from now on that of a leg that has nothing, of a mirror that isn't there.
 */
static int end_leg(const struct device *d, struct super *s, u64 left)
{
	struct super none;

	take_log(d, s);
	if (!left)
		return device_clear_super(d);
	super_touch(s, now(), 0);
	none = *s;
	strcpy(none.name, "(unfinished)");
	if (none.state == LOCKSTEP_NEW)
		super_forget_map(&none);
	else
		super_give_up(&none, s);
	return random_uuid(none.set_uuid) || put_slots(d, &none, left) ? -1 : 0;
}

/* Metadata of a leg, whole, after end_leg(). */
static int write_leg(const struct device *d, struct super *s)
{
	super_touch(s, now(), 0);
	return device_put_map(d, s, NULL) || device_put_super(d, s) ? -1 : 0;
}

void put_made(const struct super *s)
{
	char uuid[UUID_TEXT];

	super_uuid_text(s->set_uuid, uuid);
	json_open(NULL, '{');
	json_text("set_uuid", uuid);
	json_text("name", s->name);
	json_number("data_len", s->data_sectors);
	json_number("region_size", 1ULL << s->region_shift);
	json_number("regions", lockstep_regions(s->data_sectors, s->region_shift));
	json_close('}');
}

static int region_shift(const struct options *o, u64 sectors, unsigned int *shift)
{
	*shift = lockstep_default_shift(sectors);
	if (!o->region_size)
		return 0;
	for (*shift = LOCKSTEP_SHIFT_MIN; *shift <= LOCKSTEP_SHIFT_MAX; ++*shift) {
		if (o->region_size == 1ULL << *shift)
			return 0;
	}
	fprintf(stderr, "lockstep-meta: --region-size %" PRIu64 ": a power of two from %llu to %llu sectors, please\n",
		o->region_size, 1ULL << LOCKSTEP_SHIFT_MIN, 1ULL << LOCKSTEP_SHIFT_MAX);
	return -1;
}

static int plan_create(const struct options *o, const struct device d[2], struct super s[2])
{
	u64 smaller = d[0].sectors < d[1].sectors ? d[0].sectors : d[1].sectors;
	u64 generation, epochs, time = now();
	unsigned int shift;

	if (strlen(o->name) >= LOCKSTEP_NAME_BYTES)
		return refuse(o->name, "the name is longer than 63 bytes");
	if (check_free(o, &d[0], 0) || check_free(o, &d[1], 0) ||
	    region_shift(o, smaller, &shift) ||
	    place(&d[0], shift, &s[0]) || place(&d[1], shift, &s[1]) ||
	    random_uuid(s[0].set_uuid) || random_id(&generation))
		return -1;
	memcpy(s[1].set_uuid, s[0].set_uuid, sizeof(s[1].set_uuid));
	for (u32 i = 0; i < 2; i++) {
		strcpy(s[i].name, o->name);
		s[i].leg = i;
		s[i].data_sectors = s[0].map_start < s[1].map_start ? s[0].map_start :
								      s[1].map_start;
		if (random_uuid(s[i].leg_uuid) || random_id(&epochs))
			return -1;
		if (i == LOCKSTEP_LOCAL || o->assume_clean)
			super_create_sync(&s[i], generation, epochs, time);
		else
			super_create_new(&s[i], &s[0], epochs, time);
	}
	/* It began there; of the other leg the same generation is a copy. */
	s[1].history[0].leg = LOCKSTEP_LOCAL;
	return 0;
}

int command_create(const struct options *o)
{
	struct super s[2] = { 0 };
	struct device d[2] = { { .fd = -1 }, { .fd = -1 } };
	u64 left[2];
	int r = 1;

	/* The remote leg first: without the local one it is nothing. */
	if (!open_pair(d, o->local, o->remote) && !plan_create(o, d, s) &&
	    !keep_left(&d[0], &s[0], &left[0]) && !keep_left(&d[1], &s[1], &left[1]) &&
	    (o->dry_run || (!end_leg(&d[0], &s[0], left[0]) && !end_leg(&d[1], &s[1], left[1]) &&
			    !write_leg(&d[1], &s[1]) && !write_leg(&d[0], &s[0])))) {
		put_made(&s[0]);
		r = 0;
	}
	device_close(&d[0]);
	device_close(&d[1]);
	return r;
}

/* The superblock that a device must have. */
static int need_super(const struct device *d, struct super_found *found)
{
	char text[256];

	if (device_find(d, found))
		return -1;
	if (found->kind == SUPER_VALID)
		return check_bypassed(d, found);
	super_reason_text(found, text, sizeof(text));
	return refuse(d->path, text);
}

static bool has_all(const struct super *s)
{
	return s->state == LOCKSTEP_SYNC || s->state == LOCKSTEP_ALONE;
}

static int plan_join(const struct options *o, const struct device *source,
		     const struct device *d, struct super *s)
{
	struct super_found found;
	const struct super *from = &found.super;
	u64 epochs;

	s->leg = strcmp(o->leg, "local") ? LOCKSTEP_REMOTE : LOCKSTEP_LOCAL;
	if (device_same(source, d))
		return refuse(d->path, "is the source itself");
	if (need_super(source, &found))
		return -1;
	if (!has_all(from))
		return refuse(source->path, "has not all of the data (its state is target or new), so it can't be a source");
	if (from->leg == s->leg)
		return refuse(source->path, "is that leg itself: the source must be the other one");
	if (check_free(o, d, from->data_sectors) || place(d, from->region_shift, s))
		return -1;
	if (s->map_start < from->data_sectors) {
		fprintf(stderr, "lockstep-meta: %s: %" PRIu64 " sectors: with the metadata at its end there is room for %" PRIu64 " sectors of data, the mirror has %" PRIu64 "\n",
			d->path, d->sectors, s->map_start, from->data_sectors);
		return -1;
	}
	if (random_uuid(s->leg_uuid) || random_id(&epochs))
		return -1;
	memcpy(s->set_uuid, from->set_uuid, sizeof(s->set_uuid));
	memcpy(s->name, from->name, sizeof(s->name));
	s->data_sectors = from->data_sectors;
	super_create_new(s, from, epochs, now());
	return 0;
}

int command_join(const struct options *o, const char *path)
{
	struct device source = { .fd = -1 }, d = { .fd = -1 };
	struct super s = { 0 };
	u64 left;
	int r = 1;

	/* The source is only read, and may be in a running mirror. */
	if (!device_open(&source, o->source, false) && !device_open(&d, path, !o->in_use) &&
	    !plan_join(o, &source, &d, &s) && !keep_left(&d, &s, &left) &&
	    (o->dry_run || (!end_leg(&d, &s, left) && !write_leg(&d, &s)))) {
		put_made(&s);
		r = 0;
	}
	device_close(&source);
	device_close(&d);
	return r;
}

/* The other leg's superblock as it will be, in @s. */
static int plan_resolve(const char *const path[2], const struct device d[2], u32 keep,
			struct super *s)
{
	struct super_found found[2];
	struct verdict v;
	char text[500];

	if (need_super(&d[0], &found[0]) || need_super(&d[1], &found[1]))
		return -1;
	verdict_decide(&found[0], &found[1], &v);
	verdict_text(&v, &found[0], &found[1], text, sizeof(text));
	switch (v.reason) {
	case VERDICT_SPLIT_BRAIN:
	case VERDICT_OUTDATED:
	case VERDICT_UNRELATED:
	case VERDICT_BOTH:
		break;
	case VERDICT_OK:
		fprintf(stderr, "lockstep-meta: nothing to resolve: %s\n", text);
		return -1;
	default:
		fprintf(stderr, "lockstep-meta: %s This is nothing that resolve can mend.\n", text);
		return -1;
	}
	if (!has_all(&found[keep].super))
		return refuse(path[keep], "has not all of the data (its state is target or new): keep the other leg");
	*s = found[!keep].super;
	super_give_up(s, &found[keep].super);
	return 0;
}

int command_resolve(const struct options *o, const char *local, const char *remote)
{
	const char *const path[2] = { local, remote };
	u32 keep = strcmp(o->keep, "local") ? LOCKSTEP_REMOTE : LOCKSTEP_LOCAL;
	struct device d[2] = { { .fd = -1 }, { .fd = -1 } };
	struct super s;
	int r = 1;

	if (!open_pair(d, local, remote) && !plan_resolve(path, d, keep, &s)) {
		super_touch(&s, now(), 0);
		if (o->dry_run || !device_put_super(&d[!keep], &s)) {
			put_made(&s);
			r = 0;
		}
	}
	device_close(&d[0]);
	device_close(&d[1]);
	return r;
}

/* The other end of a move that was cut short. It isn't found again without this one. */
static int clear_moves(const struct device *d, const struct super *s)
{
	const u64 starts[] = { s->moved_to, s->moved_from };

	for (int i = 0; i < 2; i++) {
		u64 end = starts[i] + LOCKSTEP_SLOTS_SECTORS;

		if (starts[i] && end <= d->sectors && search_clear(d, end))
			return -1;
	}
	return 0;
}

/*
 * What keeps a log from being written over newer data of this disk goes with its superblock. One
 * that was moved has all of its words, too.
 */
static int check_log(const struct options *o, const struct device *d,
		     const struct super_found *found)
{
	const struct super *s = &found->super;
	char uuid[UUID_TEXT];

	if (o->force || (found->kind != SUPER_VALID && found->reason != SUPER_MOVED_ON &&
			 found->reason != SUPER_MOVED_BACK))
		return 0;
	super_uuid_text(s->log_uuid, uuid);
	if (s->log_state == LOCKSTEP_LOG_LEFT)
		fprintf(stderr, "lockstep-meta: %s: its superblock says that the log (uuid %s) of its DCD isn't to be used any more. Is that forgotten, that log may be written over newer data here, should it come back: join, create and `lockstep replace` keep it, with --force, a wipe doesn't. Only if that log was retired or formatted, or is destroyed: --force wipes it\n",
			d->path, uuid);
	else if (device_bypasses(d, s))
		fprintf(stderr, "lockstep-meta: %s: is the disk below a DCD whose log (uuid %s) may hold acknowledged writes that it lacks: `dcd retire` first. If that log is lost: `lockstep-meta leave-log`, and before any mirror uses the disk as it is, make it a new leg without a wipe (join, create and `lockstep replace` keep that the log was given up, with --force). Only if that log is destroyed, or NVRAM was retired without it: --force wipes it\n",
			d->path, uuid);
	else
		return 0;
	return -1;
}

/*
 * Of a device that has grown: the superblock that lies where its end was, and no
 * more. Around it there may be data by now, where the map was and where the other
 * slot was, and even this may be a block of an image that lies there.
 */
static int wipe_grown(const struct options *o, const struct device *d)
{
	struct super_found found;
	u64 sectors;

	if (search_likely(d, 0, &found, &sectors) == SEARCH_ENDED)
		fprintf(stderr, "lockstep-meta: %s: " SEARCH_ENDED_TEXT "\n", d->path);
	if (found.kind == SUPER_BLANK)
		return refuse(d->path, "has no lockstep superblock: nothing was changed");
	if (!o->force) {
		fprintf(stderr, "lockstep-meta: %s: has none at its end, but that of the %s leg of the mirror \"%s\" at sector %" PRIu64 ", where its end was once: if no mirror needs it, --force clears it, 8 KiB of what may be in use for data by now\n",
			d->path, found.super.leg == LOCKSTEP_LOCAL ? "local" : "remote",
			name_of(&found.super), (uint64_t)lockstep_slots_start(sectors));
		(void)check_log(o, d, &found);
		return -1;
	}
	if (o->dry_run)
		return 0;
	return clear_moves(d, &found.super) || search_clear(d, sectors) ? -1 : 0;
}

/* All that is there: of one without a good superblock nobody knows where its map is. */
static int wipe(const struct options *o, const struct device *d)
{
	struct super_found found;

	if (device_find(d, &found) || check_drained(d, &found))
		return -1;
	if (found.reason == SUPER_TOO_SMALL)
		return refuse(d->path, "has no lockstep superblock: nothing was changed");
	if (found.kind == SUPER_BLANK)
		return wipe_grown(o, d);
	if (check_log(o, d, &found))
		return -1;
	if (o->dry_run)
		return 0;
	if (found.kind == SUPER_VALID && clear_moves(d, &found.super))
		return -1;
	if (device_clear_super(d))
		return -1;
	return found.kind == SUPER_VALID ? device_clear_map(d, &found.super) : 0;
}

int command_wipe(const struct options *o, const char *path)
{
	struct device d;
	int r;

	if (device_open(&d, path, true))
		return 1;
	r = wipe(o, &d);
	device_close(&d);
	return r ? 1 : 0;
}

int command_mark(const struct options *o, char **devices, int n)
{
	struct super_found found;
	struct device d;
	int r = 0;

	for (int i = 0; i < n && !r; i++) {
		if (!strcmp(devices[i], "-"))
			continue;
		if (device_open(&d, devices[i], true))
			return 1;
		r = need_super(&d, &found) || check_whole(&d);
		if (!r && take_log(&d, &found.super) && !o->dry_run) {
			super_touch(&found.super, now(), 0);
			r = device_put_super(&d, &found.super);
		}
		device_close(&d);
	}
	return r ? 1 : 0;
}

int command_leave_log(const struct options *o, const char *path)
{
	char text[256] = "isn't behind a log: nothing was changed";
	struct super_found found;
	struct device d;
	u64 sectors;
	int r = 1;

	if (device_open(&d, path, true))
		return 1;
	sectors = d.sectors;
	if (device_find(&d, &found))
		goto out;
	/* The disk has grown, and its log was lost before the mirror did. */
	if (found.kind == SUPER_BLANK) {
		search_all(&d, &found, &sectors);
		found.bypassed = found.kind == SUPER_VALID && device_bypasses(&d, &found.super);
	}
	if (found.kind != SUPER_VALID)
		super_reason_text(&found, text, sizeof(text));
	if (found.kind != SUPER_VALID || found.super.log_state != LOCKSTEP_LOG_BEHIND) {
		refuse(path, text);
	} else if (!found.bypassed) {
		refuse(path, "is the LUN of the DCD itself, which has all writes: nothing was changed");
	} else {
		super_set_log(&found.super, found.super.log_uuid, LOCKSTEP_LOG_LEFT);
		super_touch(&found.super, now(), 0);
		r = !o->dry_run && search_put(&d, sectors, &found.super);
	}
out:
	device_close(&d);
	return r;
}
