// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"

static const char *name;
static uint64_t total;
static time_t last;
static bool terminal, told;

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

void progress_begin(const char *what, uint64_t all, bool forced)
{
	terminal = isatty(STDERR_FILENO);
	name = terminal || forced ? what : NULL;
	total = all;
	last = forced ? 0 : now();
	told = false;
}

void progress(uint64_t done)
{
	if (!name || now() == last)
		return;
	last = now();
	told = true;
	fprintf(stderr, "%sdcd: %s %llu of %llu%s", terminal ? "\r" : "", name,
		(unsigned long long)done, (unsigned long long)total, terminal ? "" : "\n");
}

void progress_end(void)
{
	if (told && terminal)
		fputc('\n', stderr);
	name = NULL;
}
