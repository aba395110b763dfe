/* SPDX-License-Identifier: Apache-2.0 */
/* The table as a file beside the trace, PATH.top: a line that says of which trace, then a line for each row. Its name ends neither in
 * .json nor in .gz: readers take such for traces. Read by scripts/python/cprof/tool/top_file.py. */
#include "writer/top.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "writer/writer.h"

#define TAIL_BYTES                                                                                 \
    4096u /* of the trace, by whose checksum the table knows it again: its account is never the same */

/* Size of the trace, and the checksum of its end. */
static bool know_trace(const char *path, uint64_t *size, uint32_t *sum)
{
    unsigned char tail[TAIL_BYTES];
    struct stat st;
    bool good = false;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        size_t n = st.st_size < (off_t)sizeof tail ? (size_t)st.st_size : sizeof tail;
        good = pread(fd, tail, n, st.st_size - (off_t)n) == (ssize_t)n;
        *size = (uint64_t)st.st_size;
        *sum = good ? (uint32_t)crc32(0, tail, (unsigned)n) : 0;
    }
    close(fd);
    return good;
}

/* Writes the file under a name of its own, then gives it the right one. 0 or an errno value. */
static int write_file(const char *path, const char *made, const struct buf *text)
{
    int fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST &&
        unlink(made) == 0) /* of a process of this number that was killed */
        fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    size_t done = 0;
    int error = 0;
    while (done < text->len && !error) {
        ssize_t n = write(fd, text->data + done, text->len - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            error = n < 0 ? errno : EIO;
    }
    if (close(fd) != 0 && errno != EINTR && !error)
        error = errno;
    if (!error && rename(made, path) != 0)
        error = errno;
    if (error)
        unlink(made);
    return error;
}

void top_save(struct top *t, const char *trace_path, bool memory)
{
    char path[PATH_MAX], made[PATH_MAX];
    struct buf text = {0};
    uint64_t size;
    uint32_t sum;
    int a = snprintf(path, sizeof path, "%s" TOP_SUFFIX, trace_path);
    int b = snprintf(made, sizeof made, "%s" TOP_SUFFIX ".%d~", trace_path, (int)getpid());
    if (a > 0 && (size_t)a < sizeof path && b > 0 && (size_t)b < sizeof made &&
        know_trace(trace_path, &size, &sum)) {
        buf_printf(&text,
                   "{\"cprof_top\": 1, \"version\": \"" CPROF_VERSION
                   "\", \"trace_bytes\": %llu, \"trace_tail\": %u, \"memory\": %s}\n",
                   (unsigned long long)size, sum, memory ? "true" : "false");
        if (top_finish(t, &text)) {
            buf_puts(&text, "{\"end\": true}\n");
            int error = text.failed ? ENOMEM : write_file(path, made, &text);
            if (error)
                log_debug("%s: %s; cprof top reads the trace", path, strerror(error));
        }
    }
    buf_free(&text);
}
