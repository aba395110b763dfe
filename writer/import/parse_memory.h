/* SPDX-License-Identifier: Apache-2.0 */
/* A parser of others that does not look whether it got memory. json-c 0.16 goes on with NULL for a
 * key, and leaves a member out for which it finds no memory, without a word: a crash of the host,
 * or an event that is not what was handed in. So the library is linked with --wrap of the functions
 * that allocate, and one that fails leaves the parser. cprof thread. */
#ifndef WRITER_IMPORT_PARSE_MEMORY_H
#define WRITER_IMPORT_PARSE_MEMORY_H

#include <stdbool.h>

/* Calls parse(arg). False: an allocation failed, and it was left there and then: what it had built
 * is nobody's, and its objects must not be used again. */
bool parse_guarded(void (*parse)(void *), void *arg);

#endif
