/* SPDX-License-Identifier: Apache-2.0 */
/* The public header of cupti/: finds CUPTI at run time and passes its records to the writer.
 *
 *     driver or first CUDA call:  gpu_start()           finds CUPTI; takes it if a step is recorded
 *     cprof thread:               gpu_source functions  kinds on and off, flush, translate
 *     CUPTI's threads:            buffers in and out    lock-free, no allocation
 *
 * No CUPTI, no driver, no GPU, no privilege and another client are normal states. Each is logged
 * in one line; cprof then records CUDA calls by its hooks only. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "writer/writer.h"

struct gpu_options {
    uint64_t buffer_bytes; /* of one buffer handed to CUPTI, CPROF_GPU_BUFFER_KB */
    bool whole_graphs;     /* one row per graph launch instead of one per node */
    bool memory;           /* record driver memory, too */
    /* folder for CUPTI's raw buffers (debugging, tests), or NULL */
    const char *dump_path;
    /* called when the driver is initialised and for each new context, on the program's thread,
     * inside the driver */
    void (*driver_ready)(void);
};

/* Stores the options. Call once, at wake-up, before the functions below. */
void gpu_configure(const struct gpu_options *options);

/* Finds CUPTI. arm: recording begins now, so it also subscribes, enables and disables
 * CONCURRENT_KERNEL once, so that start-up pays the seconds this can take, and enables the other
 * kinds. Without arm, CUPTI is taken when a window begins. initializing: called by
 * InitializeInjection, inside cuInit; else by the first CUDA call. Only the first call has an
 * effect. Application thread. */
void gpu_start(bool arm, bool initializing);

/* Takes CUPTI and enables the kinds, because the current step is recorded or is a warmup.
 * between_calls: called by the stepping thread outside of CUDA calls; else by the cprof thread.
 * Takes 0.4 ms on an H200, up to 35 the first time; cheap while they are on. */
void gpu_arm(bool between_calls);

/* Call at the edge of a step that is neither recorded nor a warmup. Disables the kinds once the
 * last window's records have arrived; at_once: without waiting for them. Stepping thread, outside
 * of CUDA calls. Takes 0.1 ms; one load while nothing is enabled. */
void gpu_edge(bool at_once);

/* The value of writer_options.gpu. Its functions do nothing before gpu_start(). */
const struct gpu_source *gpu_source(void);

/* The value of writer_options.states. */
const struct gpu_states *gpu_states(void);

/* Ticks at which a CUDA call is to read the clocks. UINT64_MAX: never, because nothing is recorded
 * or another client gave CUPTI a clock. Any thread, relaxed. */
extern _Atomic uint64_t gpu_clock_due __attribute__((visibility("hidden")));
void gpu_clock_take(void); /* reads the clocks, unless another thread has just begun to */

/* Before and after a recorded CUDA call: reads CUPTI's clock and ticks (cupti/clock_pairs.h) if
 * `now` (ticks) is past gpu_clock_due. Application thread, inside cprof. No lock, no system call.
 */
static inline void gpu_clock_look(uint64_t now)
{
    if (__builtin_expect(now >= atomic_load_explicit(&gpu_clock_due, memory_order_relaxed), 0))
        gpu_clock_take();
}

/* Calls of another CUPTI client in this process, seen by preload/hooks/wrap_cupti.c. Called on the
 * client's thread before its call is forwarded. When the client begins to use CUPTI, cprof disables
 * its kinds, gets its buffers back and unsubscribes before this returns. */
enum gpu_other {
    GPU_OTHER_SUBSCRIBES,   /* cuptiSubscribe, cuptiSubscribe_v2 */
    GPU_OTHER_UNSUBSCRIBES, /* cuptiUnsubscribe */
    GPU_OTHER_BUFFERS,      /* cuptiActivityRegisterCallbacks(_v2) */
    GPU_OTHER_ENABLES,      /* cuptiActivityEnable… of `kind` */
    GPU_OTHER_DISABLES,     /* cuptiActivityDisable… of `kind` */
    GPU_OTHER_FINALIZES,    /* cuptiFinalize */
    GPU_OTHER_FLUSHED,      /* cuptiActivityFlush…; called after it has returned */
};
void gpu_other_client(enum gpu_other what, int kind); /* see above */

/* Call around fork(). Between the two, no thread flushes CUPTI, switches kinds or calls NVML: the
 * child inherits no lock of theirs that no thread will release. Waits 300 ms at most. Forking
 * thread; gpu_fork_end() in parent and child. */
void gpu_fork_begin(void);
void gpu_fork_end(void);

/* In a forked child: never calls CUPTI or NVML again, because their threads do not exist there. */
void gpu_abandon(void);
