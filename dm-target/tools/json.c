// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <stdio.h>

#include "json.h"

static unsigned int depth;
static bool first = true;

static void quoted(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		/* Names on a disk may be anything: what isn't plain ASCII is shown, not passed on. */
		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void begin(const char *key)
{
	if (depth)
		printf("%s\n%*s", first ? "" : ",", 2 * (int)depth, "");
	first = false;
	if (key) {
		quoted(key);
		fputs(": ", stdout);
	}
}

void json_open(const char *key, char bracket)
{
	begin(key);
	putchar(bracket);
	depth++;
	first = true;
}

void json_close(char bracket)
{
	depth--;
	if (!first)
		printf("\n%*s", 2 * (int)depth, "");
	putchar(bracket);
	first = false;
	if (!depth) {
		putchar('\n');
		first = true;
	}
}

void json_text(const char *key, const char *value)
{
	begin(key);
	if (value)
		quoted(value);
	else
		fputs("null", stdout);
}

void json_number(const char *key, uint64_t value)
{
	begin(key);
	printf("%" PRIu64, value);
}

void json_bool(const char *key, bool value)
{
	begin(key);
	fputs(value ? "true" : "false", stdout);
}
