/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and checks records. Any thread. */
#include "tests/support/records.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

void assert_named(const struct record *r, const char *name)
{
    ck_assert_ptr_nonnull(r);
    struct text is = record_name(r);
    ck_assert_msg(is.len == strlen(name) && memcmp(is.at, name, is.len) == 0, "%.*s instead of %s",
                  (int)is.len, is.at, name);
}

struct record *record_new(enum record_kind kind, enum category category, const char *text,
                          enum record_data data_kind, const void *data, size_t n)
{
    size_t text_len = strlen(text);
    uint64_t slots = record_slots(text_len, n, 0);
    struct record *r = calloc(slots, RECORD_SLOT); /* readers may copy whole slots */
    ck_assert_ptr_nonnull(r);
    r->kind = (uint8_t)kind;
    r->category = (uint8_t)category;
    r->data_kind = (uint8_t)data_kind;
    r->slots = (uint32_t)slots & 0xffffffu;
    r->op.sequence = -1;
    r->name = (uint32_t)text_len;
    r->data_len = (uint32_t)n;
    memcpy(r + 1, text, text_len);
    if (n)
        memcpy((char *)(r + 1) + text_len, data, n);
    return r;
}
