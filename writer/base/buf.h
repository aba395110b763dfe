/* SPDX-License-Identifier: Apache-2.0 */
/* Growing byte buffer with a sticky error. After a failed allocation, writes do nothing and
 * `failed` is set, so a writer needs one check at its end. cprof thread only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct buf {
    char *data;   /* owned; NULL while empty */
    size_t len;   /* bytes used */
    size_t cap;   /* bytes allocated */
    bool failed;  /* an allocation failed or `limit` was reached since buf_reset() */
    size_t limit; /* most bytes; 0: no limit */
};

/* The slow path of buf_room(). */
char *buf_grow(struct buf *b, size_t more);

/* Makes room for `more` bytes and returns its start; the caller adds to len. NULL and `failed`: no
 * memory. */
static inline char *buf_room(struct buf *b, size_t more)
{
    bool there = !b->failed && b->data && more <= b->cap - b->len;
    return __builtin_expect(there, 1) ? b->data + b->len : buf_grow(b, more);
}

/* Appends n bytes. */
static inline void buf_put(struct buf *b, const void *bytes, size_t n)
{
    char *to = n != 0 ? buf_room(b, n) : NULL;
    if (to) {
        memcpy(to, bytes, n);
        b->len += n;
    }
}

/* Appends a NUL-terminated string. */
void buf_puts(struct buf *b, const char *text);

/* Appends formatted text. Slow: for heads and trailers. */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Empties the buffer, keeps its memory, forgets the error. */
void buf_reset(struct buf *b);

/* Frees the memory. Zeroed or half-built buffers are allowed. */
void buf_free(struct buf *b);

/* Frees the unused room. */
void buf_trim(struct buf *b);
