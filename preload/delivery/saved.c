/* SPDX-License-Identifier: Apache-2.0 */
/* The list of complete traces (saved_traces.jsonl), and the lines for cprof run. */
#define _GNU_SOURCE
#include "preload/delivery/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "preload/steps/steps.h"

#define LIST_NAME "saved_traces.jsonl" /* not .json, which HTA would load */
#define LINE_MOST 16384
#define TRIES     4
#define LOOKS     250     /* checks of a list that ends within a line */
#define LOOK_NS   1000000 /* between two checks */

struct kept {
    struct kept *next;
    struct saved_file file;
};

static struct kept *oldest; /* sorted by window */
static int64_t n_kept;

static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_path[PATH_MAX];       /* guarded by last_lock */
static struct file_identity last_file; /* guarded by last_lock */
static uint64_t last_window;           /* cprof thread only */

bool saved_look(struct saved_file *file, const struct saved_trace *trace)
{
    *file = (struct saved_file){.window = trace->window};
    if (!file_identity_look(trace->path, &file->identity, &file->size))
        return false;
    if (!file_identity_same(&file->identity, &trace->file)) {
        if (once_here())
            log_warn("%s: another file has taken the trace's name; cprof does not touch it",
                     trace->path);
        return false;
    }
    file->rest = trace->partial && !trace->markless && trace->last_step < trace->first_step;
    file->path = strdup(trace->path);
    return file->path != NULL;
}

/* ---- the list ---- */

/* Writes the time variables as in file names, so that the locale does not change the decimal
 * point. */
static void put_time(char *out, size_t size, const struct train_time *t)
{
    const struct rank_info unused = {0};
    struct names_values values;
    size_t used = 0;
    names_fill(&values, "", &unused, t);
    for (int i = NAMES_RUN_VARIABLES; i < NAMES_VARIABLES && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s\"%s\": %s", used ? ", " : "",
                                 values.vars[i].name, values.vars[i].value);
}

/* Writes the duration of the whole steps in ms; null if there are none. */
static void put_steps(char *out, size_t size, const struct saved_trace *trace)
{
    int64_t us = trace->steps_ns / 1000;
    snprintf(out, size, trace->steps_ns > 0 ? "%" PRId64 ".%03d" : "null", us / 1000,
             (int)(us % 1000));
}

/* Makes the line with its newline. Returns 0 if it is too long or memory is short. */
static size_t make_line(char *line, size_t size, const struct saved_trace *trace,
                        const struct saved_file *file, const char *remote, int64_t keep)
{
    struct trace_identity id = {.world_size = 1};
    struct timespec now;
    char host[256] = "", time[1024], steps[32];
    identity_fill(&id);
    clock_gettime(CLOCK_REALTIME, &now);
    gethostname(host, sizeof host - 1);
    put_time(time, sizeof time, &trace->time);
    put_steps(steps, sizeof steps, trace);
    char *path = writer_quote(file->path), *run = writer_quote(identity_run_name()),
         *on = writer_quote(host), *name = remote ? writer_quote(remote) : NULL;
    int n = -1;
    if (path && run && on && (name || !remote))
        n = snprintf(line, size,
                     "{\"saved_ns\": %lld, \"run_name\": %s, \"rank\": %" PRId64
                     ", \"world_size\": %" PRId64 ", \"timestamp\": {%s}, \"first_step\": %" PRId64
                     ", \"last_step\": %" PRId64 ", \"steps_ms\": %s, \"began_ns\": %" PRId64
                     ", \"host\": %s, \"path\": %s, \"size\": %" PRIu64 ", \"events\": %" PRIu64
                     ", \"lost\": %" PRIu64 ", \"partial\": %s, \"remote\": %s, \"keep\": %" PRId64
                     "}\n",
                     (long long)now.tv_sec * 1000000000 + now.tv_nsec, run, id.rank, id.world_size,
                     time, trace->first_step, trace->last_step, steps, trace->began_ns, on, path,
                     file->size, trace->events, trace->lost, trace->partial ? "true" : "false",
                     name ? name : "null", keep);
    free(path);
    free(run);
    free(on);
    free(name);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

/* Whether a full disk has cut the list's last line. A write in progress by another rank looks the
 * same, because pages appear one by one; so the check repeats. No lock: where NFS's lock service is
 * down, locking hangs. */
static bool ends_cut(int fd)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    struct stat st;
    char last;
    for (int i = 0; i < LOOKS; i++) {
        if (io_fstat(fd, &st) != 0 || st.st_size == 0 ||
            io_pread(fd, &last, 1, st.st_size - 1) != 1 || last == '\n')
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

/* Opens the list without blocking, since it may be a FIFO. Another rank may create or remove it
 * meanwhile. */
static int open_list(const char *path, bool may_make)
{
    const int flags = O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    int fd = -1;
    for (int i = 0; fd < 0 && i < TRIES; i++) {
        fd = io_open(path, flags, 0);
        if (fd < 0 && errno == ENOENT && may_make)
            fd = io_open(path, flags | O_CREAT | O_EXCL, 0666);
        if (fd < 0 && (!may_make || (errno != EEXIST && errno != ENOENT)))
            break;
    }
    return fd;
}

/* Appends a line; one byte before it must be writable. Returns 0 or an errno value. */
static int append(const char *path, char *line, size_t len, bool may_make)
{
    int fd = open_list(path, may_make);
    if (fd < 0)
        return errno;
    int error = has_one_name(fd, path) ? 0 : EINVAL;
    if (!error && ends_cut(fd))
        line--, *line = '\n', len++;
    errno = EIO;
    if (!error && io_write(fd, line, len) != (ssize_t)len)
        error = errno;
    io_close(fd);
    return error;
}

/* ---- the report to cprof run ---- */

static bool unreported; /* a line was lost; cprof thread, then the exiting thread */

/* One byte before the line must be writable. */
static void tell_run(char *line, size_t len)
{
    const char *path = config_get()->report;
    if (*path && (len == 0 || append(path, line, len, false) != 0))
        unreported = true;
}

int saved_poll(bool stopping)
{
    char line[1 + 128];
    if (!stopping || !once_here())
        return -1;
    int n = snprintf(line + 1, sizeof line - 1, "{\"ended\": %d, \"unreached\": %" PRId64 "}\n",
                     (int)getpid(), steps_unreached());
    tell_run(line + 1, (size_t)n);
    return -1;
}

bool saved_are_reported(void)
{
    return *config_get()->report && !unreported;
}

const char *saved_shown(const char *path)
{
    const char *slash = saved_are_reported() ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

void saved_add_line(const struct saved_trace *trace, const struct saved_file *file,
                    const char *remote, int64_t keep)
{
    static bool taken; /* the settings give a trace this name, so no line is added */
    char path[PATH_MAX], line[1 + LINE_MOST];
    size_t len = make_line(line + 1, LINE_MOST, trace, file, remote, keep);
    const char *slash = strrchr(file->path, '/');
    int folder = slash ? (int)(slash - file->path) + 1 : 0;
    int n = snprintf(path, sizeof path, "%.*s%s", folder, file->path, LIST_NAME);
    taken = taken || strcmp(path, file->path) == 0;
    int error = len == 0 || n < 0 || (size_t)n >= sizeof path ? ENAMETOOLONG
                : taken                                       ? EEXIST
                                                              : append(path, line + 1, len, true);
    tell_run(line + 1, len);
    if (error && once_here())
        log_warn("%s: cannot add the trace to the list: %s; the trace itself is complete", path,
                 strerror(error));
}

/* ---- retention ---- */

static void remove_file(const struct saved_file *file)
{
    bool same = file_identity_has_name(&file->identity, file->path);
    if (same && unlink(file->path) != 0 && errno != ENOENT && once_here()) {
        log_warn("%s: cannot remove the trace (CPROF_NUM_TRACES_TO_KEEP): %s",
                 saved_shown(file->path), strerror(errno));
        return;
    }
    if (same) {
        writer_trace_removed(file->path);
        saved_drop_summary(file->path);
    }
}

void saved_drop_summary(const char *trace)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s" SUMMARY_SUFFIX, trace);
    if (n > 0 && (size_t)n < sizeof path && lstat(trace, &st) != 0 && errno == ENOENT)
        unlink(path);
}

void saved_retain(struct saved_file *file, int64_t keep)
{
    bool counts = keep >= 0 && !(file->rest && keep > 0);
    struct kept *kept = counts ? malloc(sizeof *kept) : NULL;
    if (!kept) {
        free(file->path);
        return;
    }
    struct kept **at = &oldest;
    while (*at && (*at)->file.window <= file->window)
        at = &(*at)->next;
    *kept = (struct kept){*at, *file};
    *at = kept;
    n_kept++;
    while (n_kept > keep) {
        struct kept *gone = oldest;
        oldest = gone->next;
        n_kept--;
        remove_file(&gone->file);
        free(gone->file.path);
        free(gone);
    }
}

/* ---- the last trace ---- */

void saved_set_last(const struct saved_trace *trace)
{
    if (trace->window < last_window)
        return;
    last_window = trace->window;
    pthread_mutex_lock(&last_lock);
    snprintf(last_path, sizeof last_path, "%s", trace->path);
    last_file = trace->file;
    pthread_mutex_unlock(&last_lock);
}

bool saved_last(char *out, size_t size, struct file_identity *file)
{
    struct held_back before = hold_back();
    pthread_mutex_lock(&last_lock);
    int n = snprintf(out, size, "%s", last_path);
    *file = last_file;
    pthread_mutex_unlock(&last_lock);
    hold_back_end(&before);
    return n > 0 && (size_t)n < size;
}
