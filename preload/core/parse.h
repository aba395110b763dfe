/* SPDX-License-Identifier: Apache-2.0 */
/* Parses numbers, booleans, choices and lists. Pure: no globals, locale, allocation or output; any
 * thread. Blanks (space, tab, CR, LF) around values are ignored. Only ASCII digits and letters
 * count. *out is written on success only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when text is NULL, empty or only blanks. */
bool parse_is_blank(const char *text);

/* Parses a decimal whole number from min to max. Digits after an optional '-'; no '+', fraction,
 * exponent, hexadecimal or separator; leading zeros are allowed. False for anything else or out of
 * range. */
bool parse_int(const char *text, int64_t min, int64_t max, int64_t *out);

/* Parses 0/1, false/true, no/yes or off/on in any case. False for anything else. */
bool parse_bool(const char *text, bool *out);

/* Sets *out to the index of text in `choices` ("run|epoch|none"), in any case. A choice "name:ARG"
 * matches "name:" with more text after it. False when none matches. */
bool parse_choice(const char *text, const char *choices, int *out);

/* Sets bit i of *out for choice i in a comma-separated list. Items may repeat. False when an item
 * is empty or no choice. */
bool parse_list(const char *text, const char *choices, unsigned *out);

/* Number of single-character insertions, deletions, replacements and swaps of neighbours that turn
 * a into b. Ignores case and text beyond 63 characters. */
unsigned parse_distance(const char *a, const char *b);
