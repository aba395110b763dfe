/* SPDX-License-Identifier: Apache-2.0 */
/* Putting a record into a thread's ring, for files of writer/ that make records of their own. The
 * owner of the log. */
#ifndef WRITER_RECORD_EMIT_H
#define WRITER_RECORD_EMIT_H

#include <string.h>

#include "writer/record/thread_log.h"

/* Room for a record of this name (numbered.h), name and lengths filled in; NULL and counted when
 * there is none. Finish with emit_end(). */
struct record *emit_begin(struct thread_log *log, uint32_t name, uint32_t data_len);

/* Closes the span with this id at `end`, an earlier moment, if it is still open; see
 * spans_take_ended(). */
void span_close_at(struct thread_log *log, uint64_t id, uint64_t end);

/* Ticks at which the end of the log's span with this id came on another thread, which its owner has
 * not heard of yet; 0 = it has not ended. cprof thread. */
uint64_t span_told_end(const struct thread_log *log, uint64_t id);

/* When the operator at `at`, which ended elsewhere at `end`, ends in its thread's row: the thread
 * began the span that is open above it when the call was over. Its own thread; the cprof thread,
 * which checks the span's id afterwards. */
uint64_t span_end_in_row(const struct thread_log *log, uint32_t at, uint64_t end);

/* Hands the filled record over. */
void emit_end(struct thread_log *log);

/* The last `len` (1 to 7) bytes of a name as a word, without reading past them. */
static inline uint64_t last_word(const char *text, uint32_t len)
{
    uint32_t low = 0, high = 0;
    if (len >= 4) {
        memcpy(&low, text, 4);
        memcpy(&high, text + len - 4, 4);
        return low | (uint64_t)high << (8 * (len - 4));
    }
    low = (uint8_t)text[0] | (uint32_t)(uint8_t)text[len / 2] << (8 * (len / 2));
    return low | (uint32_t)(uint8_t)text[len - 1] << (8 * (len - 1));
}

/* Puts a text at this word of the stack of texts, word by word and atomically, because the cprof
 * thread may be reading. */
static inline void push_text(struct thread_log *log, uint32_t at, const char *text, uint32_t len)
{
    _Atomic uint64_t *to = &log->text[at];
    for (; len >= sizeof *to; len -= (uint32_t)sizeof *to, text += sizeof *to) {
        uint64_t word;
        memcpy(&word, text, sizeof word);
        atomic_store_explicit(to++, word, memory_order_relaxed);
    }
    if (len)
        atomic_store_explicit(to, last_word(text, len), memory_order_relaxed);
}

/* Copies the span's text to where its record wants it, in words as it was written: wider loads
 * would wait for those stores. Fills up to a whole word; the slot has room. */
static inline void copy_words(char *to, uint32_t len, const struct thread_log *log,
                              const struct open_span *span)
{
    const _Atomic uint64_t *from =
        &log->text[atomic_load_explicit(&span->text_at, memory_order_relaxed)];
    for (uint32_t done = 0; done < len; done += 8) {
        uint64_t word = atomic_load_explicit(from++, memory_order_relaxed);
        memcpy(to + done, &word, sizeof word);
    }
}

/* Copies the text of the span's name behind the header of a record whose data may stand there
 * already. Its own thread. */
static inline void span_copy_text(char *to, uint32_t len, const struct thread_log *log,
                                  const struct open_span *span)
{
    const _Atomic uint64_t *from =
        &log->text[atomic_load_explicit(&span->text_at, memory_order_relaxed)];
    for (uint32_t done = 0; done < len; done += 8) {
        uint64_t word = atomic_load_explicit(from++, memory_order_relaxed);
        memcpy(to + done, &word, len - done < 8 ? len - done : 8);
    }
}

static inline bool span_is_cuda_call(const struct open_span *span)
{
    uint8_t category = atomic_load_explicit(&span->category, memory_order_relaxed);
    return category == CAT_CUDA_RUNTIME || category == CAT_CUDA_DRIVER;
}

#endif
