/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON text (RFC 8259) token by token: the grammar for all JSON that cprof reads. NaN,
 * Infinity and -Infinity are words, too. Does not check bytes of strings or range of numbers. Pure:
 * no allocation, no recursion, no output; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/writer.h"

#define JSON_DEPTH 128u /* most nested arrays and objects */

enum json_token {
    JSON_FAULT,
    JSON_ENDS,   /* after exactly one value */
    JSON_OBJECT, /* its bracket; members follow */
    JSON_ARRAY,
    JSON_CLOSES,
    JSON_KEY, /* its value follows */
    JSON_STRING,
    JSON_INTEGER,
    JSON_REAL, /* has a point or an exponent */
    JSON_WORD, /* true, false, null, NaN or infinite */
};

/* Zeroed at the start, except text, len and fault. */
struct json_scan {
    const char *text;
    size_t len, at;
    struct json_fault *fault; /* filled at JSON_FAULT */
    size_t from, to;          /* bytes of the token; of a string or key, inside the quotes */
    bool escapes;             /* the string or key contains escapes */
    bool after, keyed;        /* after a value; after a key */
    unsigned depth;
    char due[JSON_DEPTH]; /* closing brackets that are due */
};

/* The next token. JSON_FAULT and JSON_ENDS are the last. */
enum json_token json_scan_next(struct json_scan *s);

/* The character of the escape at *text, which the scan has checked; advances *text. 0xd800 to
 * 0xdfff: half of a surrogate pair. */
uint32_t json_escaped(const char **text, const char *end);
