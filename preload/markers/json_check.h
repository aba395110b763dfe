/* SPDX-License-Identifier: Apache-2.0 */
/* Strict JSON from programs, made fit for a trace. Pure: no allocation, no output; any thread. */
#ifndef PRELOAD_MARKERS_JSON_CHECK_H
#define PRELOAD_MARKERS_JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#define JSON_DEPTH 128 /* most arrays and objects inside each other */

/* Why a text was refused. */
struct json_fault {
    size_t at;        /* byte of the text, from 0 */
    const char *what; /* in words; static */
};

/*
 * Takes exactly one JSON value as RFC 8259 has it: valid UTF-8, no NaN, no number beyond a double,
 * no half of a surrogate pair. Writes it into out[0..len), which takes any result, as traces hold
 * it: one line, no blanks, raw UTF-8 instead of \u from 0x20 on (Perfetto hangs on some). Returns
 * the bytes written, or 0 and *fault.
 */
size_t json_check(const char *text, size_t len, char *out, struct json_fault *fault);

#endif
