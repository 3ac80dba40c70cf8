/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a DCD's LUN says of itself in the vendor specific VPD page C0h (SCSI INQUIRY):
 * the uuid of its log. Who finds a disk that says "there is a log with newer data in
 * front of me" can tell by it whether he has come through that log.
 *
 * The wire format is here and nowhere else; kernel and userspace share it.
 */
#ifndef DCD_IDENTITY_FORMAT_H
#define DCD_IDENTITY_FORMAT_H

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include <assert.h>
#include <linux/types.h>
#include <stdbool.h>
#include <string.h>
#endif

#define DCD_IDENTITY_PAGE	0xc0
#define DCD_IDENTITY_MAGIC	"LOCKSTEP DCD LOG"

struct dcd_identity {
	__u8 type;		/* of the device: 0, a disk */
	__u8 page;
	__u8 length[2];		/* of what follows, big endian as all of SCSI */
	__u8 magic[16];		/* another vendor's page C0h may be anything */
	__u8 log_uuid[16];
} __attribute__((packed));

#define DCD_IDENTITY_BYTES	((unsigned int)sizeof(struct dcd_identity))

static inline void dcd_identity_make(struct dcd_identity *i, const __u8 log_uuid[16])
{
	memset(i, 0, sizeof(*i));
	i->page = DCD_IDENTITY_PAGE;
	i->length[1] = sizeof(*i) - 4;
	memcpy(i->magic, DCD_IDENTITY_MAGIC, sizeof(i->magic));
	memcpy(i->log_uuid, log_uuid, sizeof(i->log_uuid));
}

/* Of bytes that came over the wire. */
static inline bool dcd_identity_right(const struct dcd_identity *i)
{
	return i->page == DCD_IDENTITY_PAGE &&
	       !memcmp(i->magic, DCD_IDENTITY_MAGIC, sizeof(i->magic));
}

#endif
