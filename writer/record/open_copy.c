/* SPDX-License-Identifier: Apache-2.0 */
/* Copies another thread's open span. */
#include "writer/record/open_copy.h"

#include <string.h>

#include "writer/record/emit.h"

/* Copies a name's text that is stored with the span. */
static void copy_text(const struct thread_log *log, uint32_t at, uint32_t len,
                      struct open_copy *copy)
{
    if (at >= SPAN_TEXT / 8 || len > SPAN_TEXT - at * 8)
        len = 0;
    copy->name = len < OPEN_TEXT ? len : OPEN_TEXT;
    for (uint32_t i = 0; i < copy->name; i += 8) {
        uint64_t word = atomic_load_explicit(&log->text[at + i / 8], memory_order_relaxed);
        memcpy(copy->text + i, &word, sizeof word);
    }
}

/* Not memcpy(), which ThreadSanitizer would take for a race. */
__attribute__((no_sanitize("thread"))) void
open_copy_data(struct open_copy *copy, enum record_data kind, const uint8_t *data, uint32_t n)
{
    copy->data_len = n <= OPEN_DATA ? (uint16_t)n : 0;
    copy->data_kind = copy->data_len ? (uint8_t)kind : DATA_NONE;
    for (uint32_t i = 0; i < copy->data_len; i++)
        copy->data[i] = ((const volatile uint8_t *)data)[i];
}

__attribute__((no_sanitize("thread"))) static void
copy_data(const struct thread_log *log, const struct open_span *span, struct open_copy *copy)
{
    uint32_t n = *(const volatile uint16_t *)&span->data_len;
    atomic_thread_fence(memory_order_acquire); /* the bytes were there before they counted */
    uint32_t at = *(const volatile uint16_t *)&span->data_at;
    open_copy_data(copy, span->data_kind, log->data + at, at + n <= SPAN_DATA ? n : 0);
}

bool open_copy_take(const struct thread_log *log, uint32_t at, struct open_copy *copy)
{
    const struct open_span *span = &log->spans[at];
    copy->id = atomic_load_explicit(&span->id, memory_order_acquire);
    copy->parent = atomic_load_explicit(&span->parent, memory_order_relaxed);
    copy->start = atomic_load_explicit(&span->start, memory_order_relaxed);
    copy->sequence = atomic_load_explicit(&span->sequence, memory_order_relaxed);
    copy->forward_thread = atomic_load_explicit(&span->forward_thread, memory_order_relaxed);
    copy->category = atomic_load_explicit(&span->category, memory_order_relaxed);
    copy->flags = atomic_load_explicit(&span->flags, memory_order_relaxed);
    copy->extras = atomic_load_explicit(&span->extras, memory_order_relaxed);
    for (unsigned i = 0; i < EXTRA_COUNT; i++)
        copy->extra[i] = atomic_load_explicit(&log->extras[at][i], memory_order_relaxed);
    copy->name = atomic_load_explicit(&span->name, memory_order_relaxed);
    if (!(copy->name & NAME_NUMBERED))
        copy_text(log, atomic_load_explicit(&span->text_at, memory_order_relaxed), copy->name,
                  copy);
    copy_data(log, span, copy);
    copy->ended = span_told_end(log, copy->id);
    if (copy->ended && copy->category == CAT_CPU_OP)
        copy->ended = span_end_in_row(log, at, copy->ended);
    atomic_thread_fence(memory_order_acquire);
    /* The order matters: a closed span keeps its id until the next span opens at its index, and
     * only then does the depth exceed the index again. */
    bool open = at < atomic_load_explicit(&log->depth, memory_order_acquire);
    return open && copy->id != 0 &&
           copy->id == atomic_load_explicit(&span->id, memory_order_relaxed);
}
