/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time and page faults of the process in a window. */
#pragma once

#include <stdint.h>

#include "writer/base/base.h"

struct writer_options;

/* Sums since the process began, over the threads that exist. */
struct process_use {
    uint64_t at_ns;     /* monotonic time of the reading; 0: none */
    uint64_t due_ns;    /* wall time of the step edge that it is for */
    uint64_t ran_ns;    /* on a processor */
    uint64_t queued_ns; /* ready to run, waiting for a processor */
    /* in the kernel, from getrusage(): ended threads count too */
    uint64_t system_ns;
    uint64_t page_faults; /* without disk reads, from getrusage() */
    uint64_t threads;
    uint64_t main_ran_ns; /* the main thread alone */
    uint64_t main_queued_ns;
};

/* Readings of a window: at its start, at the end of its first step, and at its end. */
enum process_use_at { USE_START, USE_FIRST, USE_END, USE_COUNT };

/* Reads the sums without those of the calling thread. cprof thread. */
struct process_use process_use_now(uint64_t due_ns);

/* Appends `"process": {…}, `, the difference of the last reading and an earlier one: of the second
 * if it can, because memory pools grow and threads start in the first step. Two readings that lie
 * less than half as far apart as their edges came too late. Appends nothing when both pairs did.
 * cprof thread. */
void process_use_account(const struct process_use use[USE_COUNT],
                         const struct writer_options *options, struct buf *b);
