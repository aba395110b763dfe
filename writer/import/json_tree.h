/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON value as an array: each value is followed by the values inside it. cprof thread. */
#pragma once

#include "writer/base/base.h"
#include "writer/json/json.h"
#include "writer/record/record.h"

struct json_value {
    struct text key;      /* of a member of an object */
    struct text text;     /* of a string, with escapes resolved; of a number or word, as written */
    int64_t number;       /* of an integer */
    uint32_t size;        /* number of values: this one and those inside it */
    bool gone;            /* a later member of the object has the same key */
    enum json_token type; /* an integer beyond 64 bits is a string */
};

struct json_tree {
    struct buf values;  /* struct json_value */
    struct buf strings; /* strings that had escapes */
    struct buf order;   /* scratch: members of a large object */
};

/* Reads a text of less than 4 GiB, which must stay valid while the tree is used. NULL, with *fault:
 * not one JSON value, or no memory. The value is valid until the next call. */
const struct json_value *json_tree_read(struct json_tree *t, const char *text, size_t len,
                                        struct json_fault *fault);

/* The first value inside an array or object; the one after `v`. NULL: no more. */
const struct json_value *json_first(const struct json_value *in);
const struct json_value *json_next(const struct json_value *in, const struct json_value *v);

/* The member of an object with this key; NULL: none. */
const struct json_value *json_member(const struct json_value *object, const char *key);

static inline bool text_is(struct text text, const char *as)
{
    return strlen(as) == text.len && memcmp(text.at, as, text.len) == 0;
}

/* Frees the tree's memory. */
void json_tree_free(struct json_tree *t);
