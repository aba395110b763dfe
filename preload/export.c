/* SPDX-License-Identifier: Apache-2.0 */
/* cprof_export_chrome_trace() of cprof.h: copies the last complete trace to a path of the program.
 * The calling thread copies, because the file must exist on return. Nothing else of cprof waits for
 * the copy. */
#define CPROF_IMPLEMENTATION
#include "preload/cprof.h"

#include <errno.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

#include "preload/settings/settings.h"
#include "preload/core/core.h"
#include "preload/delivery/delivery.h"
#include "writer/writer.h"

/* Waits until a window that has just ended is written. Does not wait on the cprof thread, which
 * would wait for itself, nor while the program ends. In both cases a reported trace is complete. */
static void wait_until_saved(void)
{
    uint64_t mark = writer_mark(), start = clock_monotonic_ns();
    uint64_t most = (uint64_t)config_get()->drain_deadline_ms * 1000000u;
    struct timespec pause = {.tv_nsec = 1000000};
    while (!guard_inside && !writer_saved(mark) && clock_monotonic_ns() - start < most) {
        writer_wake();
        nanosleep(&pause, NULL);
    }
}

static bool export_trace(const char *path)
{
    static const char call[] = "cprof_export_chrome_trace";
    char from[PATH_MAX];
    struct file_identity file;
    if (!path || !*path) {
        log_warn("%s(): no path", call);
        return false;
    }
    wait_until_saved();
    if (!saved_last(from, sizeof from, &file)) {
        log_warn("%s(\"%s\"): no trace is complete yet", call, path);
        return false;
    }
    int error = writer_copy_trace(from, &file, path);
    if (error)
        log_warn("%s(\"%s\"): cannot copy %s: %s", call, path, from, writer_copy_error(error));
    return error == 0;
}

/* True also while the program ends and afterwards: a complete trace stays, and the copy does not
 * need the cprof thread. False in a forked child, where a lock may be held for ever. */
static bool may_export(const char *path)
{
    cprof_awake();
    int owner = cprof_owner_pid(); /* 0: cprof is off */
    if (owner && owner != (int)getpid())
        log_warn("cprof_export_chrome_trace(\"%s\"): a forked child has no traces",
                 path ? path : "");
    return owner == (int)getpid();
}

int cprof_export_chrome_trace(const char *path)
{
    int saved = errno, cancel = cancel_off();
    bool done = may_export(path) && export_trace(path);
    cancel_back(cancel);
    errno = saved;
    return done;
}
