/* SPDX-License-Identifier: Apache-2.0 */
/* Gzip members by igzip of ISA-L: as small as zlib's level 1 in a fraction of the time. The library
 * may be missing, so it is opened at run time, RTLD_LOCAL. A trial checks that its structures match
 * the header. */
#include "writer/file/sink_file.h"

#ifdef CPROF_IGZIP

#include <dlfcn.h>
#include <errno.h>
#include <isa-l.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "writer/writer.h"

#define LEVEL 1
/* Input bytes per step: igzip reads them twice, the second time from the core's cache. */
#define IN_STEP (512u << 10)
/* The library keeps state at the end of the stream. Another version with the same soname may need
 * more. */
#define STREAM_SIZE (4 * sizeof(struct isal_zstream))

_Static_assert(ISAL_MAJOR_VERSION == 2, "libisal.so.2");

struct igzip {
    struct isal_zstream *stream;
    uint8_t *level_buf;
};

/* isal_deflate_init() and isal_deflate(). Written by sink_use_igzip() before the cprof thread
 * starts, then by the cprof thread. */
static void (*begin)(struct isal_zstream *);
static int (*compress_some)(struct isal_zstream *);

static bool is_whole(const struct buf *packed, const char *bytes, size_t n)
{
    char back[256];
    z_stream z = {.next_in = (z_const Bytef *)(uintptr_t)packed->data,
                  .avail_in = (uInt)packed->len,
                  .next_out = (Bytef *)back,
                  .avail_out = sizeof back};
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return false;
    bool whole = inflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out == n && z.avail_in == 0 &&
                 memcmp(back, bytes, n) == 0;
    inflateEnd(&z);
    return whole;
}

/* Trial: zlib must unpack two consecutive members to their input. */
static bool passes_trial(void)
{
    static const char text[] = "{\"ph\": \"X\", \"name\": \"a\"}, {\"ph\": \"X\", \"name\": \"b\"}";
    struct igzip *g = igzip_new();
    bool good = g != NULL;
    for (int i = 0; i < 2 && good; i++) {
        struct buf packed = {0};
        good = igzip_member(g, &packed, text, sizeof text) == 0 &&
               is_whole(&packed, text, sizeof text);
        buf_free(&packed);
    }
    igzip_free(g);
    return good;
}

void sink_use_igzip(void)
{
    void *library = begin ? NULL : dlopen("libisal.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    *(void **)&begin = loader_symbol(library, "isal_deflate_init");
    *(void **)&compress_some = loader_symbol(library, "isal_deflate");
    if (!compress_some)
        begin = NULL;
}

/* The trial is not done where the library is opened: it needs more stack than the waking thread may
 * have. */
struct igzip *igzip_new(void)
{
    static bool tried;
    if (begin && !tried) {
        tried = true; /* first, because passes_trial() calls this */
        if (!passes_trial())
            begin = NULL;
    }
    struct igzip *g = begin ? calloc(1, sizeof *g) : NULL;
    if (!g)
        return NULL;
    g->stream = calloc(1, STREAM_SIZE);
    g->level_buf = malloc(ISAL_DEF_LVL1_DEFAULT);
    if (!g->stream || !g->level_buf) {
        igzip_free(g);
        return NULL;
    }
    return g;
}

void igzip_free(struct igzip *g)
{
    if (!g)
        return;
    free(g->stream);
    free(g->level_buf);
    free(g);
}

/* As zlib's at level 1 (no flags, no time, fastest, Unix), because readers of damaged files search
 * for it. */
static const unsigned char header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 3};

int igzip_member(struct igzip *g, struct buf *out, const char *bytes, size_t n)
{
    struct isal_zstream *s = g->stream;
    buf_put(out, header, sizeof header);
    begin(s);
    s->level = LEVEL;
    s->level_buf = g->level_buf;
    s->level_buf_size = ISAL_DEF_LVL1_DEFAULT;
    s->gzip_flag = IGZIP_GZIP_NO_HDR;
    s->next_in = (uint8_t *)(uintptr_t)bytes;
    s->avail_in = 0;
    do {
        if (s->avail_in == 0) {
            s->avail_in = (uint32_t)(n < IN_STEP ? n : IN_STEP);
            n -= s->avail_in;
        }
        s->end_of_stream = n == 0;
        char *to = buf_room(out, GZIP_OUT_STEP);
        if (!to)
            return ENOMEM;
        s->next_out = (uint8_t *)to;
        s->avail_out = GZIP_OUT_STEP;
        if (compress_some(s) != COMP_OK)
            return EINVAL;
        out->len += GZIP_OUT_STEP - s->avail_out;
    } while (n != 0 || s->avail_in != 0 || s->avail_out == 0);
    return 0;
}

#else

void sink_use_igzip(void)
{
}

struct igzip *igzip_new(void)
{
    return NULL;
}

void igzip_free(struct igzip *g)
{
    (void)g;
}

int igzip_member(struct igzip *g, struct buf *out, const char *bytes, size_t n)
{
    (void)g, (void)out, (void)bytes, (void)n;
    return -1;
}

#endif
