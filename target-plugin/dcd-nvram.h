/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NVRAM as the DCD engine sees it: bytes mapped in memory, and a way to make
 * a range of them survive a power cut. A type (pmem, dram, a lab's) registers
 * under a name; the admin selects it by "nvram=TYPE:SPEC".
 *
 * All calls are from process context and may sleep, but for persist() and read(), which
 * must not. persist() of one NVRAM may be called from several threads at a time,
 * never for the same 64 bytes; others may be written meanwhile.
 *
 * Media errors: bytes of it may have become unreadable, and a load of them would be a machine
 * check. So nobody loads from @base but by dcd_nvram_read(). Stores there do no harm, and
 * no good either: what is stored can't be read. Only mend() ends a media error.
 */
#ifndef DCD_NVRAM_H
#define DCD_NVRAM_H

#include <linux/list.h>
#include <linux/types.h>

struct module;

/*
 * An open NVRAM. @base is mapped, may be written, and read by dcd_nvram_read(), until close().
 * @type is set by the registry after open(). @forgets: why it may lose what persist() was
 * called for, a sentence's end; NULL: it doesn't. Such a one is refused.
 */
struct dcd_nvram {
	void *base;
	size_t bytes;
	const char *forgets;
	const struct dcd_nvram_type *type;
};

/*
 * @report_after_complete: there is no NVRAM, only a buffer: writes are acknowledged
 *	  when the log has them.
 * @volatile_content: content doesn't outlive close(): no header, no recovery.
 * @open: @spec is what follows "TYPE:" ("" if nothing does); @bytes is the
 *	  admin's nvram_bytes or 0. Sets *nv; errors: -ENOENT, -EINVAL, -EBUSY, ...
 * @persist: returns when [off, off + len) is in the persistence domain and
 *	     fenced; doesn't sleep.
 * @loses_acks: NULL or false: what was persisted survives a power cut.
 * @read: copies as copy_mc_to_kernel() does, which NULL stands for: returns how many bytes at
 *	  the end it didn't copy, as the first of them can't be read.
 * @mend: writes whole sectors in the way by which the driver clears media errors, durable.
 *	  Sleeps. NULL: there is none.
 */
struct dcd_nvram_type {
	const char *name;
	struct module *owner;
	bool volatile_content;
	bool report_after_complete;
	int (*open)(const char *spec, size_t bytes, struct dcd_nvram **nv);
	void (*close)(struct dcd_nvram *nv);
	void (*persist)(struct dcd_nvram *nv, size_t off, size_t len);
	bool (*loses_acks)(struct dcd_nvram *nv);
	size_t (*read)(struct dcd_nvram *nv, size_t off, void *to, size_t len);
	int (*mend)(struct dcd_nvram *nv, size_t off, void *from, size_t len);
	struct list_head link;	/* the registry's */
};

/* -EEXIST if the name is taken. Unregister when the module goes: none is open then. */
int __must_check dcd_nvram_register(struct dcd_nvram_type *type);
void dcd_nvram_unregister(struct dcd_nvram_type *type);

#endif /* DCD_NVRAM_H */
