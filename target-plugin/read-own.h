/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An own (read.h), between read-own.c, which begins, ends and gives it up, read-kept.c, which has
 * what was given up taken over, and read-line.c, where those wait that read much of the log. What
 * is said to need the lock needs that of struct dcd_reads.
 */
#ifndef DCD_READ_OWN_H
#define DCD_READ_OWN_H

#include <linux/scatterlist.h>

#include "engine.h"
#include "read.h"

/*
 * All but @rq is under the lock. @of is NULL when it has been answered. @begun: all of it is asked
 * for; @ended: all has come; @moved: some of it was destaged meanwhile. @wants: it was taken over,
 * by who has seen that in the index; 0: it wasn't. @kept: jiffies, since when it is. @counts:
 * bytes, as which it counts when it was given up, or is kept.
 */
struct dcd_own {
	struct dcd_request rq;		/* @since: its beginning */
	struct dcd_request *of;
	bool begun, ended, moved;
	u64 wants;
	unsigned long kept;
	size_t counts;
	struct dcd_log_reads log_reads;
	struct work_struct end_work;	/* when the log has answered */
	int in_flight;			/* of @log_reads, */
	unsigned long went_on;		/* since then: jiffies */
	struct list_head list;
	struct scatterlist sgl[];
};

/* read-own.c */
void dcd_own_free(struct dcd_own *o);
/* What was read, to its owner: all that is before what can't be. Any context. */
void dcd_own_hand_to(struct dcd_request *of, struct dcd_own *o);
/* Bytes, of those that were given up; and of those that are kept. */
size_t dcd_most_given_up(void);
/* For what was given up? Needs the lock. */
bool dcd_own_has_to_wait(const struct dcd_reads *r, const struct dcd_request *rq);

/* read-kept.c */
void dcd_kept_init(struct dcd_engine *e);
/* False: there is nothing to take over. Else the request has been answered, or waits for it. */
bool __must_check dcd_own_take_over(struct dcd_engine *e, struct dcd_request *rq);
/* Has it seen what who took it over has to have? Needs the lock. */
bool dcd_own_is_wanted(const struct dcd_own *o);
/* It was given up, and has ended: is it kept for who tries again? Needs the lock. */
bool __must_check dcd_own_keep(struct dcd_engine *e, struct dcd_own *o);

/* read-line.c. How many places of the log is the rest of it in? 0: few enough for no turn. */
unsigned int dcd_line_places(struct dcd_engine *e, const struct dcd_request *rq);
/* It has @places. True: it waits there; else it has its turn. Needs the lock. */
bool __must_check dcd_line_join(struct dcd_reads *r, struct dcd_request *rq);
/* If it has one; needs the lock. */
void dcd_line_end_turn(struct dcd_engine *e, struct dcd_gather *g);
/* Its places come no more, or it has taken long enough. Needs the lock; asked each DCD_LOOK. */
bool dcd_line_turn_over(struct dcd_own *o);
/* It has stood in the line, and will be tried again. Needs the lock. */
void dcd_line_keep_place(struct dcd_reads *r, const struct dcd_request *rq);
/* Whose turn it is, or NULL. Takes the lock. */
struct dcd_request *dcd_line_next(struct dcd_engine *e, struct dcd_turns *t);

#endif /* DCD_READ_OWN_H */
