/* SPDX-License-Identifier: Apache-2.0 */
/* Reads gzip or plain text in pieces. */
#include "writer/import/unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define PIECE     (128u << 10)
#define GZIP_ONLY (15 + 16) /* zlib's largest window, gzip format */

struct unpack {
    z_stream z;
    off_t at; /* offset in the file after `raw` */
    bool looked, gzip, begun, in_member, file_ended;
    unsigned char raw[PIECE];
    char text[PIECE];
};

struct unpack *unpack_new(void)
{
    return calloc(1, sizeof(struct unpack));
}

void unpack_reset(struct unpack *u)
{
    if (u->begun)
        inflateEnd(&u->z);
    memset(u, 0, offsetof(struct unpack, raw));
}

void unpack_free(struct unpack *u)
{
    if (u)
        unpack_reset(u);
    free(u);
}

static long fill(struct unpack *u, int fd, const char **why)
{
    ssize_t n;
    do
        n = pread(fd, u->raw, PIECE, u->at);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        *why = strerror(errno);
        return -1;
    }
    u->at += n;
    u->file_ended = n == 0;
    if (!u->looked) {
        u->looked = true;
        u->gzip = n >= 2 && u->raw[0] == 0x1f && u->raw[1] == 0x8b;
    }
    return n;
}

/* Begins the next member. Skips zeros, which some packers append to the last one. False: no
 * memory. */
static bool begin_member(struct unpack *u)
{
    while (u->begun && u->z.avail_in && *u->z.next_in == 0) {
        u->z.next_in++;
        u->z.avail_in--;
    }
    if (u->z.avail_in == 0)
        return true;
    if ((u->begun ? inflateReset(&u->z) : inflateInit2(&u->z, GZIP_ONLY)) != Z_OK)
        return false;
    u->begun = u->in_member = true;
    return true;
}

static long inflate_some(struct unpack *u, int fd, const char **why)
{
    u->z.next_out = (unsigned char *)u->text;
    u->z.avail_out = PIECE;
    while (u->z.avail_out == PIECE) {
        if (u->z.avail_in == 0 && !u->file_ended) {
            long n = fill(u, fd, why);
            if (n < 0)
                return -1;
            u->z.next_in = u->raw;
            u->z.avail_in = (unsigned)n;
        }
        if (u->file_ended && u->z.avail_in == 0 && !u->in_member)
            return 0;
        *why = "no memory to unpack it";
        if (!u->in_member && !begin_member(u))
            return -1;
        if (!u->in_member)
            continue;
        int result = inflate(&u->z, Z_NO_FLUSH);
        if (result == Z_STREAM_END)
            u->in_member = false;
        *why = "its gzip data is damaged";
        if (result == Z_BUF_ERROR && u->file_ended) {
            *why = "its gzip data ends too early";
            return -1;
        }
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            return -1;
    }
    return (long)(PIECE - u->z.avail_out);
}

long unpack_next(struct unpack *u, int fd, const char **text, const char **why)
{
    if (!u->looked) {
        long n = fill(u, fd, why);
        if (n <= 0)
            return n;
        u->z.next_in = u->raw;
        u->z.avail_in = (unsigned)n;
    }
    *text = u->text;
    if (u->gzip)
        return inflate_some(u, fd, why);
    if (u->z.avail_in == 0)
        u->z.avail_in = (unsigned)fill(u, fd, why);
    long n = (int)u->z.avail_in;
    u->z.avail_in = 0;
    *text = (const char *)u->raw;
    return n;
}
