/* SPDX-License-Identifier: Apache-2.0 */
/* A file sink in a folder of its own, on system calls that a test can make fail. Each test must run
 * in a process of its own. */
#pragma once

#include "tests/fuzz/json_valid.h"
#include "tests/support/gunzip.h"
#include "writer/file/sink_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_SIZE  300u
#define EVENT_SIZE 51u

static char folder[64];
static char part[128];
static char final[128];

static inline void setup(void)
{
    strcpy(folder, "/tmp/cprof-sink-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(part, sizeof(part), "%s/t.part", folder);
    snprintf(final, sizeof(final), "%s/t.json", folder);
}

static inline void teardown(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* ---- system calls that fail on demand ----------------------------------------------------- */

static struct {
    int at;         /* which write, truncation, close or rename fails: 1 is the next, 0 none */
    int times;      /* how many calls in a row fail */
    int error;      /* errno; 0: the write writes 0 bytes */
    size_t most;    /* limit of bytes per write; 0: none */
    bool interrupt; /* every other write fails with EINTR */
    bool odd;
    bool uncut; /* a truncation has failed */
    /* called after each change of the file, and after each page of a write */
    void (*after)(void);
} fault;

/* ---- a trace in three pieces -------------------------------------------------------------- */

static inline const char *head_of(int rank)
{
    static char head[HEAD_SIZE + 1];
    int n = snprintf(head, sizeof(head), "{\"rank\": %d, \"traceEvents\": [", rank);
    memset(head + n, ' ', HEAD_SIZE - (size_t)n);
    head[HEAD_SIZE - 1] = '\n';
    return head;
}

static struct buf body;

/* `n` events of EVENT_SIZE bytes. */
static inline void make_body(unsigned n)
{
    static unsigned event;
    buf_reset(&body);
    for (unsigned i = 0; i < n; i++)
        buf_printf(&body, "{\"ph\": \"X\", \"name\": \"event number %09u\"},    \n", event++);
}

static struct buf trailer;

/* A trailer of about n bytes. */
static inline void make_trailer(unsigned n)
{
    buf_reset(&trailer);
    buf_printf(&trailer, "{\"ph\": \"M\", \"lost\": \"");
    for (unsigned i = 0; i < n; i++)
        buf_put(&trailer, i % 61 ? "." : "0", 1);
    buf_puts(&trailer, "\"}]}\n");
}

/* Flushes the body and trailer of the last flush() again. */
static inline int flush_again(struct sink *s, int rank)
{
    return s->flush(s, rank >= 0 ? head_of(rank) : NULL, HEAD_SIZE, body.data, body.len,
                    trailer.data, trailer.len);
}

static inline int flush(struct sink *s, int rank, unsigned events, unsigned trailer_size)
{
    make_body(events);
    make_trailer(trailer_size);
    return flush_again(s, rank);
}

/* The bytes of the file. Valid until the next call. */
static inline struct buf *contents(const char *path)
{
    static struct buf b;
    buf_reset(&b);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ssize_t n;
    do {
        b.len += (size_t)(n = read(fd, buf_room(&b, 65536), 65536));
    } while (n > 0);
    ck_assert_int_eq((int)n, 0);
    close(fd);
    return &b;
}

static inline unsigned count_events(const struct buf *text)
{
    unsigned n = 0;
    const char *at = text->data;
    const char *end = at + text->len;
    while ((at = memmem(at, (size_t)(end - at), "event number", 12)) != NULL) {
        n++;
        at++;
    }
    return n;
}

/* Fails unless the file is a valid trace of this many events and ends with its trailer. */
static inline void check_file(const char *path, bool gzip, unsigned events, int rank)
{
    struct buf *file = contents(path);
    struct buf *text = gzip ? unpacked(file) : file;
    ck_assert_ptr_nonnull(text);
    ck_assert(json_valid(text->data, text->len));
    ck_assert_uint_eq(count_events(text), events);
    ck_assert(memcmp(text->data, head_of(rank), HEAD_SIZE) == 0);
    /* after a failed truncation, blanks follow the trailer */
    ck_assert(text->data[text->len - 1] == '\n' || fault.uncut);
}

/* ---- the system calls --------------------------------------------------------------------- */

static inline bool fails(void)
{
    if (fault.at > 0 && --fault.at == 0) {
        fault.at = fault.times > 1 ? 1 : 0;
        fault.times--;
        errno = fault.error;
        return true;
    }
    return false;
}

static inline ssize_t test_pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    if (fails())
        return fault.error == 0 ? 0 : -1;
    fault.odd = !fault.odd;
    if (fault.interrupt && fault.odd) {
        errno = EINTR;
        return -1;
    }
    ssize_t done = 0;
    for (int i = 0; i < n; i++) {
        for (size_t from = 0; from < parts[i].iov_len;) {
            size_t page = 4096 - ((size_t)at & 4095);
            size_t size = parts[i].iov_len - from;
            size = size > page ? page : size;
            if (fault.most != 0 && (size_t)done + size > fault.most)
                size = fault.most - (size_t)done;
            if (size == 0)
                return done;
            ck_assert_int_eq(pwrite(fd, (char *)parts[i].iov_base + from, size, at), (ssize_t)size);
            from += size;
            at += (off_t)size;
            done += (ssize_t)size;
            if (fault.after && (at & 4095) == 0)
                fault.after();
        }
    }
    if (fault.after)
        fault.after();
    return done;
}

static inline int test_ftruncate(int fd, off_t size)
{
    fault.uncut = fails();
    if (fault.uncut)
        return -1;
    int rc = ftruncate(fd, size);
    if (fault.after)
        fault.after();
    return rc;
}

static inline int test_close(int fd)
{
    int rc = close(fd);
    return fails() ? -1 : rc;
}

static int link_error;
static int rename_new_error;

static inline int test_link(const char *from, const char *to)
{
    errno = link_error;
    return link_error != 0 ? -1 : link(from, to);
}

static inline int test_rename_new(const char *from, const char *to)
{
    errno = rename_new_error;
    return rename_new_error != 0 ? -1 : sink_file_system.rename_new(from, to);
}

static inline int test_rename(const char *from, const char *to)
{
    bool failed = fails();
    int rc = failed ? -1 : rename(from, to);
    if (failed && errno == 0)
        errno = EIO;
    if (fault.after)
        fault.after();
    return rc;
}

static const struct file_ops test_ops = {test_pwritev, test_ftruncate,  test_close,
                                         test_link,    test_rename_new, test_rename};

static inline struct sink *make(bool gzip)
{
    struct sink *s = sink_file_with(&test_ops, part, gzip, 1);
    ck_assert_ptr_nonnull(s);
    return s;
}

/* ---- what a kill leaves ------------------------------------------------------------------- */

static struct {
    unsigned before, after; /* number of events before and after the flush */
    unsigned whole, behind, torn;
} kills;

/* Counts what a kill at this moment would leave: a whole trace, a trace followed by other bytes, or
 * a torn trace. */
static inline void judge(void)
{
    struct buf *file = contents(part);
    const uint8_t *begin = (const uint8_t *)file->data;
    const uint8_t *end = value_end(begin, begin + file->len);
    if (!end) {
        kills.torn++;
        return;
    }
    struct buf text = {.data = file->data, .len = (size_t)(end - begin)};
    unsigned events = count_events(&text);
    if (events != kills.before && events != kills.after) {
        kills.torn++; /* halves of two traces that form valid JSON by chance */
        return;
    }
    bool whole = skip_blank(end, begin + file->len) == begin + file->len;
    kills.whole += whole;
    kills.behind += !whole;
}
