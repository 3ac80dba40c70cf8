/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the log is read by who opens the DCD: as long as that lasts the device isn't there, and
 * whoever asked for it can't be killed. A disk may try a bad sector for seconds before it says so.
 *
 * What of a segment can't be read as a whole is asked for by its blocks, and what of those can't by
 * its sectors (unless the disk itself has none that are smaller than a block): so no sector is
 * missed that the disk can give. All of a kind are asked for at the same time, each by itself: a
 * path that is gone takes its time once for all of them. What took long to fail is asked for once
 * more, and not again in this opening, but by who has written there. What failed at once may be
 * given a moment later: it is asked for several times over a quarter of a second. Before anything
 * is given up the superblock is asked for as well: if that isn't given each time, either, it isn't
 * the place that fails, but the log, at random, and then nothing may be lost for it (@random).
 *
 * A log that fails as a whole, and takes its time for that, isn't searched: if it doesn't give its
 * superblock for DCD_BLIP (blip.h), nor the header of DCD_OPENING_HEADERS places in a row, or if
 * all that it didn't give has taken longer than DCD_OPENING_TIME, that is the end of it (@over).
 * Nothing is taken for lost, or for an end, then: the DCD isn't opened.
 *
 * Who opens only; process context.
 */
#ifndef DCD_OPENING_H
#define DCD_OPENING_H

#include <linux/types.h>
#include <linux/xarray.h>

struct dcd_engine;
struct dcd_io;

#define DCD_OPENING_TIME	(300 * HZ)
#define DCD_OPENING_HEADERS	8U

struct dcd_opening {
	struct xarray bad;	/* blocks with sectors that took long to fail: a bit each */
	unsigned long spent;	/* jiffies, for what took long to fail */
	unsigned long copies;	/* of the superblock, that have been given each time: bits */
	unsigned int headers;	/* in a row that took long to fail */
	unsigned int copy;	/* of the superblock, that was given last */
	unsigned int data_late;	/* reads of the data disk that took long to fail: wounded.c's */
	bool random;		/* so are other reads, of what it is known to have */
	bool over;		/* told */
	u8 *state;		/* of each sector of the segment that is read */
	struct dcd_io *ios;
};

int __must_check dcd_opening_begin(struct dcd_engine *e, struct dcd_opening *o);
void dcd_opening_end(struct dcd_opening *o);
/*
 * A segment to @commit_buf; what can't be read of it is zeroes. 0, -ENOMEM, or why not all of it
 * could be read; with @over it is of no use.
 */
int __must_check dcd_opening_segment(struct dcd_engine *e, struct dcd_opening *o, u64 sequence);
/* Its header only, likewise. */
int __must_check dcd_opening_header(struct dcd_engine *e, struct dcd_opening *o, u64 sequence);
/* It was written. */
void dcd_opening_written(struct dcd_engine *e, struct dcd_opening *o, u64 sequence);

/*
 * Of the data disk: two parts of @bytes, one behind the other, at the same time. How many can't be
 * read: those are zeroes. What it says at an open decides whether the log may be written to it, and
 * it may be away for a moment: if neither is given they are asked for once more, and then on for
 * DCD_BLIP_READS (blip.h). Once: at any time.
 */
#define DCD_PARTS	2U
unsigned int dcd_opening_parts(struct dcd_engine *e, u64 sector, void *buf, size_t bytes);
unsigned int dcd_opening_parts_once(struct dcd_engine *e, u64 sector, void *buf, size_t bytes);
/*
 * What decides can't be read: is it a bad place, or is the data disk away? Then it may be any disk,
 * and be there a moment later: it mustn't be written to. False, told: it gives nothing at all.
 */
bool dcd_opening_gives(struct dcd_engine *e);

#endif /* DCD_OPENING_H */
