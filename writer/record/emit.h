/* SPDX-License-Identifier: Apache-2.0 */
/* Puts records into a thread's ring, for the files of writer/ that make their own. Called by the
 * log's owner. */
#pragma once

#include <string.h>

#include "writer/record/thread_log.h"

/* Reserves a record with this name (numbered.h), and fills in name and lengths. NULL, counted: no
 * room. Finish it with emit_end(). */
struct record *emit_begin(struct thread_log *log, uint32_t name, uint32_t data_len);

/* Closes the span with this id, if it is still open, at the earlier time `end` (ticks). See
 * spans_take_ended(). */
void span_close_at(struct thread_log *log, uint64_t id, uint64_t end);

/* When (ticks) the log's span with this id ended on another thread, if its owner has not taken that
 * end yet; 0: no such end. cprof thread. */
uint64_t span_told_end(const struct thread_log *log, uint64_t id);

/* When (ticks) the operator at index `at`, which ended on another thread at `end`, ends in its own
 * thread's row: at the latest when that thread began the span above it, because the operator's call
 * had returned by then. Its own thread; or the cprof thread, which must check the span's id
 * afterwards. */
uint64_t span_end_in_row(const struct thread_log *log, uint32_t at, uint64_t end);

/* Commits the filled record. */
void emit_end(struct thread_log *log);

/* The last `len` (1 to 7) bytes of a name as a word, without a read beyond them. */
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

/* Writes a text into thread_log.text from word `at` on. Atomic words, because the cprof thread may
 * be reading. */
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

/* Copies the span's text into its record in words, as it was written: wider loads would wait for
 * those stores. Fills the last word; the slot has room. */
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

/* As copy_words(), but writes no byte beyond the text, where the record may already have data. Its
 * own thread. */
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
