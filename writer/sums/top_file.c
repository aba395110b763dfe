/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the table as PATH.top beside the trace: a line that identifies the trace, then a line per
 * row. The name ends neither in .json nor .gz, which readers take for traces. Read by
 * scripts/python/cprof/tool/top_file.py. */
#include "writer/sums/top.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "writer/writer.h"

/* end of the trace whose checksum identifies it: no two traces have the same account */
#define TAIL_BYTES 4096u

/* Identifies the trace of a table. */
struct trace_known {
    const char *path;
    uint64_t size; /* bytes of the trace */
    uint32_t sum;  /* crc32 of its end */
};

static int know_trace(struct trace_known *k)
{
    unsigned char tail[TAIL_BYTES];
    struct stat st;
    int fd = open_foreign(k->path, O_NOFOLLOW, UINT64_MAX, &st);
    if (fd < 0)
        return errno;
    size_t n = st.st_size < (off_t)sizeof tail ? (size_t)st.st_size : sizeof tail;
    int error = io_pread(fd, tail, n, st.st_size - (off_t)n) == (ssize_t)n ? 0 : EIO;
    k->size = (uint64_t)st.st_size;
    k->sum = error ? 0 : (uint32_t)crc32(0, tail, (unsigned)n);
    io_close(fd);
    return error;
}

struct table_file {
    char path[PATH_MAX], made[PATH_MAX]; /* made: the temporary name */
    struct buf text;
};

/* Writes the file under its temporary name, then renames it. */
static int write_file(const struct table_file *t)
{
    const char *made = t->made;
    int fd = io_open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST && unlink(made) == 0) /* left by a killed process with this pid */
        fd = io_open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int error = io_write_all(fd, t->text.data, t->text.len);
    if (io_close(fd) != 0 && errno != EINTR && !error)
        error = errno;
    if (!error && rename(made, t->path) != 0)
        error = errno;
    if (error)
        unlink(made);
    return error;
}

void top_save(struct top *t, const char *trace_path, bool memory, const struct buf *flops)
{
    static struct table_file file;
    struct trace_known trace = {.path = trace_path};
    struct buf *text = &file.text;
    int a = snprintf(file.path, sizeof file.path, "%s" TOP_SUFFIX, trace_path);
    int b =
        snprintf(file.made, sizeof file.made, "%s" TOP_SUFFIX ".%d~", trace_path, (int)getpid());
    if (a > 0 && (size_t)a < sizeof file.path && b > 0 && (size_t)b < sizeof file.made &&
        know_trace(&trace) == 0) {
        buf_printf(text,
                   "{\"cprof_top\": 1, \"version\": \"" CPROF_VERSION
                   "\", \"trace_bytes\": %llu, \"trace_tail\": %u, ",
                   (unsigned long long)trace.size, trace.sum);
        if (!flops->failed)
            buf_put(text, flops->data, flops->len);
        buf_printf(text, "\"memory\": %s}\n", memory ? "true" : "false");
        if (top_finish(t, text)) {
            buf_puts(text, "{\"end\": true}\n");
            int error = text->failed ? ENOMEM : write_file(&file);
            if (error)
                log_debug("%s: %s; cprof top reads the trace", file.path, strerror(error));
        }
    }
    buf_free(text);
}
