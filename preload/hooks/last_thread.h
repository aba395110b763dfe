/* SPDX-License-Identifier: Apache-2.0 */
/* Handles a main thread that exits first, by pthread_exit() or cancellation. The C library then
 * calls exit(0) on the process's last thread (start_thread() in nptl/pthread_create.c). It counts
 * cprof's threads too, which would run for ever and take no signals. So once only they are left,
 * another cprof thread finishes the traces, waits for the others, and exits last. */
#pragma once

#include <stdbool.h>

/* Registers for the exit of the main thread. In the constructor, on that thread. */
void last_thread_start(void);

/* Checks whether only cprof's threads are left. Returns the milliseconds until the next check; -1:
 * none. cprof thread, each pass. */
int last_thread_poll(bool stopping);
