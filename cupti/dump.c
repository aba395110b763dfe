/* SPDX-License-Identifier: Apache-2.0 */
/* CPROF_GPU_DUMP: writes CUPTI's raw buffers to a file. */
#include "cupti/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cupti/records.h"
#include "writer/writer.h"

#define FORMAT 1u

static const struct buffer *buffer;
static uint32_t *offsets;
static uint32_t n, room;
static unsigned files;

void dump_begin(const struct buffer *b)
{
    buffer = b;
    n = 0;
}

void dump_record(const void *record)
{
    if (n == room) {
        uint32_t more = room ? room * 2 : 4096;
        uint32_t *grown = realloc(offsets, more * sizeof *offsets);
        if (!grown)
            return;
        offsets = grown;
        room = more;
    }
    offsets[n++] = (uint32_t)((const uint8_t *)record - buffer->data);
}

static const char *text_of_record(const void *record)
{
    switch (*(const uint32_t *)record) {
    case CUPTI_KIND_CONCURRENT_KERNEL:
        return ((const struct cupti_kernel *)record)->name;
    case CUPTI_KIND_MEMORY2:
        return ((const struct cupti_memory *)record)->name;
    case CUPTI_KIND_DEVICE:
        return ((const struct cupti_device *)record)->name;
    default:
        return NULL;
    }
}

static void put_texts(struct buf *b)
{
    const char *before = NULL; /* neighbouring records often share a text */
    for (uint32_t i = 0; i < n; i++) {
        const char *text = text_of_record(buffer->data + offsets[i]);
        uint32_t len = text && text != before ? (uint32_t)strlen(text) : 0;
        if (!len)
            continue;
        uint64_t address = (uint64_t)(uintptr_t)text;
        buf_put(b, &address, sizeof address);
        buf_put(b, &len, sizeof len);
        buf_put(b, text, len);
        before = text;
    }
}

static void put_all(struct buf *b, uint32_t version, uint32_t flags)
{
    const uint32_t head[] = {FORMAT, version, flags};
    uint64_t at = (uint64_t)(uintptr_t)buffer->data, valid = buffer->valid;
    buf_put(b, "CPROFGPU", 8);
    buf_put(b, head, sizeof head);
    buf_put(b, &at, sizeof at);
    buf_put(b, &valid, sizeof valid);
    buf_put(b, &n, sizeof n);
    buf_put(b, buffer->data, valid);
    buf_put(b, offsets, n * sizeof *offsets);
    put_texts(b);
}

/* Returns 0 or an errno value. */
static int write_file(const char *path, const struct buf *b)
{
    int fd = io_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return errno;
    int error = io_write_all(fd, b->data, b->len);
    if (io_close(fd) != 0 && !error)
        error = errno;
    return error;
}

void dump_end(const char *folder, uint32_t version, uint32_t flags)
{
    char path[PATH_MAX];
    struct buf b = {0};
    snprintf(path, sizeof path, "%s/cupti-%u-%u.bin", folder, version, files++);
    put_all(&b, version, flags);
    int error = b.failed ? ENOMEM : write_file(path, &b);
    buf_free(&b);
    if (error && once_here())
        log_warn("%s: cannot write this buffer of CUPTI: %s", path, strerror(error));
}
