/* SPDX-License-Identifier: Apache-2.0 */
/* Starts GPU recording once CUDA is in use. */
#pragma once

#include <stdbool.h>

/* Starts GPU recording, once. Does nothing while cprof sleeps or is over, or if the GPU is not
 * recorded. Called by InitializeInjection, before any context (initializing: inside cuInit). Hooks
 * call it only where the driver loads another injection library. Any application thread. */
void cuda_begins(bool initializing);

/* After the first successful CUDA call: registers the exit handler again, so that it runs before
 * CUDA's. Any thread; cheap when repeated. */
void cuda_alive_now(void);
