/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The format of a digest LUN: what the mirror site shows (target-plugin/digest.h)
 * and the mirror reads (dm-target/digest.h), so that a resync can tell what is
 * equal without reading or sending it. All integers are little endian.
 *
 *  data LUN                         digest LUN
 * +-----------------+ 0            +----------------------------------+ 0
 * | block 0         |              | struct lockstep_digest_header,   |
 * +-----------------+ 4096         | then zeroes                      |
 * | block 1         |              +----------------------------------+ 4096
 * +-----------------+              | digest of block 0, 32 bytes      |
 * | ...             |              +----------------------------------+ 4128
 * +-----------------+              | digest of block 1                |
 * | last whole      |              +----------------------------------+
 * | block:      key | last 32      | ... zeroes up to a multiple of   |
 * +-----------------+    bytes     |     4096                         |
 *                                  +----------------------------------+
 *
 * A block is 4096 bytes; what comes after the last whole one has no digest.
 * The digest of block i is BLAKE2s-256, keyed with the key, of i (8 bytes) and
 * the block; the header's proof that of the header's bytes before it. They are
 * computed for each read command anew: first the key is read, then the blocks,
 * as any READ would see them at that time.
 *
 * The key is what makes a digest of this LUN, of this time. Whoever wants to
 * compare writes a random key first, as any data. A digest that then fits his
 * own block i was computed, by someone who had that key, from bytes equal to
 * that block: so at that place of this LUN (or of a copy made of it since then),
 * after the key was written. Another LUN's digests, older ones, those of another
 * place, cached ones, all just don't fit, and nothing follows from a digest that
 * doesn't fit but that the data are to be copied. The header's proof only says
 * the same at once, so that one doesn't read what won't fit.
 *
 * That holds as far as nobody knows two different texts of one digest. What is
 * on a disk may have been made by anybody, with any aim, and a copy that is left
 * out is silent loss: so a collision-resistant hash, of full length (128 bits of
 * work), and not a checksum. BLAKE2s is one with or without a key that is known,
 * takes the key by itself, and is built into every kernel (its random number
 * generator uses it): it can be neither missing nor fail.
 *
 * The key needs no secrecy. All zeroes is no key: nothing is shown then.
 */
#ifndef LOCKSTEP_DIGEST_H
#define LOCKSTEP_DIGEST_H

#include <crypto/blake2s.h>
#include <linux/blk_types.h>
#include <linux/build_bug.h>
#include <linux/types.h>

#include "lockstep-compat.h"

#define DIGEST_MAGIC		0x3154534749445354ULL	/* "TSDIGST1" */
#define DIGEST_VERSION		1
#define DIGEST_BLAKE2S		1

#define DIGEST_BYTES		32u
#define DIGEST_BLOCK		4096u
#define DIGEST_BLOCK_SECTORS	(DIGEST_BLOCK >> SECTOR_SHIFT)
#define DIGEST_KEY_BYTES	32u

struct lockstep_digest_header {
	__le64 magic;
	__le32 version;
	__le32 algorithm;	/* DIGEST_BLAKE2S */
	__le32 block_bytes;	/* DIGEST_BLOCK */
	__le32 digest_bytes;	/* DIGEST_BYTES */
	__le64 data_sectors;	/* of the data LUN, 512 bytes each */
	__u8 proof[DIGEST_BYTES];
} __packed;

static_assert(sizeof(struct lockstep_digest_header) <= SECTOR_SIZE);

/* Whole blocks of a data LUN. */
static inline u64 digest_blocks(u64 data_sectors)
{
	return data_sectors / DIGEST_BLOCK_SECTORS;
}

/* The sector whose last DIGEST_KEY_BYTES are the key, if there is a block. */
static inline u64 digest_key_sector(u64 data_sectors)
{
	return digest_blocks(data_sectors) * DIGEST_BLOCK_SECTORS - 1;
}

/* Where, in bytes, the digest of a block lies; of digest_blocks(): the end. */
static inline u64 digest_at(u64 block)
{
	return DIGEST_BLOCK + block * DIGEST_BYTES;
}

/* Size of the digest LUN in bytes. */
static inline u64 digest_lun_bytes(u64 data_sectors)
{
	return round_up(digest_at(digest_blocks(data_sectors)), DIGEST_BLOCK);
}

static inline void digest_block(u8 digest[DIGEST_BYTES], const u8 key[DIGEST_KEY_BYTES],
				u64 block, const void *data)
{
	__le64 index = cpu_to_le64(block);
	struct blake2s_ctx ctx;

	blake2s_init_key(&ctx, DIGEST_BYTES, key, DIGEST_KEY_BYTES);
	blake2s_update(&ctx, (const u8 *)&index, sizeof(index));
	blake2s_update(&ctx, data, DIGEST_BLOCK);
	blake2s_final(&ctx, digest);
}

static inline void digest_proof(u8 proof[DIGEST_BYTES], const u8 key[DIGEST_KEY_BYTES],
				const struct lockstep_digest_header *h)
{
	struct blake2s_ctx ctx;

	blake2s_init_key(&ctx, DIGEST_BYTES, key, DIGEST_KEY_BYTES);
	blake2s_update(&ctx, (const u8 *)h, offsetof(struct lockstep_digest_header, proof));
	blake2s_final(&ctx, proof);
}

#endif
