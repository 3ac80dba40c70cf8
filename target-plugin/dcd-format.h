/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The DCD's formats: log disk and NVRAM. The only file that knows the layout;
 * kernel and userspace share it. All integers are little endian. Sectors are
 * 512 bytes. crc32c is seeded with ~0 and not inverted at the end; a field
 * "crc" is computed over its structure with crc = 0.
 *
 *  log disk                                   segment (NVRAM slot alike)
 * +---------------------+ 0                  +------------------------+ 0
 * | superblock, copy 0  |                    | struct dcd_segment     |
 * +---------------------+ 4096               +------------------------+ 4096
 * | superblock, copy 1  |                    | struct dcd_entry [n]   |
 * +---------------------+ 8192               |   (table_bytes)        |
 * | moved blocks, two   |                    +------------------------+ + table_bytes
 * |   copies            |                    | payloads, in the order |
 * +---------------------+ 16384              |   of their entries     |
 * | DCD_SPARES spare    |                    +------------------------+ used_bytes
 * |   blocks            |                    | unused                 |
 * +---------------------+ DCD_RING_START     +------------------------+ segment_bytes
 * | ring of `segments`  |
 * | segments; sequence  |
 * | s at s % segments   |
 * +---------------------+
 *
 *  NVRAM
 * +----------------------+ 0
 * | NVRAM header, copy 0 |     A slot has the layout of a segment, so that
 * +----------------------+ 2048 sealing one is a copy; its struct dcd_segment
 * | NVRAM header, copy 1 |     is filled in only in the copy. Entries become
 * +----------------------+ 4096 valid one by one, each after its payload is
 * | slot 0, slot 1, ...  |     persistent. An end record (struct dcd_nvram_end)
 * +----------------------+     is DCD_NVRAM_END behind each header.
 *
 * Order. Each entry has a sequence number, one more than the entry before it,
 * over the whole life of a format. Segments have sequence numbers of their own,
 * without gaps. Copies of the superblock (and of the NVRAM header) are written
 * in turn; the valid one with the higher generation counts.
 *
 * Live are entries with a sequence above `applied` of both superblock and
 * NVRAM header (what is up to there is on the data disk): in the log, in the
 * segments from `tail` on, up to the first that isn't valid; in NVRAM, entries
 * above the newest in the log, without a gap. An NVRAM slot is used again only
 * after its segment is durable in the log, so what a slot holds from an earlier
 * use is never above it. What a power cut has left behind a slot's last live
 * entry is wiped before anything new gets its sequence, the last of it first; so is what was
 * put there of a batch, or an entry, that NVRAM turned out not to keep.
 *
 * The end. What is torn by a power cut is the end of everything, so it is an end
 * only if nothing says that there was more. Three things can say so: a later
 * segment or entry, as those become persistent one after the other; an NVRAM's end
 * record, which has the newest entry before that is acknowledged; and `newest` of
 * the superblock, which has what was durable when that was written. So no
 * single damage makes anything that an NVRAM had acknowledged look torn. Two can:
 * the end records are written in turn, so with the newer copy damaged the other one
 * names the entry that was the newest one publish before. Without NVRAM, no
 * more than the last segment can: the superblock that comes next tells of it. Where one of the
 * two records is damaged, or can't be read, it is told how many writes may be missing so. (A
 * power cut in the middle of one looks like damage: what is told then is that they may be.)
 *
 * A batch counts as a whole or not at all: its entries follow each other within one
 * segment, each names the last one of them, and in NVRAM they don't count before
 * that is there.
 *
 * A discard reads as zeroes while it is in the log. Whether it has to when it is on the data disk
 * is said by its entry: the LUN had said so of that data disk, as it was then. By the time it gets
 * there the disk may be another one, or zero no more; then zeroes are written. Earlier versions
 * don't say it.
 *
 * Retired. `dcd retire` brings all that is live to the data disk and sets
 * DCD_INCOMPAT_RETIRED in all copies of superblock and NVRAM header. The data disk
 * may be written by others from then on, so no such log or NVRAM is opened again, by
 * whatever version; `dcd format` makes new ones of them. The module does the same when a log
 * is left; if something was lost by that, DCD_INCOMPAT_LACKS is set too, and no mirror's leg is
 * told that it has all. A log that takes no writes isn't marked if it has an NVRAM that is.
 *
 * Lost. What the log can't give any more, because its only copy there is damaged, is an entry
 * of its own, DCD_ENTRY_LOST: reads of these sectors are medium errors until something is
 * written over them, for the data disk has older data there. DCD_INCOMPAT_LOST is in both
 * superblocks before there is one, or in both of the NVRAM's headers. A segment whose header and
 * table are right, of which only payloads are damaged, is as one that has such entries for those,
 * if it can't be a torn end; but what the data disk has by its checksum already isn't lost, and is
 * written to the log again.
 *
 * Moved. A block of the ring that takes no writes, or doesn't give what it was given, is moved to
 * a spare: from then on whoever reads or writes there does it in the spare, sector for sector.
 * Blocks of the log disk are DCD_BLOCK bytes, number n at n * DCD_BLOCK; the spares are those from
 * DCD_SPARE_FIRST to the ring. Which block each of them has is in struct dcd_moved, of which there
 * are two copies, at DCD_MOVED_START and a block behind it. What the spare is to have is durable
 * before that is written, both copies are durable before anything relies on them, and
 * DCD_INCOMPAT_MOVED is in both superblocks before the first one counts; without it nobody looks at
 * the copies. They are the same, but when a cut came between the two: then the one with the higher
 * generation counts, and whoever writes to the ring next makes the other one the same before. If
 * neither is right that is damage: nobody knows where the ring's blocks are.
 *
 * Witnesses. Parts of the data disk that were durable there when the superblock was written.
 * Where no live entry is over one, it is there still. If the NVRAM header's `applied` is above the
 * superblock's they are void: a log had failed, and batches went past it. Then the header's own
 * count, if they are of its `applied` (an earlier version leaves them as they were); else none.
 * The octave says how old one is, counted in batches that the destager has brought: 0 came with the
 * last one, n was brought 2^(n-1) to 2^n - 1 batches before it, or more if n is the last octave.
 * Those of an earlier version, which has no octaves, are void, and so are these to it.
 *
 * Grown. A mirror's leg has its superblock at the end of the data disk that the mirror knows, which
 * is the one before the data disk grew until the mirror grows, too. So `grown` has the sizes that
 * the disk had before, the newest first, of more than four those before but that of the leg. Their
 * low byte is 0: earlier versions had witnesses there, of so many sectors.
 *
 * Both copies. A place of the ring isn't written to again before both copies of the superblock
 * have a tail behind what is there. What the log lacks, or has of before, since the data disk got
 * past it, is below the tail, or up to `applied`, of both before it gets a segment again, and
 * before anybody forgets who else knows it. So whichever copy is left, from its tail on all is
 * there, and what is found brings nothing older over newer; the older one may only have more of it
 * to read. Likewise no NVRAM slot is used again before both copies of the header have its entries
 * applied, if the log hasn't got them.
 * A writer that knows nothing of this leaves an older copy of which that can't be said: whoever
 * opens the log, and would use a place that it counts, writes that first.
 *
 * Feature words: a reader that doesn't know a bit of `incompat` must refuse,
 * of `ro_compat` must not write, of `compat` may ignore it.
 */
#ifndef DCD_FORMAT_H
#define DCD_FORMAT_H

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/types.h>
#else
#include <assert.h>
#include <linux/types.h>
#endif

#define DCD_SUPER_MAGIC		0x31424c4744434344ULL	/* "DCCDGLB1" */
#define DCD_SEGMENT_MAGIC	0x31474553474c4344ULL	/* "DCLGSEG1" */
#define DCD_NVRAM_MAGIC		0x314d52564e444344ULL	/* "DCDNVRM1" */
#define DCD_MOVED_MAGIC		0x314456304d444344ULL	/* "DCDM0VD1" */
#define DCD_VERSION		1

#define DCD_BLOCK		4096U
#define DCD_RING_START		(1U << 20)
#define DCD_NVRAM_END_MAGIC	0x31444e454e444344ULL	/* "DCDNEND1" */
#define DCD_NVRAM_COPY		2048U
#define DCD_NVRAM_END		1024U
#define DCD_ENDS_APART		32U
#define DCD_SEGMENT_MIN		(64U << 10)
#define DCD_SEGMENT_MAX		(4U << 20)
#define DCD_SEGMENTS_MIN	16U
#define DCD_SEGMENT_DEFAULT	(256U << 10)

/* Known feature bits. */
#define DCD_COMPAT		0U
#define DCD_RO_COMPAT		0U
#define DCD_INCOMPAT_RETIRED	1U	/* its data disk has all of it and goes on without it */
#define DCD_INCOMPAT_LOST	2U	/* has had a DCD_ENTRY_LOST */
#define DCD_INCOMPAT_LACKS	4U	/* retired, but its data disk lacks what was lost then */
#define DCD_INCOMPAT_MOVED	8U	/* blocks of the ring are in spares: struct dcd_moved */
#define DCD_INCOMPAT		(DCD_INCOMPAT_RETIRED | DCD_INCOMPAT_LOST | DCD_INCOMPAT_LACKS | \
				 DCD_INCOMPAT_MOVED)

struct dcd_features {
	__le32 compat;
	__le32 ro_compat;
	__le32 incompat;
	__le32 reserved;
} __attribute__((packed));

/* flags of struct dcd_super */
#define DCD_SUPER_NVRAM		1U	/* belongs to an NVRAM with a header */
/*
 * Both copies of that header were of this superblock's generation or a later one, less
 * DCD_APART at most, when it was written: one that is older is an NVRAM of an earlier time.
 */
#define DCD_SUPER_JOINED	2U
#define DCD_APART		4U

#define DCD_WITNESSES		28U
#define DCD_WITNESS_OCTAVES	16U

struct dcd_witness {
	__le64 place;		/* first sector << 8 | octave of its age << 4 | sectors; 0: none */
	__le32 crc;		/* of those sectors */
} __attribute__((packed));

#define DCD_PASSED		13U	/* in the NVRAM's header */

#define DCD_GROWN		4U

struct dcd_grown {
	__le64 sectors;		/* << 8; 0: none */
	__le32 reserved;
} __attribute__((packed));

struct dcd_super {
	__le64 magic;
	__le32 version;
	__le32 crc;
	struct dcd_features features;
	__u8 uuid[16];
	__le64 epoch;		/* random, new for each format */
	__le64 generation;	/* of this copy */
	__le64 data_sectors;	/* size of the data disk; grows in both copies before it is used */
	__le64 log_sectors;	/* size of the log disk */
	__le64 segments;
	__le32 segment_bytes;
	__le32 table_bytes;
	__le64 tail;		/* sequence of the oldest segment that counts */
	__le64 applied;		/* sequence of the newest entry on the data disk */
	__le32 flags;		/* DCD_SUPER_* */
	__le64 newest;		/* entries up to it were durable in the log, or applied */
	__le32 witnessed;	/* ~ low half of their generation; else they are void */
	struct dcd_witness witnesses[DCD_WITNESSES];
	struct dcd_grown grown[DCD_GROWN];
} __attribute__((packed));

#define DCD_MOVED_START	(2U * DCD_BLOCK)	/* of its first copy */
#define DCD_SPARE_FIRST	4U			/* a block of the log disk */
#define DCD_SPARES	(DCD_RING_START / DCD_BLOCK - DCD_SPARE_FIRST)

#define DCD_SPARE_FREE	0U
#define DCD_SPARE_BAD	1U	/* it is no better than what it was to replace */

/* Of each spare: the block of the ring that is there, or one of the above. No block is in two. */
struct dcd_moved {
	__le64 magic;
	__le32 version;
	__le32 crc;
	__u8 uuid[16];
	__le64 epoch;
	__le64 generation;
	__u8 reserved[16];
	__le64 spares[DCD_SPARES];
} __attribute__((packed));

struct dcd_nvram_header {
	__le64 magic;
	__le32 version;
	__le32 crc;
	struct dcd_features features;
	__u8 uuid[16];
	__le64 epoch;
	__le64 generation;
	__le64 bytes;		/* header and slots */
	__le32 segment_bytes;
	__le32 table_bytes;
	__le64 applied;		/* as in struct dcd_super */
	__le64 witnessed;	/* ~ the @applied that they are of; else they are void */
	struct dcd_witness witnesses[DCD_PASSED];
	__u8 reserved[4];
} __attribute__((packed));

/*
 * Written in turn to both copies, so a power cut tears one at most; the higher @newest counts.
 * They are no more than DCD_ENDS_APART entries apart, or one batch. Whoever opens an NVRAM writes
 * those that aren't right, so there is no blank one beside one that names an entry.
 * Where both are blank nothing was ever written there: an NVRAM that was formatted and never used,
 * or an older copy, of that time, if the log or the superblock knows of an entry.
 */
struct dcd_nvram_end {
	__le64 magic;
	__le64 epoch;
	__le64 newest;		/* entries up to it are persistent, and their batches whole */
	__u8 reserved[36];
	__le32 crc;
} __attribute__((packed));

struct dcd_segment {
	__le64 magic;
	__le32 version;
	__le32 crc;
	struct dcd_features features;
	__u8 uuid[16];
	__le64 epoch;
	__le64 sequence;	/* of the segment */
	__le64 first_entry;	/* sequence of entry 0 */
	__le32 entries;
	__le32 used_bytes;	/* from the segment's start, multiple of 512 */
	__le32 body_crc;	/* of [DCD_BLOCK, used_bytes) */
	__u8 reserved[172];
} __attribute__((packed));

enum dcd_entry_type {
	DCD_ENTRY_WRITE = 1,
	DCD_ENTRY_DISCARD = 2,		/* reads as zeroes, as write-zeroes does */
	DCD_ENTRY_WRITE_ZEROES = 3,
	DCD_ENTRY_LOST = 4,		/* a medium error */
};

struct dcd_entry {
	__le64 sequence;
	__le64 epoch;
	__le64 sector;		/* on the data disk */
	__le64 batch;		/* sequence of the last entry of its batch, 0: in none */
	__le32 sectors;		/* logical length */
	__le32 stored;		/* stored length in sectors: = sectors for writes, else 0 */
	__le32 offset;		/* of the payload, in sectors from the segment's start */
	__le16 type;
	__le16 flags;		/* none yet */
	__le32 payload_crc;
	__le32 crc;
	__u8 zeroes;		/* 1: a discard that was said to zero */
	__u8 reserved[7];
} __attribute__((packed));

#ifdef __KERNEL__
#define DCD_ASSERT(e) static_assert(e)
#else
#define DCD_ASSERT(e) _Static_assert(e, #e)
#endif
DCD_ASSERT(sizeof(struct dcd_super) == 512);
DCD_ASSERT(sizeof(struct dcd_moved) == 2080);
DCD_ASSERT(sizeof(struct dcd_nvram_header) == 256);
DCD_ASSERT(sizeof(struct dcd_nvram_end) == 64);
DCD_ASSERT(sizeof(struct dcd_segment) == 256);
DCD_ASSERT(sizeof(struct dcd_entry) == 64);

#endif /* DCD_FORMAT_H */
