/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * JSON on stdout, written as it comes: the caller opens and closes objects and
 * lists, commas and quoting are done here. @key is NULL within a list.
 */
#ifndef LOCKSTEP_JSON_H
#define LOCKSTEP_JSON_H

#include <stdbool.h>
#include <stdint.h>

void json_open(const char *key, char bracket);	/* '{' or '[' */
void json_close(char bracket);			/* '}' or ']'; the outermost ends the line */
void json_text(const char *key, const char *value);	/* NULL: null */
void json_number(const char *key, uint64_t value);
void json_bool(const char *key, bool value);

#endif
