/* SPDX-License-Identifier: Apache-2.0 */
/* The named values of a record (DATA_ARGS): reads them and writes them as JSON. Pure; cprof
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"
#include "writer/record/record.h"

/* One item. key and value point into the data. */
struct json_arg {
    uint8_t type; /* enum arg_type */
    const char *key;
    size_t key_len;
    const uint8_t *value; /* 8 bytes, unaligned; or the text */
    size_t value_len;
};

/* Reads the item at *at and advances *at. False: the end, or cut or invalid data. */
bool json_next_arg(const uint8_t **at, const uint8_t *end, struct json_arg *a);

/* True for the item that gives the event's own category. */
bool json_arg_is_category(const struct json_arg *a);

/* Appends only the value. */
void json_arg_value(struct buf *b, const struct json_arg *a);

/* Appends `"key": value` for each item of the n bytes but category and shapes. first: nothing
 * stands before them; returns the same for what follows. */
bool json_args(struct buf *b, const uint8_t *at, size_t n, bool first);
