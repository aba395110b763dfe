/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU side (writer/gpu_side.h) that delivers what a test tells it to, when the test tells it to.
 * Any thread. */
#ifndef TESTS_SUPPORT_FAKE_GPU_H
#define TESTS_SUPPORT_FAKE_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "writer/record/gpu_record.h"
#include "writer/gpu_side.h"
#include "writer/record/record_types.h"

struct fake_gpu {
    _Atomic uint64_t since;     /* UINT64_MAX: no calls are reported */
    _Atomic bool kept_back;     /* a buffer is out */
    _Atomic uint64_t kept_from; /* ticks: so are those with what was recorded since; 0: none */
    _Atomic unsigned wants[3];  /* how often each was asked for */
    _Atomic unsigned forced;    /* flushes */
    /* the next time cprof collects it is called first, by the cprof thread, and forgotten */
    void (*_Atomic meanwhile)(void);
};

extern struct fake_gpu fake_gpu;
extern const struct gpu_source fake_gpu_source;

/* The next time cprof collects, it gets a copy of this record. */
void fake_gpu_deliver(const struct gpu_record *r);

/* The next time cprof collects, it is told of these. */
void fake_gpu_report(struct gpu_faults faults);

/* When something happened, in ticks. */
struct happened {
    uint64_t start, end;
};

/* Some microseconds of work on the calling thread. */
struct happened fake_gpu_work(void);

/* A call of the calling thread that a hook sees; what CUPTI sees lies inside. The name is not
 * copied. */
struct happened fake_gpu_hooked(const char *name, enum category category);

/* CUPTI's record of a call of this thread. flags: of struct gpu_record. The name is not copied. */
struct gpu_record fake_gpu_call_record(const char *name, uint32_t correlation, struct happened h,
                                       uint8_t flags, enum gpu_effect effect);

/* A kernel of 20,000 ticks on stream 7 of device 0. start: in ticks. The name is not copied. */
struct gpu_record fake_gpu_kernel_record(const char *name, uint32_t correlation, uint64_t start);

/* Delivers a kernel that begins now, on stream 7 of device 0. */
void fake_gpu_kernel(const char *name, uint32_t correlation);

/* A hooked cudaLaunchKernel of the calling thread, and its two records, which are delivered. */
void fake_gpu_launch(const char *kernel, uint32_t correlation);

#endif
