/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a window: its flushes, its .part name, the older half that a held window drops, and
 * its final name. cprof thread. */
#include "writer/window/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer/file/file.h"
#include "writer/base/base.h"
#include "writer/window/report.h"
#include "writer/window/trace_text.h"
#include "writer/window/window_names.h"

/* level 3 saves a tenth of the bytes and costs a third of the speed (tried.md T25) */
#define GZIP_LEVEL   1
#define NAMES_TRIED  100000
#define SCRATCH_KEPT (64u << 10) /* larger heads and trailers are freed */

/* Scratch for the one file that is being flushed; many windows may be open. */
static struct buf head, trailer;

/* Writes PATH for n = 1, else PATH with "-n" before its ending. False: too long. */
static bool numbered(const char *path, int n, char out[PATH_MAX])
{
    const char *ending = path_ending(path);
    char number[16] = "";
    if (n > 1)
        snprintf(number, sizeof number, "-%d", n);
    int used = snprintf(out, PATH_MAX, "%.*s%s%s", (int)(ending - path), path, number, ending);
    return used > 0 && used < PATH_MAX;
}

/* A window with many stacks has a trailer of megabytes; others need little. */
static void release_scratch(void)
{
    if (head.cap > SCRATCH_KEPT)
        buf_free(&head);
    if (trailer.cap > SCRATCH_KEPT)
        buf_free(&trailer);
}

/* Begins the newer half of a held window's file; its rows are named again. */
static void begin_newer_half(struct window *w)
{
    w->half.bytes = w->sink->body_size;
    w->half.events = w->flushed;
    w->half.ticks = clock_ticks();
    w->half.step = w->last_step + 1;
    window_rename_rows(w);
    lanes_rename(w->gpu.lanes);
}

/* Whether the newer half of the flight recorder's file holds all steps, or all the time, that the
 * user wants. */
static bool half_suffices(const struct window *w, const struct flight_options *o)
{
    if (!w->flight)
        return false;
    uint64_t ns =
        (uint64_t)((double)(clock_ticks() - w->half.ticks) * 1e9 / clock_ticks_per_second());
    return (o->steps && w->last_step + 1 - w->half.step >= (int64_t)o->steps) ||
           (o->ns && ns >= o->ns);
}

/* Makes room in a held window's file by dropping its older half. Drops the table too, which counts
 * what is dropped. 0 or errno. */
static int drop_older_half(struct window *w, const struct window_shared *shared, uint64_t most)
{
    bool enough = half_suffices(w, &shared->options->flight) && w->sink->body_size;
    if (!w->held || (!enough && w->sink->bytes_written + w->body.len <= most))
        return 0;
    if (w->half.bytes == 0)
        begin_newer_half(w);
    if (w->half.bytes == w->sink->body_size && enough)
        return 0; /* the first half is complete */
    int64_t first_step = w->half.step;
    int error = w->sink->drop(w->sink, w->half.bytes);
    if (error)
        return error;
    if (w->flight) {
        w->dropped += w->half.events;
        w->first_step = first_step;
    } else {
        w->lost.n[LOSS_HOLD_FULL] += w->half.events;
    }
    w->events -= w->half.events;
    w->flushed -= w->half.events;
    summary_free(w->summary);
    w->summary = NULL;
    begin_newer_half(w);
    return 0;
}

static uint64_t held_limit(const struct window *w, const struct writer_options *o)
{
    /* the flight recorder's file also has a head and a tail */
    uint64_t most = w->flight ? o->flight.bytes - o->flight.bytes / 32 : o->held_bytes;
    return most < o->max_trace_bytes ? most : o->max_trace_bytes;
}

static int flush_as(struct window *w, const struct window_shared *shared, const char *name)
{
    uint64_t held_most = held_limit(w, shared->options);
    int error = drop_older_half(w, shared, held_most);
    if (error)
        return error;
    trace_head(w, shared, &head);
    trace_trailer(w, shared, name, &trailer);
    bool failed = w->body.failed || head.failed || trailer.failed || w->open.failed;
    pen_take();
    error = failed ? ENOMEM
                   : w->sink->flush(w->sink, head.data, head.len, w->body.data, w->body.len,
                                    trailer.data, trailer.len);
    pen_give(error == 0);
    release_scratch();
    if (error)
        return error;
    if (w->end != UINT64_MAX)
        buf_free(&w->body); /* a closed window may wait for a kernel; little more comes */
    else
        buf_reset(&w->body);
    w->flushed = w->events;
    if (w->held && w->half.bytes == 0 && w->sink->body_size >= held_most / 2)
        begin_newer_half(w);
    if (!w->held && w->sink->body_size >= shared->options->max_trace_bytes)
        w->full = true;
    return 0;
}

static int64_t rank_of(const struct writer_options *o)
{
    struct trace_identity id = {.rank = 0};
    if (o->identity)
        o->identity(&id);
    return id.rank;
}

/* The name of the .part file at try n. */
static bool part_name(struct window *w, const struct writer_options *o, const char *path, int n)
{
    char free_path[PATH_MAX];
    if (w->flight)
        return path_flight_name(path, rank_of(o), n, w->part_path, sizeof w->part_path);
    if (w->held)
        return path_prestep_name(path, getpid(), n, w->part_path, sizeof w->part_path);
    return numbered(path, n, free_path) &&
           path_part_name(free_path, getpid(), w->first_step, w->part_path, sizeof w->part_path);
}

/* Makes the .part file. Its name may be taken: in a container by a killed run with the same pid, in
 * a continuous recording by an earlier file of the same step. */
static int make_file(struct window *w, const struct window_shared *shared)
{
    char path[PATH_MAX];
    struct train_time time = {.batch = w->first_step};
    if (!shared->options->trace_path(&time, path, sizeof path))
        return ENAMETOOLONG;
    int error = EEXIST;
    for (int n = 1; error == EEXIST && n < NAMES_TRIED; n++) {
        if (!part_name(w, shared->options, path, n))
            return ENAMETOOLONG;
        sink_free(w->sink);
        w->sink = sink_file(w->part_path, shared->options->gzip && !w->flight, GZIP_LEVEL);
        error = w->sink ? flush_as(w, shared, w->part_path) : ENOMEM;
    }
    return error;
}

int window_flush(struct window *w, const struct window_shared *shared)
{
    return w->sink ? flush_as(w, shared, w->part_path) : make_file(w, shared);
}

/* True when the trace may have this name. A file of this run is never replaced: at exit the partial
 * window may have the batch of the one before. Nor is anything but a regular file. */
static bool may_take_name(const struct writer_options *options, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return true;
    return options->overwrite && S_ISREG(st.st_mode) && is_of_earlier_run(&st, options);
}

int window_finish(struct window *w, const struct window_shared *shared, char *path)
{
    char wanted[PATH_MAX];
    if (!shared->options->trace_path(&w->time, wanted, sizeof wanted))
        return ENAMETOOLONG;
    window_taken_until(w, shared, UINT64_MAX);
    int error = window_flush(w, shared);
    for (int n = 1; error == 0 && n < NAMES_TRIED; n++) {
        if (!numbered(wanted, n, path))
            return ENAMETOOLONG;
        if (!may_take_name(shared->options, path))
            continue;
        error = flush_as(w, shared,
                         path); /* again: the trailer holds the final name and the bytes written */
        if (error)
            return error;
        error = w->sink->finish(w->sink, path, shared->options->overwrite);
        if (error != EEXIST)
            return error;
        error = 0; /* the name was taken meanwhile */
    }
    return error ? error : EEXIST;
}

/* Copies the body of the flight recorder's file into a packed file. Each flush is one member. 0 or
 * errno. */
static int copy_body(const struct window *w, struct sink *to)
{
    enum { PIECE = 1 << 20 };
    int fd = io_open(w->part_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
    char *bytes = fd < 0 ? NULL : malloc(PIECE);
    int error = fd < 0 ? errno : !bytes ? ENOMEM : 0;
    uint64_t at = HEAD_BYTES, end = HEAD_BYTES + w->sink->body_size;
    do {
        size_t most = end - at < PIECE ? end - at : PIECE;
        ssize_t n = error || most == 0 ? 0 : io_pread(fd, bytes, most, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (!error && (n < 0 || (n == 0 && most)))
            error = n < 0 ? errno : ESTALE;
        if (!error)
            error = to->flush(to, head.data, head.len, bytes, (size_t)n, trailer.data, trailer.len);
        at += error ? 0 : (uint64_t)n;
    } while (!error && at < end);
    free(bytes);
    if (fd >= 0)
        io_close(fd);
    return error;
}

int window_copy(struct window *w, const struct window_shared *shared, const char *path)
{
    char part[PATH_MAX];
    if (!path_part_name(path, getpid(), w->last_step, part, sizeof part))
        return ENAMETOOLONG;
    trace_head(w, shared, &head);
    trace_trailer(w, shared, path, &trailer);
    struct sink *to = sink_file(part, true, GZIP_LEVEL);
    int error = !to || head.failed || trailer.failed ? ENOMEM : copy_body(w, to);
    if (!error)
        error = to->finish(to, path, false);
    if (error && to)
        to->discard(to);
    sink_free(to);
    release_scratch();
    return error;
}

void window_discard(struct window *w)
{
    if (w->sink)
        w->sink->discard(w->sink);
}
