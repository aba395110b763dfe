/* SPDX-License-Identifier: Apache-2.0 */
/* Growing byte buffer with a sticky error. cprof thread. */
#include "writer/base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_SIZE 4096u /* bytes of the first allocation; doubled afterwards */

/* Capacity for `need` bytes: doubled until it fits, at most the limit. 0: impossible. */
static size_t next_size(const struct buf *b, size_t need)
{
    if (b->limit != 0 && need > b->limit)
        return 0;
    size_t size = b->cap != 0 ? b->cap : FIRST_SIZE;
    while (size < need)
        size = size <= PTRDIFF_MAX / 2 ? size * 2 : PTRDIFF_MAX;
    return b->limit != 0 && size > b->limit ? b->limit : size;
}

char *buf_grow(struct buf *b, size_t more)
{
    if (b->failed)
        return NULL;
    size_t size = more <= (size_t)PTRDIFF_MAX - b->len ? next_size(b, b->len + more) : 0;
    char *data = size != 0 ? realloc(b->data, size) : NULL;
    if (!data) {
        b->failed = true;
        return NULL;
    }
    b->data = data;
    b->cap = size;
    return data + b->len;
}

void buf_puts(struct buf *b, const char *text)
{
    buf_put(b, text, strlen(text));
}

void buf_printf(struct buf *b, const char *format, ...)
{
    size_t room = 256;
    for (int attempt = 0; attempt < 2; attempt++) {
        char *to = buf_room(b, room);
        if (!to)
            return;
        va_list args;
        va_start(args, format);
        int n = vsnprintf(to, room, format, args);
        va_end(args);
        if (n < 0) {
            b->failed = true;
            return;
        }
        if ((size_t)n < room) {
            b->len += (size_t)n;
            return;
        }
        room = (size_t)n + 1;
    }
    b->failed = true; /* longer at the second try: an argument changed meanwhile */
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.limit = b->limit};
}

void buf_trim(struct buf *b)
{
    char *data = b->len != 0 && b->cap > b->len ? realloc(b->data, b->len) : NULL;
    if (data) {
        b->data = data;
        b->cap = b->len;
    }
}
