/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU side (writer/gpu_side.h) that delivers records when the test tells it to. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "writer/record/gpu_record.h"
#include "writer/gpu_side.h"
#include "writer/record/record_types.h"

struct fake_gpu {
    _Atomic uint64_t since;     /* ticks from which calls are recorded; UINT64_MAX: no calls are */
    _Atomic uint64_t until;     /* calls before these ticks were recorded, too; 0: none were */
    _Atomic bool kept_back;     /* no buffer is returned */
    _Atomic uint64_t kept_from; /* ticks: buffers with later records are not returned; 0: all are */
    _Atomic unsigned wants[3];  /* how often each enum gpu_want was set */
    _Atomic unsigned forced;    /* number of forced flushes */
    /* called once, by the cprof thread, at the start of its next collect() */
    void (*_Atomic meanwhile)(void);
};

extern struct fake_gpu fake_gpu;
extern const struct gpu_source fake_gpu_source;

/* Queues a copy of the record, which cprof gets at its next collect(). */
void fake_gpu_deliver(const struct gpu_record *r);

/* Reports these faults at the next collect(). */
void fake_gpu_report(struct gpu_faults faults);

/* Start and end of an action, in ticks. */
struct happened {
    uint64_t start, end;
};

/* Works for some microseconds on the calling thread. */
struct happened fake_gpu_work(void);

/* Records a call of this thread as a hook does. Returns the inner time, which CUPTI would record.
 * The name is not copied. */
struct happened fake_gpu_hooked(const char *name, enum category category);

/* CUPTI's record of a call of this thread, with flags of struct gpu_record. The name is not
 * copied. */
struct gpu_record fake_gpu_call_record(const char *name, uint32_t correlation, struct happened h,
                                       uint8_t flags, enum gpu_effect effect);

/* A kernel of 20,000 ticks on stream 7 of device 0. start is in ticks. The name is not copied. */
struct gpu_record fake_gpu_kernel_record(const char *name, uint32_t correlation, uint64_t start);

/* Delivers a kernel that begins now, on stream 7 of device 0. */
void fake_gpu_kernel(const char *name, uint32_t correlation);

/* Records a hooked cudaLaunchKernel of this thread and delivers its call and its kernel. */
void fake_gpu_launch(const char *kernel, uint32_t correlation);
