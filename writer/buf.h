/* SPDX-License-Identifier: Apache-2.0 */
/* Growing byte buffer with a sticky error: writes after a failed allocation do nothing and `failed` says so, so that a
 * serialiser needs one check at its end. Used by the cprof thread only. */
#ifndef WRITER_BUF_H
#define WRITER_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data;   /* owned; NULL while empty */
    size_t len;   /* bytes used */
    size_t cap;   /* bytes allocated */
    bool failed;  /* an allocation failed or `limit` was reached since buf_reset() */
    size_t limit; /* most bytes this may hold; 0 = no limit */
};

/* Makes room for `more` bytes and returns where they go (the caller then adds to len); NULL and failed on no memory. */
char *buf_room(struct buf *b, size_t more);

/* Appends n bytes. */
void buf_put(struct buf *b, const void *bytes, size_t n);

/* Appends a NUL-terminated string. */
void buf_puts(struct buf *b, const char *text);

/* Appends formatted text (for rare things: heads, trailers). */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Empties the buffer, keeps its memory, forgets the error. */
void buf_reset(struct buf *b);

/* Gives the memory back. Takes a zeroed or half-built buffer too. */
void buf_free(struct buf *b);

#endif
