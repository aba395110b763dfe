/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the rows and events in a window's file. cprof thread. */
#include "writer/window/window_names.h"

#include <stdio.h>
#include <string.h>

#include "writer/record/record.h"
#include "writer/base/base.h"

#define MODULE_TIDS 8388608u   /* added to a tid: the row of the thread's modules */
#define NAME_NS     100000000u /* the process's name is read again after this time */

static uint64_t namings; /* the last value of window.naming */

void window_rename_rows(struct window *w)
{
    w->naming = ++namings;
}

void window_name_thread(struct window *w, const struct window_shared *shared, uint32_t tid,
                        uint64_t *named)
{
    if (*named == (w->naming << 32 | tid))
        return;
    *named = w->naming << 32 | tid;
    char path[64], comm[32] = "", name[64];
    snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
    size_t len = read_file(path, comm, sizeof comm);
    if (len > 0 && comm[len - 1] == '\n')
        comm[len - 1] = '\0';
    int n = snprintf(name, sizeof name, comm[0] ? "thread %u (%s)" : "thread %u", tid, comm);
    struct thread_name given;
    if (thread_names_find(tid, &given))
        json_meta_text(&w->body, "thread_name", shared->pid, tid, "name", given.text, given.len);
    else
        json_meta_text(&w->body, "thread_name", shared->pid, tid, "name", name, (size_t)n);
    json_meta_number(&w->body, "thread_sort_index", shared->pid, tid, tid);
}

uint64_t *window_named(const struct window *w, struct thread_log *log)
{
    return w->flight ? &log->named_in_flight : &log->named;
}

uint32_t window_row(const struct record *r, uint32_t tid)
{
    return r->category == CAT_MODULE ? tid + MODULE_TIDS : tid;
}

void window_name_modules(struct window *w, const struct window_shared *shared,
                         const struct record_owner *owner)
{
    uint64_t now = w->naming << 32 | owner->tid;
    if (owner->log->modules_named == now)
        return;
    owner->log->modules_named = now;
    char name[64];
    int n = snprintf(name, sizeof name, "modules of thread %u", owner->tid);
    uint32_t row = owner->tid + MODULE_TIDS;
    json_meta_text(&w->body, "thread_name", shared->pid, row, "name", name, (size_t)n);
    json_meta_number(&w->body, "thread_sort_index", shared->pid, row, owner->tid);
}

/* Read again for trailers, because programs rename themselves, but not for each one where flushes
 * follow each other fast: each of its system calls waits for the other thread. */
static char process_name[32];
static uint64_t name_read_ns;

static void read_process_name(void)
{
    size_t n = read_file("/proc/self/comm", process_name, sizeof process_name);
    if (n > 0 && process_name[n - 1] == '\n')
        process_name[n - 1] = '\0';
    name_read_ns = clock_monotonic_ns();
}

const char *window_process_name(void)
{
    if (!process_name[0])
        read_process_name();
    return process_name;
}

void window_name_threads_again(struct window *w, const struct window_shared *shared, struct buf *b)
{
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        uint64_t named = *window_named(w, log);
        uint32_t tid = (uint32_t)named;
        struct thread_name given;
        if (named >> 32 == w->naming && thread_names_find(tid, &given) && given.ticks >= w->from)
            json_meta_text(b, "thread_name", shared->pid, tid, "name", given.text, given.len);
    }
}

void window_name_process(const struct window_shared *shared, bool complete, struct buf *b)
{
    if (complete || clock_monotonic_ns() - name_read_ns > NAME_NS)
        read_process_name();
    const char *comm = process_name;
    json_meta_text(b, "process_name", shared->pid, shared->pid, "name", comm, strlen(comm));
    json_meta_text(b, "process_labels", shared->pid, shared->pid, "labels", "CPU", 3);
    json_meta_number(b, "process_sort_index", shared->pid, shared->pid, shared->pid);
}

struct text window_shown_name(const struct window *w, const struct record *r,
                              char room[RANGE_NAME_ROOM])
{
    struct text name = record_name(r);
    return w->markless ? name : json_range_name(name, room);
}
