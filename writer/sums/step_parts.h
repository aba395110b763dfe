/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a step's time. Each moment of a step has the first part of these that holds:
 *
 *   computation     a kernel or fill runs on the device
 *   exposed_comm    a collective's kernel runs
 *   exposed_memcpy  a copy runs
 *   data            the thread of the steps waits for the DataLoader
 *   collective      it is in an operator or call of communication
 *   sync            it is in a call that returns when the device is done
 *   operators       it is in another operator or call
 *   transfer        a transfer between ranks runs, and the thread is in no operator
 *   outside         none of these
 *
 * The parts add up to the step. Same as scripts/python/cprof/tool/summarize.py. Times are
 * nanoseconds of the file. cprof thread. */
#pragma once

#include "writer/sums/collective_list.h"
#include "writer/sums/summary.h"
#include "writer/sums/top_table.h"

/* Work of a device. */
struct device_work {
    int64_t start, end;
    uint32_t device;
    uint8_t part; /* PART_COMPUTATION, _COMM, or _MEMCPY */
};

struct device_works {
    struct device_work *at;
    size_t n, room;
};

/* The part of work with this name. */
enum step_part step_part_of_work(enum category category, const char *name, size_t len);

struct parts_of_step {
    int64_t ns[STEP_PARTS];
    uint64_t launches; /* work that begins in the step */
};

/* Writes parts[i] of steps[i]. main: top_main_thread(). device: of the work that
 * counts; it may have none. t: must not be dropped. False: no memory. */
bool step_parts(const struct top *t, uint64_t main, const struct device_works *works,
                uint32_t device, const struct summary_step *steps, size_t n_steps,
                struct parts_of_step *parts);

/* Sets late[i] for steps in which torch.compile compiles. */
void step_parts_compiling(const struct top *t, const struct summary_step *steps, size_t n_steps,
                          bool *late);
