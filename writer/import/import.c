/* SPDX-License-Identifier: Apache-2.0 */
/* Merges foreign trace files, a slice per pass. A file is opened and checked when it is handed in,
 * so that the program may remove it at once. The program may close the descriptor and reuse its
 * number (T4), so each use checks which file it is. */
#include "writer/import/import.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer/base/base.h"
#include "writer/import/foreign.h"
#include "writer/import/split.h"
#include "writer/import/unpack.h"

#define WAITING_MOST 64u       /* files; each holds a descriptor */
#define SLICE_NS     4000000u  /* per pass: rings are drained every 10 ms */
#define LAST_NS      20000000u /* per pass at exit */
#define FD_LEAST     100       /* programs may rely on lower descriptor numbers */
#define SECOND       INT64_C(1000000000)
#define YEAR_2000    (INT64_C(946684800) * SECOND)

enum stage { LOOK, WAIT, MERGE };

struct import {
    struct import *next;
    char *path; /* absolute */
    int fd;
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
    uint64_t ticks;             /* when it was handed in */
    int64_t wall_ns, steady_ns; /* the same time by CLOCK_REALTIME and CLOCK_MONOTONIC */
    enum stage stage;
    bool has_base, has_times;
    int64_t base_ns;           /* baseTimeNanoseconds of the file */
    int64_t first_ns, last_ns; /* range of its events, on its own clock */
    uint64_t events;           /* in the file */
    uint64_t put, left_out;    /* events merged and not merged so far */
    struct window *to;         /* target, in stage MERGE */
};

/* Protected by the lock. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static struct import *added, **added_end = &added;
static unsigned waiting;

/* The cprof thread's own. */
static struct import *queue, **queue_end = &queue; /* oldest first; the first is being read */
static struct unpack *text;
static struct split splitter;
static struct foreign *foreign;

/* ---- handing in: any thread ---- */

static bool refuse_file(const char *path, const char *why)
{
    log_warn("%s: %s; it is not merged", path, why);
    return false;
}

static char *absolute_path(const char *path)
{
    char folder[PATH_MAX];
    if (*path == '/')
        return strdup(path);
    if (!getcwd(folder, sizeof folder))
        return NULL;
    size_t n = strlen(folder), len = strlen(path);
    char *joined = malloc(n + len + 2);
    if (!joined)
        return NULL;
    memcpy(joined, folder, n);
    joined[n] = '/';
    memcpy(joined + n + 1, path, len + 1);
    return joined;
}

static int open_trace(const char *path, struct stat *st, const char **why)
{
    int fd = open_foreign_in_program(path, 0, SPLIT_TEXT_MOST, st), error = errno;
    if (fd < 0) {
        *why = error == EINVAL  ? "it is not a regular file"
               : error == EFBIG ? SPLIT_TOO_LONG
                                : strerror(error);
        return -1;
    }
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FD_LEAST);
    if (moved < 0)
        return fd;
    close(fd);
    return moved;
}

static void free_import(struct import *i)
{
    struct stat st;
    /* the program may have closed the descriptor and reused its number */
    if (i->fd >= 0 && fstat(i->fd, &st) == 0 && st.st_dev == i->dev && st.st_ino == i->ino)
        close(i->fd);
    free(i->path);
    free(i);
}

static bool append(struct import *i)
{
    pthread_mutex_lock(&queue_lock);
    bool room = waiting < WAITING_MOST;
    if (room) {
        waiting++;
        i->ticks = clock_ticks();
        *added_end = i;
        added_end = &i->next;
    }
    pthread_mutex_unlock(&queue_lock);
    return room;
}

bool import_add(const char *path)
{
    struct stat st;
    const char *why;
    int fd = open_trace(path, &st, &why);
    if (fd < 0)
        return refuse_file(path, why);
    struct import *i = calloc(1, sizeof *i);
    char *whole = absolute_path(path);
    if (!i || !whole) {
        free(i);
        free(whole);
        close(fd);
        return refuse_file(path, "no memory");
    }
    *i = (struct import){.path = whole,
                         .fd = fd,
                         .dev = st.st_dev,
                         .ino = st.st_ino,
                         .size = st.st_size,
                         .changed = st.st_mtim,
                         .wall_ns = clock_wall_now(),
                         .steady_ns = (int64_t)clock_monotonic_ns()};
    if (append(i))
        return true;
    free_import(i);
    return refuse_file(path, "64 files are waiting, which is the limit");
}

/* ---- the queue ---- */

/* Moves files that were handed in to the queue. */
static void take_added(void)
{
    pthread_mutex_lock(&queue_lock);
    struct import *fresh = added;
    added = NULL;
    added_end = &added;
    pthread_mutex_unlock(&queue_lock);
    for (struct import *i = fresh; i; i = i->next) {
        *queue_end = i;
        queue_end = &i->next;
    }
}

static void remove_first(void)
{
    struct import *i = queue;
    queue = i->next;
    if (!queue)
        queue_end = &queue;
    pthread_mutex_lock(&queue_lock);
    waiting--;
    pthread_mutex_unlock(&queue_lock);
    free_import(i);
    split_reset(&splitter);
    if (text)
        unpack_reset(text);
    if (queue)
        return;
    split_free(&splitter);
    unpack_free(text);
    foreign_free(foreign);
    text = NULL;
    foreign = NULL;
}

static struct window *window_for(struct window *windows, const struct import *i)
{
    struct window *w = windows;
    while (w && (w->unwanted || w->held || w->end <= i->ticks))
        w = w->next;
    return w;
}

/* ---- reading ---- */

static bool fault_at(const struct import *i, uint64_t at, const char *why)
{
    log_warn("%s: byte %llu of its text: %s; it is not merged", i->path, (unsigned long long)at,
             why);
    return false;
}

/* True when the descriptor still leads to the unchanged file. */
static bool same_file(const struct import *i, const char **why)
{
    struct stat st;
    bool there = fstat(i->fd, &st) == 0 && st.st_dev == i->dev && st.st_ino == i->ino;
    *why = there ? "it was changed meanwhile" : "the program closed its descriptor";
    return there && st.st_size == i->size && st.st_mtim.tv_sec == i->changed.tv_sec &&
           st.st_mtim.tv_nsec == i->changed.tv_nsec;
}

static bool begin_reading(const struct import *i)
{
    if (!text)
        text = unpack_new();
    if (!foreign)
        foreign = foreign_new();
    if (!text || !foreign)
        return refuse_file(i->path, "no memory");
    unpack_reset(text);
    split_reset(&splitter);
    return true;
}

static void look_at_time(struct import *i)
{
    int64_t start, end;
    if (!foreign_time(foreign, &start, &end))
        return;
    if (!i->has_times || start < i->first_ns)
        i->first_ns = start;
    if (!i->has_times || end > i->last_ns)
        i->last_ns = end;
    i->has_times = true;
}

static bool look_at(struct import *i, enum split_got got)
{
    const char *why;
    uint64_t at;
    i->events += got == SPLIT_EVENT || got == SPLIT_LONG_EVENT;
    if (got != SPLIT_EVENT && got != SPLIT_MEMBER)
        return true;
    if (!foreign_parse(foreign, splitter.value.data, splitter.value.len, &why, &at))
        return fault_at(i, splitter.value_at + at, why);
    if (got == SPLIT_EVENT) {
        look_at_time(i);
    } else if (strcmp(splitter.key, "baseTimeNanoseconds") == 0) {
        i->has_base = foreign_integer(foreign, &i->base_ns);
        if (!i->has_base)
            return fault_at(i, splitter.value_at, "baseTimeNanoseconds is not an integer");
    }
    return true;
}

static bool merge(struct import *i, enum split_got got)
{
    const char *why;
    uint64_t at;
    if (got == SPLIT_MEMBER || got == SPLIT_LONG_MEMBER)
        return true;
    if (got == SPLIT_EVENT &&
        !foreign_parse(foreign, splitter.value.data, splitter.value.len, &why, &at))
        return false; /* cannot fail: stage LOOK has parsed it */
    if (got == SPLIT_EVENT && foreign_put(foreign, &i->to->body)) {
        i->put++;
        i->to->events++;
    } else {
        i->left_out++;
    }
    return true;
}

enum read { READ_MORE, READ_ALL, READ_FAILED };

static enum read end_text(struct import *i)
{
    bool cut;
    if (!split_end(&splitter, &cut)) {
        fault_at(i, splitter.fault_at, splitter.fault);
        return READ_FAILED;
    }
    if (cut) { /* the last event of an unterminated array */
        i->events += i->stage == LOOK;
        i->left_out += i->stage == MERGE;
    }
    return READ_ALL;
}

/* Reads the next piece of the file. READ_FAILED: logged here in stage LOOK, by the caller in stage
 * MERGE. */
static enum read read_piece(struct import *i)
{
    const char *piece, *why;
    bool looks = i->stage == LOOK;
    if (!same_file(i, &why)) {
        if (looks)
            refuse_file(i->path, why);
        return READ_FAILED;
    }
    long n = unpack_next(text, i->fd, &piece, &why);
    if (n < 0 && looks)
        fault_at(i, splitter.at, why);
    if (n < 0)
        return READ_FAILED;
    if (n == 0)
        return end_text(i);
    const char *end = piece + n;
    enum split_got got;
    while ((got = split_next(&splitter, &piece, end)) != SPLIT_MORE) {
        if (got == SPLIT_FAULT) {
            if (looks)
                fault_at(i, splitter.fault_at, splitter.fault);
            return READ_FAILED;
        }
        if (!(looks ? look_at(i, got) : merge(i, got)))
            return READ_FAILED;
    }
    return READ_MORE;
}

/* ---- stages ---- */

/* The shift from the file's times to wall-clock ns. Without a base, times that are epoch
 * microseconds stay. Times of this machine's monotonic clock are recognized when they are in this
 * run. Others are taken to end when the file was handed in. */
static int64_t wall_shift(const struct import *i, const struct writer_options *options)
{
    int64_t since_boot = i->wall_ns - i->steady_ns;
    if (i->has_base)
        return i->base_ns;
    if (!i->has_times || i->last_ns >= YEAR_2000)
        return 0;
    if (i->last_ns >= options->run_started_ns - since_boot &&
        i->last_ns <= i->steady_ns + 60 * SECOND)
        return since_boot;
    log_info(
        "%s: its times match no clock of this machine; they are taken to end when it was handed in",
        i->path);
    return i->wall_ns - i->last_ns;
}

static bool begin_merging(struct import *i, struct window *to, const struct window_shared *shared)
{
    int64_t shift;
    if (to->merged.files == FOREIGN_FILES)
        return refuse_file(i->path, "the trace has 255 merged files, which is the limit");
    if (__builtin_sub_overflow(wall_shift(i, shared->options), to->base_ns, &shift))
        return refuse_file(i->path, "its times are out of range");
    if (!begin_reading(i))
        return false;
    i->to = to;
    i->stage = MERGE;
    i->put = i->left_out = 0;
    foreign_begin(foreign, (unsigned)++to->merged.files, shift, !to->markless);
    return true;
}

/* Adds the file to the window's account. why: reason for an early end, or NULL. */
static void settle_account(struct import *i, const char *why)
{
    uint64_t rest = i->events > i->put + i->left_out ? i->events - i->put - i->left_out : 0;
    i->to->merged.events += i->put;
    i->to->merged.left_out += i->left_out + rest;
    i->to->lost.n[i->to->full ? LOSS_FILE_FULL : LOSS_FOREIGN] += rest;
    i->to->lost.n[LOSS_FOREIGN] += i->left_out;
    if (i->to->body.failed)
        return; /* the whole trace is lost, which is logged when it is written */
    if (why || i->left_out)
        log_warn("%s: %s: %llu of its %llu events are not merged", i->path,
                 why ? why : "too long, without a time, or invalid",
                 (unsigned long long)(rest + i->left_out), (unsigned long long)i->events);
}

/* Does one step of the first file. known: as in import_pass(). False: nothing to do now. */
static bool work_on_first(struct window *windows, uint64_t known,
                          const struct window_shared *shared)
{
    struct import *i = queue;
    if (i->stage == MERGE && i->to->unwanted)
        i->stage = WAIT;
    if (i->stage == WAIT && i->ticks >= known)
        return false;
    if (i->stage == WAIT) {
        struct window *w = window_for(windows, i);
        if (w && !begin_merging(i, w, shared))
            remove_first();
        return w != NULL;
    }
    if (i->stage == LOOK && !text && !begin_reading(i)) {
        remove_first();
        return true;
    }
    bool full = i->stage == MERGE && i->to->full;
    bool stops = full || (i->stage == MERGE && i->to->body.failed);
    enum read result = stops ? READ_FAILED : read_piece(i);
    if (result == READ_MORE)
        return true;
    if (i->stage == LOOK && result == READ_ALL) {
        i->stage = WAIT;
        observers_file(i->path);
        return true;
    }
    if (i->stage == MERGE)
        settle_account(i, result == READ_ALL ? NULL
                          : full             ? "the trace reached CPROF_MAX_TRACE_MB"
                                             : "it was changed or cannot be read any more");
    remove_first();
    return true;
}

void import_pass(struct window *windows, uint64_t known, const struct window_shared *shared,
                 bool stopping)
{
    take_added();
    uint64_t start = clock_monotonic_ns();
    while (queue && work_on_first(windows, known, shared) &&
           clock_monotonic_ns() - start < (stopping ? LAST_NS : SLICE_NS))
        ;
}

bool import_busy(void)
{
    return queue && queue->stage != WAIT;
}

bool import_holds(const struct window *windows, const struct window *w)
{
    for (const struct import *i = queue; i; i = i->next)
        if (window_for((struct window *)windows, i) == w)
            return true;
    return false;
}

void import_give_up(void)
{
    while (queue) {
        if (queue->stage == MERGE)
            settle_account(queue, "the program ends");
        else
            refuse_file(queue->path, "the program ends");
        remove_first();
    }
}

void import_drop(void)
{
    while (queue)
        remove_first();
}
