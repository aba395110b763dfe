/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a mutex that another library keeps to itself, so that it can be held across a fork. Any
 * application thread, one at a time.
 */
#ifndef PRELOAD_LINK_LOCK_SPY_H
#define PRELOAD_LINK_LOCK_SPY_H

#include <pthread.h>
#include <stdbool.h>

/*
 * The first mutex that `call` locks, which must be a static one of the loaded object whose file
 * name begins with `prefix`; NULL when that cannot be told. For the time of the call, the object's
 * entry for pthread_mutex_lock in its table of imported functions leads through this file; other
 * threads that pass through there only take a longer way. The object must stay loaded.
 */
pthread_mutex_t *lock_spy(const char *prefix, bool (*call)(void));

#endif
