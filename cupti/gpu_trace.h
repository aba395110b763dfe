/* SPDX-License-Identifier: Apache-2.0 */
/* The public header of cupti/: CUPTI found and bound at run time, its records on their way to the
 * writer.
 *
 *     driver or first CUDA call:  gpu_start()          finds CUPTI; takes it to record
 *     cprof thread:               gpu_source functions  kinds on and off, flush, decode, translate
 *     CUPTI's threads:            buffers in and out    lock-free, no allocation
 *
 * No CUPTI, no driver, no GPU, no privilege, another client: normal states, each with one line;
 * cprof then records hooks only. */
#ifndef CUPTI_GPU_TRACE_H
#define CUPTI_GPU_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "writer/writer.h"

struct gpu_options {
    uint64_t buffer_bytes; /* of one buffer handed to CUPTI, CPROF_GPU_BUFFER_KB */
    bool whole_graphs;     /* one row per graph launch instead of one per node */
    bool memory;           /* driver memory too */
    /* folder into which every raw buffer is written (debugging, fixtures), or NULL */
    const char *dump_path;
    /* called when the driver is initialised, and again for each context, on the program's thread
     * inside the driver */
    void (*driver_ready)(void);
};

/* Takes the options; touches nothing else. Once, at wake-up, before the functions below. */
void gpu_configure(const struct gpu_options *options);

/* Finds CUPTI. arm: something is to be recorded from now on: subscribes, enables and disables
 * CONCURRENT_KERNEL once, so that the seconds this can take belong to start-up, and arms the other
 * kinds. Else CUPTI is taken when a window begins. From InitializeInjection or the first CUDA call
 * of the process, whichever comes first; later calls do nothing. initializing: the former, inside
 * cuInit. Application thread. */
void gpu_start(bool arm, bool initializing);

/* Takes CUPTI and switches the kinds on, when they are not: a step is to be recorded, or to be the
 * warmup of one. between_calls: the stepping thread, which is in no CUDA call; else the cprof
 * thread. 0.4 ms on an H200, the first time up to 35; cheap when they are on. */
void gpu_arm(bool between_calls);

/* At the edge of a step that is not recorded, nor the warmup of one: switches the kinds off once
 * the records of the last window are there, or at_once: nothing is waited for. Stepping thread, so
 * that it is in no CUDA call; 0.1 ms, one load when nothing is on. */
void gpu_edge(bool at_once);

/* The GPU side for writer_options.gpu; its functions do nothing before gpu_start(). */
const struct gpu_source *gpu_source(void);

/* Ticks from which on a CUDA call is to read the clocks; UINT64_MAX where nobody needs it: another
 * client gave CUPTI a clock, or nothing is recorded. Any thread, relaxed. */
extern _Atomic uint64_t gpu_clock_due __attribute__((visibility("hidden")));
void gpu_clock_take(void); /* reads them unless another thread does */

/* At the end of a recorded CUDA call, `now` in ticks: pairs CUPTI's clock with ours when that is
 * due (cupti/clock_pairs.h). Application thread, inside cprof; no lock, no system call. */
static inline void gpu_clock_look(uint64_t now)
{
    if (__builtin_expect(now >= atomic_load_explicit(&gpu_clock_due, memory_order_relaxed), 0))
        gpu_clock_take();
}

/* Another client of CUPTI in this process, seen by the interposed functions
 * (preload/hooks/wrap_cupti.c). Called on its thread before its call is forwarded; when the other
 * begins to use CUPTI, our kinds are disabled, our buffers taken back and our subscription given up
 * before this returns. */
enum gpu_other {
    GPU_OTHER_SUBSCRIBES,   /* cuptiSubscribe, cuptiSubscribe_v2 */
    GPU_OTHER_UNSUBSCRIBES, /* cuptiUnsubscribe */
    GPU_OTHER_BUFFERS,      /* cuptiActivityRegisterCallbacks(_v2) */
    GPU_OTHER_ENABLES,      /* cuptiActivityEnable… of `kind` */
    GPU_OTHER_DISABLES,     /* cuptiActivityDisable… of `kind` */
    GPU_OTHER_FINALIZES,    /* cuptiFinalize */
    GPU_OTHER_FLUSHED,      /* cuptiActivityFlush…; told after it has returned */
};
void gpu_other_client(enum gpu_other what, int kind); /* as said above */

/* Around fork(): no flush of CUPTI is in progress between the two, and no kinds are being switched,
 * so that the child meets no lock of CUPTI that nobody gives back. Waits for 200 ms at most. The
 * forking thread; the second one in parent and child. */
void gpu_fork_begin(void);
void gpu_fork_end(void);

/* In a forked child: CUPTI's threads are not there; no CUPTI call is ever made again. */
void gpu_abandon(void);

#endif
