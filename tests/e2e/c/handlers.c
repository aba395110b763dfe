/* SPDX-License-Identifier: Apache-2.0 */
/* A program with its own trace handlers. tests/e2e/test_handlers.py runs it with and without
 * cprof. Each mode is a function below. Usage: handlers mode [threads] */
#include "preload/cprof.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIRS 10000

/* Calls that a handler of this program got. Written by the cprof thread. */
struct counts {
    const char *name;
    int inits, closes, durations, instants, counters, steps, epochs, opened, closed, ready, files;
    int unbalanced; /* ends without a start, starts after a start */
    pid_t pid;      /* of the last call */
    char last[64];
    uint32_t last_thread;
    int is_open;
};

static int on_init(void *arg)
{
    struct counts *c = arg;
    c->inits++;
    c->pid = getpid();
    return 0;
}

static void on_duration(void *arg, const struct cprof_event *e)
{
    struct counts *c = arg;
    if (e->is_start == c->is_open)
        c->unbalanced++;
    if (!e->is_start && (strcmp(c->last, e->name) != 0 || c->last_thread != e->thread_id))
        c->unbalanced++;
    snprintf(c->last, sizeof c->last, "%s", e->name);
    c->last_thread = e->thread_id;
    c->is_open = e->is_start;
    c->durations += !e->is_start;
    c->pid = getpid();
}

#define COUNT_EVENT(call, what)                                                                    \
    static void call(void *arg, const struct cprof_event *e)                                       \
    {                                                                                              \
        (void)e;                                                                                   \
        ((struct counts *)arg)->what++;                                                            \
    }
COUNT_EVENT(on_instant, instants)
COUNT_EVENT(on_counter, counters)

#define COUNT_MOMENT(call, what)                                                                   \
    static void call(void *arg, const struct cprof_time *time, int64_t wall)                       \
    {                                                                                              \
        (void)time, (void)wall;                                                                    \
        ((struct counts *)arg)->what++;                                                            \
    }
COUNT_MOMENT(on_step, steps)
COUNT_MOMENT(on_epoch, epochs)
COUNT_MOMENT(on_open, opened)
COUNT_MOMENT(on_closed, closed)

static void on_file(void *arg, const char *path)
{
    (void)path;
    ((struct counts *)arg)->files++;
}

static void on_ready(void *arg, const struct cprof_trace_file *trace)
{
    (void)trace;
    ((struct counts *)arg)->ready++;
}

static void on_close(void *arg)
{
    struct counts *c = arg;
    c->closes++;
    c->pid = getpid();
    printf(
        "%s: inits %d closes %d durations %d instants %d counters %d steps %d epochs %d opened %d "
        "closed %d files %d ready %d unbalanced %d\n",
        c->name, c->inits, c->closes, c->durations, c->instants, c->counters, c->steps, c->epochs,
        c->opened, c->closed, c->files, c->ready, c->unbalanced + c->is_open);
    fflush(stdout);
}

static struct cprof_trace_handler handler_for(struct counts *c, const char *name)
{
    struct cprof_trace_handler h = CPROF_TRACE_HANDLER_DEFAULTS;
    c->name = name;
    h.name = name;
    h.arg = c;
    h.init = on_init;
    h.duration = on_duration;
    h.instant = on_instant;
    h.counter = on_counter;
    h.chrome_json_file = on_file;
    h.trace_ready = on_ready;
    h.step_end = on_step;
    h.epoch_end = on_epoch;
    h.window_open = on_open;
    h.window_close = on_closed;
    h.close = on_close;
    return h;
}

static int add(struct counts *c, const char *name)
{
    struct cprof_trace_handler h = handler_for(c, name);
    return cprof_add_trace_handler(&h);
}

static void list(void)
{
    const char *names[128] = {0};
    size_t n = cprof_trace_handlers(names, 128);
    printf("%zu:", n);
    for (size_t i = 0; i < n && i < 128; i++)
        printf(" %s", names[i]);
    printf(" (%zu)\n", cprof_trace_handlers(NULL, 0));
}

static void work(struct cprof_marker *m)
{
    int64_t one = 1;
    cprof_marker_start(m);
    cprof_marker_instant(m);
    cprof_marker_counter_int(m, 1, NULL, &one);
    cprof_marker_finish(m);
}

/* All calls: a handler from the start, a late one, and one without callbacks. */
static void all_calls(void)
{
    static struct counts early, late;
    struct cprof_marker *m = cprof_marker("work", NULL);
    struct cprof_trace_handler empty = CPROF_TRACE_HANDLER_DEFAULTS;
    int nameless = cprof_add_trace_handler(&empty);
    printf("added %d %d\n", add(&early, "early"), nameless);
    list();
    for (int step = 0; step < 6; step++) {
        if (step == 3) {
            usleep(300000); /* earlier events have been reported */
            printf("late %d\n", add(&late, "late"));
        }
        work(m);
        cprof_step();
        if (step % 2)
            cprof_epoch();
    }
    list();
}

static void bad(void)
{
    static struct counts c;
    struct cprof_trace_handler h = handler_for(&c, "bad"), zero;
    memset(&zero, 0, sizeof zero);
    h.version = 2;
    printf("%d ", cprof_add_trace_handler(&h));
    h.version = CPROF_TRACE_HANDLER_VERSION;
    h.size = 1u << 20;
    printf("%d %d %d\n", cprof_add_trace_handler(&h), cprof_add_trace_handler(&zero),
           cprof_add_trace_handler(NULL));
    list();
    work(cprof_marker("work", NULL));
    cprof_step();
}

/* Adds more handlers than there is room for. */
static void many(void)
{
    int taken = 0;
    struct cprof_trace_handler h = CPROF_TRACE_HANDLER_DEFAULTS;
    for (int i = 0; i < 70; i++)
        taken += cprof_add_trace_handler(&h);
    printf("%d %zu\n", taken, cprof_trace_handlers(NULL, 0));
    cprof_step();
}

/* The child's marks go to no handler, and it has none. */
static void forked(void)
{
    static struct counts c;
    struct cprof_marker *m = cprof_marker("work", NULL);
    add(&c, "parent");
    work(m);
    cprof_step();
    usleep(50000);
    pid_t child = fork();
    if (child == 0) {
        static struct counts none;
        printf("child %d ", add(&none, "child"));
        list();
        for (int i = 0; i < 3; i++) {
            work(m);
            cprof_step();
        }
        usleep(100000);
        fflush(stdout);
        exit(none.inits != 0 || c.pid == getpid());
    }
    int status = 1;
    waitpid(child, &status, 0);
    printf("status %d\n", status);
    for (int i = 0; i < 3; i++) {
        work(m);
        cprof_step();
    }
}

static pthread_barrier_t begin;

static void *pairs(void *marker)
{
    pthread_barrier_wait(&begin);
    for (int i = 0; i < PAIRS; i++) {
        cprof_marker_start(marker);
        cprof_marker_finish(marker);
    }
    return NULL;
}

/* Many threads make more marks than the rings and the handler can take. */
static void threads(int n)
{
    static struct counts c;
    struct cprof_marker *m = cprof_marker("pair", NULL);
    pthread_t *thread = calloc((size_t)n, sizeof *thread);
    add(&c, "pairs");
    cprof_step(); /* the warmup step is over */
    pthread_barrier_init(&begin, NULL, (unsigned)n);
    for (int i = 0; i < n; i++)
        pthread_create(&thread[i], NULL, pairs, m);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    cprof_step();
    free(thread);
}

static atomic_int over, missing;

static void *read_names(void *unused)
{
    while (!over) {
        const char *names[64];
        size_t n = cprof_trace_handlers(names, 64);
        for (size_t i = 0; i < n && i < 64; i++)
            missing += !names[i];
    }
    return unused;
}

/* Reads the names of handlers while the cprof thread opens those of the settings. */
static void names_meanwhile(void)
{
    pthread_t thread;
    cprof_mark("awake");
    pthread_create(&thread, NULL, read_names, NULL);
    usleep(1000);
    for (int i = 0; i < 7; i++)
        cprof_step();
    usleep(20000);
    over = 1;
    pthread_join(thread, NULL);
    printf("missing %d\n", missing);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(mode, "all") == 0)
        all_calls();
    else if (strcmp(mode, "bad") == 0)
        bad();
    else if (strcmp(mode, "many") == 0)
        many();
    else if (strcmp(mode, "fork") == 0)
        forked();
    else if (strcmp(mode, "names") == 0)
        names_meanwhile();
    else if (strcmp(mode, "threads") == 0)
        threads(argc > 2 ? atoi(argv[2]) : 8);
    else
        return 2;
    return 0;
}
