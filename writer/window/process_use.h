/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time and page faults of the process in a window. */
#ifndef WRITER_WINDOW_PROCESS_USE_H
#define WRITER_WINDOW_PROCESS_USE_H

#include <stdint.h>

#include "writer/base/base.h"

struct writer_options;

/* Sums since the process began, over the threads that exist. */
struct process_use {
    uint64_t at_ns;     /* monotonic time of the reading; 0: none */
    uint64_t ran_ns;    /* on a processor */
    uint64_t queued_ns; /* ready to run, waiting for a processor */
    /* in the kernel, from getrusage(): ended threads and the cprof thread count too */
    uint64_t system_ns;
    uint64_t page_faults; /* without disk reads, from getrusage() */
    uint64_t threads;
    uint64_t main_ran_ns; /* the main thread alone */
    uint64_t main_queued_ns;
};

/* Reads the sums; the schedstat sums leave out the calling thread. cprof thread. */
struct process_use process_use_now(void);

/* Appends `"process": {…}, `, the difference of two readings. Appends nothing when they are less
 * than half of the window's `length_ns` apart: the cprof thread was behind. cprof thread. */
void process_use_account(const struct process_use *before, const struct process_use *after,
                         uint64_t length_ns, const struct writer_options *options, struct buf *b);

#endif
