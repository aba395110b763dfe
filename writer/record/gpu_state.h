/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a GPU at one moment. cupti/telemetry.c reads it from NVML ten times a second while a
 * window records. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GPU_STATES 16u /* GPUs whose state is recorded: those with a smaller CUDA ordinal */

enum gpu_value {
#define GPU_VALUE(id, name, unit) GPU_##id,
#include "writer/record/gpu_values.def"
#undef GPU_VALUE
    GPU_VALUES,
    GPU_THROTTLED =
        GPU_VALUES, /* struct gpu_state has further numbers, which may be unknown, too */
    GPU_ENERGY,
};

enum throttle {
#define THROTTLE(id, bit, name) THROTTLE_##id,
#include "writer/record/throttles.def"
#undef THROTTLE
    THROTTLES,
};

struct gpu_state {
    uint64_t ticks;           /* clock_ticks() */
    uint32_t device;          /* CUDA ordinal, below GPU_STATES */
    uint32_t known;           /* bits 1 << enum gpu_value */
    uint32_t throttled;       /* bits 1 << enum throttle */
    bool is_idle;             /* nothing runs; known like `throttled` */
    uint32_t sm_clock_most;   /* MHz; 0: unknown */
    double power_limit;       /* W; 0: unknown */
    double joules;            /* since any time */
    bool is_counted;          /* the GPU counts its energy; else it is added up from its power */
    double value[GPU_VALUES]; /* in the unit of gpu_values.def */
};

/* The bits 1 << enum throttle for those of NVML. */
static inline uint32_t throttles_of(uint64_t nvml)
{
    uint32_t found = 0;
#define THROTTLE(id, bit, name) found |= nvml & (bit) ? UINT32_C(1) << THROTTLE_##id : 0;
#include "writer/record/throttles.def"
#undef THROTTLE
    return found;
}

static inline bool gpu_state_knows(const struct gpu_state *s, enum gpu_value value)
{
    return s->known >> value & 1;
}

/* Reads the state of the GPUs on a thread of its own. Called on the cprof thread, except finish().
 * cupti/telemetry.h makes the struct. */
struct gpu_states {
    /* on: a window records, or waits for its last records. Starts the thread if need be. Cheap.
     * Returns false while it is not known which GPUs the process uses. */
    bool (*want)(bool on);
    /* Calls each() for what was read. Returns how many states found no room. */
    uint64_t (*collect)(void (*each)(const struct gpu_state *s, void *arg), void *arg);
    /* True when each GPU was read after `ticks`, or will not be soon. Else has it read now. */
    bool (*returned)(uint64_t ticks);
    /* At exit: ends the thread, within 250 ms unless NVML hangs. Any thread. */
    void (*finish)(void);
};
