/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the properties of an operator's name by the address of its text. torch keeps the text at
 * one address while the operator is registered. Each lookup compares the text all the same, because
 * another name may be there later. Application threads, in torch's start callbacks; no lock, no
 * allocation. */
#pragma once

#include <string.h>

#include "writer/writer.h"

/* The 8 bytes at `text`, unaligned. */
static inline uint64_t torch_name_word(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

/* Whether the text of the cached name is still at `text`. The end is compared last, so that at most
 * 7 bytes beyond a shorter text are read. */
static inline bool torch_name_stands(const struct known_name *known, const char *text)
{
    uint32_t end = known->len + 1u - 8u; /* of the last word, which holds the terminator */
    for (uint32_t i = 0; i < end; i += 8)
        if (torch_name_word(text + i) != torch_name_word(known->text + i))
            return false;
    return torch_name_word(text + end) == torch_name_word(known->text + end);
}

/* The first of the two cache entries for a name at `text`. The other one is its neighbour, at index
 * ^ 1. */
static inline struct known_name *torch_name_place(struct thread_log *log, const char *text)
{
    uint64_t mixed = (uint64_t)(uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15);
    return &log->known[mixed >> (64 - KNOWN_BITS)];
}

/* torch_name() for a name that the cache does not have, or has without a number. Fills in a cache
 * entry, or *room if the text cannot be cached. */
const struct known_name *torch_name_look(struct thread_log *log, const char *text,
                                         struct known_name *room);

/* Returns the properties of the operator's name at `text`, which is terminated. Valid until the
 * next call on this thread. *room: memory for a name that cannot be cached. */
static inline const struct known_name *torch_name(struct thread_log *log, const char *text,
                                                  struct known_name *room)
{
    const struct known_name *known = torch_name_place(log, text);
    if (__builtin_expect(known->at != text, 0))
        known = &log->known[(known - log->known) ^ 1];
    if (__builtin_expect(known->at == text && (known->name & NAME_NUMBERED) &&
                             torch_name_stands(known, text),
                         1))
        return known;
    return torch_name_look(log, text, room);
}
