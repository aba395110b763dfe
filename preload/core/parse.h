/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to number, boolean, choice or list. Pure: no globals, no locale, no allocation, no output;
 * any thread. Blanks (space, tab, CR, LF) around a value are ignored everywhere, and only ASCII
 * counts as a digit or a letter. On failure nothing is written to *out.
 */
#ifndef PRELOAD_CORE_PARSE_H
#define PRELOAD_CORE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when text is NULL, empty or holds nothing but blanks. */
bool parse_is_blank(const char *text);

/*
 * A decimal whole number between min and max into *out. Only digits after an optional '-': no '+',
 * fraction, exponent, hexadecimal or separator; leading zeros are allowed and mean nothing. False
 * when the text is anything else or out of range (also when it would not fit in 64 bits).
 */
bool parse_int(const char *text, int64_t min, int64_t max, int64_t *out);

/* 0/1, false/true, no/yes, off/on in any case into *out; false for anything else. */
bool parse_bool(const char *text, bool *out);

/*
 * The index of text among choices ("run|epoch|none"), in any case, into *out. A choice "name:ARG"
 * matches every text that begins with "name:" and has something after it. False when none matches.
 */
bool parse_choice(const char *text, const char *choices, int *out);

/*
 * A comma-separated list of choices ("cpu|cuda") into *out: bit i for choice i. Repeated items
 * count once. False when an item is empty or no choice.
 */
bool parse_list(const char *text, const char *choices, unsigned *out);

/*
 * How many single-character insertions, deletions, replacements and swaps of neighbours turn a into
 * b, case ignored. Text beyond 63 characters is not looked at.
 */
unsigned parse_distance(const char *a, const char *b);

#endif
