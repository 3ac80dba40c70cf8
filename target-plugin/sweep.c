// SPDX-License-Identifier: GPL-2.0-only
#include <linux/string.h>

#include "sweep.h"

void dcd_sweep_mark(struct dcd_sweep *s, const struct dcd_mark *m)
{
	unsigned int i;

	if (s->n && s->marks[s->n - 1].target == m->target)
		return;
	if (s->n == DCD_MARKS) {
		s->n /= 2;
		for (i = 0; i < s->n; i++)
			s->marks[i] = s->marks[2 * i];
	}
	s->marks[s->n++] = *m;
}

bool dcd_sweep_passed(const struct dcd_sweep *s, sector_t round, struct dcd_mark *m)
{
	unsigned int n = 0;

	while (n < s->n && s->marks[n].way + round <= dcd_sweep_way(s))
		n++;
	if (!n)
		return false;
	*m = s->marks[n - 1];
	return true;
}

void dcd_sweep_hold(struct dcd_sweep *s, u64 target, u64 applied)
{
	unsigned int i;

	for (i = 0; i < s->n; i++) {
		if (s->marks[i].target <= target)
			continue;
		s->marks[i].target = target;
		s->marks[i].applied = applied;
	}
}

void dcd_sweep_drop(struct dcd_sweep *s, const struct dcd_mark *last)
{
	unsigned int n = 0;

	while (n < s->n && s->marks[n].way <= last->way)
		n++;
	s->n -= n;
	memmove(s->marks, s->marks + n, s->n * sizeof(*s->marks));
}

void dcd_sweep_bound(struct dcd_sweep *s, const struct dcd_mark *m)
{
	s->short_target = m->target;
	s->short_applied = m->applied;
}

void dcd_sweep_blind(struct dcd_sweep *s)
{
	s->blind = true;
	s->blind_at = s->at;
}

void dcd_sweep_see(struct dcd_sweep *s, sector_t round)
{
	if (!s->blind)
		return;
	if (s->blind_at < s->at)
		s->turn += round;	/* no way is gone backwards */
	s->at = s->blind_at;
	s->n = 0;	/* nor is that way gone at all: nothing has been passed by it */
	s->blind = false;
}
