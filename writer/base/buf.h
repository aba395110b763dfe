/* SPDX-License-Identifier: Apache-2.0 */
/* Growing byte buffer with a sticky error: writes after a failed allocation do nothing and `failed`
 * says so, so that a serialiser needs one check at its end. Used by the cprof thread only. */
#ifndef WRITER_BASE_BUF_H
#define WRITER_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct buf {
    char *data;   /* owned; NULL while empty */
    size_t len;   /* bytes used */
    size_t cap;   /* bytes allocated */
    bool failed;  /* an allocation failed or `limit` was reached since buf_reset() */
    size_t limit; /* most bytes this may hold; 0 = no limit */
};

/* buf_room() where there is none yet, or where the buffer has failed. */
char *buf_grow(struct buf *b, size_t more);

/* Makes room for `more` bytes and returns where they go (the caller then adds to len); NULL and
 * failed on no memory. */
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

/* Appends formatted text (for rare things: heads, trailers). */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Empties the buffer, keeps its memory, forgets the error. */
void buf_reset(struct buf *b);

/* Gives the memory back. Takes a zeroed or half-built buffer too. */
void buf_free(struct buf *b);

/* Gives back the room that is not used. */
void buf_trim(struct buf *b);

#endif
