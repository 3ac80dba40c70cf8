// SPDX-License-Identifier: GPL-2.0-only
/*
 * lockstep-meta: the metadata of legs, for the command `lockstep` and for
 * people in need. See usage() and commands.h.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

static int usage(void)
{
	fputs("usage: lockstep-meta examine [--no-search] DEVICE...\n"
	      "       lockstep-meta verdict LOCAL|- REMOTE|-\n"
	      "       lockstep-meta udev DEVICE\n"
	      "       lockstep-meta create --local DEVICE --remote DEVICE [--name NAME]\n"
	      "                     [--region-size SECTORS] [--assume-clean] [--force] [--no-search]\n"
	      "                     [--dry-run]\n"
	      "       lockstep-meta join --source DEVICE --leg local|remote [--force] [--no-search]\n"
	      "                     [--dry-run [--in-use]] DEVICE\n"
	      "       lockstep-meta resolve --keep local|remote [--dry-run] LOCAL REMOTE\n"
	      "       lockstep-meta grow [--dry-run] LOCAL|- REMOTE|-\n"
	      "       lockstep-meta mark [--dry-run] DEVICE|-...\n"
	      "       lockstep-meta leave-log [--dry-run] DEVICE\n"
	      "       lockstep-meta wipe [--force] [--dry-run] DEVICE\n"
	      "--no-search: not where the end of a smaller device was. --in-use: the device may be.\n"
	      "JSON on stdout; exit code 0: done, 1: refused or failed, 2: this text.\n", stderr);
	return 2;
}

enum { LOCAL = 256, REMOTE, SOURCE, NAME, LEG, KEEP, REGION_SIZE, ASSUME_CLEAN, FORCE,
       NO_SEARCH, IN_USE, DRY_RUN };

static int number(const char *text, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, 10);
	if (!errno && end != text && !*end && *text >= '0' && *text <= '9')
		return 0;
	fprintf(stderr, "lockstep-meta: \"%s\" is not a number of sectors\n", text);
	return -1;
}

static int leg_word(const char *option, const char *text)
{
	if (!strcmp(text, "local") || !strcmp(text, "remote"))
		return 0;
	fprintf(stderr, "lockstep-meta: %s is local or remote, not \"%s\"\n", option, text);
	return -1;
}

/* @allowed: the options of the command. Returns the index of the first operand, or -1. */
static int parse(int argc, char **argv, const char *allowed, struct options *o)
{
	static const struct option all[] = {
		{ "local", 1, NULL, LOCAL }, { "remote", 1, NULL, REMOTE },
		{ "source", 1, NULL, SOURCE }, { "name", 1, NULL, NAME },
		{ "leg", 1, NULL, LEG }, { "keep", 1, NULL, KEEP },
		{ "region-size", 1, NULL, REGION_SIZE },
		{ "assume-clean", 0, NULL, ASSUME_CLEAN },
		{ "force", 0, NULL, FORCE }, { "no-search", 0, NULL, NO_SEARCH },
		{ "in-use", 0, NULL, IN_USE }, { "dry-run", 0, NULL, DRY_RUN }, { 0 },
	};
	int c, which;

	while ((c = getopt_long(argc, argv, "", all, &which)) != -1) {
		if (c < LOCAL)
			return -1;
		if (!strstr(allowed, all[which].name)) {
			fprintf(stderr, "lockstep-meta: %s has no --%s\n", argv[0], all[which].name);
			return -1;
		}
		switch (c) {
		case LOCAL: o->local = optarg; break;
		case REMOTE: o->remote = optarg; break;
		case SOURCE: o->source = optarg; break;
		case NAME: o->name = optarg; break;
		case LEG: o->leg = optarg; break;
		case KEEP: o->keep = optarg; break;
		case REGION_SIZE:
			if (number(optarg, &o->region_size))
				return -1;
			break;
		case ASSUME_CLEAN: o->assume_clean = true; break;
		case FORCE: o->force = true; break;
		case NO_SEARCH: o->no_search = true; break;
		case IN_USE: o->in_use = true; break;
		case DRY_RUN: o->dry_run = true; break;
		}
	}
	if ((o->leg && leg_word("--leg", o->leg)) || (o->keep && leg_word("--keep", o->keep)))
		return -1;
	return optind;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		const char *options;
	} commands[] = {
		{ "examine", "no-search" }, { "verdict", "" }, { "udev", "" },
		{ "create", "local remote name region-size assume-clean force no-search dry-run" },
		{ "join", "source leg force no-search in-use dry-run" },
		{ "resolve", "keep dry-run" }, { "grow", "dry-run" }, { "wipe", "force dry-run" },
		{ "mark", "dry-run" }, { "leave-log", "dry-run" },
	};
	const char *command = argc > 1 ? argv[1] : "";
	struct options o = { .name = "" };
	const char *allowed = NULL;
	char **operand;
	int n;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!strcmp(command, commands[i].name))
			allowed = commands[i].options;
	}
	if (!allowed)
		return usage();
	argc--;
	argv++;
	n = parse(argc, argv, allowed, &o);
	if (n < 0)
		return usage();
	operand = argv + n;
	n = argc - n;
	if (!strcmp(command, "examine") && n >= 1)
		return command_examine(&o, operand, n);
	if (!strcmp(command, "verdict") && n == 2)
		return command_verdict(operand[0], operand[1]);
	if (!strcmp(command, "udev") && n == 1)
		return command_udev(operand[0]);
	if (!strcmp(command, "create") && o.local && o.remote && !n)
		return command_create(&o);
	if (!strcmp(command, "join") && o.source && o.leg && n == 1 && (o.dry_run || !o.in_use))
		return command_join(&o, operand[0]);
	if (!strcmp(command, "resolve") && o.keep && n == 2)
		return command_resolve(&o, operand[0], operand[1]);
	if (!strcmp(command, "grow") && n == 2)
		return command_grow(&o, operand[0], operand[1]);
	if (!strcmp(command, "mark") && n >= 1)
		return command_mark(&o, operand, n);
	if (!strcmp(command, "leave-log") && n == 1)
		return command_leave_log(&o, operand[0]);
	if (!strcmp(command, "wipe") && n == 1)
		return command_wipe(&o, operand[0]);
	return usage();
}
