/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork: the one lock under which cprof calls into torch, and torch's own behind it, held across
 * every fork, during which nobody walks the loader's list either (writer/os/loader.c); and children that are inert. A fork while some thread is inside torch's callback lock
 * would leave that lock locked in the child for ever. Application threads and the cprof thread.
 */
#ifndef PRELOAD_HOOKS_FORK_H
#define PRELOAD_HOOKS_FORK_H

#include <stdbool.h>

/* Registers the fork handlers. Once, at wake-up. false: the C library had no memory, so forked
 * children would not be made inert and nothing may be recorded. */
bool fork_start(void);

/* Takes the lock around calls into torch that change its callbacks; nothing else foreign is called
 * under it. Waits for a fork in progress, at most some milliseconds. Not recursive. Any thread. */
void fork_torch_lock(void);

/* Gives it back. The thread that locked. */
void fork_torch_unlock(void);

#endif
