/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON value as an array: each value is followed by the values inside it. cprof thread. */
#ifndef WRITER_IMPORT_JSON_TREE_H
#define WRITER_IMPORT_JSON_TREE_H

#include "writer/base/base.h"
#include "writer/json/json.h"
#include "writer/record/record.h"

struct json_value {
    struct text key;      /* of an object's member */
    struct text text;     /* a string's, its escapes resolved; a number or word as it stands */
    int64_t number;       /* of an integer */
    uint32_t size;        /* this value and those inside it */
    bool gone;            /* a later member of the object has the same key */
    enum json_token type; /* an integer that 64 bits do not hold is a string */
};

struct json_tree {
    struct buf values;  /* struct json_value */
    struct buf strings; /* those that had escapes */
    struct buf order;   /* of a large object's members */
};

/* Reads a text of less than 4 GiB, which stays while the tree is used. NULL, with *fault: it is not
 * one JSON value, or there is no memory for it. The value lasts until the next call. */
const struct json_value *json_tree_read(struct json_tree *t, const char *text, size_t len,
                                        struct json_fault *fault);

/* The first value inside an array or object, and the one behind another. NULL: no more. */
const struct json_value *json_first(const struct json_value *in);
const struct json_value *json_next(const struct json_value *in, const struct json_value *v);

/* The member of an object that has this key; NULL: none. */
const struct json_value *json_member(const struct json_value *object, const char *key);

static inline bool text_is(struct text text, const char *as)
{
    return strlen(as) == text.len && memcmp(text.at, as, text.len) == 0;
}

/* Frees what it holds. */
void json_tree_free(struct json_tree *t);

#endif
