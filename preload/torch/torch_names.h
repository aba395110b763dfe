/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator's name says, found by where the name stands: torch keeps it in one place for as
 * long as the operator is registered. It is compared all the same each time, because another may
 * stand there later. Application threads, in torch's start callbacks; no lock, no allocation. */
#ifndef PRELOAD_TORCH_TORCH_NAMES_H
#define PRELOAD_TORCH_TORCH_NAMES_H

#include <string.h>

#include "writer/writer.h"

/* The word at `text`. */
static inline uint64_t torch_name_word(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

/* Whether the name known to have stood at `text` still does. Its end is looked at last, so that a
 * shorter one is read by less than a word past its own. */
static inline bool torch_name_stands(const struct known_name *known, const char *text)
{
    uint32_t end = known->len + 1u - 8u; /* of the last word, which holds the terminator */
    for (uint32_t i = 0; i < end; i += 8)
        if (torch_name_word(text + i) != torch_name_word(known->text + i))
            return false;
    return torch_name_word(text + end) == torch_name_word(known->text + end);
}

/* The two places where a name at `text` may be known: one, and its neighbour. */
static inline struct known_name *torch_name_place(struct thread_log *log, const char *text)
{
    uint64_t mixed = (uint64_t)(uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15);
    return &log->known[mixed >> (64 - KNOWN_BITS)];
}

/* Looks the name up, and keeps what is found where it may stand there again. *room is for what
 * cannot be kept. */
const struct known_name *torch_name_look(struct thread_log *log, const char *text,
                                         struct known_name *room);

/* What is known of the operator's name at `text`, terminated; valid until the next call on this
 * thread. *room: for what cannot be kept. */
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

#endif
