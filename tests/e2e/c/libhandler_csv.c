/* SPDX-License-Identifier: Apache-2.0 */
/* An example of a trace handler. It writes the number and total time of a program's durations in
 * each category as CSV.
 *
 *     cc -shared -fPIC -o handler_csv.so libhandler_csv.c
 *     LD_PRELOAD=libcprof.so CPROF_TRACE_HANDLERS=/path/handler_csv.so=counts.csv \
 *         python train.py */
#include "preload/cprof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    struct row *next;
    long long count, ns;
    char category[];
};

static struct row *rows;
static const char *path;

static struct row *row_of(const char *category)
{
    for (struct row *r = rows; r; r = r->next)
        if (strcmp(r->category, category) == 0)
            return r;
    struct row *r = calloc(1, sizeof *r + strlen(category) + 1);
    if (!r)
        return NULL;
    strcpy(r->category, category);
    r->next = rows;
    return rows = r;
}

/* A duration's two calls are consecutive. */
static void duration(void *unused, const struct cprof_event *event)
{
    static int64_t start;
    (void)unused;
    if (event->is_start) {
        start = event->wall_clock_ns;
        return;
    }
    struct row *r = row_of(event->n_categories ? event->categories[0] : "none");
    if (r) {
        r->count++;
        r->ns += event->wall_clock_ns - start;
    }
}

static void finish(void *unused)
{
    (void)unused;
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fputs("category,count,total_ns\n", file);
    for (const struct row *r = rows; r; r = r->next)
        fprintf(file, "%s,%lld,%lld\n", r->category, r->count, r->ns);
    fclose(file);
}

const struct cprof_trace_handler *cprof_trace_handler_open(const char *argument)
{
    static struct cprof_trace_handler handler = CPROF_TRACE_HANDLER_DEFAULTS;
    if (!*argument)
        return NULL; /* no file was given */
    path = argument;
    handler.name = "csv";
    handler.duration = duration;
    handler.close = finish;
    return &handler;
}
