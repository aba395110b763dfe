/* SPDX-License-Identifier: Apache-2.0 */
/* A span that is open on another thread, copied out of that thread's stack while it goes on
 * working. cprof thread. */
#ifndef WRITER_RECORD_OPEN_COPY_H
#define WRITER_RECORD_OPEN_COPY_H

#include <stdbool.h>

#include "writer/record/thread_log.h"

#define OPEN_TEXT 1024u /* bytes of the name of a span that is open; a longer one is cut */

struct open_copy {
    uint64_t id, parent, start, forward_thread;
    /* ticks: its end came on another thread, and its own has not heard of it; 0 = no */
    uint64_t ended;
    int64_t sequence;
    uint32_t name; /* as in struct record */
    uint8_t category, flags;
    uint8_t extras; /* bits of those that it has */
    uint64_t extra[EXTRA_COUNT];
    _Alignas(8) char text[OPEN_TEXT];
};

/* Its name; valid as long as the copy. */
static inline struct text open_copy_name(const struct open_copy *copy)
{
    return name_text(copy->name, copy->text);
}

/* Copies entry `at` of the thread's stack. False when the owner has begun to change the entry or
 * has closed the span meanwhile. */
bool open_copy_take(const struct thread_log *log, uint32_t at, struct open_copy *copy);

#endif
