// SPDX-License-Identifier: GPL-2.0-only
/* dcd: the log disks and NVRAMs of DCDs, see usage(), commands.h and dcd.8. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

enum { USAGE = 2, FSCK_USAGE = 16 };

static void usage(void)
{
	fputs("usage: dcd format --data DEV --log DEV --nvram DEV|FILE|none\n"
	      "                  [--segment-bytes N] [--nvram-bytes N] [--force] [--json]\n"
	      "       dcd examine [--json] DEV|FILE\n"
	      "       dcd check --log DEV [--nvram DEV] [--data DEV] [--json]\n"
	      "       dcd dump --log DEV [--nvram DEV] [--data DEV] [--all] [--json]\n"
	      "       dcd recover --data DEV --log DEV [--nvram DEV] [--salvage] [--dry-run]\n"
	      "                   [--force] [--progress] [--json]\n"
	      "       dcd retire --data DEV --log DEV [--nvram DEV] [--force]\n"
	      "                  [--progress] [--json]\n"
	      "       dcd recover|retire --data DEV --log none --nvram DEV --salvage ...   (the log is lost)\n"
	      "DEV is a block device or a file with its content.\n"
	      "Exit code: 0 done, 1 refused or failed, 2 this text, 3 salvaged with losses; check: 0 whole, 4 damaged,\n"
	      "8 can't be read, 16 this text.\n", stderr);
}

static int number(const char *text, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, 0);
	if (!errno && end != text && !*end && *text != '-')
		return 0;
	fprintf(stderr, "dcd: \"%s\" is not a number of bytes\n", text);
	return -1;
}

/* Is @name one of the words of @list? */
static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += n)
		if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
	return false;
}

/* The index of the first operand, -1: no. */
static int parse(int argc, char **argv, const char *allowed, struct options *o)
{
	static const struct option options[] = {
		{ "data", 1, NULL, 'd' }, { "log", 1, NULL, 'l' }, { "nvram", 1, NULL, 'n' },
		{ "segment-bytes", 1, NULL, 's' }, { "nvram-bytes", 1, NULL, 'b' },
		{ "force", 0, NULL, 'f' }, { "json", 0, NULL, 'j' }, { "dry-run", 0, NULL, 'y' },
		{ "all", 0, NULL, 'a' }, { "salvage", 0, NULL, 'S' }, { "progress", 0, NULL, 'p' },
		{ 0 },
	};
	int c, which = 0;

	while ((c = getopt_long(argc, argv, "", options, &which)) != -1) {
		if (c == '?' || !listed(allowed, options[which].name))
			return -1;
		switch (c) {
		case 'd': o->data = optarg; break;
		case 'l': o->log = optarg; break;
		case 'n': o->nvram = optarg; break;
		case 's':
			if (number(optarg, &o->segment_bytes))
				return -1;
			break;
		case 'b':
			if (number(optarg, &o->nvram_bytes))
				return -1;
			break;
		case 'f': o->force = true; break;
		case 'j': o->json = true; break;
		case 'y': o->dry_run = true; break;
		case 'a': o->all = true; break;
		case 'S': o->salvage = true; break;
		default: o->progress = true; break;
		}
	}
	return optind;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		const char *options;
	} commands[] = {
		{ "format", "data log nvram segment-bytes nvram-bytes force json" },
		{ "examine", "json" }, { "check", "data log nvram json" },
		{ "dump", "data log nvram all json" },
		{ "recover", "data log nvram salvage dry-run force progress json" },
		{ "retire", "data log nvram salvage force progress json" },
	};
	const char *command = argc > 1 ? argv[1] : "", *allowed = NULL;
	struct options o = { .data = NULL };
	int n = -1;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(command, commands[i].name))
			allowed = commands[i].options;
	if (allowed) {
		argc--;
		argv++;
		n = parse(argc, argv, allowed, &o);
	}
	if (n >= 0) {
		if (!strcmp(command, "examine") && n == argc - 1)
			return command_examine(&o, argv[n]);
		if (!strcmp(command, "format") && n == argc && o.data && o.log && o.nvram)
			return command_format(&o);
		if (!strcmp(command, "check") && n == argc && o.log)
			return command_check(&o);
		if (!strcmp(command, "dump") && n == argc && o.log)
			return command_dump(&o);
		if (!strcmp(command, "recover") && n == argc && o.data && o.log)
			return command_recover(&o);
		if (!strcmp(command, "retire") && n == argc && o.data && o.log &&
		    o.salvage == !strcmp(o.log, "none"))
			return command_retire(&o);
	}
	usage();
	return !strcmp(command, "check") ? FSCK_USAGE : USAGE;
}
