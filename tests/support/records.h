/* SPDX-License-Identifier: Apache-2.0 */
/* Makes records as application threads write them into their rings, for tests of code that reads
 * rings. */
#pragma once

#include <stddef.h>

#include "writer/record/record_types.h"

/* Fails the test unless r is a record with this name. */
void assert_named(const struct record *r, const char *name);

/* A record on the heap of exactly its size, so that ASan sees an overread. Its start, end, id and
 * parent are 0, its sequence is -1. data may be NULL if n is 0. Free with free(). */
struct record *record_new(enum record_kind kind, enum category category, const char *text,
                          enum record_data data_kind, const void *data, size_t n);
