// SPDX-License-Identifier: GPL-2.0-only
/*
 * torture: loads a block device up to a power cut and judges what is left.
 *
 *   torture load --device DEV --state FILE --seed N --cut-after-us N
 *	[--cut PATH=TEXT ...] [--more N] [--depth N] [--ops N] [--pause-us N]
 *	[--no-ranges]
 *
 * Reads the device, writes until the instant (or until --ops are answered),
 * takes the answers that are there, writes each TEXT to its PATH (the power
 * cut), saves FILE and says "cut: ...". Then it issues --more writes, waits for every answer, saves FILE.end
 * and says "end: ...". --no-ranges: no zeroes, no discards. Without --more
 * answers after the cut come from the void, and errors are no fault; with it
 * they are (exit code 1).
 *
 *   torture check --device DEV --state FILE --promise stable|volatile
 *   torture compare DEV DEV
 *
 * Exit codes: 0 fine, 1 the device is wrong, 2 it couldn't be done.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torture.h"

static int usage(const char *what)
{
	fprintf(stderr, "torture: %s\n"
		"usage: torture load --device DEV --state FILE --seed N --cut-after-us N\n"
		"           [--cut PATH=TEXT ...] [--more N] [--depth 1..64] [--ops N]\n"
		"           [--pause-us N] [--no-ranges]\n"
		"       torture check --device DEV --state FILE --promise stable|volatile\n"
		"       torture compare DEV DEV\n", what);
	return 2;
}

enum { O_DEVICE = 1, O_STATE, O_SEED, O_CUT_AFTER, O_CUT, O_MORE, O_DEPTH, O_OPS, O_PAUSE,
       O_RANGES, O_PROMISE };

static const struct option options[] = {
	{ "device", required_argument, NULL, O_DEVICE },
	{ "state", required_argument, NULL, O_STATE },
	{ "seed", required_argument, NULL, O_SEED },
	{ "cut-after-us", required_argument, NULL, O_CUT_AFTER },
	{ "cut", required_argument, NULL, O_CUT },
	{ "more", required_argument, NULL, O_MORE },
	{ "depth", required_argument, NULL, O_DEPTH },
	{ "ops", required_argument, NULL, O_OPS },
	{ "pause-us", required_argument, NULL, O_PAUSE },
	{ "no-ranges", no_argument, NULL, O_RANGES },
	{ "promise", required_argument, NULL, O_PROMISE },
	{ 0 },
};

static bool number(const char *text, uint64_t max, uint64_t *to)
{
	char *end;

	errno = 0;
	*to = strtoull(text, &end, 0);
	return !errno && end != text && !*end && *text != '-' && *to <= max;
}

static bool add_cut(struct load_options *opt, char *arg)
{
	char *text = strchr(arg, '=');

	if (!text || opt->nr_cuts == MAX_CUTS)
		return false;
	*text++ = 0;
	opt->cuts[opt->nr_cuts].path = arg;
	opt->cuts[opt->nr_cuts++].text = text;
	return true;
}

int main(int argc, char **argv)
{
	struct load_options opt = { .depth = 16, .ops = 100000, .pause_us = 200 };
	const char *command = argc > 1 ? argv[1] : "", *promise = NULL;
	uint64_t n = 0;
	bool ok = true;
	int c;

	if (argc < 2)
		return usage("no command");
	while (ok && (c = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1) {
		switch (c) {
		case O_DEVICE:
			opt.device = optarg;
			break;
		case O_STATE:
			opt.state = optarg;
			break;
		case O_PROMISE:
			promise = optarg;
			break;
		case O_SEED:
			ok = number(optarg, UINT64_MAX, &opt.seed);
			break;
		case O_CUT_AFTER:
			ok = number(optarg, UINT32_MAX, &opt.cut_us);
			break;
		case O_MORE:
			ok = number(optarg, 10000000, &opt.more);
			break;
		case O_PAUSE:
			ok = number(optarg, 1000000, &opt.pause_us);
			break;
		case O_OPS:
			ok = number(optarg, 10000000, &n) && n;
			opt.ops = (uint32_t)n;
			break;
		case O_DEPTH:
			ok = number(optarg, 64, &n) && n;
			opt.depth = (unsigned int)n;
			break;
		case O_CUT:
			ok = add_cut(&opt, optarg);
			break;
		case O_RANGES:
			opt.no_ranges = true;
			break;
		default:
			ok = false;
		}
		if (!ok)
			return usage("bad option or value");
	}
	if (!strcmp(command, "compare") && optind + 3 == argc)
		return torture_compare(argv[optind + 1], argv[optind + 2]);
	if (optind + 1 != argc)
		return usage("too many or too few words");
	if (!strcmp(command, "load") && opt.device && opt.state)
		return torture_load(&opt);
	if (!strcmp(command, "check") && opt.device && opt.state && promise) {
		if (!strcmp(promise, "stable"))
			return torture_check(opt.device, opt.state, ORACLE_STABLE);
		if (!strcmp(promise, "volatile"))
			return torture_check(opt.device, opt.state, ORACLE_VOLATILE);
	}
	return usage("unknown command, or an option is missing");
}
