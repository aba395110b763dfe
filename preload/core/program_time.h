/* SPDX-License-Identifier: Apache-2.0 */
/* The position of the training in the terms of cprof.h. Pure; any thread. Include after cprof.h. */
#pragma once

#include "preload/cprof.h"
#include "writer/writer.h"

/* step: the number for the program. */
static inline struct cprof_time program_time(const struct train_time *t, int64_t step)
{
    return (struct cprof_time){.size = sizeof(struct cprof_time),
                               .step = step,
                               .epoch = t->epoch,
                               .batch = t->batch,
                               .batch_in_epoch = t->batch_in_epoch,
                               .sample = t->sample,
                               .sample_in_epoch = t->sample_in_epoch,
                               .token = t->token,
                               .token_in_epoch = t->token_in_epoch,
                               .total_wct = 1e-9 * (double)t->total_wct_ns,
                               .epoch_wct = 1e-9 * (double)t->epoch_wct_ns,
                               .batch_wct = 1e-9 * (double)t->batch_wct_ns};
}
