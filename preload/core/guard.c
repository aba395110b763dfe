/* SPDX-License-Identifier: Apache-2.0 */
/* The recursion guard's byte, and the count of events that it refuses. */
#include "preload/core/guard.h"

#include "writer/writer.h"

__thread volatile uint8_t guard_inside;

/* cprof's own threads have no log, and nothing is recorded there. */
void guard_refused(void)
{
    if (thread_log_self && guard_inside != GUARD_ASKS)
        thread_log_lost(thread_log_self, LOSS_HANDLER, 1);
}
