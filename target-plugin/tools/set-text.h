/* SPDX-License-Identifier: GPL-2.0-only */
/* Set's text: what a set (set.h) says of itself, as JSON and for people. Reads it only. */
#ifndef DCD_SET_TEXT_H
#define DCD_SET_TEXT_H

#include "set.h"

/* Objects "log", "nvram" of the open JSON object; the same as text. */
void set_json(const struct set *s);
void set_text(const struct set *s);

/* Prints 32 hex digits and a NUL. */
void uuid_text(const u8 *uuid, char text[33]);
const char *copy_name(enum dcd_copy copy);
/* After a walk: "may_be_missing" of the open JSON object, null: any number. */
void set_missing_json(const struct set *s);

#endif
