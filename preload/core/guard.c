/* SPDX-License-Identifier: Apache-2.0 */
/* The recursion guard's byte, and the count of events that it keeps out. */
#include "preload/core/guard.h"

#include "writer/writer.h"

__thread volatile uint8_t guard_inside;

/* A thread without a log is one of cprof's own, where nothing is recorded. */
void guard_refused(void)
{
    if (thread_log_self && guard_inside != GUARD_ASKS)
        thread_log_lost(thread_log_self, LOSS_HANDLER, 1);
}
