/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the writer inside a test. The main thread drives it; any thread may record. */
#include "tests/support/session.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/capture.h"
#include "tests/support/sanitizer.h"

struct writer_options session_options;
char session_folder[128];

static char made_folder[64];
static int64_t step;
static enum action action;
static bool kept;

static bool path_of(const struct train_time *time, char *path, unsigned long size)
{
    int n = snprintf(path, size, "%s/t%lld.json", session_folder, (long long)time->batch);
    return n > 0 && (unsigned long)n < size;
}

void session_setup(void)
{
    strcpy(made_folder, "/tmp/cprof-writer-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(made_folder));
    strcpy(session_folder, made_folder);
    session_options = (struct writer_options){
        .ring_bytes = 8u << 20,
        .max_trace_bytes = 1u << 30,
        .held_bytes = 64000000u,
        .hold_bytes = 4u << 20,
        .exit_deadline_ms = 60000,
        .trace_path = path_of,
    };
    capture_start();
}

void session_teardown(void)
{
    char command[192];
    /* A cprof thread that missed the exit deadline may still be writing its last file. */
    snprintf(command, sizeof command, "rm -rf '%s' || rm -rf '%s'", made_folder, made_folder);
    ck_assert_int_eq(system(command), 0);
}

static uint64_t cross(struct step_edge edge)
{
    uint32_t gate = 0;
    if (edge.kind != EDGE_LAST && (edge.begun >= ACTION_ACTIVE || edge.keep))
        gate = SESSION_GATE;
    else if (edge.kind != EDGE_LAST && edge.begun == ACTION_WARMUP)
        gate = GATE_MARKERS;
    writer_edge_begin();
    edge.ticks = clock_ticks();
    edge.time.batch = edge.step;
    writer_set_gate(gate);
    writer_edge(&edge);
    action = edge.begun;
    return edge.ticks;
}

void session_prepare(void)
{
    ck_assert(writer_start(&session_options));
    ck_assert(writer_run());
}

void session_begin(enum action first, bool keep)
{
    kept = keep;
    cross((struct step_edge){.begun = first, .kind = EDGE_FIRST, .keep = keep});
}

void session_start(enum action first, bool keep)
{
    session_prepare();
    session_begin(first, keep);
}

uint64_t session_step(enum action next)
{
    bool held = kept;
    kept = false;
    return cross((struct step_edge){.step = ++step, .ended = action, .begun = next, .kept = held});
}

void session_tell(void)
{
    cross((struct step_edge){.step = step,
                             .ended = action,
                             .begun = action,
                             .kind = EDGE_NOTE,
                             .kept = kept,
                             .keep = kept});
}

uint64_t session_end(void)
{
    uint64_t ticks = cross((struct step_edge){
        .step = step, .ended = action, .kind = EDGE_LAST, .kept = kept, .keep = kept});
    writer_finish();
    return ticks;
}

struct trace session_trace(int64_t batch)
{
    char path[PATH_SIZE];
    ck_assert(path_of(&(struct train_time){.batch = batch}, path, sizeof path));
    return trace_read(path);
}

unsigned session_files(const char *part)
{
    unsigned n = 0;
    DIR *folder = opendir(session_folder);
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        n += entry->d_name[0] != '.' && strstr(entry->d_name, part);
    closedir(folder);
    return n;
}

void session_await(const char *part, unsigned n)
{
    for (unsigned i = 0; i < 2000 && session_files(part) != n; i++)
        usleep(10000);
    ck_assert_uint_eq(session_files(part), n);
}

void session_await_trace(int64_t batch)
{
    char path[PATH_SIZE];
    ck_assert(path_of(&(struct train_time){.batch = batch}, path, sizeof path));
    for (unsigned i = 0; i < 20000 && access(path, F_OK) != 0; i++)
        usleep(1000);
    ck_assert_int_eq(access(path, F_OK), 0);
}

void session_sleep(unsigned ms)
{
    /* under valgrind the cprof thread needs longer */
    usleep(ms * 1000 * (under_valgrind() ? 3 : 1));
}

struct open_span *session_open(const char *name)
{
    return span_open(thread_log_get(), name, CAT_USER_ANNOTATION, name, (uint32_t)strlen(name));
}

void session_close(const char *name)
{
    span_close(thread_log_get(), name);
}

void session_span(const char *name)
{
    struct thread_log *log = thread_log_get();
    if (log && span_open(log, &log, CAT_CPU_OP, name, (uint32_t)strlen(name)))
        span_close(log, &log);
}

void session_instant(const char *name, uint8_t flags)
{
    struct thread_log *log = thread_log_get();
    if (log)
        emit_instant(log, CAT_USER_ANNOTATION, flags, name, (uint32_t)strlen(name), DATA_NONE, NULL,
                     0, NULL);
}
