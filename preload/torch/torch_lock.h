/* SPDX-License-Identifier: Apache-2.0 */
/* The lock around cprof's calls into torch. A fork takes it, then torch's own lock. */
#pragma once

#include <stdbool.h>

/* Takes the lock for calls that change torch's callbacks; make no other foreign call under it.
 * Blocks signals and cancellation. Waits some milliseconds for a fork in progress. Not recursive.
 * Any thread. */
void torch_lock(void);

/* Releases the lock. The thread that took it. */
void torch_unlock(void);

/* Takes both locks before a fork. False: the forking thread already holds the lock, in the handler
 * of a fault. The forking thread. */
bool torch_lock_before_fork(void);

/* Releases the locks that torch_lock_before_fork() took. The forking thread, in parent and
 * child. */
void torch_lock_after_fork(void);
