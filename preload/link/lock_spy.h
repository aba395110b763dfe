/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a mutex that is private to another library, so that cprof can hold it across a fork. Any
 * application thread, one at a time. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* The first mutex that `call` locks, if it is a static one of the first loaded object whose file
 * name begins with `prefix`; else NULL. During `call`, the object's pthread_mutex_lock entries lead
 * through this file, on all threads. The object must stay loaded. */
pthread_mutex_t *lock_spy(const char *prefix, bool (*call)(void));
