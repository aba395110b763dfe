/* SPDX-License-Identifier: Apache-2.0 */
/* Enables and disables kinds of activity records. */
#include "cupti/switch.h"

#include <stdio.h>

#include "cupti/gpu_names.h"
#include "cupti/records.h"

#define DOMAINS 3
#define CBIDS   1200u /* 877 in CUDA 13.5 */

enum when { KIND_ALWAYS, KIND_MEMORY, KIND_NODES, KIND_WHOLE };

static const struct row {
    const char *name;
    int number;
    enum when when;
} rows[] = {
#define KIND(id, number, when, translator) {#id, number, when},
#include "cupti/kinds.def"
#undef KIND
};

#define ROWS (sizeof rows / sizeof *rows)

static bool on[ROWS];
static bool said[ROWS]; /* a refusal was logged */
static uint16_t hidden[DOMAINS][CBIDS];
static unsigned n_hidden[DOMAINS];

/* ---- calls ---- */

static void learn_hidden(const struct cupti *c, int domain)
{
    n_hidden[domain] = 0;
    for (uint32_t cbid = 1; cbid < CBIDS; cbid++) {
        const struct gpu_call *call = gpu_call(c->get_callback_name, domain == CUPTI_DRIVER, cbid);
        if (call->name.text && !call->shown)
            hidden[domain][n_hidden[domain]++] = (uint16_t)cbid;
    }
}

void switch_learn(const struct cupti *c)
{
    if (c->enable_runtime_api)
        learn_hidden(c, CUPTI_RUNTIME);
    if (c->enable_driver_api)
        learn_hidden(c, CUPTI_DRIVER);
}

static bool is_on(int kind)
{
    for (unsigned i = 0; i < ROWS; i++)
        if (rows[i].number == kind)
            return on[i];
    return false;
}

/* Enabling a kind enables all its calls, so the filter comes after: "an Enable(RUNTIME) afterwards
 * overrides it" (cupti_activity.h). Enabling calls one by one instead recorded nothing once any
 * client had disabled the kind (13.0 Update 1, on an H200). */
void switch_filter(const struct cupti *c)
{
    if (c->enable_runtime_api && is_on(CUPTI_KIND_RUNTIME))
        for (unsigned i = 0; i < n_hidden[CUPTI_RUNTIME]; i++)
            c->enable_runtime_api(hidden[CUPTI_RUNTIME][i], 0);
    if (c->enable_driver_api && is_on(CUPTI_KIND_DRIVER))
        for (unsigned i = 0; i < n_hidden[CUPTI_DRIVER]; i++)
            c->enable_driver_api(hidden[CUPTI_DRIVER][i], 0);
}

/* ---- kinds ---- */

static bool is_row_wanted(const struct row *row, const struct gpu_options *options)
{
    switch (row->when) {
    case KIND_MEMORY:
        return options->memory;
    case KIND_NODES:
        return !options->whole_graphs;
    case KIND_WHOLE:
        return options->whole_graphs;
    case KIND_ALWAYS:
        break;
    }
    return true;
}

/* cuptiActivityEnableAndDump() also reports devices and contexts that exist already. Devices are
 * reported once: they do not change, and from 13.0 on the client owns the name in each record
 * (cupti_activity.h); before, CUPTI owned it, so cprof frees none. Inside cuInit nothing exists
 * yet: later records will come by themselves, and CUPTI must not query a driver that is being
 * initialised. */
static int enable(const struct cupti *c, int kind, bool initializing)
{
    static bool reported;
    bool device = kind == CUPTI_KIND_DEVICE;
    bool dump = kind == CUPTI_KIND_CONTEXT || (device && !reported);
    if (!dump || initializing || !c->enable_and_dump)
        return c->enable(kind);
    int result = c->enable_and_dump(kind);
    reported |= device && result == CUPTI_OK;
    return result;
}

/* Logs one line for all kinds that were refused for the same reason. Each kind is logged once. */
static void warn_refused(const struct cupti *c, const int *results, const bool *asked, bool any)
{
    for (unsigned i = 0; i < ROWS; i++) {
        char names[512] = "";
        size_t used = 0;
        if (!asked[i] || results[i] == CUPTI_OK || said[i])
            continue;
        for (unsigned j = i; j < ROWS; j++)
            if (asked[j] && !said[j] && results[j] == results[i]) {
                int n = snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                 rows[j].name);
                used += n > 0 && (size_t)n < sizeof names - used ? (size_t)n : 0;
                said[j] = true;
            }
        log_warn("CUPTI does not record %s: %s%s; %s", names, bind_error(c, results[i]),
                 results[i] == CUPTI_INSUFFICIENT
                     ? " (the driver lets only administrators profile: "
                       "NVreg_RestrictProfilingToAdminUsers)"
                     : "",
                 any ? "other kinds are recorded" : "CUDA calls are recorded, GPU activity is not");
    }
}

bool switch_on(const struct cupti *c, const struct gpu_options *options, bool initializing)
{
    unsigned count = 0;
    int results[ROWS] = {0};
    bool asked[ROWS] = {0};
    if (c->enable_all_sync_records)
        c->enable_all_sync_records(0); /* no record for each polling query that finds "not ready" */
    for (unsigned i = 0; i < ROWS; i++) {
        if (!is_row_wanted(&rows[i], options))
            continue;
        asked[i] = true;
        results[i] = enable(c, rows[i].number, initializing);
        on[i] = results[i] == CUPTI_OK;
        count += on[i];
    }
    warn_refused(c, results, asked, count != 0);
    return is_on(CUPTI_KIND_RUNTIME) || is_on(CUPTI_KIND_DRIVER);
}

static bool is_to_stay(int kind, unsigned stays)
{
    return (kind == CUPTI_KIND_CONCURRENT_KERNEL && (stays & SWITCH_KERNELS)) ||
           (kind == CUPTI_KIND_GRAPH_TRACE && (stays & SWITCH_GRAPHS));
}

void switch_off(const struct cupti *c, unsigned stays)
{
    static const int calls[] = {CUPTI_KIND_RUNTIME, CUPTI_KIND_DRIVER};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
        if (is_on(calls[i]))
            c->disable(calls[i]);
    for (unsigned i = 0; i < ROWS; i++) {
        bool call = rows[i].number == CUPTI_KIND_RUNTIME || rows[i].number == CUPTI_KIND_DRIVER;
        if (on[i] && !call && !is_to_stay(rows[i].number, stays))
            c->disable(rows[i].number);
        on[i] = false;
    }
}

int switch_first(const struct cupti *c, unsigned stays)
{
    int result = c->enable(CUPTI_KIND_CONCURRENT_KERNEL);
    if (result == CUPTI_OK && !(stays & SWITCH_KERNELS))
        c->disable(CUPTI_KIND_CONCURRENT_KERNEL);
    if (result == CUPTI_OK && (stays & SWITCH_GRAPHS))
        c->enable(CUPTI_KIND_GRAPH_TRACE);
    return result;
}

void switch_last(const struct cupti *c, unsigned stays)
{
    if (stays & SWITCH_GRAPHS)
        c->disable(CUPTI_KIND_GRAPH_TRACE);
}
