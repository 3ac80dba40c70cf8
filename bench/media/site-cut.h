/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sites whose power can be cut.
 *
 * Test-only. A site is a number; media and NVRAMs belong to one. Cutting a
 * site's power freezes all of them at one instant: what each of them holds at
 * that instant, with a seeded part of what was in its volatile cache, is what
 * the next user of its name will find. Whoever still uses the old incarnation
 * works on into the void: writes are acknowledged and dropped, reads fail.
 *
 * One lock, site_instant, guards the content of every client of every site,
 * so that "one instant" needs no argument. It is taken with interrupts off and
 * is innermost, apart from the locks of memory allocation's freeing side.
 * The list of clients is guarded by a mutex taken outside of it.
 *
 * Control files in debugfs, directory lockstep-media:
 *   cut     <- "SITE SEED"   cuts the power of a site
 *   forget  <- "NAME"        throws away a medium or NVRAM that nobody uses
 *   list    -> one line for each medium and NVRAM
 */
#ifndef LOCKSTEP_SITE_CUT_H
#define LOCKSTEP_SITE_CUT_H

#include <linux/list.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/types.h>

extern spinlock_t site_instant;

#define SITE_NAME_MAX 64

struct site_client;

struct site_client_ops {
	/* Freezes the content. Called with site_instant held, interrupts off. */
	void (*cut)(struct site_client *c, u64 seed);
	/*
	 * Frees the client, its content included; -EBUSY while it is used.
	 * Called with the list's mutex held, may sleep.
	 */
	int (*forget)(struct site_client *c);
	/* One line without the name. May sleep. */
	void (*show)(struct site_client *c, struct seq_file *m);
};

/**
 * struct site_client - a named thing that survives a power cut in part
 * @ops: also tells the kinds apart
 * @name: unique over all kinds
 * @site: whose power it uses; fixed for its life
 */
struct site_client {
	struct list_head list;
	const struct site_client_ops *ops;
	char name[SITE_NAME_MAX];
	unsigned int site;
};

/* The list's mutex. Held over find + add, and over find + use. May sleep. */
void site_lock(void);
void site_unlock(void);

/* NULL if there is none. Needs site_lock(). */
struct site_client *site_find(const char *name);

/* Adds a client whose name nobody has. Needs site_lock(). */
void site_add(struct site_client *c);

/* Takes a client off the list; ops->forget calls it. Needs site_lock(). */
void site_del(struct site_client *c);

/* Cuts one client's power, or that of a whole site. May sleep. */
void site_cut_one(struct site_client *c, u64 seed);
unsigned int site_cut(unsigned int site, u64 seed);

/* Forgets all clients with these ops, at the unloading of their module. */
void site_forget_all(const struct site_client_ops *ops);

/**
 * site_coin() - does this piece of a volatile cache survive the cut?
 * @seed: the client's seed, as its cut() got it
 * @thing: which write or line
 * @part: which sector of it
 *
 * One client's seed in eight keeps nothing and one in eight keeps all; the
 * others toss for each piece.
 */
bool site_coin(u64 seed, u64 thing, u64 part);

int site_init(void);
void site_exit(void);

#endif
