// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <stdlib.h>

#include "lost.h"
#include "wounded.h"

/* A payload that is right again: @bytes from byte @at of the log on, or of the NVRAM. */
struct closed {
	const struct device *device;
	u64 at;
	u32 bytes;
	u8 payload[];
};

static int no_memory(struct set *s)
{
	fputs("dcd: no memory\n", stderr);
	s->failed = true;
	return -1;
}

void wounded_add(struct set *s, u64 sequence)
{
	u64 *more = realloc(s->wounded, (s->n_wounded + 1) * sizeof(*more));

	if (!more) {
		no_memory(s);
		return;
	}
	s->wounded = more;
	more[s->n_wounded++] = sequence;
}

void wounded_none(struct set *s)
{
	for (size_t i = 0; i < s->n_closed; i++)
		free(s->closed[i]);
	free(s->closed);
	free(s->wounded);
	s->closed = NULL;
	s->wounded = NULL;
	s->n_closed = 0;
	s->n_wounded = 0;
}

/* @start: the byte of the device where what is in @buf begins. */
static int close_one(struct set *s, const struct device *d, u64 start, const struct dcd_entry *n)
{
	u32 offset = le32_to_cpu(n->offset) << SECTOR_SHIFT;
	u32 bytes = le32_to_cpu(n->stored) << SECTOR_SHIFT;
	struct closed **more = realloc(s->closed, (s->n_closed + 1) * sizeof(struct closed *));
	struct closed *c = malloc(sizeof(*c) + bytes);

	if (more)
		s->closed = more;
	if (!more || !c) {
		free(c);
		return no_memory(s);
	}
	c->device = d;
	c->at = start + offset;
	c->bytes = bytes;
	memcpy(c->payload, s->buf + offset, bytes);
	s->closed[s->n_closed++] = c;
	lost_found(s, le64_to_cpu(n->sequence));
	return 0;
}

/* Of the segment in @buf; @spare: what the data disk has, then which of its sectors are left. */
static int one(struct set *s, u64 sequence, u32 number)
{
	const struct dcd_entry *n = dcd_entry_at(s->buf, number);
	u32 sectors = le32_to_cpu(n->stored);
	size_t bytes = (size_t)sectors << SECTOR_SHIFT;
	u8 *left = s->unread;

	if (le64_to_cpu(n->sequence) <= s->plan.applied || !bytes ||
	    dcd_entry_valid(&s->super.geometry, s->buf, number) ||
	    !lost_sectors(s, le64_to_cpu(n->sequence), le64_to_cpu(n->sector), sectors, left) ||
	    device_try_read(&s->data, s->spare, bytes, le64_to_cpu(n->sector) << SECTOR_SHIFT) ||
	    !dcd_entry_from_data(s->buf, number, s->spare, left))
		return 0;
	return close_one(s, &s->log, dcd_place_of(&s->super.geometry, sequence) << SECTOR_SHIFT,
			 n);
}

int wounded_slot(struct set *s, u32 number, u32 entries)
{
	u64 start = DCD_BLOCK + (u64)number * s->super.geometry.segment_bytes;

	for (u32 i = 0; s->has_data && i < entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(s->buf, i);
		u32 at = le32_to_cpu(n->offset), sectors = le32_to_cpu(n->stored);
		size_t bytes = (size_t)sectors << SECTOR_SHIFT;

		if (!dcd_entry_unread(n, s->unread) ||
		    device_try_read(&s->data, s->spare, bytes,
				    le64_to_cpu(n->sector) << SECTOR_SHIFT) ||
		    dcd_crc(s->spare, bytes) != le32_to_cpu(n->payload_crc))
			continue;
		memcpy(s->buf + ((size_t)at << SECTOR_SHIFT), s->spare, bytes);
		memset(s->unread + at, 0, sectors);
		if (close_one(s, &s->nvram, start, n))
			return -1;
		fprintf(stderr, "dcd: %s: of a write in slot %u, which can't be read, the data disk has all %u sectors: it isn't lost\n",
			s->nvram.path, number, sectors);
	}
	return 0;
}

int wounded_ask(struct set *s)
{
	for (size_t i = 0; s->has_data && s->n_lost && i < s->n_wounded; i++) {
		u64 sequence = s->wounded[i], before = s->n_closed;
		const struct dcd_segment *h = (const struct dcd_segment *)s->buf;

		set_read_segment(s, sequence);
		if (!dcd_segment_named(&s->super.geometry, s->buf, sequence))
			continue;
		for (u32 n = 0; n < le32_to_cpu(h->entries); n++)
			if (one(s, sequence, n))
				return -1;
		if (s->n_closed > before)
			fprintf(stderr, "dcd: %s: of segment %" PRIu64 ", which is damaged, the data disk has %" PRIu64 " writes: they aren't lost\n",
				s->log.path, sequence, s->n_closed - before);
	}
	return 0;
}

int wounded_to_log(struct set *s)
{
	for (size_t i = 0; i < s->n_closed; i++) {
		const struct closed *c = s->closed[i];

		if (!device_rewrite(c->device, c->payload, c->bytes, c->at))
			continue;
		s->reason = c->device == &s->log ? "log_unwritable" : "nvram_unwritable";
		snprintf(s->message, sizeof(s->message), "%s: it is damaged where the data disk has what was written, and doesn't take that again: nothing is written to the data disk, where it is the only copy. dcd recover --salvage does without, and leaves that copy alone",
			 c->device->path);
		return -1;
	}
	return 0;
}
