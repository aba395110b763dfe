/* SPDX-License-Identifier: Apache-2.0 */
/* Sums up losses. */
#include "writer/record/loss.h"
#include "writer/writer.h"

#include "writer/record/thread_log.h"

void loss_sum(struct losses *out)
{
    for (int i = 0; i < LOSS_COUNT; i++)
        out->n[i] = atomic_load_explicit(&process_losses[i], memory_order_relaxed);
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        for (int i = 0; i < LOSS_COUNT; i++)
            out->n[i] += atomic_load_explicit(&log->losses[i], memory_order_relaxed);
}
