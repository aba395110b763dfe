/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes DATA_ARGS. */
#include "writer/json/json_args.h"

#include <string.h>

#include "writer/json/json.h"

bool json_next_arg(const uint8_t **at, const uint8_t *end, struct json_arg *a)
{
    const uint8_t *p = *at;
    if (end - p < 3)
        return false;
    uint16_t key_len;
    a->type = p[0];
    memcpy(&key_len, p + 1, sizeof(key_len));
    p += 3;
    if (end - p < key_len || a->type > ARG_SHAPES)
        return false;
    a->key = (const char *)p;
    a->key_len = key_len;
    p += key_len;
    uint32_t length = 8;
    if (a->type >= ARG_TEXT) {
        if (end - p < 4)
            return false;
        memcpy(&length, p, sizeof(length));
        p += 4;
    }
    if ((size_t)(end - p) < length)
        return false;
    a->value = p;
    a->value_len = length;
    *at = p + length;
    return true;
}

bool json_arg_is_category(const struct json_arg *a)
{
    return a->type == ARG_TEXT && a->key_len == 0;
}

void json_arg_value(struct buf *b, const struct json_arg *a)
{
    if (a->type == ARG_TEXT) {
        json_string(b, (const char *)a->value, a->value_len);
    } else if (a->type == ARG_INT) {
        int64_t v;
        memcpy(&v, a->value, sizeof(v));
        json_int(b, v);
    } else {
        double v;
        memcpy(&v, a->value, sizeof(v));
        json_real(b, v);
    }
}

bool json_args(struct buf *b, const uint8_t *at, size_t n, bool first)
{
    const uint8_t *end = at + n;
    struct json_arg a;
    while (json_next_arg(&at, end, &a)) {
        if (json_arg_is_category(&a) || a.type == ARG_SHAPES)
            continue;
        if (!first)
            buf_put(b, ", ", 2);
        first = false;
        json_string(b, a.key, a.key_len);
        buf_put(b, ": ", 2);
        json_arg_value(b, &a);
    }
    return first;
}
