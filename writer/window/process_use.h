/* SPDX-License-Identifier: Apache-2.0 */
/* What the process asked of the machine in a window: processors, and pages from the kernel. */
#ifndef WRITER_WINDOW_PROCESS_USE_H
#define WRITER_WINDOW_PROCESS_USE_H

#include <stdint.h>

#include "writer/base/base.h"

struct writer_options;

/* Sums since the process began, over the threads that there are. */
struct process_use {
    uint64_t at_ns;       /* when they were taken, monotonic; 0: never */
    uint64_t ran_ns;      /* on a processor */
    uint64_t queued_ns;   /* ready to run, while others ran */
    uint64_t system_ns;   /* of it in the kernel; ended threads count too, as in page_faults */
    uint64_t page_faults; /* without reading from a disk */
    uint64_t threads;
    uint64_t main_ran_ns; /* of the main thread alone */
    uint64_t main_queued_ns;
};

/* Without the calling thread. cprof thread. */
struct process_use process_use_now(void);

/* Appends the account of the time between, `"process": {…}, `. Nothing where the two are apart by
 * less than half of the window's `length_ns`: the cprof thread was behind. cprof thread. */
void process_use_account(const struct process_use *before, const struct process_use *after,
                         uint64_t length_ns, const struct writer_options *options, struct buf *b);

#endif
