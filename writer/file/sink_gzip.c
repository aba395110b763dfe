/* SPDX-License-Identifier: Apache-2.0 */
/* Whole gzip members (RFC 1952). Readers take consecutive members as one stream, so a file that
 * ends with a whole member is valid. zlib is linked statically. cprof thread. */
#include "writer/file/sink_file.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define STORED_MAX  65535u    /* most bytes of one stored deflate block */
#define GZIP_WINDOW (15 + 16) /* 32 KB of history; + 16: gzip format */

struct gzip {
    z_stream z;
    struct igzip *faster; /* NULL: zlib only */
};

struct gzip *gzip_new(int level)
{
    struct gzip *g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    level = level < 1 ? 1 : level > 9 ? 9 : level;
    if (deflateInit2(&g->z, level, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(g);
        return NULL;
    }
    g->faster = level == 1 ? igzip_new() : NULL;
    return g;
}

void gzip_free(struct gzip *g)
{
    if (g) {
        igzip_free(g->faster);
        deflateEnd(&g->z);
        free(g);
    }
}

int gzip_member(struct gzip *g, struct buf *out, const char *bytes, size_t n)
{
    z_stream *z = &g->z;
    size_t before = out->len;
    if (g->faster && igzip_member(g->faster, out, bytes, n) == 0)
        return 0;
    out->len = before;
    deflateReset(z);
    z->next_in = (z_const Bytef *)(uintptr_t)bytes;
    z->avail_in = 0;
    int rc;
    do {
        if (z->avail_in == 0) {
            z->avail_in = (uInt)(n < GZIP_IN_STEP ? n : GZIP_IN_STEP);
            n -= z->avail_in;
        }
        char *to = buf_room(out, GZIP_OUT_STEP);
        if (!to)
            return ENOMEM;
        z->next_out = (Bytef *)to;
        z->avail_out = GZIP_OUT_STEP;
        rc = deflate(z, n == 0 ? Z_FINISH : Z_NO_FLUSH);
        out->len += GZIP_OUT_STEP - z->avail_out;
    } while (rc == Z_OK || rc == Z_BUF_ERROR);
    return rc == Z_STREAM_END ? 0 : ENOMEM;
}

/* Appends the n low bytes of an integer, least significant first. */
static void put_le(struct buf *out, uint32_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char byte = (char)(value >> (8 * i));
        buf_put(out, &byte, 1);
    }
}

int gzip_stored(struct buf *out, const char *bytes, size_t n)
{
    /* magic, deflate, no flags, no time, no hint, Unix */
    static const unsigned char header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    buf_put(out, header, sizeof(header));
    uLong crc = crc32_z(0, (const Bytef *)bytes, n);
    size_t left = n;
    do {
        uint32_t size = (uint32_t)(left < STORED_MAX ? left : STORED_MAX);
        put_le(out, left == size, 1); /* last block, type 0 */
        put_le(out, size, 2);
        put_le(out, ~size, 2);
        buf_put(out, bytes, size);
        bytes += size;
        left -= size;
    } while (left != 0);
    put_le(out, (uint32_t)crc, 4);
    put_le(out, (uint32_t)n, 4);
    return out->failed ? ENOMEM : 0;
}
