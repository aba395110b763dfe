/* SPDX-License-Identifier: Apache-2.0 */
/* Writes items of DATA_ARGS (writer/record/record_types.h) into memory that is large enough. Each
 * returns the item's size. Pure, any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ARG_HEAD 3u /* bytes of an item before its key: type and key length */

/* Writes an item up to its value. */
static inline uint32_t put_arg_key(uint8_t *to, int type, const char *key, size_t key_len)
{
    uint16_t len = (uint16_t)key_len;
    *to = (uint8_t)type;
    memcpy(to + 1, &len, sizeof len);
    memcpy(to + ARG_HEAD, key, len);
    return ARG_HEAD + len;
}

/* Writes an ARG_INT or ARG_REAL; `value` has 8 bytes. */
static inline uint32_t put_arg_number(uint8_t *to, int type, const char *key, size_t key_len,
                                      const void *value)
{
    uint32_t n = put_arg_key(to, type, key, key_len);
    memcpy(to + n, value, 8);
    return n + 8;
}

/* Writes an ARG_TEXT or ARG_SHAPES. */
static inline uint32_t put_arg_bytes(uint8_t *to, int type, const char *key, size_t key_len,
                                     const void *bytes, uint32_t len)
{
    uint32_t n = put_arg_key(to, type, key, key_len);
    memcpy(to + n, &len, sizeof len);
    memcpy(to + n + sizeof len, bytes, len);
    return n + (uint32_t)sizeof len + len;
}
