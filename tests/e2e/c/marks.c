/* SPDX-License-Identifier: Apache-2.0 */
/* Makes every call of cprof.h. tests/e2e/test_markers.py runs it with and without cprof and
 * reads the trace. Each `mode` is a function below; the main thread marks STEPS steps. Usage:
 * marks mode */
#include "preload/cprof.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS   4
#define THREADS 64
#define PAIRS   1000

/* Prints what each call returns. Each step has every kind of event. */
static void all_calls(void)
{
    static const char *const categories[] = {"data", NULL, "", "io"};
    struct cprof_marker_options options = CPROF_MARKER_DEFAULTS;
    options.record_instant_on_start = 1;
    options.record_instant_on_finish = 1;
    options.categories = categories;
    options.n_categories = 4;
    struct cprof_marker *plain = cprof_marker("plain", NULL);
    struct cprof_marker *full = cprof_marker("full", &options);
    struct cprof_marker_options last = CPROF_MARKER_DEFAULTS;
    last.actions = CPROF_ACTION_BIT(CPROF_ACTIVE_AND_SAVE);
    struct cprof_marker *only_last = cprof_marker("only last", &last);
    printf("version [%s]\n", cprof_version());
    printf("interned %d\n", cprof_marker("plain", &options) == plain && (!plain || plain != full));
    for (int step = 0; step < STEPS; step++) {
        printf("step %lld action %d recording %d\n", (long long)cprof_step_number(), cprof_action(),
               cprof_is_recording());
        cprof_marker_start(plain);
        cprof_marker_start(full);
        int outer = cprof_range_push("outer");
        int inner = cprof_range_push("inner");
        int inner_end = cprof_range_pop();
        int outer_end = cprof_range_pop();
        int none = cprof_range_pop();
        printf("depths %d %d %d %d %d\n", outer, inner, inner_end, outer_end, none);
        cprof_marker_start(only_last);
        cprof_marker_finish(only_last);
        cprof_marker_instant(plain);
        cprof_mark("a moment");
        double loss = 0.5 + step, pair[] = {1.25, -3e300, NAN};
        int64_t count[] = {INT64_MAX, INT64_MIN};
        cprof_marker_counter(cprof_marker("loss", NULL), 1, NULL, &loss);
        cprof_marker_counter(cprof_marker("two", NULL), 3,
                             (const char *const[]){"up", "down", "no"}, pair);
        cprof_marker_counter_int(cprof_marker("large", NULL), 2,
                                 (const char *const[]){"most", "least"}, count);
        cprof_marker_finish(full);
        cprof_marker_finish(plain);
        if (step % 2)
            cprof_step();
        else
            cprof_step_marker();
    }
}

static void null_markers(void)
{
    for (int step = 0; step < STEPS; step++) {
        double value = 1;
        int64_t number = 1;
        cprof_marker_start(NULL);
        cprof_marker_finish(NULL);
        cprof_marker_instant(NULL);
        cprof_marker_counter(NULL, 1, NULL, &value);
        cprof_marker_counter_int(NULL, 1, NULL, &number);
        cprof_range_push(NULL);
        cprof_range_pop();
        cprof_mark(NULL);
        cprof_step();
    }
    printf("%d\n", cprof_marker(NULL, NULL) == NULL);
}

static void awkward_names(void)
{
    static const char *const names[] = {"quote \" and \\ backslash",
                                        "line\nbreak\r\ttab",
                                        "\x01\x02\x1f control",
                                        "h\xc3\xa9llo \xe2\x82\xac \xf0\x9f\x98\x80",
                                        "bad \xff\xfe utf8 \xc3",
                                        "</script> 'x'",
                                        ""};
    const size_t n = sizeof names / sizeof names[0];
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < n; i++) {
            struct cprof_marker_options options = CPROF_MARKER_DEFAULTS;
            options.categories = &names[i];
            options.n_categories = 1;
            struct cprof_marker *m = cprof_marker(names[i], &options);
            double one = 1;
            cprof_range_push(names[i]);
            cprof_marker_start(m);
            cprof_marker_instant(m);
            cprof_mark(names[i]);
            cprof_marker_counter(m, 1, &names[i], &one);
            cprof_marker_finish(m);
            cprof_range_pop();
        }
        cprof_step();
    }
}

static void long_names(void)
{
    size_t size = 100000;
    char *name = malloc(size + 1);
    if (!name)
        return;
    memset(name, 'n', size);
    name[size] = '\0';
    struct cprof_marker *m = cprof_marker(name, NULL);
    name[60000] = '\0';
    struct cprof_marker *fits = cprof_marker(name, NULL);
    memset(name, 'x', size); /* cprof must not keep the caller's memory */
    for (int step = 0; step < STEPS; step++) {
        cprof_marker_start(m);
        cprof_marker_finish(m);
        cprof_marker_instant(m);
        cprof_marker_start(fits);
        cprof_marker_finish(fits);
        cprof_step();
    }
    free(name);
}

/* Each misuse, once per step. */
static void misuses(void)
{
    struct cprof_marker *a = cprof_marker("a", NULL), *b = cprof_marker("b", NULL);
    struct cprof_marker *twice = cprof_marker("twice", NULL);
    for (int step = 0; step < STEPS; step++) {
        cprof_marker_finish(a); /* never started */
        cprof_range_pop();      /* nothing to pop */
        cprof_marker_start(twice);
        cprof_marker_start(twice); /* started twice */
        cprof_marker_finish(twice);
        cprof_marker_finish(twice);
        cprof_marker_start(a);
        cprof_marker_start(b);
        cprof_marker_finish(a); /* before b, which is cut */
        cprof_marker_finish(b);
        cprof_range_push("cut too");
        cprof_marker_start(b);
        cprof_range_pop();
        cprof_marker_finish(b);
        cprof_step();
    }
}

/* The same misuses of markers that are not among a thread's first ones, for which it has fast
 * bits. */
static void misuses_of_many(void)
{
    for (int i = 0; i < 64; i++) {
        char name[16];
        snprintf(name, sizeof name, "first %d", i);
        cprof_marker(name, NULL);
    }
    misuses();
}

/* Durations that cross the edges of steps and windows. */
static void crossing(void)
{
    struct cprof_marker *in = cprof_marker("in", NULL), *out = cprof_marker("out", NULL);
    for (int step = 0; step <= 2 * STEPS; step++) {
        if (cprof_action() == CPROF_SKIP)
            cprof_marker_start(in);
        if (cprof_action() == CPROF_ACTIVE_AND_SAVE)
            cprof_marker_start(out);
        cprof_range_push("step");
        usleep(2000);
        cprof_step();
        cprof_range_pop();
        if (cprof_action() == CPROF_WARMUP && step > STEPS - 1)
            cprof_marker_finish(out);
        if (cprof_action() == CPROF_ACTIVE)
            cprof_marker_finish(in);
    }
}

/* A marker that is open at exit, around a range that crosses the window's end. */
static void open_at_exit(void)
{
    cprof_step();
    cprof_marker_start(cprof_marker("around", NULL));
    cprof_step();
    cprof_range_push("crosses");
    cprof_step();
    usleep(1000);
    cprof_range_pop();
}

static void *pairs_on_thread(void *barrier)
{
    struct cprof_marker *outer = cprof_marker("thread outer", NULL);
    struct cprof_marker *inner = cprof_marker("thread inner", NULL);
    pthread_barrier_wait(barrier);
    for (int i = 0; i < PAIRS; i++) {
        cprof_marker_start(outer);
        cprof_marker_start(inner);
        cprof_marker_finish(inner);
        cprof_marker_finish(outer);
    }
    pthread_barrier_wait(barrier);
    return NULL;
}

static void many_threads(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    cprof_step(); /* the warmup ends */
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, pairs_on_thread, &barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cprof_step();
    cprof_step();
}

static void *leave_open(void *unused)
{
    (void)unused;
    cprof_marker_start(cprof_marker("left open", NULL));
    cprof_range_push("range left open");
    return NULL;
}

static void open_at_thread_end(void)
{
    for (int step = 0; step < STEPS; step++) {
        pthread_t thread;
        pthread_create(&thread, NULL, leave_open, NULL);
        pthread_join(thread, NULL);
        cprof_step();
    }
}

/* More markers than a thread's word of open markers has bits. */
static void many_markers(void)
{
    struct cprof_marker *m[100];
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "marker %d", i);
        m[i] = cprof_marker(name, NULL);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < 100; i++)
            cprof_marker_start(m[i]);
        for (int i = 99; i >= 0; i--)
            cprof_marker_finish(m[i]);
        cprof_step();
    }
}

/* A forked child is inert; its parent's open markers stay the parent's. */
static void forked(void)
{
    struct cprof_marker *m = cprof_marker("parent", NULL);
    for (int step = 0; step < STEPS; step++) {
        cprof_marker_start(m);
        pid_t pid = fork();
        if (pid == 0) {
            cprof_marker_finish(m);
            cprof_marker_start(m);
            cprof_mark("child");
            cprof_marker_instant(cprof_marker("child", NULL));
            cprof_step();
            exit(cprof_range_push("child") || cprof_range_pop() || cprof_action() != CPROF_SKIP);
        }
        int status = 1;
        waitpid(pid, &status, 0);
        cprof_marker_finish(m);
        printf("child %d\n", status);
        fflush(stdout);
        cprof_step();
    }
}

/* No step is ever marked: step 0 becomes the trace. */
static void no_step(void)
{
    struct cprof_marker_options options = CPROF_MARKER_DEFAULTS;
    options.actions = CPROF_ACTION_BIT(CPROF_WARMUP);
    struct cprof_marker *m = cprof_marker("marker", NULL);
    struct cprof_marker *warmup = cprof_marker("only warmup", &options);
    options.actions = CPROF_ACTION_BIT(CPROF_ACTIVE);
    struct cprof_marker *active = cprof_marker("only active", &options);
    cprof_range_push("range");
    cprof_marker_start(m);
    cprof_marker_instant(warmup);
    cprof_marker_instant(active);
    cprof_marker_finish(m);
    cprof_range_pop();
    printf("recording %d\n", cprof_is_recording());
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"all", all_calls},
                 {"null", null_markers},
                 {"names", awkward_names},
                 {"long", long_names},
                 {"misuse", misuses},
                 {"crossing", crossing},
                 {"threads", many_threads},
                 {"open", open_at_thread_end},
                 {"many", many_markers},
                 {"fork", forked},
                 {"nostep", no_step},
                 {"exit", open_at_exit},
                 {"misuse many", misuses_of_many}};
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            return 0;
        }
    }
    return 2;
}
