/* SPDX-License-Identifier: Apache-2.0 */
/* The one lock under which cprof calls into torch. A fork holds it, and torch's own behind it. */
#ifndef PRELOAD_TORCH_TORCH_LOCK_H
#define PRELOAD_TORCH_TORCH_LOCK_H

#include <stdbool.h>

/* Takes the lock around calls into torch that change its callbacks; nothing else foreign is called
 * under it. Waits for a fork in progress, at most some milliseconds. Not recursive. Any thread. */
void torch_lock(void);

/* Gives it back. The thread that locked. */
void torch_unlock(void);

/* Takes both locks before a fork. False: the forking thread is inside the lock already, in the
 * handler of a fault. The forking thread. */
bool torch_lock_before_fork(void);

/* Gives back what that took. The same thread, in parent and child. */
void torch_lock_after_fork(void);

#endif
