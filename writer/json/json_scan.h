/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a JSON text (RFC 8259) from token to token: the grammar for all JSON that comes into the
 * library. NaN, Infinity and -Infinity are words, too. The bytes of strings are not checked, nor
 * the range of numbers. Pure: no allocation, no recursion, no output; any thread. */
#ifndef WRITER_JSON_JSON_SCAN_H
#define WRITER_JSON_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/writer.h"

#define JSON_DEPTH 128u /* most arrays and objects inside each other */

enum json_token {
    JSON_FAULT,
    JSON_ENDS,   /* one value was all */
    JSON_OBJECT, /* its bracket; its members follow */
    JSON_ARRAY,
    JSON_CLOSES,
    JSON_KEY, /* its value follows */
    JSON_STRING,
    JSON_INTEGER,
    JSON_REAL, /* with a point or an exponent */
    JSON_WORD, /* true, false, null or no number */
};

/* All zero but text, len and fault at the beginning. */
struct json_scan {
    const char *text;
    size_t len, at;
    struct json_fault *fault; /* filled by JSON_FAULT */
    size_t from, to;          /* bytes of the token; of a string or key those in its quotes */
    bool escapes;             /* the string or key has some */
    bool after, keyed;        /* behind a value; behind a key */
    unsigned depth;
    char due[JSON_DEPTH]; /* the closing brackets */
};

/* The next token. After JSON_FAULT or JSON_ENDS there is none. */
enum json_token json_scan_next(struct json_scan *s);

/* The character that the escape at *text stands for, and *text is behind it; 0xd800 to 0xdfff: half
 * of a surrogate pair. The scan has taken the escape. */
uint32_t json_escaped(const char **text, const char *end);

/* Writes a character as UTF-8, half of a pair as U+FFFD, and returns the end: at most 4 bytes, and
 * never more than its escape has. */
char *json_put_utf8(char *to, uint32_t c);

#endif
