/* SPDX-License-Identifier: Apache-2.0 */
/* See cupti/dump.h. */
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

/* The text that a record points to, or NULL. */
static const char *text_of(const void *record)
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

static void write_texts(FILE *f)
{
    const char *before = NULL; /* neighbours often share theirs */
    for (uint32_t i = 0; i < n; i++) {
        const char *text = text_of(buffer->data + offsets[i]);
        uint32_t len = text && text != before ? (uint32_t)strlen(text) : 0;
        if (!len)
            continue;
        uint64_t address = (uint64_t)(uintptr_t)text;
        fwrite(&address, sizeof address, 1, f);
        fwrite(&len, sizeof len, 1, f);
        fwrite(text, 1, len, f);
        before = text;
    }
}

struct dump_file {
    char path[PATH_MAX];
    uint32_t version, flags;
};

static int write_file(void *arg)
{
    const struct dump_file *file = arg;
    int fd = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (f) {
        const uint32_t head[] = {FORMAT, file->version, file->flags};
        uint64_t at = (uint64_t)(uintptr_t)buffer->data, valid = buffer->valid;
        fwrite("CPROFGPU", 1, 8, f);
        fwrite(head, sizeof head, 1, f);
        fwrite(&at, sizeof at, 1, f);
        fwrite(&valid, sizeof valid, 1, f);
        fwrite(&n, sizeof n, 1, f);
        fwrite(buffer->data, 1, valid, f);
        fwrite(offsets, sizeof *offsets, n, f);
        write_texts(f);
    } else if (fd >= 0) {
        close(fd);
    }
    int error = !f || ferror(f) ? errno : 0;
    if ((f && fclose(f) != 0) || error)
        error = error ? error : errno;
    return error;
}

void dump_end(const char *folder, uint32_t version, uint32_t flags)
{
    static bool said;
    struct dump_file file = {.version = version, .flags = flags};
    snprintf(file.path, sizeof file.path, "%s/cupti-%u-%u.bin", folder, version, files++);
    int error = aside_run(write_file, &file);
    if (error && !said) {
        said = true;
        log_warn("%s: cannot write the buffer: %s", file.path, strerror(error));
    }
}
