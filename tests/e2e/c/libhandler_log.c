/* SPDX-License-Identifier: Apache-2.0 */
/* A trace handler that writes each call as a line of JSON, for tests/e2e/test_handlers.py. Its
 * argument is FILE or MODE:FILE. MODE: refuse, version, small, slow, hang (in its close), adds
 * (another handler, from a callback), queries, marks, exports (copy.json, from trace_ready). */
#include "preload/cprof.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static FILE *out;
static char mode[16];
static pid_t owner;

static int in(const char *name)
{
    return strcmp(mode, name) == 0;
}

static void put_time(const struct cprof_time *t, int64_t wall)
{
    fprintf(
        out,
        ", \"step\": %lld, \"epoch\": %lld, \"batch\": %lld, \"batch_in_epoch\": %lld, \"sample\": "
        "%lld, \"wall\": %lld",
        (long long)t->step, (long long)t->epoch, (long long)t->batch, (long long)t->batch_in_epoch,
        (long long)t->sample, (long long)wall);
}

static void begin(const char *call, void *arg)
{
    fprintf(out, "{\"call\": \"%s\", \"arg\": \"%s\", \"thread\": %ld, \"same\": %d", call,
            (const char *)arg, (long)syscall(SYS_gettid), getpid() == owner);
}

static void put_event(const char *call, void *arg, const struct cprof_event *e)
{
    begin(call, arg);
    put_time(e->time, e->wall_clock_ns);
    fprintf(
        out,
        ", \"name\": \"%s\", \"tid\": %u, \"start\": %d, \"cut\": %d, \"action\": %d, \"id\": %llu",
        e->name, e->thread_id, e->is_start, e->is_cut, e->action, (unsigned long long)e->id);
    fputs(", \"categories\": [", out);
    for (size_t i = 0; i < e->n_categories; i++)
        fprintf(out, "%s\"%s\"", i ? ", " : "", e->categories[i]);
    fputs("], \"values\": {", out);
    for (size_t i = 0; i < e->n_values; i++) {
        const struct cprof_value *v = &e->values[i];
        fprintf(out, "%s\"%s\": ", i ? ", " : "", v->name);
        if (v->is_real)
            fprintf(out, "%.17g", v->real);
        else
            fprintf(out, "%lld", (long long)v->integer);
    }
    fputs("}}\n", out);
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static const struct cprof_trace_handler *handler_of(const char *arg);

static void duration(void *arg, const struct cprof_event *e)
{
    put_event("duration", arg, e);
    if (in("slow"))
        pause_ms(2);
    if (in("adds") && !e->is_start && strcmp(arg, "first") == 0) {
        static int added;
        if (!added++)
            fprintf(out, "{\"call\": \"added\", \"taken\": %d}\n",
                    cprof_add_trace_handler(handler_of("second")));
    }
    if (in("marks")) { /* none of these counts */
        struct cprof_marker *m = cprof_marker("inside", NULL);
        cprof_marker_start(m);
        cprof_range_push("inside");
        cprof_mark("inside");
        cprof_step();
        cprof_epoch();
        cprof_range_pop();
        cprof_marker_finish(m);
    }
}

static void instant(void *arg, const struct cprof_event *e)
{
    put_event("instant", arg, e);
}

static void counter(void *arg, const struct cprof_event *e)
{
    put_event("counter", arg, e);
}

static void chrome_json_file(void *arg, const char *path)
{
    begin("chrome_json_file", arg);
    fprintf(out, ", \"path\": \"%s\"}\n", path);
}

static void trace_ready(void *arg, const struct cprof_trace_file *t)
{
    begin("trace_ready", arg);
    put_time(t->time, t->wall_clock_ns);
    fprintf(out,
            ", \"path\": \"%s\", \"first\": %lld, \"last\": %lld, \"events\": %llu, \"lost\": "
            "%llu, \"partial\": %d}\n",
            t->path, (long long)t->first_step, (long long)t->last_step,
            (unsigned long long)t->events, (unsigned long long)t->lost, t->is_partial);
    if (in("exports"))
        fprintf(out, "{\"call\": \"exported\", \"done\": %d}\n",
                cprof_export_chrome_trace("copy.json"));
}

#define MOMENT(name)                                                                               \
    static void name(void *arg, const struct cprof_time *time, int64_t wall)                       \
    {                                                                                              \
        begin(#name, arg);                                                                         \
        put_time(time, wall);                                                                      \
        fputs("}\n", out);                                                                         \
    }
MOMENT(step_end)
MOMENT(epoch_end)
MOMENT(window_open)
MOMENT(window_close)

static int init(void *arg)
{
    begin("init", arg);
    fputs("}\n", out);
    return in("refuse") ? 3 : 0;
}

static void finish(void *arg)
{
    begin("close", arg);
    if (in("queries")) {
        const char *names[4];
        size_t n = cprof_trace_handlers(names, 4);
        fprintf(out,
                ", \"handlers\": %zu, \"first\": \"%s\", \"version\": \"%s\", \"number\": %lld, "
                "\"action\": %d, \"recording\": %d",
                n, names[0], cprof_version(), (long long)cprof_step_number(), cprof_action(),
                cprof_is_recording());
    }
    fputs("}\n", out);
    fflush(out);
    while (in("hang"))
        pause();
}

static const struct cprof_trace_handler *handler_of(const char *arg)
{
    static struct cprof_trace_handler h[2] = {CPROF_TRACE_HANDLER_DEFAULTS,
                                              CPROF_TRACE_HANDLER_DEFAULTS};
    struct cprof_trace_handler *one = &h[strcmp(arg, "second") == 0];
    one->name = arg;
    one->arg = (void *)arg;
    one->init = init;
    one->duration = duration;
    one->instant = instant;
    one->counter = counter;
    one->chrome_json_file = chrome_json_file;
    one->trace_ready = trace_ready;
    one->step_end = step_end;
    one->epoch_end = epoch_end;
    one->window_open = window_open;
    one->window_close = window_close;
    one->close = finish;
    return one;
}

const struct cprof_trace_handler *cprof_trace_handler_open(const char *argument)
{
    const char *colon = strchr(argument, ':');
    if (colon)
        snprintf(mode, sizeof mode, "%.*s", (int)(colon - argument), argument);
    out = fopen(colon ? colon + 1 : argument, "w");
    if (!out)
        return NULL;
    owner = getpid();
    static struct cprof_trace_handler given;
    given = *handler_of("first");
    if (in("version"))
        given.version = 7;
    if (in("small")) /* of a header that ends after `duration` */
        given.size = offsetof(struct cprof_trace_handler, instant);
    return &given;
}
