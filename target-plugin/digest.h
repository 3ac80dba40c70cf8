/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The digests of an engine's content, as a LUN would show them: the format, and
 * what it is good for, are in lockstep-digest.h.
 *
 * Nothing is kept: each read looks the engine up by its name, and computes from
 * what the engine gives for those blocks at that time, all writes acknowledged
 * before included. So it neither holds the engine open nor outlives it: closing
 * an engine waits for the reads under way, for a second at most. An engine that comes
 * back under its name is found again.
 *
 * The engine is read as by its LUN: so who asks waits for a disk that doesn't answer for
 * busy_after_ms at most, or as long as he wants it.
 *
 * Process context; sleeps. At any time.
 */
#ifndef DCD_DIGEST_H
#define DCD_DIGEST_H

#include <linux/types.h>

/*
 * Sectors of the engine of that name. 0, -ENODEV: none is open, -ENOTUNIQ: two
 * are.
 */
int __must_check dcd_digest_source(const char *name, sector_t *data_sectors);

/* Who asks. Doesn't he want it any more? As unwanted() of struct dcd_request. */
struct dcd_viewer {
	bool (*unwanted)(const struct dcd_viewer *viewer);
};

/**
 * dcd_digest_read - bytes of the digest LUN
 * @data_sectors: of the engine; another size is another disk
 * @at: byte, a multiple of 512, as @bytes
 *
 * As dcd_digest_source(); -ESTALE: the engine has another size, -ERANGE, -ENOMEM, -EAGAIN: it has
 * waited long enough, or isn't wanted; or why its content can't be read.
 */
int __must_check dcd_digest_read(const char *name, sector_t data_sectors, u64 at, void *buf,
				 size_t bytes, const struct dcd_viewer *viewer);

#endif /* DCD_DIGEST_H */
