/* SPDX-License-Identifier: Apache-2.0 */
/* The lock under which steps are counted and edges crossed. Blocks cancellation and signals while
 * held: an edge reads files and calls CUPTI. Signals of faults still come. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Takes the lock. Not on a thread for which edge_lock_is_mine(). */
void edge_lock(void);

/* Waits for the lock a short time only. False: gave up, also when a fault's signal handler ends
 * the process on the thread that holds the lock. Exiting thread. */
bool edge_lock_for_exit(void);

/* Releases the lock. */
void edge_unlock(void);

/* True while the calling thread has the lock or waits for it. */
bool edge_lock_is_mine(void);
