/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA comes alive in this process. */
#ifndef PRELOAD_HOOKS_CUDA_ALIVE_H
#define PRELOAD_HOOKS_CUDA_ALIVE_H

#include <stdbool.h>

/* Starts the GPU side, once; does nothing while cprof sleeps or is over, or when the GPU is not to
 * be recorded. From InitializeInjection, before any context (initializing: inside cuInit); from a
 * hook only where the driver was told to load another library. Any application thread. */
void cuda_begins(bool initializing);

/* Called after the first CUDA call that succeeded: registers the exit handler again, so that it
 * runs before CUDA's own. Any thread; cheap when repeated. */
void cuda_alive_now(void);

#endif
