/* SPDX-License-Identifier: Apache-2.0 */
/* A hash of bytes for tables in memory. Never written to a file, so it may change. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* All 64 bits are mixed. Pure. */
static inline uint64_t hash_text(const char *text, size_t len)
{
    uint64_t h = len * UINT64_C(0x9e3779b97f4a7c15), word;
    for (; len >= sizeof word; text += sizeof word, len -= sizeof word) {
        memcpy(&word, text, sizeof word);
        h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
        h ^= h >> 29;
    }
    word = 0;
    memcpy(&word, text, len);
    h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
    return h ^ h >> 32;
}
