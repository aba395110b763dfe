/* SPDX-License-Identifier: Apache-2.0 */
/* Records as application threads leave them in their rings, for tests of what comes behind the
 * rings. */
#ifndef TESTS_SUPPORT_RECORDS_H
#define TESTS_SUPPORT_RECORDS_H

#include <stddef.h>

#include "writer/record/record_types.h"

/* Fails the test unless there is a record and it has this name. */
void assert_named(const struct record *r, const char *name);

/* A record on the heap, exactly as long as it says, so that ASan sees a byte read too far. Its
 * start, end, id and parent are 0, its sequence is -1. data may be NULL when n is 0. Free with
 * free(). */
struct record *record_new(enum record_kind kind, enum category category, const char *text,
                          enum record_data data_kind, const void *data, size_t n);

#endif
