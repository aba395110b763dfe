/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of another thread's open span, taken while that thread continues. cprof thread. */
#pragma once

#include <stdbool.h>

#include "writer/record/thread_log.h"

#define OPEN_TEXT 1024u /* bytes of an open span's name; a longer name is cut */
#define OPEN_DATA 4096u /* bytes of its data, such as inputs; longer data is left out */

struct open_copy {
    uint64_t id, parent, start, forward_thread;
    /* ticks: it ended on another thread, and its owner has not taken that end yet; 0: it has not */
    uint64_t ended;
    int64_t sequence;
    uint32_t name; /* as in struct record */
    uint8_t category, flags, data_kind;
    uint16_t data_len; /* bytes of `data` */
    /* bits 1 << enum record_extra of the valid values in `extra`, and EXTRAS_INHERITED */
    uint8_t extras;
    uint64_t extra[EXTRA_COUNT];
    _Alignas(8) char text[OPEN_TEXT];
    uint8_t data[OPEN_DATA];
};

/* The span's name; valid as long as the copy. */
static inline struct text open_copy_name(const struct open_copy *copy)
{
    return name_text(copy->name, copy->text);
}

/* Copies the span at index `at` of the thread's stack. False: the owner is changing the entry, or
 * has closed the span. */
bool open_copy_take(const struct thread_log *log, uint32_t at, struct open_copy *copy);

/* Copies n bytes of data that their owner may be changing; what was copied counts only if the id is
 * the same afterwards. */
void open_copy_data(struct open_copy *copy, enum record_data kind, const uint8_t *data, uint32_t n);
